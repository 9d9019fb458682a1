/* SPDX-License-Identifier: GPL-2.0 */
/* What is remembered about physical memory from one scan to the next. */
#ifndef MEGA_HEAT_H
#define MEGA_HEAT_H

#include <linux/bitmap.h>
#include <linux/mmzone.h>
#include <linux/types.h>
#include "mega_ioctl.h"

#define MEGA_BLOCKS_PER_SECTION (PAGES_PER_SECTION / MEGA_BLOCK_FRAMES)

/* One block: 136 bytes, 0.006 % of the memory it is about. */
struct mega_block_heat {
	/* Frames seen accessed. Set without a lock by scans of tasks. */
	DECLARE_BITMAP(accessed, MEGA_BLOCK_FRAMES);
	/* Frames in use at the last scan of blocks. Under the scan's lock. */
	DECLARE_BITMAP(used, MEGA_BLOCK_FRAMES);
	/* When a new frame in use was last found, in ms since boot; 0 never. */
	u64 changed;
};

struct mega_section_heat {
	struct mega_block_heat blocks[MEGA_BLOCKS_PER_SECTION];
};

/* Remembers the section last looked up, so that a scan rarely looks up. */
struct mega_heat_cursor {
	unsigned long section;
	struct mega_section_heat *heat;
};

#define MEGA_HEAT_CURSOR_INIT { .section = ULONG_MAX }

/* Points the cursor at a section; its heat is NULL where there is none. */
void mega_heat_look_up(struct mega_heat_cursor *cursor, unsigned long section);

static inline struct mega_block_heat *
mega_block_of(struct mega_section_heat *section, unsigned long frame)
{
	unsigned long block = frame / MEGA_BLOCK_FRAMES;

	return &section->blocks[block % MEGA_BLOCKS_PER_SECTION];
}

/*
 * The state of the block that frame lies in, or NULL when no scan of blocks
 * has covered its section yet. What it returns lives until the module is
 * unloaded. Called for every page accessed, so inline.
 */
static inline struct mega_block_heat *
mega_heat_find(struct mega_heat_cursor *cursor, unsigned long frame)
{
	if (pfn_to_section_nr(frame) != cursor->section)
		mega_heat_look_up(cursor, pfn_to_section_nr(frame));
	return cursor->heat ? mega_block_of(cursor->heat, frame) : NULL;
}

/*
 * The same, but allocates. NULL when there is no memory for it. Callers hold
 * the lock of the scan of blocks. May sleep.
 */
struct mega_block_heat *mega_heat_get(struct mega_heat_cursor *cursor,
				      unsigned long frame);

void mega_heat_exit(void);

#endif /* MEGA_HEAT_H */
