// SPDX-License-Identifier: GPL-2.0
/*
 * Faults. Each inserts a 2 MiB entry itself and says VM_FAULT_NOPAGE.
 *
 * There is ->fault() but no ->huge_fault(), which 6.12 and 7.3 do not call where the THP mode
 * or a prctl() forbids huge pages. How a fault gets here (mm/memory.c of both):
 *
 * - Nothing mapped, read: do_read_fault(). Nothing mapped, write: do_shared_fault(), or
 *   do_cow_fault(), which hands VM_FAULT_NOPAGE on and frees the page that it had ready.
 * - Mapped read-only, write: wp_huge_pmd() finds no huge_fault() and splits the entry,
 *   which for a file's only clears it; then as above.
 * - All are called with the mmap lock held for reading, never with the VMA's lock alone:
 *   vmf_can_call_fault() sees to it where there is no map_pages().
 *
 * How a page is mapped (compat.h): on 6.12 by devmap entries (PFN_DEV | PFN_MAP), in a VMA
 * with VM_MIXEDMAP: get_user_pages() takes references on the page, nothing counts maps of it,
 * and zapping, splitting and forking leave it alone. 7.3 has no such entries. There each has
 * a reference on the folio, counted in its mapcount and the process's RSS; zapping lets go of
 * all three, the reference once the TLBs are flushed; and so does splitting, but in a VMA with
 * VM_MIXEDMAP it would forget them (vma_is_special_huge()), so ours do not have that. What
 * VM_MIXEDMAP kept away from them VM_DONTEXPAND does too, as both are VM_SPECIAL; or the page
 * itself does, being ZONE_DEVICE's (folio_can_map_prot_numa()). Forking leaves both alone
 * (copy_huge_pmd()).
 *
 * Inserting leaves an entry that is there alone, but makes it writable, and warns if that
 * one is of another page. It cannot be: what a VMA maps at an index is decided and
 * inserted under the file's fault mutex for the index; and when a private copy replaces what
 * was mapped, the index is unmapped under that mutex.
 *
 * Truncation and punching hold the invalidate lock exclusively, faults hold it shared and
 * look at the size under it: a page that was cut off does not come back.
 */

#define pr_fmt(fmt) "hzmem: " fmt

#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/pgtable.h>
#include <linux/sched/mm.h>
#include "compat/compat.h"
#include "fault.h"
#include "inode.h"
#include "limits.h"
#include "overlay.h"
#include "readahead.h"
#include "reclaim.h"
#include "rmap.h"
#include "trace.h"

#ifndef MEGA_VM_DEVICE_PAGES
#error "this kernel has no way to map a device's huge pages that hzmem knows"
#endif

/* One fault. */
struct fault {
	struct vm_fault *vmf;
	struct inode *inode;
	struct hz_mount *mount;
	struct hz_overlay *overlay;	/* NULL for a shared mapping */
	pgoff_t index;
	bool write;
	enum hz_event how;
};

/* ---- Mapping an entry -------------------------------------------------------------- */

/*
 * Under the entry's lock, with the entry resident. Where a page table stands in the way no
 * huge page can be mapped. Only userfaultfd's asynchronous write protection, which
 * takes any VMA, puts one there, to keep its markers.
 */
static int insert(struct fault *fault, struct hz_entry *entry, bool write)
{
	pmd_t pmd = pmdp_get_lockless(fault->vmf->pmd);
	vm_fault_t result;

	if (!pmd_none(pmd) && !pmd_leaf(pmd)) {
		pr_warn_ratelimited("cannot map page %lu of %pD: userfaultfd write protection has put a page table in its place\n",
				    fault->index, fault->vmf->vma->vm_file);
		return -EFAULT;
	}
	/* Also where it is read-only: mprotect() can make it writable without a fault. */
	hz_entry_changes(entry);
	result = mega_insert_huge(fault->vmf, hz_page_folio(entry->page), write);
	return result == VM_FAULT_NOPAGE ? 0 : vm_fault_to_errno(result, 0);
}

static int load_and_insert(struct fault *fault, struct hz_entry *entry,
			   bool write)
{
	int error;

	/* Who has it may be looking for a page. */
	if (mutex_lock_killable(&entry->lock))
		return -EINTR;
	error = hz_entry_load(entry, &fault->how);
	if (!error)
		error = insert(fault, entry, write);
	mutex_unlock(&entry->lock);
	return error;
}

/* A new, zeroed page; loaded before it is put in its place, so that none is without memory. */
static struct hz_entry *new_page(struct fault *fault)
{
	struct hz_entry *entry = hz_entry_new(fault->inode, fault->index);
	int error;

	if (IS_ERR(entry))
		return entry;
	mutex_lock(&entry->lock);
	error = hz_entry_load(entry, &fault->how);
	mutex_unlock(&entry->lock);
	if (error) {
		hz_entry_drop(entry);
		return ERR_PTR(error);
	}
	/* Beside the share, the reference that finding it would have given. */
	hz_entry_get(entry);
	return entry;
}

/* ---- Shared mappings ----------------------------------------------------------------- */

static int fault_shared(struct fault *fault)
{
	struct hz_store *store = &hz_inode(fault->inode)->store;
	struct hz_entry *entry = hz_store_find(store, fault->index);
	enum hz_event how = HZ_EVENTS;
	int error;

	if (!entry) {
		entry = new_page(fault);
		if (IS_ERR(entry))
			return PTR_ERR(entry);
		error = hz_inode_put(fault->inode, entry);
		if (error) {
			hz_entry_drop(entry);
			goto out;
		}
		how = HZ_FAULTS_ZERO;
	}
	error = load_and_insert(fault, entry,
				fault->vmf->vma->vm_flags & VM_WRITE);
	if (how != HZ_EVENTS)
		fault->how = how;
out:
	hz_entry_put(entry);
	return error;
}

/* ---- Private mappings ------------------------------------------------------------------ */

/* Puts an entry of the mapping's own in its place, and maps it. Takes the caller's share. */
static int own(struct fault *fault, struct hz_entry *entry)
{
	enum hz_event how = fault->how;
	int error;

	/* Whatever this index maps here, it is of another page. */
	hz_rmap_unmap(fault->inode->i_mapping, fault->index, 1);
	error = hz_store_put(&fault->overlay->store, entry);
	if (error) {
		hz_entry_drop(entry);
		return error;
	}
	error = load_and_insert(fault, entry, true);
	fault->how = how;
	return error;
}

static int fault_hole(struct fault *fault)
{
	struct hz_entry *entry = new_page(fault);
	int error;

	if (IS_ERR(entry))
		return PTR_ERR(entry);
	error = own(fault, entry);
	hz_entry_put(entry);
	return error;
}

static int fault_copy(struct fault *fault, struct hz_entry *source)
{
	struct hz_page *page = hz_alloc_page(fault->mount, false);
	struct hz_entry *entry;
	int error;

	fault->how = HZ_FAULTS_COW;
	if (IS_ERR(page))
		return PTR_ERR(page);
	if (mutex_lock_killable(&source->lock)) {
		hz_pool_give(page);
		return -EINTR;
	}
	entry = hz_entry_copy(source, page);
	mutex_unlock(&source->lock);
	if (IS_ERR(entry))
		return PTR_ERR(entry);
	hz_entry_get(entry);
	error = own(fault, entry);
	hz_entry_put(entry);
	return error;
}

/*
 * An entry of the mapping's own that no other process shares is mapped writable. Only a
 * fork of this process could share it from now on, and unmaps it then. All else is
 * mapped read-only, and copied when it is written.
 */
static int fault_private(struct fault *fault)
{
	struct hz_entry *entry;
	bool writable = false;
	int error;

	entry = hz_store_find(&fault->overlay->store, fault->index);
	if (entry)
		writable = !hz_entry_shared(entry);
	else
		entry = hz_store_find(&hz_inode(fault->inode)->store,
				      fault->index);
	if (!entry)
		return fault_hole(fault);
	if (fault->write && !writable)
		error = fault_copy(fault, entry);
	else
		error = load_and_insert(fault, entry, writable);
	hz_entry_put(entry);
	return error;
}

/* ---- The fault -------------------------------------------------------------------------- */

static int resolve(struct fault *fault)
{
	struct mutex *lock = hz_fault_lock(fault->inode, fault->index);
	bool private = !(fault->vmf->vma->vm_flags & VM_MAYSHARE);
	int error;

	if (fault->index >= hz_inode_pages(fault->inode))
		return -ERANGE;
	if (private && (!fault->overlay || fault->overlay->broken))
		return -ENXIO;
	if (mutex_lock_killable(lock))
		return -EINTR;
	error = private ? fault_private(fault) : fault_shared(fault);
	mutex_unlock(lock);
	return error;
}

/* Truncation and punching wait for the faults before them, and have those after them wait. */
static int resolve_if_there(struct fault *fault)
{
	struct rw_semaphore *lock = &fault->inode->i_mapping->invalidate_lock;
	int error;

	if (down_read_killable(lock))
		return -EINTR;
	error = resolve(fault);
	up_read(lock);
	return error;
}

/* What is damaged or lost has had its line when that was found (entry.c). */
static void explain(struct fault *fault, int error)
{
	struct file *file = fault->vmf->vma->vm_file;

	switch (error) {
	case -ENOMEM:
		pr_err_ratelimited("SIGBUS for %s at page %lu of %pD: no huge page is free and none can be compressed (%lu in all), or its cgroup is at its limit\n",
				   current->comm, fault->index, file,
				   hz_pool_total(fault->mount->settings.node));
		break;
	case -ENOSPC:
		pr_err_ratelimited("SIGBUS for %s at page %lu of %pD: the %lu pages that the mount may have (size=) are used up\n",
				   current->comm, fault->index, file,
				   hz_limit_pages(fault->mount));
		break;
	case -ENXIO:
		pr_err_ratelimited("SIGBUS for %s at page %lu of %pD: fork had no memory for private pages\n",
				   current->comm, fault->index, file);
		break;
	}
}

static vm_fault_t finish(struct fault *fault, int error)
{
	trace_hzmem_fault(fault->inode, fault->index, fault->how, fault->write,
			  error);
	/* It is being killed. Nobody sees the signal, and what the kernel itself touches ends. */
	if (error == -EINTR)
		return VM_FAULT_SIGBUS;
	if (error) {
		hz_count(fault->mount, HZ_SIGBUS);
		explain(fault, error);
		/* With BUS_MCEERR_AR: a virtual machine, say, hands it on to its guest. */
		return error == -EHWPOISON ? VM_FAULT_HWPOISON : VM_FAULT_SIGBUS;
	}
	hz_count(fault->mount, fault->how);
	if (fault->how != HZ_FAULTS_DECOMPRESS)
		return VM_FAULT_NOPAGE;
	hz_readahead(fault->inode, fault->overlay, fault->index);
	return VM_FAULT_NOPAGE | VM_FAULT_MAJOR;
}

/* What is made is charged to whose memory it is: that need not be the task's (process_vm_writev()). */
static int resolve_charged(struct fault *fault)
{
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(fault->vmf->vma->vm_mm);
	struct mem_cgroup *before = set_active_memcg(memcg);
	int error = resolve_if_there(fault);

	set_active_memcg(before);
	mem_cgroup_put(memcg);
	return error;
}

static vm_fault_t hz_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct fault fault = {
		.vmf = vmf,
		.inode = file_inode(vma->vm_file),
		.overlay = vma->vm_private_data,
		.index = vmf->pgoff >> (HZ_SHIFT - PAGE_SHIFT),
		/*
		 * Who is to hold a private page for long must get it writable even to read
		 * it, so that no write replaces it meanwhile (gup_must_unshare()).
		 */
		.write = vmf->flags & (FAULT_FLAG_WRITE | FAULT_FLAG_UNSHARE),
		.how = HZ_FAULTS_RESIDENT,
	};
	int error;

	/*
	 * A debugger that writes where the process may not (FOLL_FORCE): the entry would
	 * not become writable, and the fault would come again for ever. hugetlbfs has no
	 * such writes either.
	 */
	if (fault.write && !(vma->vm_flags & VM_WRITE))
		return VM_FAULT_SIGBUS;

	fault.mount = hz_mount_of(fault.inode->i_sb);
	error = resolve_charged(&fault);
	return finish(&fault, error);
}

/* munmap(), mprotect() and mremap() of parts: as hugetlbfs. */
static int may_split(struct vm_area_struct *vma, unsigned long address)
{
	return IS_ALIGNED(address, HZ_SIZE) ? 0 : -EINVAL;
}

static unsigned long mapped_page_size(struct vm_area_struct *vma)
{
	return HZ_SIZE;
}

const struct vm_operations_struct hz_vma_operations = {
	.open = hz_vma_open,
	.close = hz_vma_close,
	.may_split = may_split,
	.fault = hz_fault,
	.pagesize = mapped_page_size,
};
