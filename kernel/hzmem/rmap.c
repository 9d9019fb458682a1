// SPDX-License-Identifier: GPL-2.0
/*
 * Finds who maps a page by the file's i_mmap, in which every VMA of the file is.
 *
 * Why the page tables may be walked with nothing but i_mmap_rwsem held for reading:
 *
 * 1. A VMA leaves i_mmap before its page tables are freed: free_pgtables() calls
 *    unlink_file_vma_batch_final(), which takes i_mmap_rwsem for writing, and only
 *    then free_pgd_range(), both for munmap() and when a process ends. Other VMAs'
 *    tables are freed up to where this one begins or ends only (floor, ceiling);
 *    while it is out of the tree and still in i_mmap, the mmap lock is held (maybe
 *    for reading), and no second munmap() can begin. So every table above and under
 *    a VMA in i_mmap stays, and so does its mm_struct, which is freed later still.
 *
 * 2. mremap() moves entries, and whole PMD tables, from one VMA of the file to
 *    another one, which is in i_mmap by then. A PMD table is not freed by that: at
 *    worst an entry is looked at in its new place, or is not seen this time. What is
 *    done under the entry's lock is right wherever the table hangs.
 *
 * 3. An entry appears, changes and goes under pmd_lock(); it is compared with the
 *    frame under that lock. Our VMAs have no tables below the PMD (fault.c).
 *
 * The hardware sets Accessed and Dirty bits at any time, so the bit is cleared by one
 * locked instruction that leaves the others alone. The TLB is not flushed: no flush is
 * exported. A translation that stays in a TLB does not set its bit again, as with the
 * kernel's own idle page tracking and DAMON on x86.
 */

#include <linux/interval_tree_generic.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include "rmap.h"

static inline unsigned long first_offset(struct vm_area_struct *vma)
{
	return vma->vm_pgoff;
}

static inline unsigned long last_offset(struct vm_area_struct *vma)
{
	return vma->vm_pgoff + vma_pages(vma) - 1;
}

/* The kernel's own functions on i_mmap (mm/interval_tree.c) are not exported. */
INTERVAL_TREE_DEFINE(struct vm_area_struct, shared.rb, unsigned long,
		     shared.rb_subtree_last, first_offset, last_offset,
		     static __maybe_unused, hz_vmas)

static pmd_t *find_pmd(struct mm_struct *mm, unsigned long address)
{
	pgd_t *pgd = pgd_offset(mm, address);
	p4d_t *p4d;
	pud_t *entry;
	pud_t pud;

	if (pgd_none(pgdp_get(pgd)) || pgd_bad(pgdp_get(pgd)))
		return NULL;
	p4d = p4d_offset(pgd, address);
	if (!p4d_present(p4dp_get(p4d)) || p4d_bad(p4dp_get(p4d)))
		return NULL;
	entry = pud_offset(p4d, address);
	pud = pudp_get(entry);
	if (!pud_present(pud) || pud_leaf(pud) || pud_bad(pud))
		return NULL;
	return pmd_offset(&pud, address);
}

static bool clear_young(struct vm_area_struct *vma, unsigned long address,
			unsigned long frame)
{
	pmd_t *entry = find_pmd(vma->vm_mm, address);
	bool young = false;
	spinlock_t *lock;
	pmd_t pmd;

	if (!entry)
		return false;
	lock = pmd_lock(vma->vm_mm, entry);
	pmd = pmdp_get(entry);
	if (pmd_present(pmd) && pmd_leaf(pmd) && pmd_pfn(pmd) == frame)
		young = test_and_clear_bit(_PAGE_BIT_ACCESSED,
					   (unsigned long *)entry);
	spin_unlock(lock);
	return young;
}

/* Whether the page was accessed through any mapping since it was last asked. */
bool hz_rmap_clear_young(struct address_space *mapping, pgoff_t index,
			 unsigned long frame)
{
	unsigned long first = index * HZ_FRAMES;
	struct vm_area_struct *vma;
	bool young = false;

	i_mmap_lock_read(mapping);
	for (vma = hz_vmas_iter_first(&mapping->i_mmap, first, first); vma;
	     vma = hz_vmas_iter_next(vma, first, first)) {
		unsigned long address = vma->vm_start +
			((first - vma->vm_pgoff) << PAGE_SHIFT);

		/* A VMA that mmap() is about to refuse may be unaligned. */
		if (IS_ALIGNED(address, HZ_SIZE))
			young |= clear_young(vma, address, frame);
	}
	i_mmap_unlock_read(mapping);
	return young;
}

/* Unmaps pages from everywhere, shared or private. Who needs one faults again. */
void hz_rmap_unmap(struct address_space *mapping, pgoff_t index,
		   unsigned long count)
{
	unmap_mapping_range(mapping, (loff_t)index << HZ_SHIFT,
			    (loff_t)count << HZ_SHIFT, 1);
}
