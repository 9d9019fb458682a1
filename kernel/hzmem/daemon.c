// SPDX-License-Identifier: GPL-2.0
/*
 * The daemon of a node: finds cold pages and compresses them, for each mount in its
 * period and only while more of the node is used than the mount's watermark says; at
 * once, when a fault finds few pages free; and frees pages that were pinned when they
 * were given back.
 *
 * It waits for no entry: one that is locked is being used. It can be stopped between
 * any two pages.
 */

#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include "compress.h"
#include "daemon.h"
#include "entry.h"
#include "lru.h"
#include "pool.h"
#include "trace.h"
#include "turns.h"

/* How often pinned pages are looked at. */
#define COLLECT_INTERVAL HZ

/* Of each list, how many pages are looked at for a fault that has found few free. */
#define MOST_LOOKS 512UL

/* ---- Reading Accessed bits ---------------------------------------------------------- */

static void scan_entry(struct hz_mount *mount, struct hz_node *node,
		       struct hz_entry *entry)
{
	struct hz_page *page;

	if (!mutex_trylock(&entry->lock))
		return;
	page = entry->page;
	if (entry->state == HZ_RESIDENT && hz_page_node(page) == node) {
		hz_lru_note(hz_entry_lru(entry), page, hz_entry_young(entry));
		if (page->skip)
			page->skip--;
		hz_count(mount, HZ_PAGES_SCANNED);
	}
	mutex_unlock(&entry->lock);
}

static void scan_list(struct hz_mount *mount, struct hz_node *node,
		      enum hz_list list, unsigned long count)
{
	struct hz_entry *entry;

	while (count-- && !kthread_should_stop()) {
		entry = hz_lru_rotate(&mount->lrus[node->id], list);
		if (!entry)
			return;
		scan_entry(mount, node, entry);
		hz_entry_put(entry);
		cond_resched();
	}
}

/*
 * Each page once: those that a list gets from the other one are at its end, and not
 * counted. As many as leave it meanwhile, of its first ones are read twice.
 */
static void scan(struct hz_mount *mount, struct hz_node *node)
{
	struct hz_lru *lru = &mount->lrus[node->id];
	unsigned long inactive = READ_ONCE(lru->counts[HZ_INACTIVE]);
	unsigned long active = READ_ONCE(lru->counts[HZ_ACTIVE]);

	scan_list(mount, node, HZ_INACTIVE, inactive);
	scan_list(mount, node, HZ_ACTIVE, active);
	hz_count(mount, HZ_SCANS);
	trace_hzmem_scan(mount, node->id, active + inactive,
			 READ_ONCE(lru->counts[HZ_ACTIVE]),
			 READ_ONCE(lru->counts[HZ_INACTIVE]));
}

/* ---- Compressing -------------------------------------------------------------------- */

/* Whether the last scan found it cold. */
static bool is_cold(struct hz_entry *entry)
{
	return !entry->page->young;
}

/* Whether it was not used since it was last looked at, however short a time ago. */
static bool is_unused(struct hz_entry *entry)
{
	return !hz_entry_used(entry);
}

static void compress_entry(struct hz_node *node, struct hz_entry *entry,
			   bool (*wanted)(struct hz_entry *entry),
			   struct hz_room *room)
{
	struct hz_page *page;

	if (!mutex_trylock(&entry->lock))
		return;
	page = entry->page;
	if (entry->state == HZ_RESIDENT && hz_page_node(page) == node &&
	    !page->skip && wanted(entry) &&
	    !hz_entry_compress(entry, &node->daemon_work, room, &page))
		hz_pool_give(page);
	mutex_unlock(&entry->lock);
}

/*
 * The coldest pages first, until enough of the node is free, or the mount has given its part
 * of that. Where others lack cold pages, it gives its part of what is missing in the next scan.
 */
static void compress(struct hz_mount *mount, struct hz_node *node)
{
	struct hz_lru *lru = &mount->lrus[node->id];
	unsigned long count = READ_ONCE(lru->counts[HZ_INACTIVE]);
	long enough = atomic_long_read(&node->free) +
		      hz_share(mount, node,
			       hz_node_excess(node, mount->settings.watermark));
	struct hz_room room = {};
	struct hz_entry *entry;

	while (count-- && !kthread_should_stop() &&
	       hz_node_used(node, mount->settings.watermark) &&
	       atomic_long_read(&node->free) < enough) {
		entry = hz_lru_rotate(lru, HZ_INACTIVE);
		if (!entry)
			return;
		compress_entry(node, entry, is_cold, &room);
		hz_entry_put(entry);
		cond_resched();
	}
}

/* ---- Keeping pages free ahead of faults ---------------------------------------------- */

/* The coldest pages of a list first, until enough are free. */
static void compress_unused(struct hz_mount *mount, struct hz_node *node,
			    enum hz_list list)
{
	unsigned int watermark = mount->settings.watermark;
	struct hz_lru *lru = &mount->lrus[node->id];
	unsigned long count = min(READ_ONCE(lru->counts[list]), MOST_LOOKS);
	struct hz_room room = {};
	struct hz_entry *entry;

	if (lru->full)
		return;
	while (count-- && !hz_room_ended(&room) && !kthread_should_stop() &&
	       atomic_long_read(&node->free) < hz_node_reserve(node, watermark)) {
		entry = hz_lru_rotate(lru, list);
		if (!entry)
			return;
		compress_entry(node, entry, is_unused, &room);
		hz_entry_put(entry);
		cond_resched();
	}
	lru->full = room.refusals;
}

/*
 * A fault has taken one of the last free pages. The next ones would have to compress some
 * themselves: that is done here meanwhile, on another CPU. What was used since it was last
 * looked at, by a scan or for an earlier fault, is left alone, and when no more pages are
 * taken nothing more is done: who uses all there is, and no more, keeps it. Where there is
 * no room for data, nothing is tried before the next scan.
 */
static void compress_ahead(struct hz_mount *mount, struct hz_node *node)
{
	compress_unused(mount, node, HZ_INACTIVE);
	compress_unused(mount, node, HZ_ACTIVE);
}

/* ---- The thread --------------------------------------------------------------------- */

/* Does what is due for a mount; returns in how many jiffies the next scan is. */
static long serve(struct hz_mount *mount, struct hz_node *node, bool ahead)
{
	unsigned long period = msecs_to_jiffies(mount->settings.period_ms);
	struct hz_lru *lru = &mount->lrus[node->id];

	if (mount->settings.algorithm == HZ_NO_ALGORITHM)
		return MAX_SCHEDULE_TIMEOUT;
	/* Also where the period was long and has been made short. */
	if (time_after(lru->next_scan, jiffies + period))
		lru->next_scan = jiffies + period;
	if (time_after_eq(jiffies, lru->next_scan)) {
		if (hz_node_used(node, mount->settings.watermark)) {
			scan(mount, node);
			compress(mount, node);
		}
		lru->next_scan = jiffies + period;
		lru->full = false;
	} else if (ahead && hz_node_short(node, mount->settings.watermark)) {
		/* Not after a scan: what was used since then says nothing yet. */
		compress_ahead(mount, node);
	}
	return max(1L, (long)(lru->next_scan - jiffies));
}

static long serve_all(struct hz_node *node, bool ahead)
{
	struct hz_round round = hz_round_begin(node);
	long wait = MAX_SCHEDULE_TIMEOUT;
	struct hz_mount *mount;

	hz_for_each_in_round(mount, &round) {
		wait = min(wait, serve(mount, node, ahead));
		if (kthread_should_stop()) {
			hz_mount_put(mount);
			break;
		}
	}
	return wait;
}

static int run(void *argument)
{
	struct hz_node *node = argument;
	bool ahead;
	long wait;

	while (!kthread_should_stop()) {
		WRITE_ONCE(node->wake, false);
		/* Cleared after wake: see hz_node_wake_ahead(). */
		ahead = xchg(&node->ahead, false);
		wait = serve_all(node, ahead);
		if (hz_pool_collect(node))
			wait = min(wait, (long)COLLECT_INTERVAL);
		wait_event_interruptible_timeout(node->wait,
						 READ_ONCE(node->wake) ||
						 kthread_should_stop(), wait);
	}
	return 0;
}

int hz_daemon_start(struct hz_node *node)
{
	const struct cpumask *cpus = cpumask_of_node(node->id);
	struct task_struct *task;

	task = kthread_create_on_node(run, node, node->id, "hzmemd/%d",
				      node->id);
	if (IS_ERR(task))
		return PTR_ERR(task);
	/* A node of memory alone has no CPUs: any will do. */
	if (!cpumask_empty(cpus))
		set_cpus_allowed_ptr(task, cpus);
	node->daemon = task;
	wake_up_process(task);
	return 0;
}

void hz_daemon_stop(struct hz_node *node)
{
	kthread_stop(node->daemon);
	node->daemon = NULL;
}

/* A mount came, or its settings changed. */
void hz_daemons_wake(void)
{
	struct hz_node *node;
	int id;

	for_each_node(id) {
		node = hz_node(id);
		if (node)
			hz_node_wake(node);
	}
}
