// SPDX-License-Identifier: GPL-2.0
/*
 * COMPACT: empties one chosen physical block or chunk.
 *
 * alloc_contig_range() does the work. It takes all pageblocks of the range out of
 * allocation first, so no page is moved from one part of it to another, looks
 * for a fatal signal between batches of 32 pages, and gives back what it took on
 * failure. What it lacks is added here: it finds a pinned page only after it
 * has moved the others; it enters direct reclaim for room to move base pages to;
 * and it does not tell what it did.
 */

#include <linux/gfp.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
#include "compact_counts.h"
#include "compat/compat.h"
#include "destinations.h"
#include "drain.h"
#include "frames.h"
#include "hotplug.h"
#include "mega.h"
#include "trace.h"

/*
 * Attempts while the pages in the way are such as come and go. What an attempt
 * moved stays moved, so the next has less to do.
 */
#define MAX_ATTEMPTS 3

/*
 * Where to move base pages to is taken from the free lists only: without
 * __GFP_DIRECT_RECLAIM nothing is reclaimed for it and the time it takes is
 * bounded. __GFP_FS lets pages of files be moved too.
 *
 * For large folios the kernel replaces this by GFP_TRANSHUGE
 * (alloc_migration_target()), which reclaims, and by __GFP_RETRY_MAYFAIL gives up
 * before the OOM killer. No caller of alloc_contig_range() has a say in that.
 */
#define COMPACT_GFP (__GFP_IO | __GFP_FS | __GFP_NOWARN)

/* One compaction at a time: two of neighbours would only disturb each other. */
static DEFINE_MUTEX(compact_lock);

/* What was found in the whole range. */
struct range_view {
	u64 count[FRAME_KINDS];
	u64 first[FRAME_KINDS];
	u64 first_huge;
	u64 first_reserved;
	bool one_zone;		/* and all of it online */
};

/* False when a fatal signal came. */
static bool view_range(const struct mega_compact *request,
		       struct range_view *view)
{
	unsigned long end = request->frame + (1UL << request->order);
	struct block_view block;
	unsigned int kind;
	unsigned long start;
	int node = -1;
	u8 zone = 0;

	*view = (struct range_view){
		.first_huge = NO_FRAME,
		.first_reserved = NO_FRAME,
		.one_zone = true,
	};
	for (kind = 0; kind < FRAME_KINDS; kind++)
		view->first[kind] = NO_FRAME;

	for (start = request->frame; start < end; start += MEGA_BLOCK_FRAMES) {
		if (fatal_signal_pending(current))
			return false;
		mega_view_block(start, &block);
		if (start == request->frame) {
			node = block.node;
			zone = block.zone;
		}
		if (block.node < 0 || block.node != node || block.zone != zone)
			view->one_zone = false;
		for (kind = 0; kind < FRAME_KINDS; kind++) {
			view->count[kind] += block.count[kind];
			view->first[kind] = min(view->first[kind],
						block.first[kind]);
		}
		view->first_huge = min(view->first_huge, block.first_huge);
		if (block.reserved)
			view->first_reserved = min_t(u64, start,
						     view->first_reserved);
		cond_resched();
	}
	return true;
}

/*
 * Free frames outside the range that an allocation may take without reclaim,
 * on any node. The lowest zone is kept for devices by its reserve.
 */
static u64 room_elsewhere(const struct range_view *view)
{
	s64 room = 0;
	int node;

	for_each_online_node(node) {
		unsigned int index;

		for (index = ZONE_DMA + 1; index < MAX_NR_ZONES; index++) {
			struct zone *zone = &NODE_DATA(node)->node_zones[index];
			s64 spare;

			if (!populated_zone(zone) || index == ZONE_DEVICE)
				continue;
			spare = (s64)zone_page_state(zone, NR_FREE_PAGES) -
				(s64)low_wmark_pages(zone);
			room += max(spare, 0LL);
		}
	}
	return max(room - (s64)view->count[FRAME_FREE], 0LL);
}

/* Why not to move anything, MEGA_STOP_WOULD for no reason; and the frame. */
static enum mega_stop obstacle(const struct mega_compact *request,
			       const struct range_view *view, u64 *blocker)
{
	u64 frames = 1ULL << request->order;

	*blocker = NO_FRAME;
	if (view->count[FRAME_FREE] == frames)
		return MEGA_STOP_ALREADY_FREE;
	if (view->first_reserved != NO_FRAME) {
		*blocker = view->first_reserved;
		return MEGA_STOP_UNMOVABLE;
	}
	if (view->count[FRAME_UNMOVABLE]) {
		*blocker = view->first[FRAME_UNMOVABLE];
		return MEGA_STOP_UNMOVABLE;
	}
	if (view->count[FRAME_HELD]) {
		*blocker = view->first[FRAME_HELD];
		return MEGA_STOP_PINNED;
	}
	if (view->first_huge != NO_FRAME &&
	    !(request->flags & MEGA_COMPACT_MOVE_HUGE)) {
		*blocker = view->first_huge;
		return MEGA_STOP_HUGE;
	}
	if (view->count[FRAME_BUSY]) {
		*blocker = view->first[FRAME_BUSY];
		return MEGA_STOP_BUSY;
	}
	if (room_elsewhere(view) < frames - view->count[FRAME_FREE])
		return MEGA_STOP_NO_MEMORY;
	return MEGA_STOP_WOULD;
}

/* Whether it may go away by waiting for the per-CPU batches, or a moment. */
static bool may_pass(enum mega_stop stop)
{
	return stop == MEGA_STOP_PINNED || stop == MEGA_STOP_BUSY;
}

static enum mega_stop stop_of(int error)
{
	switch (error) {
	case 0:
		return MEGA_STOP_DONE;
	case -EINTR:
		return MEGA_STOP_SIGNAL;
	case -ENOMEM:
		return MEGA_STOP_NO_MEMORY;
	default:
		return MEGA_STOP_BUSY;
	}
}

static void free_range(unsigned long frame, unsigned int order)
{
	unsigned long end = frame + (1UL << order);

	for (; frame < end; frame += MEGA_BLOCK_FRAMES) {
		mega_free_contig_range(frame, MEGA_BLOCK_FRAMES);
		cond_resched();
	}
}

static enum mega_stop empty_range(struct mega_compact *request,
				  const struct mega_destinations *to)
{
	struct compact_counts counts = { 0 };
	unsigned long frame = request->frame;

	mega_counts_begin(&counts);
	request->error = mega_alloc_contig_range_to(to, frame,
						    frame + (1UL << request->order),
						    COMPACT_GFP);
	mega_counts_end();
	request->attempts++;
	request->scanned += counts.scanned;
	request->isolated += counts.isolated;
	request->migrated += counts.migrated;
	request->failed += counts.failed;

	if (!request->error)
		free_range(frame, request->order);
	return stop_of(request->error);
}

static int try_online(struct mega_compact *request,
		      const struct mega_destinations *to)
{
	struct range_view view;

	if (mega_hotplug_busy())
		return -EBUSY;
	if (!view_range(request, &view)) {
		request->stop = MEGA_STOP_SIGNAL;
		return 0;
	}
	if (!view.one_zone)
		return -ENXIO;

	if (!request->attempts)
		request->occupied = (1ULL << request->order) -
				    view.count[FRAME_FREE];
	request->stop = obstacle(request, &view, &request->blocker);
	if (request->stop == MEGA_STOP_WOULD &&
	    !(request->flags & MEGA_COMPACT_DRY_RUN))
		request->stop = empty_range(request, to);
	return 0;
}

/* Looks, and acts if nothing is in the way. -errno: it is no such range. */
static int try_once(struct mega_compact *request,
		    const struct mega_destinations *to)
{
	int ticket = mega_hotplug_enter();
	int error = try_online(request, to);

	mega_hotplug_leave(ticket);
	return error;
}

static int compact_locked(struct mega_compact *request,
			  const struct mega_destinations *to)
{
	unsigned int looks;

	for (looks = 0; looks < MAX_ATTEMPTS; looks++) {
		int error = try_once(request, to);

		if (error)
			return error;
		if (!may_pass(request->stop) || fatal_signal_pending(current))
			break;
		/* Not under hotplug's protection: see hotplug.c. */
		mega_drain_lru();
	}
	/* Emptied by an earlier attempt that failed at its end. */
	if (request->stop == MEGA_STOP_ALREADY_FREE && request->attempts)
		request->stop = MEGA_STOP_DONE;
	return 0;
}

/*
 * Not under hotplug's protection either: hooking takes locks that who takes memory
 * offline holds while it waits for us to leave.
 */
static int compact_counted(struct mega_compact *request,
			   const struct mega_destinations *to)
{
	int error = mega_counts_hold();

	if (error)
		return error;
	error = compact_locked(request, to);
	mega_counts_release();
	return error;
}

bool mega_compact_available(void)
{
	return IS_ENABLED(CONFIG_CONTIG_ALLOC);
}

static int check(const void *argument)
{
	const struct mega_compact *request = argument;

	if (request->flags & ~(MEGA_COMPACT_DRY_RUN | MEGA_COMPACT_MOVE_HUGE))
		return -EINVAL;
	if (request->order < MEGA_MIN_ORDER || request->order > MEGA_MAX_ORDER)
		return -EINVAL;
	if (!IS_ALIGNED(request->frame, 1ULL << request->order) ||
	    request->frame > PHYS_PFN(U64_MAX) - (1ULL << request->order))
		return -EINVAL;
	if (request->avoid && !mega_avoid_available())
		return -EOPNOTSUPP;
	return mega_compact_available() ? 0 : -EOPNOTSUPP;
}

static void clear_results(struct mega_compact *request)
{
	request->stop = MEGA_STOP_BUSY;
	request->blocker = NO_FRAME;
	request->occupied = 0;
	request->scanned = 0;
	request->isolated = 0;
	request->migrated = 0;
	request->failed = 0;
	request->attempts = 0;
	request->error = 0;
}

static int run_alone(struct mega_compact *request,
		     const struct mega_destinations *to)
{
	u64 begin;
	int error;

	if (mutex_lock_killable(&compact_lock))
		return -EINTR;
	begin = ktime_get_ns();
	error = request->flags & MEGA_COMPACT_DRY_RUN ?
			compact_locked(request, to) :
			compact_counted(request, to);
	request->nanoseconds = ktime_get_ns() - begin;
	mutex_unlock(&compact_lock);
	trace_mega_compact(request, error);
	return error;
}

static int run(void *argument)
{
	struct mega_compact *request = argument;
	struct mega_destinations to;
	int error;

	clear_results(request);
	error = mega_destinations_read(&to, request->avoid, request->order);
	if (error)
		return error;
	error = run_alone(request, &to);
	mega_destinations_free(&to);
	return error;
}

const struct mega_request mega_request_compact = {
	.command = MEGA_IOC_COMPACT,
	.check = check,
	.run = run,
};
