/* SPDX-License-Identifier: GPL-2.0 */
/* hzmemd/N, one for each node. */
#ifndef HZMEM_DAEMON_H
#define HZMEM_DAEMON_H

struct hz_node;

int hz_daemon_start(struct hz_node *node);
void hz_daemon_stop(struct hz_node *node);
void hz_daemons_wake(void);

#endif
