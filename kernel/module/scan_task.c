// SPDX-License-Identifier: GPL-2.0
/* SCAN_TASK: what a process has mapped and accessed, region by region. */

#include <linux/err.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "mega.h"
#include "task.h"
#include "trace.h"
#include "walk.h"

/*
 * What may be done before the target's mmap lock is dropped: page-table pages
 * read (of 512 entries, a few microseconds each), regions reported, regions
 * looked at.
 */
#define PIECE_TABLES 64
#define PIECE_REGIONS 128
#define PIECE_STEPS 1024

/* What one hold of the lock found, on its way to user space. */
struct piece {
	struct mega_region regions[PIECE_REGIONS];
	struct mega_region_maps maps[PIECE_REGIONS];
	u32 count;
	u32 capacity;	/* at most PIECE_REGIONS */
};

static void keep_region(struct piece *piece, const struct mega_walk *walk)
{
	if (!walk->region.mapped && !(walk->region.flags & MEGA_REGION_HUGETLB))
		return;
	piece->regions[piece->count] = walk->region;
	bitmap_to_arr64(piece->maps[piece->count].mapped, walk->mapped,
			MEGA_REGION_PAGES);
	bitmap_to_arr64(piece->maps[piece->count].accessed, walk->accessed,
			MEGA_REGION_PAGES);
	piece->count++;
}

/*
 * Scans from cursor on for as long as the lock may be held. Returns where to go
 * on: end when all was scanned.
 */
static unsigned long scan_locked(struct mega_walk *walk, struct piece *piece,
				 unsigned long cursor, unsigned long end)
{
	u64 last_table = walk->tables + PIECE_TABLES;
	unsigned int steps;

	for (steps = 0; steps < PIECE_STEPS && cursor < end; steps++) {
		struct vm_area_struct *vma;

		vma = find_vma_intersection(walk->mm, cursor, end);
		if (!vma)
			return end;
		cursor = max(cursor, ALIGN_DOWN(vma->vm_start, PMD_SIZE));
		cursor = mega_walk_region(walk, cursor, vma);
		keep_region(piece, walk);

		if (piece->count == piece->capacity ||
		    walk->tables >= last_table || need_resched() ||
		    mmap_lock_is_contended(walk->mm))
			break;
	}
	return min(cursor, end);
}

static int scan_piece(struct mega_walk *walk, struct piece *piece,
		      unsigned long end, u64 *cursor)
{
	piece->count = 0;
	if (mmap_read_lock_killable(walk->mm))
		return -EINTR;
	*cursor = scan_locked(walk, piece, *cursor, end);
	mmap_read_unlock(walk->mm);
	return 0;
}

/* Appends what was found to the caller's buffers. */
static int hand_over(struct mega_scan_task *request, const struct piece *piece)
{
	struct mega_region __user *regions = u64_to_user_ptr(request->regions);
	struct mega_region_maps __user *maps = u64_to_user_ptr(request->maps);

	if (copy_to_user(regions + request->count, piece->regions,
			 piece->count * sizeof(*regions)))
		return -EFAULT;
	if (maps && copy_to_user(maps + request->count, piece->maps,
				 piece->count * sizeof(*maps)))
		return -EFAULT;
	request->count += piece->count;
	return 0;
}

static int scan_all(struct mega_scan_task *request, struct mega_walk *walk,
		    struct piece *piece)
{
	unsigned long end = request->start + request->length;

	while (request->next < end && request->count < request->capacity) {
		int error;

		if (signal_pending(current))
			return request->next > request->start ? 0 : -EINTR;
		/* Only we hold it still: the process has exited. */
		if (atomic_read(&walk->mm->mm_users) == 1)
			return -ESRCH;

		piece->capacity = min_t(u32, PIECE_REGIONS,
					request->capacity - request->count);
		error = scan_piece(walk, piece, end, &request->next);
		if (!error)
			error = hand_over(request, piece);
		if (error)
			return error;
		cond_resched();
	}
	return 0;
}

static int check_buffers(const struct mega_scan_task *request)
{
	if (!IS_ALIGNED(request->regions, sizeof(u64)) ||
	    !IS_ALIGNED(request->maps, sizeof(u64)))
		return -EINVAL;
	if (fault_in_safe_writeable(u64_to_user_ptr(request->regions),
				    request->capacity *
				    sizeof(struct mega_region)))
		return -EFAULT;
	if (request->maps &&
	    fault_in_safe_writeable(u64_to_user_ptr(request->maps),
				    request->capacity *
				    sizeof(struct mega_region_maps)))
		return -EFAULT;
	return 0;
}

static int check(const void *argument)
{
	const struct mega_scan_task *request = argument;

	if (request->reserved || request->flags & ~MEGA_TASK_CLEAR)
		return -EINVAL;
	if (!request->capacity || request->capacity > MEGA_MAX_REGIONS)
		return -EINVAL;
	if (!IS_ALIGNED(request->start, MEGA_REGION_BYTES) ||
	    !IS_ALIGNED(request->length, MEGA_REGION_BYTES) ||
	    !request->length)
		return -EINVAL;
	/*
	 * The user's half of the address space, and a page table's reach: the
	 * last region of it may be only partly below TASK_SIZE_MAX.
	 */
	if (request->start >= TASK_SIZE_MAX ||
	    request->length > ALIGN(TASK_SIZE_MAX, MEGA_REGION_BYTES) -
			      request->start)
		return -EINVAL;
	return check_buffers(request);
}

static int scan(struct mega_scan_task *request)
{
	struct mega_walk walk = {
		.clear = request->flags & MEGA_TASK_CLEAR,
		.heat = MEGA_HEAT_CURSOR_INIT,
	};
	struct piece *piece;
	int error;

	walk.mm = mega_mm_of_pidfd(request->pidfd);
	if (IS_ERR(walk.mm))
		return PTR_ERR(walk.mm);
	piece = kvmalloc(sizeof(*piece), GFP_KERNEL);
	if (!piece) {
		mmput_async(walk.mm);
		return -ENOMEM;
	}

	request->result = mm_has_notifiers(walk.mm) ?
				  MEGA_TASK_SECONDARY_NOT_SEEN : 0;
	error = scan_all(request, &walk, piece);
	request->tables = walk.tables;
	request->cleared = walk.cleared;

	kvfree(piece);
	/* Never tear down an exiting process's memory on our caller's time. */
	mmput_async(walk.mm);
	return error;
}

static void clear_results(struct mega_scan_task *request)
{
	request->next = request->start;
	request->tables = 0;
	request->cleared = 0;
	request->count = 0;
	request->result = 0;
}

static int run(void *argument)
{
	struct mega_scan_task *request = argument;
	u64 begin = ktime_get_ns();
	int error;

	clear_results(request);
	error = scan(request);
	request->nanoseconds = ktime_get_ns() - begin;
	trace_mega_scan_task(request, error);
	return error;
}

const struct mega_request mega_request_scan_task = {
	.command = MEGA_IOC_SCAN_TASK,
	.check = check,
	.run = run,
};
