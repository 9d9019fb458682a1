/* SPDX-License-Identifier: GPL-2.0 */
/* /sys/fs/hzmem */
#ifndef HZMEM_STATS_H
#define HZMEM_STATS_H

#include "pool.h"

void hz_stats_init_node(struct hz_node *node);
int hz_stats_add_node(struct hz_node *node);
void hz_stats_remove_node(struct hz_node *node);

void hz_stats_init_range(struct hz_range *range);
int hz_stats_add_range(struct hz_range *range);
void hz_stats_remove_range(struct hz_range *range);

void hz_stats_init_mount(struct hz_mount *mount);
int hz_stats_add_mount(struct hz_mount *mount);
void hz_stats_remove_mount(struct hz_mount *mount);

int hz_stats_init(void);
int hz_stats_open(void);
void hz_stats_close(void);
void hz_stats_exit(void);

#endif
