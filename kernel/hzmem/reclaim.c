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
 * holder is done after at most HZ_TRIES and HZ_LAST_TRIES pages. What is locked or held
 * by others may be free a moment later, so a task that found nothing else tries again
 * for a while, with no lock of its own between two tries. So nobody waits for ever.
 */

#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/topology.h>
#include "compress.h"
#include "entry.h"
#include "lru.h"
#include "reclaim.h"
#include "trace.h"
#include "turns.h"

/* Pages that a task tries to compress at most while it passes over some. */
#define HZ_TRIES 512

/*
 * And of all those that may be compressible, before it is refused a page. What was found
 * incompressible and has not changed is not tried again, so this many (8 GiB) have changed
 * since they were last looked at, and do not compress.
 */
#define HZ_LAST_TRIES 4096

/* Of active pages, how many are looked at for one that was not used of late. */
#define HZ_LOOKS 32

/* How long a task waits for pages that others use, and how long between two tries. */
#define MOST_WAIT (5 * HZ)
#define PAUSE DIV_ROUND_UP(HZ, 100)

/* What is tried, the cheapest first. */
enum effort {
	UNUSED,		/* of the coldest few, what was not used of late */
	LIKELY,		/* what was not found incompressible of late */
	ALL,		/* all that is not known to fail */
};

struct search {
	struct hz_node *node;
	struct hz_round round;
	struct hz_page *page;
	unsigned int tried;
	unsigned int most;	/* to try */
	bool busy;		/* somebody uses a page that might do */
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
	return search->page || search->tried >= search->most ||
	       fatal_signal_pending(current);
}

static bool eligible(struct search *search, struct hz_entry *entry,
		     enum effort effort, const struct hz_room *room)
{
	struct hz_page *page = entry->page;

	if (entry->state != HZ_RESIDENT || hz_page_node(page) != search->node)
		return false;
	switch (effort) {
	case UNUSED:
		return !page->skip && !hz_entry_used(entry);
	case LIKELY:
		return !page->skip;
	default:
		return !hz_entry_hopeless(entry) && !hz_room_none(room, entry);
	}
}

static void try_entry(struct search *search, struct hz_entry *entry,
		      enum effort effort, struct hz_room *room)
{
	if (!mutex_trylock(&entry->lock)) {
		search->busy = true;
		return;
	}
	if (eligible(search, entry, effort, room)) {
		search->tried++;
		if (hz_entry_compress(entry, &search->node->direct_work, room,
				      &search->page) == -EBUSY)
			search->busy = true;
	}
	mutex_unlock(&entry->lock);
}

static void search_list(struct search *search, struct hz_mount *mount,
			enum hz_list list, enum effort effort)
{
	struct hz_lru *lru = &mount->lrus[search->node->id];
	unsigned long count = READ_ONCE(lru->counts[list]);
	struct hz_room room = {};
	struct hz_entry *entry;

	if (effort == UNUSED)
		count = min(count, HZ_LOOKS);
	while (count-- && !done(search)) {
		entry = hz_lru_rotate(lru, list);
		if (!entry)
			return;
		try_entry(search, entry, effort, &room);
		hz_entry_put(entry);
		cond_resched();
	}
}

static void search_mounts(struct search *search, enum hz_list list,
			  enum effort effort)
{
	struct hz_round round = search->round;
	struct hz_mount *mount;

	hz_for_each_in_round(mount, &round) {
		if (mount->settings.algorithm == HZ_NO_ALGORITHM)
			continue;
		search_list(search, mount, list, effort);
		if (done(search)) {
			hz_mount_put(mount);
			return;
		}
	}
}

/*
 * Under the node's reclaim lock. *busy is set where somebody uses a page that might do, or
 * is about to put something into one.
 */
static struct hz_page *compress_one(struct hz_node *node, bool *busy)
{
	struct search search = {
		.node = node,
		.round = hz_round_begin(node),
		.most = HZ_TRIES,
	};
	long settled = atomic_long_read(&node->settled);

	search_mounts(&search, HZ_INACTIVE, LIKELY);
	if (!done(&search))
		search_mounts(&search, HZ_ACTIVE, UNUSED);
	if (!done(&search))
		search_mounts(&search, HZ_ACTIVE, LIKELY);
	search.most = search.tried + HZ_LAST_TRIES;
	if (!done(&search))
		search_mounts(&search, HZ_INACTIVE, ALL);
	if (!done(&search))
		search_mounts(&search, HZ_ACTIVE, ALL);
	trace_hzmem_reclaim(node->id, search.tried, search.page != NULL);
	*busy |= search.busy || !hz_node_rests(node, settled);
	return search.page;
}

static struct hz_page *reclaim_from(struct hz_mount *mount,
				    struct hz_node *node, bool *busy)
{
	struct hz_page *page;

	if (mutex_lock_killable(&node->reclaim_lock))
		return ERR_PTR(-EINTR);
	/* What was given back while somebody held it may be free by now, or soon. */
	*busy |= hz_pool_collect(node);
	page = hz_pool_take(node);
	if (!page) {
		hz_count(mount, HZ_DIRECT_RECLAIMS);
		page = compress_one(node, busy);
	}
	mutex_unlock(&node->reclaim_lock);
	return page;
}

static struct hz_page *reclaim(struct hz_mount *mount, bool *busy)
{
	nodemask_t asked = NODE_MASK_NONE;
	struct hz_page *page = NULL;
	struct hz_node *node;

	*busy = false;
	while (!page && (node = nearest_node(mount, &asked)))
		page = reclaim_from(mount, node, busy);
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
 * -ENOMEM: there is none, and none that can be compressed; -EINTR: the task is being
 * killed.
 */
struct hz_page *hz_alloc_page(struct hz_mount *mount, bool again)
{
	unsigned long end = jiffies + MOST_WAIT;
	struct hz_page *page = take_free(mount, again);
	bool busy;

	while (!page) {
		page = reclaim(mount, &busy);
		/* Somebody may have given one back meanwhile. */
		if (!page)
			page = take_free(mount, again);
		if (page)
			break;
		if (fatal_signal_pending(current))
			return ERR_PTR(-EINTR);
		if (!busy || time_after(jiffies, end))
			return ERR_PTR(-ENOMEM);
		schedule_timeout_killable(PAUSE);
	}
	return page;
}
