/* SPDX-License-Identifier: GPL-2.0 */
/* The huge pages: where they come from, which are free. */
#ifndef HZMEM_POOL_H
#define HZMEM_POOL_H

#include <linux/memremap.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include "hzmem.h"
#include "work.h"

struct hz_entry;
struct hz_section;

/*
 * One huge page. It is in one list at a time: free (the section's lock), LRU
 * (the LRU's lock), or pinned (the node's). What is below owner is about the
 * content, and is written under the owner's lock.
 */
struct hz_page {
	struct list_head list;
	struct hz_section *section;
	struct hz_entry *owner;
	u8 lru;		/* enum hz_list; under the LRU's lock */
	bool free;	/* in the free list; under the section's lock */
	bool poisoned;	/* it has a memory error; set under the section's lock */
	bool young;	/* what the last scan read */
	bool used;	/* a look since then has read that it was accessed */
	bool steady;	/* and the one before had read the same */
	bool pinned;	/* somebody held it when it was to be compressed */
	u8 skip;	/* scans to go until compression is tried again */
	u8 backoff;	/* how many those were; not 0: incompressible */
	bool changed;	/* it may have been since it was found to be */
	int refused_by;	/* the algorithm that found it */
};

/* At most as many pages as the parameter section says, in one range of one node. */
struct hz_section {
	struct list_head list;		/* of its node; read under RCU */
	struct list_head sibling;	/* of its range */
	struct hz_node *node;
	unsigned long first_frame;
	unsigned long total;
	spinlock_t lock;		/* the rest */
	struct list_head free_pages;
	unsigned long free;
	unsigned long retired;		/* for a memory error, in no list */
	bool closed;			/* on its way out: nothing is taken */
	struct hz_page pages[];
};

/* Memory that came in one piece, and goes so. */
struct hz_range {
	struct kobject kobject;
	struct list_head list;
	struct list_head sections;
	struct hz_node *node;
	u64 start;
	u64 size;
	bool added;		/* at run time, from the kernel */
	struct resource *resource;
	struct dev_pagemap map;
};

/* Created with the first memory of a NUMA node, and kept until the module goes. */
struct hz_node {
	struct kobject kobject;
	int id;
	struct list_head sections;	/* changed under the pool's lock */
	atomic_long_t total;			/* without what is retired */
	atomic_long_t free;
	atomic_long_t retired;
	spinlock_t pinned_lock;
	struct list_head pinned_pages;	/* freed while somebody held them */
	atomic_long_t pinned;
	/* How often a page began to be in no list of all these, and was in one again. */
	atomic_long_t begun;
	atomic_long_t settled;
	struct mutex reclaim_lock;	/* direct reclaim, and direct_work */
	struct hz_work direct_work;
	struct hz_work daemon_work;	/* the daemon's alone */
	struct task_struct *daemon;
	wait_queue_head_t wait;
	atomic_t turn;	/* turns.c */
	bool wake;
	bool ahead;	/* a fault wants some compressed for the next ones */
};

extern unsigned long hz_section_size;
extern struct list_head hz_ranges;	/* under the pool's lock */

static inline unsigned long hz_page_frame(const struct hz_page *page)
{
	const struct hz_section *section = page->section;

	return section->first_frame + (page - section->pages) * HZ_FRAMES;
}

static inline struct folio *hz_page_folio(const struct hz_page *page)
{
	return pfn_folio(hz_page_frame(page));
}

/* The kernel's own mapping of it. */
static inline void *hz_page_data(const struct hz_page *page)
{
	return pfn_to_kaddr(hz_page_frame(page));
}

static inline struct hz_node *hz_page_node(const struct hz_page *page)
{
	return page->section->node;
}

/*
 * A page is about to leave its list, for another content or none: said before, so that who
 * finds it in no list knows that it is somewhere.
 */
static inline void hz_page_begins(const struct hz_page *page)
{
	atomic_long_inc(&hz_page_node(page)->begun);
	/* Pairs with the barrier in hz_node_rests(). */
	smp_mb__after_atomic();
}

/* And it is in one again. */
static inline void hz_page_settles(const struct hz_page *page)
{
	/* Not before it is: who reads settled then finds it there. */
	smp_mb__before_atomic();
	atomic_long_inc(&hz_page_node(page)->settled);
}

/*
 * Whether all the node's pages have been in one list or another ever since settled was read:
 * then who went through the lists has seen them all.
 */
static inline bool hz_node_rests(const struct hz_node *node, long settled)
{
	/* After the lists. Pairs with the barrier in hz_page_begins(). */
	smp_mb();
	return atomic_long_read(&node->begun) == settled;
}

struct hz_node *hz_node(int id);
bool hz_node_used(const struct hz_node *node, unsigned int percent);
unsigned long hz_node_excess(const struct hz_node *node, unsigned int percent);
unsigned long hz_node_reserve(const struct hz_node *node,
			      unsigned int percent);
bool hz_node_short(const struct hz_node *node, unsigned int percent);
void hz_node_wake(struct hz_node *node);
void hz_node_wake_ahead(struct hz_node *node);

struct hz_page *hz_pool_take(struct hz_node *node);
void hz_pool_give(struct hz_page *page);
bool hz_pool_collect(struct hz_node *node);
unsigned long hz_pool_total(int node);
unsigned long hz_pool_free(int node);
int hz_pool_prepare(int algorithm);

void hz_pool_lock(void);
void hz_pool_unlock(void);
int hz_pool_add_range(u64 start, u64 size, int node, bool added);
struct hz_range *hz_pool_find_range(u64 start);
unsigned long hz_range_free(const struct hz_range *range);
unsigned long hz_range_retired(const struct hz_range *range);
struct hz_page *hz_range_page(const struct hz_range *range,
			      unsigned long frame);
void hz_pool_poison(struct hz_page *page);
int hz_pool_remove_range(struct hz_range *range, unsigned long *retired);

void hz_pool_stop(void);
void hz_pool_exit(void);

#endif
