/* SPDX-License-Identifier: GPL-2.0 */
/* The pages in use of one mount on one node, by when they were last seen in use. */
#ifndef HZMEM_LRU_H
#define HZMEM_LRU_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include "pool.h"

enum hz_list {
	HZ_INACTIVE,
	HZ_ACTIVE,
	HZ_LISTS,
};

struct hz_lru {
	spinlock_t lock;
	struct list_head lists[HZ_LISTS];	/* coldest first */
	unsigned long counts[HZ_LISTS];
	/* The node's daemon's alone: */
	unsigned long next_scan;		/* jiffies */
	bool full;	/* since the last one there was no room for data */
};

struct hz_lru *hz_lrus_new(void);
void hz_lru_add(struct hz_lru *lru, struct hz_page *page);
void hz_lru_remove(struct hz_lru *lru, struct hz_page *page);
void hz_lru_note(struct hz_lru *lru, struct hz_page *page, bool young);
struct hz_entry *hz_lru_rotate(struct hz_lru *lru, enum hz_list list);
unsigned long hz_lru_sum(struct hz_mount *mount, enum hz_list list);

#endif
