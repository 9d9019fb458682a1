// SPDX-License-Identifier: GPL-2.0
/* SCAN_BLOCKS: what is in each physical block, how hot and how old it is. */

#include <linux/ktime.h>
#include <linux/mutex.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include "frames.h"
#include "heat.h"
#include "hotplug.h"
#include "mega.h"
#include "trace.h"

/* Blocks looked at between two copies to user space: 256 MiB of memory. */
#define PIECE_BLOCKS 128

/* Over the used maps and the change times, which all callers share. */
static DEFINE_MUTEX(scan_lock);

/* How many frames were seen accessed; forgets them if so asked. */
static u16 take_accessed(struct mega_block_heat *heat, bool reset)
{
	unsigned int word;
	u16 count = 0;

	for (word = 0; word < ARRAY_SIZE(heat->accessed); word++) {
		unsigned long *bits = &heat->accessed[word];

		/* Atomic against scans of tasks that set bits now. */
		count += hweight_long(reset ? xchg(bits, 0) : READ_ONCE(*bits));
	}
	return count;
}

/* Milliseconds since the last change; notes a change found now. */
static u32 take_age(struct mega_block_heat *heat, const struct block_view *view,
		    u64 now)
{
	if (!heat->changed ||
	    !bitmap_subset(view->used, heat->used, MEGA_BLOCK_FRAMES))
		heat->changed = now;
	bitmap_copy(heat->used, view->used, MEGA_BLOCK_FRAMES);
	return min_t(u64, now - heat->changed, U32_MAX);
}

static void report(const struct block_view *view, struct mega_block *block)
{
	*block = (struct mega_block){
		.free = view->count[FRAME_FREE],
		.movable = view->count[FRAME_MOVABLE] + view->count[FRAME_BUSY],
		.unmovable = view->count[FRAME_HELD] +
			     view->count[FRAME_UNMOVABLE],
		.huge = view->huge,
		.zone = view->zone,
		.flags = (view->whole_huge ? MEGA_BLOCK_HUGE : 0) |
			 (view->unevictable ? MEGA_BLOCK_UNEVICTABLE : 0) |
			 (view->reserved ? MEGA_BLOCK_RESERVED : 0),
	};
}

static void scan_block(struct mega_heat_cursor *cursor, unsigned long start,
		       bool reset, struct mega_block *block)
{
	struct mega_block_heat *heat;
	struct block_view view;

	mega_view_block(start, &view);
	report(&view, block);
	if (view.node < 0) {
		block->flags |= MEGA_BLOCK_ABSENT;
		return;
	}

	heat = mega_heat_get(cursor, start);
	if (!heat) {
		block->flags |= MEGA_BLOCK_UNTRACKED;
		return;
	}
	if (!heat->changed)
		block->flags |= MEGA_BLOCK_NEW;
	block->accessed = take_accessed(heat, reset);
	/* One more than the clock says: 0 means never. */
	block->age = take_age(heat, &view, ktime_get_boottime_ns() /
				     NSEC_PER_MSEC + 1);
}

static int scan_online(unsigned long start, unsigned int count, bool reset,
		       struct mega_block *piece)
{
	struct mega_heat_cursor cursor = MEGA_HEAT_CURSOR_INIT;
	unsigned int index;

	if (mega_hotplug_busy())
		return -EBUSY;
	for (index = 0; index < count; index++) {
		scan_block(&cursor, start + index * MEGA_BLOCK_FRAMES, reset,
			   &piece[index]);
		cond_resched();
	}
	return 0;
}

/* Fills piece from the block at start on. 0, or -errno with nothing done. */
static int scan_piece(unsigned long start, unsigned int count, bool reset,
		      struct mega_block *piece)
{
	int ticket;
	int error;

	if (mutex_lock_killable(&scan_lock))
		return -EINTR;
	ticket = mega_hotplug_enter();
	error = scan_online(start, count, reset, piece);
	mega_hotplug_leave(ticket);
	mutex_unlock(&scan_lock);
	return error;
}

static int check(const void *argument)
{
	const struct mega_scan_blocks *request = argument;

	if (request->reserved || request->flags & ~MEGA_BLOCKS_RESET)
		return -EINVAL;
	if (!request->count || request->count > MEGA_MAX_BLOCKS)
		return -EINVAL;
	/* All of the range is below the largest frame number there can be. */
	if (!IS_ALIGNED(request->start_frame, MEGA_BLOCK_FRAMES) ||
	    request->start_frame > PHYS_PFN(U64_MAX) -
		    (u64)request->count * MEGA_BLOCK_FRAMES)
		return -EINVAL;
	if (!IS_ALIGNED(request->blocks, sizeof(u64)))
		return -EINVAL;
	if (fault_in_safe_writeable(u64_to_user_ptr(request->blocks),
				    request->count * sizeof(struct mega_block)))
		return -EFAULT;
	return 0;
}

static int scan(struct mega_scan_blocks *request, struct mega_block *piece)
{
	struct mega_block __user *out = u64_to_user_ptr(request->blocks);
	bool reset = request->flags & MEGA_BLOCKS_RESET;

	request->done = 0;
	while (request->done < request->count) {
		unsigned int count = min_t(u32, PIECE_BLOCKS,
					   request->count - request->done);
		unsigned long start = request->start_frame +
			(unsigned long)request->done * MEGA_BLOCK_FRAMES;
		int error;

		if (signal_pending(current))
			return request->done ? 0 : -EINTR;
		error = scan_piece(start, count, reset, piece);
		if (error)
			return request->done ? 0 : error;
		if (copy_to_user(out + request->done, piece,
				 count * sizeof(*piece)))
			return -EFAULT;
		request->done += count;
	}
	return 0;
}

static int run(void *argument)
{
	struct mega_scan_blocks *request = argument;
	struct mega_block *piece;
	u64 begin;
	int error;

	piece = kmalloc_array(PIECE_BLOCKS, sizeof(*piece), GFP_KERNEL);
	if (!piece)
		return -ENOMEM;
	begin = ktime_get_ns();
	error = scan(request, piece);
	request->nanoseconds = ktime_get_ns() - begin;
	kfree(piece);
	trace_mega_scan_blocks(request, error);
	return error;
}

const struct mega_request mega_request_scan_blocks = {
	.command = MEGA_IOC_SCAN_BLOCKS,
	.check = check,
	.run = run,
};
