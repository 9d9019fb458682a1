/* SPDX-License-Identifier: GPL-2.0 */
/* What is in the frames of a physical block, and whether it could be moved. */
#ifndef MEGA_FRAMES_H
#define MEGA_FRAMES_H

#include <linux/bitmap.h>
#include <linux/types.h>
#include "mega_ioctl.h"

/* In the order of how final they are as a reason not to move. */
enum frame_kind {
	FRAME_FREE,		/* in the buddy allocator or a per-CPU list */
	FRAME_MOVABLE,
	FRAME_BUSY,		/* in the hands of somebody for a moment: locked,
				 * written back, isolated, in an LRU batch
				 */
	FRAME_HELD,		/* pinned, or with references nobody explains */
	FRAME_UNMOVABLE,
	FRAME_KINDS,
};

#define NO_FRAME (~0ULL)

/* One block. The counts add up to 512, or to 0 where memory is not online. */
struct block_view {
	u16 count[FRAME_KINDS];
	u16 huge;		/* of FRAME_MOVABLE, in pages of 2 MiB or more */
	bool whole_huge;	/* one page of 2 MiB or more covers the block */
	bool unevictable;	/* a page is on the unevictable list */
	bool reserved;		/* a pageblock kept for atomic allocations or CMA,
				 * or isolated by somebody
				 */
	u8 zone;		/* MEGA_ZONE_* */
	s32 node;		/* -1 where memory is not online */
	u64 first[FRAME_KINDS];	/* first frame of the kind, or NO_FRAME */
	u64 first_huge;		/* first frame in a huge page, or NO_FRAME */
	/* Frames in use: every kind but free. */
	DECLARE_BITMAP(used, MEGA_BLOCK_FRAMES);
};

/*
 * Looks at the block whose first frame is start, a multiple of 512. Takes no
 * lock and no reference, so what it reports may be out of date at once, and a
 * page that is just changing may be reported as FRAME_BUSY. Callers keep memory
 * online with mega_hotplug_enter().
 */
void mega_view_block(unsigned long start, struct block_view *view);

#endif /* MEGA_FRAMES_H */
