// SPDX-License-Identifier: GPL-2.0
/*
 * Private mappings over their lives: mmap, split, mremap, fork, munmap, exit.
 *
 * fork() calls open() with the parent's mmap lock held for writing and the parent's VMA
 * marked as being written (dup_mmap()), so nobody can fault in the parent meanwhile:
 * faults that hold only the VMA's lock are sent back by do_fault(), because we have no
 * map_pages. open() unmaps the parent's pages before it shares them, so a write of the
 * parent's threads comes after the fork and makes a copy. Nothing is copied into the
 * child's page tables: copy_huge_pmd() skips entries that a fault can bring back.
 *
 * A page that somebody holds (direct I/O into the parent's memory, say) is not shared but
 * copied for the child at once: what arrives later arrives in the parent's page, and the
 * parent must not be given a copy of it by its next write.
 */

#define pr_fmt(fmt) "hzmem: " fmt

#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include "inode.h"
#include "overlay.h"
#include "reclaim.h"
#include "rmap.h"

struct hz_overlay *hz_overlay_new(struct inode *inode, struct mm_struct *mm)
{
	struct hz_overlay *overlay = kzalloc(sizeof(*overlay),
					     GFP_KERNEL_ACCOUNT);

	if (!overlay)
		return NULL;
	kref_init(&overlay->references);
	hz_store_init(&overlay->store);
	overlay->mm = mm;
	overlay->users = 1;
	mutex_lock(&hz_inode(inode)->overlays_lock);
	list_add(&overlay->list, &hz_inode(inode)->overlays);
	mutex_unlock(&hz_inode(inode)->overlays_lock);
	return overlay;
}

static void release(struct kref *references)
{
	kfree(container_of(references, struct hz_overlay, references));
}

void hz_overlay_put(struct hz_overlay *overlay)
{
	kref_put(&overlay->references, release);
}

/* Its last VMA goes. */
static void end(struct hz_overlay *overlay, struct inode *inode)
{
	mutex_lock(&hz_inode(inode)->overlays_lock);
	list_del(&overlay->list);
	mutex_unlock(&hz_inode(inode)->overlays_lock);
	hz_store_drop(&overlay->store, 0, ULONG_MAX);
	hz_overlay_put(overlay);
}

/* Drops the private copies of these pages of a file, everybody's. */
void hz_overlays_drop(struct inode *inode, pgoff_t first, pgoff_t last)
{
	struct hz_overlay *overlay;

	mutex_lock(&hz_inode(inode)->overlays_lock);
	list_for_each_entry(overlay, &hz_inode(inode)->overlays, list)
		hz_store_drop(&overlay->store, first, last);
	mutex_unlock(&hz_inode(inode)->overlays_lock);
}

static pgoff_t first_index(struct vm_area_struct *vma)
{
	return vma->vm_pgoff >> (HZ_SHIFT - PAGE_SHIFT);
}

static pgoff_t last_index(struct vm_area_struct *vma)
{
	return first_index(vma) + ((vma->vm_end - vma->vm_start) >> HZ_SHIFT) -
	       1;
}

/* ---- fork ---------------------------------------------------------------------- */

/* The child's share of a parent's entry, or an entry of its own. */
static struct hz_entry *inherit(struct hz_entry *entry)
{
	struct hz_entry *inherited = entry;
	struct hz_page *page;

	if (mutex_lock_killable(&entry->lock))
		return ERR_PTR(-EINTR);
	if (entry->state == HZ_RESIDENT && hz_entry_held(entry)) {
		page = hz_alloc_page(entry->mount, false);
		inherited = IS_ERR(page) ? ERR_CAST(page) :
					   hz_entry_copy(entry, page);
	} else {
		hz_entry_share(entry);
	}
	mutex_unlock(&entry->lock);
	return inherited;
}

static int inherit_index(struct hz_overlay *parent, struct hz_overlay *child,
			 struct inode *inode, pgoff_t index)
{
	struct mutex *lock = hz_fault_lock(inode, index);
	struct hz_entry *inherited;
	struct hz_entry *entry;
	int error = 0;

	if (mutex_lock_killable(lock))
		return -EINTR;
	entry = hz_store_find(&parent->store, index);
	if (entry) {
		inherited = inherit(entry);
		error = PTR_ERR_OR_ZERO(inherited);
		if (!error) {
			error = hz_store_put(&child->store, inherited);
			if (error)
				hz_entry_drop(inherited);
		}
		hz_entry_put(entry);
	}
	mutex_unlock(lock);
	return error;
}

static int inherit_all(struct hz_overlay *parent, struct hz_overlay *child,
		       struct vm_area_struct *vma)
{
	struct inode *inode = file_inode(vma->vm_file);
	pgoff_t last = last_index(vma);
	struct hz_entry *entry;
	unsigned long index;
	int error = 0;

	/* No truncation drops entries of the parent meanwhile. */
	if (down_read_killable(&inode->i_mapping->invalidate_lock))
		return -EINTR;
	hz_rmap_unmap(inode->i_mapping, first_index(vma),
		      last - first_index(vma) + 1);
	xa_for_each_range(&parent->store.entries, index, entry,
			  first_index(vma), last) {
		error = inherit_index(parent, child, inode, index);
		if (error)
			break;
		cond_resched();
	}
	filemap_invalidate_unlock_shared(inode->i_mapping);
	return error;
}

/* vma is the child's; it may get a NULL overlay, which is broken too. */
static void open_forked(struct vm_area_struct *vma, struct hz_overlay *parent)
{
	struct hz_overlay *child = hz_overlay_new(file_inode(vma->vm_file),
						  vma->vm_mm);

	vma->vm_private_data = child;
	if (child)
		child->broken = parent->broken ||
				inherit_all(parent, child, vma);
	/* Of a parent that is being killed there will be no child. */
	if ((!child || child->broken) && !fatal_signal_pending(current))
		pr_warn_ratelimited("no memory to give a forked child its private pages of %pD: it gets SIGBUS where it touches them\n",
				    vma->vm_file);
}

/* ---- The VMA's operations ------------------------------------------------------- */

/* A VMA has been copied: split, moved (same mm), or forked (another mm). */
void hz_vma_open(struct vm_area_struct *vma)
{
	struct hz_overlay *overlay = vma->vm_private_data;

	if (!overlay)
		return;
	if (overlay->mm == vma->vm_mm)
		overlay->users++;
	else
		open_forked(vma, overlay);
}

/*
 * Another VMA of the process through which the overlay's pages first to last can be
 * reached, at least one of them; or NULL. Two VMAs overlap only during mremap().
 *
 * vma itself may still be in the tree (mmap() over it), as may others that go with it,
 * but those do not overlap it. A VMA that was closed already has other operations.
 */
static struct vm_area_struct *other_user(struct vm_area_struct *vma,
					 pgoff_t first, pgoff_t last)
{
	VMA_ITERATOR(iterator, vma->vm_mm, 0);
	struct vm_area_struct *other;

	for_each_vma(iterator, other) {
		if (other != vma && other->vm_ops == vma->vm_ops &&
		    other->vm_private_data == vma->vm_private_data &&
		    first_index(other) <= last && last_index(other) >= first)
			return other;
	}
	return NULL;
}

static void drop_unreachable(struct hz_overlay *overlay,
			     struct vm_area_struct *vma)
{
	pgoff_t first = first_index(vma);
	pgoff_t last = last_index(vma);
	struct hz_entry *entry;
	unsigned long index;

	if (!other_user(vma, first, last)) {
		hz_store_drop(&overlay->store, first, last);
		return;
	}
	xa_for_each_range(&overlay->store.entries, index, entry, first, last) {
		if (!other_user(vma, index, index))
			hz_store_drop(&overlay->store, index, index);
		cond_resched();
	}
}

/*
 * The VMA has been unmapped. The file is there still: remove_vma() lets go of it later.
 *
 * When the process ends, VMAs that were freed before this one are still in the tree
 * (exit_mmap()), so it must not be looked at; all users of the overlay go then anyway.
 */
void hz_vma_close(struct vm_area_struct *vma)
{
	struct hz_overlay *overlay = vma->vm_private_data;

	if (!overlay)
		return;
	if (--overlay->users == 0)
		end(overlay, file_inode(vma->vm_file));
	else if (atomic_read(&vma->vm_mm->mm_users))
		drop_unreachable(overlay, vma);
}
