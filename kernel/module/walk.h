/* SPDX-License-Identifier: GPL-2.0 */
/* Reads, and clears, the Accessed bits of one region's page tables. */
#ifndef MEGA_WALK_H
#define MEGA_WALK_H

#include <linux/bitmap.h>
#include <linux/mm_types.h>
#include "heat.h"
#include "mega_ioctl.h"

struct mega_walk {
	struct mm_struct *mm;
	bool clear;		/* Accessed bits that are set */
	struct mega_heat_cursor heat;
	u64 tables;		/* pages of page table entries read so far */
	u64 cleared;		/* Accessed bits cleared so far */

	/* What the last call found. */
	struct mega_region region;
	DECLARE_BITMAP(mapped, MEGA_REGION_PAGES);
	DECLARE_BITMAP(accessed, MEGA_REGION_PAGES);
};

/*
 * Fills walk->region and the maps for the region at address, a multiple of
 * 2 MiB, of which vma is the first VMA to overlap it. The caller holds
 * walk->mm's mmap lock for reading and has found vma under it.
 *
 * Returns the address of the next region worth a look: higher than the one after
 * it where the page tables say that nothing is mapped for a while.
 */
unsigned long mega_walk_region(struct mega_walk *walk, unsigned long address,
			       struct vm_area_struct *vma);

#endif /* MEGA_WALK_H */
