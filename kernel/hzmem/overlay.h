/* SPDX-License-Identifier: GPL-2.0 */
/* What a private mapping holds of its own. */
#ifndef HZMEM_OVERLAY_H
#define HZMEM_OVERLAY_H

#include <linux/kref.h>
#include "store.h"

/*
 * Made by mmap() or fork(), and shared by the VMAs that this one VMA is split into or
 * moved to; all are of one mm. users and broken change under the mm's mmap lock, held
 * for writing, or by munmap(), which may have downgraded it, when nobody else can have
 * it for writing and faults only read them.
 */
struct hz_overlay {
	struct kref references;		/* of readahead; one for all users */
	struct list_head list;		/* of its inode; under overlays_lock */
	struct hz_store store;
	struct mm_struct *mm;		/* to be compared only */
	unsigned long users;		/* VMAs */
	bool broken;			/* fork() had no memory for all of it */
};

struct hz_overlay *hz_overlay_new(struct inode *inode, struct mm_struct *mm);
void hz_overlay_put(struct hz_overlay *overlay);
void hz_overlays_drop(struct inode *inode, pgoff_t first, pgoff_t last);

void hz_vma_open(struct vm_area_struct *vma);
void hz_vma_close(struct vm_area_struct *vma);

#endif
