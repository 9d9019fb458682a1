// SPDX-License-Identifier: GPL-2.0
/*
 * Allocation. A free page of the caller's node, or of the nearest node that has one;
 * where there is none, a page is compressed for the caller, who gets it without
 * another being able to take it in between. Before it comes to that the node's daemon
 * is woken, to compress some on another CPU.
 *
 * The caller may hold the lock of an entry, so others' locks are only tried: a victim
 * that is being used by somebody else is no victim. A node's reclaim lock lets one task
 * at a time compress there; waiting for it can be interrupted by a kill, and every
 * holder is done after at most HZ_TRIES pages. So nobody waits for ever.
 */

#include <linux/sched/signal.h>
#include <linux/topology.h>
#include "compress.h"
#include "entry.h"
#include "lru.h"
#include "reclaim.h"
#include "trace.h"

/*
 * Pages that a task tries to compress at most. Incompressible ones are remembered and
 * passed over the next time, so a task is not held up by the same ones again.
 */
#define HZ_TRIES 512

/* Of active pages, how many are looked at for one that was not used of late. */
#define HZ_LOOKS 32

struct search {
	struct hz_node *node;
	struct hz_page *page;
	unsigned int tried;
};

/* The nearest node that has not been asked and that the mount may use, or NULL. */
static struct hz_node *nearest_node(struct hz_mount *mount, nodemask_t *asked)
{
	int only = mount->settings.node;
	int here = numa_mem_id();
	int best = NUMA_NO_NODE;
	int id;

	for_each_node(id) {
		if (node_isset(id, *asked) || !hz_node(id))
			continue;
		if (only != NUMA_NO_NODE && only != id)
			continue;
		if (best == NUMA_NO_NODE ||
		    node_distance(here, id) < node_distance(here, best))
			best = id;
	}
	if (best == NUMA_NO_NODE)
		return NULL;
	node_set(best, *asked);
	return hz_node(best);
}

static bool done(const struct search *search)
{
	return search->page || search->tried >= HZ_TRIES ||
	       fatal_signal_pending(current);
}

/*
 * Whether to compress it: not if it is incompressible or in use. Being passed over
 * counts as a scan does: where the daemon scans seldom, what has become compressible
 * must be found before many have been refused a page.
 */
static bool eligible(struct search *search, struct hz_entry *entry,
		     bool only_old)
{
	struct hz_page *page = entry->page;

	if (entry->state != HZ_RESIDENT || hz_page_node(page) != search->node)
		return false;
	if (only_old)
		return !page->skip && !hz_entry_used(entry);
	if (!page->skip)
		return true;
	page->skip--;
	return false;
}

static void try_entry(struct search *search, struct hz_entry *entry,
		      bool only_old, struct hz_room *room)
{
	if (!mutex_trylock(&entry->lock))
		return;
	if (eligible(search, entry, only_old)) {
		search->tried++;
		hz_entry_compress(entry, &search->node->direct_work, room,
				  &search->page);
	}
	mutex_unlock(&entry->lock);
}

static void search_list(struct search *search, struct hz_mount *mount,
			enum hz_list list, bool only_old)
{
	struct hz_lru *lru = &mount->lrus[search->node->id];
	unsigned long count = READ_ONCE(lru->counts[list]);
	struct hz_room room = {};
	struct hz_entry *entry;

	if (only_old)
		count = min(count, HZ_LOOKS);
	while (count-- && !done(search)) {
		entry = hz_lru_rotate(lru, list);
		if (!entry)
			return;
		try_entry(search, entry, only_old, &room);
		hz_entry_put(entry);
		cond_resched();
	}
}

static void search_mounts(struct search *search, enum hz_list list,
			  bool only_old)
{
	struct hz_mount *mount;

	hz_for_each_mount(mount) {
		if (mount->settings.algorithm == HZ_NO_ALGORITHM)
			continue;
		search_list(search, mount, list, only_old);
		if (done(search)) {
			hz_mount_put(mount);
			return;
		}
	}
}

/* Under the node's reclaim lock. */
static struct hz_page *compress_one(struct hz_node *node)
{
	struct search search = { .node = node };

	search_mounts(&search, HZ_INACTIVE, false);
	if (!done(&search))
		search_mounts(&search, HZ_ACTIVE, true);
	if (!done(&search))
		search_mounts(&search, HZ_ACTIVE, false);
	trace_hzmem_reclaim(node->id, search.tried, search.page != NULL);
	return search.page;
}

static struct hz_page *reclaim_from(struct hz_mount *mount,
				    struct hz_node *node)
{
	struct hz_page *page;

	if (mutex_lock_killable(&node->reclaim_lock))
		return ERR_PTR(-EINTR);
	page = hz_pool_take(node);
	if (!page) {
		hz_count(mount, HZ_DIRECT_RECLAIMS);
		page = compress_one(node);
	}
	mutex_unlock(&node->reclaim_lock);
	return page;
}

/*
 * Whether the faults after this one will want more pages than are free. What is only back
 * from being compressed is no sign of that while the rest of it has room too: were pages
 * compressed for it, a program that goes round and round in what there is would find each
 * one compressed.
 */
static bool runs_short(struct hz_mount *mount, struct hz_node *node, bool again)
{
	long compressed = atomic_long_read(&mount->states[HZ_COMPRESSED]);

	if (!hz_node_short(node, mount->settings.watermark))
		return false;
	return !again || compressed - 1 > (long)hz_pool_free(mount->settings.node);
}

static struct hz_page *take_free(struct hz_mount *mount, bool again)
{
	nodemask_t asked = NODE_MASK_NONE;
	struct hz_page *page = NULL;
	struct hz_node *node;

	while (!page && (node = nearest_node(mount, &asked))) {
		page = hz_pool_take(node);
		/* So that the next faults find some, and need not compress any. */
		if (runs_short(mount, node, again))
			hz_node_wake_ahead(node);
	}
	return page;
}

/*
 * A page, with whatever in it, for content that is new or is to be decompressed (again).
 * -ENOMEM: there is none; -EINTR: the task is being killed.
 */
struct hz_page *hz_alloc_page(struct hz_mount *mount, bool again)
{
	nodemask_t asked = NODE_MASK_NONE;
	struct hz_page *page = take_free(mount, again);
	struct hz_node *node;

	while (!page && (node = nearest_node(mount, &asked)))
		page = reclaim_from(mount, node);
	/* Somebody may have given one back meanwhile. */
	if (!page)
		page = take_free(mount, again);
	if (!page)
		page = ERR_PTR(fatal_signal_pending(current) ? -EINTR :
							       -ENOMEM);
	return page;
}
