// SPDX-License-Identifier: GPL-2.0
/*
 * What is asked of a kernel's headers before a module is built: ask.mk compiles
 * this once for each question, with ASK_NAME defined. Where that works the module
 * is built with HAVE_NAME. compat.h says what the answers are for.
 */

#include <linux/mm.h>
#include <linux/page-flags.h>
#include <linux/pgtable.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

/* Nothing but the headers. Where this does not work none of the answers counts. */
#ifdef ASK_HEADERS
#endif

/* Entries of page tables are read by a function for each level. */
#ifdef ASK_PMDP_GET
pmd_t probe(pgd_t *pgd, p4d_t *p4d, pud_t *pud, pmd_t *pmd);
pmd_t probe(pgd_t *pgd, p4d_t *p4d, pud_t *pud, pmd_t *pmd)
{
	pgd_t pgd_value = pgdp_get(pgd);
	p4d_t p4d_value = p4dp_get(p4d);
	pud_t pud_value = pudp_get(pud);

	return pgd_none(pgd_value) || p4d_none(p4d_value) ||
	       pud_none(pud_value) ? *pmd : pmdp_get(pmd);
}
#endif

#ifdef ASK_PMDP_GET_LOCKLESS
pmd_t probe(pmd_t *pmd);
pmd_t probe(pmd_t *pmd)
{
	return pmdp_get_lockless(pmd);
}
#endif

/* An entry says that its page is a device's and not counted. */
#ifdef ASK_PTE_DEVMAP
bool probe(pte_t pte, pmd_t pmd, pud_t pud);
bool probe(pte_t pte, pmd_t pmd, pud_t pud)
{
	return pte_devmap(pte) || pmd_devmap(pmd) || pud_devmap(pud);
}
#endif

/* The flags of a page are a structure. */
#ifdef ASK_MEMDESC_FLAGS
unsigned long probe(struct page *page);
unsigned long probe(struct page *page)
{
	return page->flags.f;
}
#endif

/* A folio knows how often it is mapped, all its pages together. */
#ifdef ASK_LARGE_MAPCOUNT
int probe(struct folio *folio);
int probe(struct folio *folio)
{
	return atomic_read(&folio->_large_mapcount);
}
#endif

/* A folio may be mapped whole and by its pages, which then count one more. */
#ifdef ASK_DOUBLE_MAP
bool probe(struct folio *folio);
bool probe(struct folio *folio)
{
	return folio_test_double_map(folio);
}
#endif

/* A driver's page that can be moved has a flag of its own. */
#ifdef ASK_MOVABLE_OPS
unsigned long probe(void);
unsigned long probe(void)
{
	return BIT(PG_movable_ops) | BIT(PG_movable_ops_isolated);
}
#endif

/* zsmalloc's pages have a type of their own. */
#ifdef ASK_PAGE_ZSMALLOC
bool probe(struct page *page);
bool probe(struct page *page)
{
	return PageZsmalloc(page);
}
#endif

/* Memory knows whose user namespace it belongs to. */
#ifdef ASK_MM_USER_NS
struct user_namespace *probe(struct mm_struct *mm);
struct user_namespace *probe(struct mm_struct *mm)
{
	return mm->user_ns;
}
#endif

/* Batches of folios have a header of their own. */
#ifdef ASK_FOLIO_BATCH_H
#include <linux/folio_batch.h>
#endif

/* They are released as batches of pages. */
#ifdef ASK_PAGEVEC_RELEASE
#include <linux/pagevec.h>
void probe(struct folio_batch *batch);
void probe(struct folio_batch *batch)
{
	__pagevec_release((struct pagevec *)batch);
}
#endif

/* Queues say by their name whether they are of one CPU. */
#ifdef ASK_SYSTEM_PERCPU_WQ
struct workqueue_struct *probe(void);
struct workqueue_struct *probe(void)
{
	return system_percpu_wq;
}
#endif

/* What the tracepoints hand to whoever hooks them. */
#ifdef ASK_TRACE_ISOLATE
struct compact_control;
#include <trace/events/compaction.h>
void probe(void (*hook)(void *data, unsigned long start, unsigned long end,
			unsigned long scanned, unsigned long taken));
void probe(void (*hook)(void *data, unsigned long start, unsigned long end,
			unsigned long scanned, unsigned long taken))
{
	check_trace_callback_type_mm_compaction_isolate_migratepages(hook);
}
#endif

/* Without a count of large folios split that are not huge. */
#ifdef ASK_TRACE_MIGRATE_THP
#include <trace/events/migrate.h>
void probe(void (*hook)(void *data, unsigned long succeeded,
			unsigned long failed, unsigned long thp_succeeded,
			unsigned long thp_failed, unsigned long thp_split,
			enum migrate_mode mode, int reason));
void probe(void (*hook)(void *data, unsigned long succeeded,
			unsigned long failed, unsigned long thp_succeeded,
			unsigned long thp_failed, unsigned long thp_split,
			enum migrate_mode mode, int reason))
{
	check_trace_callback_type_mm_migrate_pages(hook);
}
#endif

/* With it. */
#ifdef ASK_TRACE_MIGRATE_LARGE
#include <trace/events/migrate.h>
void probe(void (*hook)(void *data, unsigned long succeeded,
			unsigned long failed, unsigned long thp_succeeded,
			unsigned long thp_failed, unsigned long thp_split,
			unsigned long large_folio_split, enum migrate_mode mode,
			int reason));
void probe(void (*hook)(void *data, unsigned long succeeded,
			unsigned long failed, unsigned long thp_succeeded,
			unsigned long thp_failed, unsigned long thp_split,
			unsigned long large_folio_split, enum migrate_mode mode,
			int reason))
{
	check_trace_callback_type_mm_migrate_pages(hook);
}
#endif

/* And with the reason as what it is. */
#ifdef ASK_TRACE_MIGRATE_REASON
#include <trace/events/migrate.h>
void probe(void (*hook)(void *data, unsigned long succeeded,
			unsigned long failed, unsigned long thp_succeeded,
			unsigned long thp_failed, unsigned long thp_split,
			unsigned long large_folio_split, enum migrate_mode mode,
			enum migrate_reason reason));
void probe(void (*hook)(void *data, unsigned long succeeded,
			unsigned long failed, unsigned long thp_succeeded,
			unsigned long thp_failed, unsigned long thp_split,
			unsigned long large_folio_split, enum migrate_mode mode,
			enum migrate_reason reason))
{
	check_trace_callback_type_mm_migrate_pages(hook);
}
#endif

/* A huge page of a device is mapped by its frame, without being counted. */
#ifdef ASK_INSERT_DEVMAP_PMD
#include <linux/huge_mm.h>
#include <linux/pfn_t.h>
vm_fault_t probe(struct vm_fault *fault, unsigned long frame, bool write);
vm_fault_t probe(struct vm_fault *fault, unsigned long frame, bool write)
{
	return vmf_insert_pfn_pmd(fault,
				  __pfn_to_pfn_t(frame, PFN_DEV | PFN_MAP),
				  write);
}
#endif

/* It is mapped as any other folio of a file. */
#ifdef ASK_INSERT_FOLIO_PMD
#include <linux/huge_mm.h>
vm_fault_t probe(struct vm_fault *fault, struct folio *folio, bool write);
vm_fault_t probe(struct vm_fault *fault, struct folio *folio, bool write)
{
	return vmf_insert_folio_pmd(fault, folio, write);
}
#endif

/* Who creates a file is told whether it was to be a new one. */
#ifdef ASK_CREATE_EXCLUSIVE
#include <linux/fs.h>
int probe(struct mnt_idmap *idmap, struct inode *folder, struct dentry *dentry,
	  umode_t mode, bool exclusive);
const struct inode_operations operations = { .create = probe };
#endif

/* Who makes a folder returns where it is. */
#ifdef ASK_MKDIR_DENTRY
#include <linux/fs.h>
struct dentry *probe(struct mnt_idmap *idmap, struct inode *folder,
		     struct dentry *dentry, umode_t mode);
const struct inode_operations operations = { .mkdir = probe };
#endif

/* A dentry that a file system keeps is marked as such. */
#ifdef ASK_D_MAKE_PERSISTENT
#include <linux/dcache.h>
void probe(struct dentry *dentry, struct inode *inode);
void probe(struct dentry *dentry, struct inode *inode)
{
	d_make_persistent(dentry, inode);
}
#endif

/*
 * A module says where alloc_contig_range() moves what is in its way
 * (kernel/linux-6.12; what declares this exports it).
 */
#ifdef ASK_CONTIG_TO
int probe(unsigned long start, unsigned long end, struct contig_migration *to);
int probe(unsigned long start, unsigned long end, struct contig_migration *to)
{
	return alloc_contig_range_to(start, end, MIGRATE_MOVABLE, GFP_KERNEL, to);
}
#endif

/*
 * Pairs of huge pages of a process change places (kernel/linux-6.12; what declares this
 * exports it).
 */
#ifdef ASK_HUGE_EXCHANGE
#include <linux/huge_exchange.h>
int probe(struct mm_struct *mm, struct huge_exchange_pair *pairs);
int probe(struct mm_struct *mm, struct huge_exchange_pair *pairs)
{
	return exchange_huge_pages(mm, pairs, HUGE_EXCHANGE_MAX);
}
#endif
