/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between the kernels that the modules are built for, by what their
 * headers have (probes.c) and never by their version: a distribution's kernel of a
 * version need not be Linux's.
 */
#ifndef MEGA_COMPAT_H
#define MEGA_COMPAT_H

#include <linux/dcache.h>
#include <linux/errno.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/page-flags.h>
#include <linux/pgtable.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#ifndef HAVE_HEADERS
#error "the kernel's headers could not be asked what they have: build with kbuild"
#endif

/* ---- Entries of page tables -------------------------------------------- */

/*
 * On x86-64 an entry is one word, read once; the hardware and others change it
 * meanwhile.
 */
#ifndef HAVE_PMDP_GET
#define pgdp_get(entry) READ_ONCE(*(entry))
#define p4dp_get(entry) READ_ONCE(*(entry))
#define pudp_get(entry) READ_ONCE(*(entry))
#define pmdp_get(entry) READ_ONCE(*(entry))
#endif
#ifndef HAVE_PMDP_GET_LOCKLESS
#define pmdp_get_lockless(entry) READ_ONCE(*(entry))
#endif

/*
 * Where entries do not say that a page is a device's, those that are mapped are
 * counted like any other.
 */
#ifndef HAVE_PTE_DEVMAP
static inline bool pte_devmap(pte_t pte)
{
	return false;
}

static inline bool pmd_devmap(pmd_t pmd)
{
	return false;
}

static inline bool pud_devmap(pud_t pud)
{
	return false;
}
#endif

/* ---- struct page, read raw --------------------------------------------- */

#ifdef HAVE_MEMDESC_FLAGS
#define mega_flags_of(page) READ_ONCE((page)->flags.f)
#else
#define mega_flags_of(page) READ_ONCE((page)->flags)
#endif

/* The largest order that the buddy allocator has: in 6.1 MAX_ORDER is one more. */
#ifndef MAX_PAGE_ORDER
#define MAX_PAGE_ORDER ilog2(MAX_ORDER_NR_PAGES)
#endif

/* In mapping, beside a pointer. */
#ifndef FOLIO_MAPPING_ANON
#define FOLIO_MAPPING_ANON PAGE_MAPPING_ANON
#endif

#ifdef HAVE_LARGE_MAPCOUNT
static inline long mega_mapcount_of_large(struct folio *folio,
					  unsigned long pages)
{
	return atomic_read(&folio->_large_mapcount) + 1;
}
#else
/* As folio_mapcount() in 6.1, which is not exported. */
static inline long mega_mapcount_of_large(struct folio *folio,
					  unsigned long pages)
{
	long whole = folio_entire_mapcount(folio);
	long count = whole;
	unsigned long index;

	for (index = 0; index < pages; index++)
		count += atomic_read(&folio_page(folio, index)->_mapcount) + 1;
#ifdef HAVE_DOUBLE_MAP
	/* Each page of a file counts also the mappings of the whole. */
	if (!((unsigned long)READ_ONCE(folio->mapping) & FOLIO_MAPPING_ANON))
		return count - whole * (long)pages;
	if (folio_test_double_map(folio))
		return count - (long)pages;
#endif
	return count;
}
#endif

#ifndef HAVE_PAGE_ZSMALLOC
static inline bool PageZsmalloc(struct page *page)
{
	return false;
}
#endif

/*
 * Of a driver that can move its pages: zsmalloc, balloon. Where they have no flag of
 * their own mapping says so; but pages of other types, such as page tables, use
 * mapping for something else.
 */
static inline bool mega_is_movable_drivers(struct page *head,
					   unsigned long flags,
					   unsigned long mapping)
{
	bool is_drivers = PageOffline(head) || PageZsmalloc(head);

#ifdef HAVE_MOVABLE_OPS
	return is_drivers && flags & BIT(PG_movable_ops);
#else
	return (is_drivers || !page_has_type(head)) &&
	       (mapping & PAGE_MAPPING_FLAGS) == PAGE_MAPPING_MOVABLE;
#endif
}

/* Of such a page: somebody is moving it. */
#ifdef HAVE_MOVABLE_OPS
#define MEGA_PG_ISOLATED PG_movable_ops_isolated
#else
#define MEGA_PG_ISOLATED PG_isolated
#endif

/*
 * The bits of a pageblock that are its migratetype, and the one, where there is
 * such, that says that it is isolated.
 */
#ifdef PAGEBLOCK_MIGRATETYPE_MASK
#define MEGA_MIGRATETYPE_MASK (PAGEBLOCK_MIGRATETYPE_MASK | PAGEBLOCK_ISO_MASK)
#elif defined(MIGRATETYPE_AND_ISO_MASK)
#define MEGA_MIGRATETYPE_MASK MIGRATETYPE_AND_ISO_MASK
#else
#define MEGA_MIGRATETYPE_MASK MIGRATETYPE_MASK
#endif

/* ---- Allocation -------------------------------------------------------- */

/* Takes the frames start to end out of the buddy allocator, moving what is there. */
static inline int mega_alloc_contig_range(unsigned long start, unsigned long end,
					  gfp_t gfp)
{
#if !IS_ENABLED(CONFIG_CONTIG_ALLOC)
	return -EOPNOTSUPP;
#elif defined(ACR_FLAGS_NONE)
	return alloc_contig_range(start, end, ACR_FLAGS_NONE, gfp);
#else
	return alloc_contig_range(start, end, MIGRATE_MOVABLE, gfp);
#endif
}

static inline void mega_free_contig_range(unsigned long start,
					  unsigned long count)
{
#if IS_ENABLED(CONFIG_CONTIG_ALLOC)
	free_contig_range(start, count);
#endif
}

/* ---- Batches and queues of a CPU --------------------------------------- */

#ifdef HAVE_FOLIO_BATCH_H
#include <linux/folio_batch.h>
#else
#include <linux/pagevec.h>
#endif

static inline void mega_release_batch(struct folio_batch *batch)
{
#ifdef HAVE_PAGEVEC_RELEASE
	/* A batch of folios is laid out as one of pages, which 6.1 says itself. */
	__pagevec_release((struct pagevec *)batch);
#else
	__folio_batch_release(batch);
#endif
}

#ifdef HAVE_SYSTEM_PERCPU_WQ
#define mega_workqueue system_percpu_wq
#else
#define mega_workqueue system_wq
#endif

/* ---- Whose memory it is ------------------------------------------------ */

#ifndef HAVE_MM_USER_NS
#include <linux/sched/exec_state.h>
#endif

/*
 * The user namespace that task's memory mm belongs to. The caller holds the task, its
 * exec_update_lock, which keeps memory and namespace together, and RCU, which
 * keeps the namespace.
 */
static inline struct user_namespace *
mega_user_ns_of(struct task_struct *task, struct mm_struct *mm)
{
#ifdef HAVE_MM_USER_NS
	return mm->user_ns;
#else
	return rcu_dereference(task->exec_state)->user_ns;
#endif
}

/* ---- Tracepoints ------------------------------------------------------- */

/*
 * What mm_migrate_pages hands over after the first five counts. Where this is not
 * defined nothing is known of it, or of mm_compaction_isolate_migratepages, and
 * neither is hooked.
 */
#ifdef HAVE_TRACE_ISOLATE
#if defined(HAVE_TRACE_MIGRATE_REASON)
#define MEGA_MIGRATE_REST unsigned long large_folio_split, \
	enum migrate_mode mode, enum migrate_reason reason
#elif defined(HAVE_TRACE_MIGRATE_LARGE)
#define MEGA_MIGRATE_REST unsigned long large_folio_split, \
	enum migrate_mode mode, int reason
#elif defined(HAVE_TRACE_MIGRATE_THP)
#define MEGA_MIGRATE_REST enum migrate_mode mode, int reason
#endif
#endif

/* ---- A device's huge pages in page tables ------------------------------- */

/*
 * Where an entry can say that its page is a device's, nobody counts how often the page is
 * mapped; the VMA needs VM_MIXEDMAP for that. Elsewhere the page is mapped as a file's
 * folio: each entry has a reference, and counts in the folio's mapcount and the
 * process's RSS. There VM_MIXEDMAP would lose all three when an entry is split.
 */
#if defined(HAVE_INSERT_DEVMAP_PMD)
#include <linux/huge_mm.h>
#include <linux/pfn_t.h>
#define MEGA_VM_DEVICE_PAGES VM_MIXEDMAP
static inline vm_fault_t mega_insert_huge(struct vm_fault *fault,
					  struct folio *folio, bool write)
{
	return vmf_insert_pfn_pmd(fault, __pfn_to_pfn_t(folio_pfn(folio),
							PFN_DEV | PFN_MAP),
				  write);
}
#elif defined(HAVE_INSERT_FOLIO_PMD)
#include <linux/huge_mm.h>
#define MEGA_VM_DEVICE_PAGES 0
static inline vm_fault_t mega_insert_huge(struct vm_fault *fault,
					  struct folio *folio, bool write)
{
	return vmf_insert_folio_pmd(fault, folio, write);
}
#endif

/* ---- File systems in memory -------------------------------------------- */

/* The last of what ->create() is given. */
#ifdef HAVE_CREATE_EXCLUSIVE
#define MEGA_CREATE_MODE umode_t mode, bool exclusive
#else
#define MEGA_CREATE_MODE umode_t mode
#endif

/* What ->mkdir() returns. */
#ifdef HAVE_MKDIR_DENTRY
#define mega_mkdir_t struct dentry *
#define mega_mkdir_result(error) ERR_PTR(error)
#else
#define mega_mkdir_t int
#define mega_mkdir_result(error) (error)
#endif

/* Gives a dentry its inode and keeps both: unlink() and unmounting let them go. */
static inline void mega_keep(struct dentry *dentry, struct inode *inode)
{
#ifdef HAVE_D_MAKE_PERSISTENT
	d_make_persistent(dentry, inode);
#else
	d_instantiate(dentry, inode);
	dget(dentry);
#endif
}

static inline void mega_kill_kept(struct super_block *sb)
{
#ifdef HAVE_D_MAKE_PERSISTENT
	kill_anon_super(sb);
#else
	kill_litter_super(sb);
#endif
}

#endif /* MEGA_COMPAT_H */
