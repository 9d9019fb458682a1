// SPDX-License-Identifier: GPL-2.0
/* Files: mmap, read, fallocate, truncate, as hugetlbfs has them. */

#include <linux/types.h>
#include <linux/falloc.h>
#include <linux/file.h>
#include <linux/mman.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/uio.h>
#include "compat/compat.h"
#include "fault.h"
#include "inode.h"
#include "overlay.h"

/* ---- mmap ------------------------------------------------------------------------- */

/* The range of the file that is mapped, in bytes; false if there is no such file. */
static bool range_fits(struct vm_area_struct *vma, loff_t *end)
{
	u64 first = (u64)vma->vm_pgoff << PAGE_SHIFT;
	u64 last;

	if (first >> PAGE_SHIFT != vma->vm_pgoff)
		return false;
	if (check_add_overflow(first, (u64)(vma->vm_end - vma->vm_start),
			       &last))
		return false;
	*end = last;
	return last <= MAX_LFS_FILESIZE;
}

/* fallocate() may hold the inode's lock for long: while it looks for pages. */
static int lock_inode(struct inode *inode)
{
	return down_write_killable(&inode->i_rwsem);
}

static int extend(struct inode *inode, loff_t size)
{
	if (lock_inode(inode))
		return -EINTR;
	if (i_size_read(inode) < size)
		i_size_write(inode, size);
	inode_unlock(inode);
	return 0;
}

static int hz_mmap(struct file *file, struct vm_area_struct *vma)
{
	unsigned long offset = vma->vm_pgoff << PAGE_SHIFT;
	struct inode *inode = file_inode(file);
	loff_t end;
	int error;

	if (!IS_ALIGNED(vma->vm_start | vma->vm_end | offset, HZ_SIZE) ||
	    !range_fits(vma, &end))
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE) {
		error = extend(inode, end);
		if (error)
			return error;
	}
	if (!(vma->vm_flags & VM_MAYSHARE)) {
		vma->vm_private_data = hz_overlay_new(inode, vma->vm_mm);
		if (!vma->vm_private_data)
			return -ENOMEM;
	}
	file_accessed(file);
	/*
	 * VM_DONTEXPAND, or VM_MIXEDMAP where pages are mapped so (fault.c): no merging of
	 * VMAs, no KSM, khugepaged or NUMA balancing; and mremap() does not grow it.
	 */
	vm_flags_set(vma, MEGA_VM_DEVICE_PAGES | VM_HUGEPAGE | VM_DONTEXPAND);
	vma->vm_ops = &hz_vma_operations;
	return 0;
}

static unsigned long hz_get_unmapped_area(struct file *file,
					  unsigned long address,
					  unsigned long length,
					  unsigned long offset,
					  unsigned long flags)
{
	if (!IS_ALIGNED(length | offset << PAGE_SHIFT, HZ_SIZE))
		return -EINVAL;
	if (flags & MAP_FIXED)
		return IS_ALIGNED(address, HZ_SIZE) ? address : -EINVAL;
	address = thp_get_unmapped_area(file, ALIGN(address, HZ_SIZE), length,
					offset, flags);
	if (IS_ERR_VALUE(address))
		return address;
	/* Where there was no room to align it. */
	return IS_ALIGNED(address, HZ_SIZE) ? address : -ENOMEM;
}

/* Lost is lost: no file system's call has an error of its own for how. */
static int without_reason(int error)
{
	return error == -EHWPOISON ? -EIO : error;
}

/* ---- read -------------------------------------------------------------------------- */

/* The entry's page with a reference; it stays NULL where all is zero. */
static int hold_content(struct hz_entry *entry, struct folio **folio)
{
	enum hz_event how;
	int error = 0;

	if (mutex_lock_killable(&entry->lock))
		return -EINTR;
	if (entry->state != HZ_ZERO)
		error = hz_entry_load(entry, &how);
	if (!error && entry->state == HZ_RESIDENT) {
		*folio = hz_page_folio(entry->page);
		folio_get(*folio);
	}
	mutex_unlock(&entry->lock);
	return error;
}

/*
 * The page behind an index, with a reference that keeps it as it is while it is copied
 * to user space, where a fault may want the locks that are held here. NULL: zeros.
 */
static struct folio *find_page(struct inode *inode, pgoff_t index)
{
	struct folio *folio = NULL;
	struct hz_entry *entry;
	int error = 0;

	if (down_read_killable(&inode->i_mapping->invalidate_lock))
		return ERR_PTR(-EINTR);
	entry = hz_store_find(&hz_inode(inode)->store, index);
	if (entry) {
		error = hold_content(entry, &folio);
		hz_entry_put(entry);
	}
	filemap_invalidate_unlock_shared(inode->i_mapping);
	return error ? ERR_PTR(without_reason(error)) : folio;
}

static ssize_t read_part(struct inode *inode, loff_t position, size_t length,
			 struct iov_iter *to)
{
	struct folio *folio = find_page(inode, position >> HZ_SHIFT);
	size_t copied;

	if (IS_ERR(folio))
		return PTR_ERR(folio);
	if (!folio)
		return iov_iter_zero(length, to);
	/* Short where the memory has an error, too. */
	copied = _copy_mc_to_iter(folio_address(folio) +
				  (position & (HZ_SIZE - 1)), length, to);
	folio_put(folio);
	return copied;
}

static ssize_t hz_read(struct kiocb *request, struct iov_iter *to)
{
	struct inode *inode = file_inode(request->ki_filp);
	ssize_t sum = 0;

	while (iov_iter_count(to)) {
		loff_t position = request->ki_pos;
		loff_t size = i_size_read(inode);
		size_t length;
		ssize_t done;

		if (position >= size)
			break;
		length = min3((u64)iov_iter_count(to), (u64)(size - position),
			      (u64)(HZ_SIZE - (position & (HZ_SIZE - 1))));
		done = read_part(inode, position, length, to);
		if (done < 0)
			return sum ?: done;
		request->ki_pos += done;
		sum += done;
		if (done < length)
			return sum ?: -EFAULT;
		cond_resched();
	}
	return sum;
}

/* ---- fallocate, truncate ------------------------------------------------------------- */

/* Makes sure that the file has memory for the page. */
static int allocate_page(struct inode *inode, pgoff_t index)
{
	struct mutex *lock = hz_fault_lock(inode, index);
	struct hz_entry *entry;
	enum hz_event how;
	int error = 0;

	if (mutex_lock_killable(lock))
		return -EINTR;
	entry = hz_store_find(&hz_inode(inode)->store, index);
	if (entry) {
		hz_entry_put(entry);
		goto out;
	}
	entry = hz_entry_new(inode, index);
	if (IS_ERR(entry)) {
		error = PTR_ERR(entry);
		goto out;
	}
	mutex_lock(&entry->lock);
	error = hz_entry_load(entry, &how);
	mutex_unlock(&entry->lock);
	if (!error)
		error = hz_inode_put(inode, entry);
	if (error)
		hz_entry_drop(entry);
out:
	mutex_unlock(lock);
	/* No page and no room are the same to who allocates ahead. */
	return error == -ENOMEM ? -ENOSPC : error;
}

static int allocate(struct inode *inode, loff_t offset, loff_t end)
{
	pgoff_t index = offset >> HZ_SHIFT;
	pgoff_t last = (end - 1) >> HZ_SHIFT;
	int error = 0;

	/* Faults go on beside it, page by page. */
	if (down_read_killable(&inode->i_mapping->invalidate_lock))
		return -EINTR;
	for (; index <= last && !error; index++) {
		error = signal_pending(current) ? -EINTR :
						  allocate_page(inode, index);
		cond_resched();
	}
	filemap_invalidate_unlock_shared(inode->i_mapping);
	return error;
}

/* Zeroes bytes of one page of the file. Under the invalidate lock, exclusively. */
static int zero_part(struct inode *inode, loff_t from, loff_t to)
{
	struct hz_entry *entry;
	enum hz_event how;
	int error = 0;

	if (from >= to)
		return 0;
	entry = hz_store_find(&hz_inode(inode)->store, from >> HZ_SHIFT);
	if (!entry)
		return 0;
	if (mutex_lock_killable(&entry->lock)) {
		hz_entry_put(entry);
		return -EINTR;
	}
	if (entry->state != HZ_ZERO) {
		error = hz_entry_load(entry, &how);
		if (!error) {
			memset(hz_page_data(entry->page) +
			       (from & (HZ_SIZE - 1)), 0, to - from);
			hz_entry_changes(entry);
		}
	}
	mutex_unlock(&entry->lock);
	hz_entry_put(entry);
	return without_reason(error);
}

/* Drops the pages that are wholly inside, and zeroes what is in the first and last. */
static int punch(struct inode *inode, loff_t start, loff_t end)
{
	loff_t first = round_up(start, HZ_SIZE);
	loff_t last = round_down(end, HZ_SIZE);
	int error;

	/* A fault that is under way may be looking for a page. */
	if (down_write_killable(&inode->i_mapping->invalidate_lock))
		return -EINTR;
	error = zero_part(inode, start, min(first, end));
	if (!error && last >= first)
		error = zero_part(inode, last, end);
	if (!error && last > first)
		hz_inode_drop(inode, first >> HZ_SHIFT,
			      (last >> HZ_SHIFT) - 1);
	filemap_invalidate_unlock(inode->i_mapping);
	return error;
}

static long hz_fallocate(struct file *file, int mode, loff_t offset,
			 loff_t length)
{
	struct inode *inode = file_inode(file);
	loff_t end = offset + length;
	int error;

	if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE))
		return -EOPNOTSUPP;
	if (lock_inode(inode))
		return -EINTR;
	if (mode & FALLOC_FL_PUNCH_HOLE) {
		error = punch(inode, offset, end);
	} else {
		error = inode_newsize_ok(inode, end);
		if (!error)
			error = allocate(inode, offset, end);
		if (!error && !(mode & FALLOC_FL_KEEP_SIZE) &&
		    end > i_size_read(inode))
			i_size_write(inode, end);
	}
	if (!error)
		inode_set_mtime_to_ts(inode, inode_set_ctime_current(inode));
	inode_unlock(inode);
	return error;
}

static int set_size(struct inode *inode, loff_t size)
{
	loff_t before = i_size_read(inode);

	if (down_write_killable(&inode->i_mapping->invalidate_lock))
		return -EINTR;
	i_size_write(inode, size);
	/* Pages that were allocated ahead lie beyond the size even where it does not shrink. */
	if (size <= before)
		hz_inode_drop(inode, size >> HZ_SHIFT, ULONG_MAX);
	filemap_invalidate_unlock(inode->i_mapping);
	inode_set_mtime_to_ts(inode, inode_set_ctime_current(inode));
	return 0;
}

static int hz_setattr(struct mnt_idmap *idmap, struct dentry *dentry,
		      struct iattr *attributes)
{
	struct inode *inode = d_inode(dentry);
	int error = setattr_prepare(idmap, dentry, attributes);

	if (error)
		return error;
	if (attributes->ia_valid & ATTR_SIZE) {
		if (!IS_ALIGNED(attributes->ia_size, HZ_SIZE))
			return -EINVAL;
		error = set_size(inode, attributes->ia_size);
		if (error)
			return error;
	}
	setattr_copy(idmap, inode, attributes);
	return 0;
}

const struct file_operations hz_file_operations = {
	.read_iter = hz_read,
	.mmap = hz_mmap,
	.get_unmapped_area = hz_get_unmapped_area,
	.fsync = noop_fsync,
	.llseek = generic_file_llseek,
	.fallocate = hz_fallocate,
};

const struct inode_operations hz_file_inode_operations = {
	.setattr = hz_setattr,
};
