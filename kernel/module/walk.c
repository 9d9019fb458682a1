// SPDX-License-Identifier: GPL-2.0
/*
 * Reads, and clears, the Accessed bits of one region's page tables.
 *
 * walk_page_range() and pte_offset_map_lock() are not exported, so the tables are
 * walked by hand. Why each step is safe, by the source of 6.1, 6.12 and 7.3:
 *
 * 1. The mmap lock is held for reading, and only addresses inside a VMA found
 *    under it are walked. Page tables above PTE level are freed by
 *    free_pgtables() alone, for VMAs that were taken out of the tree under the
 *    mmap lock held for writing (munmap() may since have downgraded it), and
 *    then only tables that no remaining VMA's range touches. So a PGD, P4D, PUD
 *    or PMD table under a VMA in the tree stays. hugetlb's shared PMD tables are
 *    the exception; hugetlb VMAs are not walked.
 *
 * 2. A PTE table can go under us: khugepaged and MADV_COLLAPSE replace one by a
 *    huge page, for file mappings, shared memory among them, without our mmap
 *    lock. They change the PMD entry while holding the table's lock and free the
 *    table after an RCU grace period (pte_free_defer()). So: rcu_read_lock(),
 *    and only then read the PMD entry, because a table that was named by it
 *    before may be somebody else's page by now; see that it names a table, take
 *    that table's lock, and look whether the entry is still the same. If so,
 *    nobody can take the table away until we unlock. This is what
 *    __pte_offset_map_lock() does. Since 6.14 whoever drops the last page of a
 *    table takes it away in the same way (CONFIG_PT_RECLAIM). In 6.1 a table goes
 *    under the mmap lock held for writing only, so that the same steps are more
 *    than enough.
 *
 * 3. A PMD or PUD leaf appears, changes and goes under pmd_lock() or, for a PUD,
 *    pud_lock(); it is read again under that lock. A PUD leaf of anonymous memory
 *    (CONFIG_ANON_PUD) replaces a PMD table only under the mmap lock held for
 *    writing, and the table is kept; so what 1. says of tables holds.
 *
 * 4. Under the lock of its table an entry that is present holds a reference on
 *    its page, so the folio may be used. Not so entries that have no struct page
 *    behind them or do not own it (pte_special(), pte_devmap()). Where there is
 *    no pte_devmap() (7.3) a device's pages are held by their entries as all are.
 *
 * 5. The hardware sets Accessed and Dirty bits at any time; so an Accessed bit is
 *    cleared by one locked instruction that leaves the other bits alone, as
 *    ptep_test_and_clear_young() does (arch/x86/mm/pgtable.c).
 */

#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/page_idle.h>
#include <linux/pgtable.h>
#include <linux/rcupdate.h>
#include "compat/compat.h"
#include "walk.h"

/* Entries 0 to 511 of a region that one VMA covers. */
struct part {
	unsigned int first;
	unsigned int end;
};

/* Of a PMD or PUD entry whose lock is held. */
static bool entry_accessed(unsigned long *entry, bool clear)
{
	if (!(READ_ONCE(*entry) & _PAGE_ACCESSED))
		return false;
	return !clear || test_and_clear_bit(_PAGE_BIT_ACCESSED, entry);
}

/*
 * Hands the access on: reclaim asks a folio's young flag beside the Accessed
 * bits, and idle page tracking must not take the page for idle.
 */
static __always_inline void keep_young(struct folio *folio)
{
#ifdef CONFIG_PAGE_IDLE_FLAG
	/* Read once for both: this is done for every page accessed. */
	unsigned long flags = mega_flags_of(folio);

	if (!(flags & BIT(PG_young)))
		folio_set_young(folio);
	if (flags & BIT(PG_idle))
		folio_clear_idle(folio);
#endif
}

/* ---- One PTE table ----------------------------------------------------- */

/* The block that was looked up last: neighbours mostly lie in the same. */
struct last_block {
	unsigned long number;
	struct mega_block_heat *heat;
};

static __always_inline void note_frame(struct mega_walk *walk,
				       struct last_block *last,
				       unsigned long frame)
{
	unsigned int index = frame % MEGA_BLOCK_FRAMES;

	if (frame / MEGA_BLOCK_FRAMES != last->number) {
		last->number = frame / MEGA_BLOCK_FRAMES;
		last->heat = mega_heat_find(&walk->heat, frame);
	}
	if (last->heat && !test_bit(index, last->heat->accessed))
		set_bit(index, last->heat->accessed);
}

/* What the Accessed bit that was just cleared in pte, of frame, is about. */
static __always_inline void note_cleared(struct mega_walk *walk,
					 struct last_block *last, pte_t pte,
					 unsigned long frame)
{
	if (pte_special(pte) || pte_devmap(pte))
		return;
	keep_young(page_folio(pfn_to_page(frame)));
	note_frame(walk, last, frame);
}

/*
 * The entries first to end of one word of the maps. This is where a scan spends
 * its time: the bits are gathered, and what does not change is kept, in
 * registers, as every cleared bit has the compiler forget what is in memory.
 */
static void read_word(struct mega_walk *walk, pte_t *table, unsigned int first,
		      unsigned int end)
{
	struct last_block last = { .number = ULONG_MAX };
	unsigned long zero_frame = page_to_pfn(ZERO_PAGE(0));
	const bool clear = walk->clear;
	unsigned long accessed = 0;
	unsigned long mapped = 0;
	unsigned int index;

	for (index = first; index < end; index++) {
		pte_t pte = ptep_get(table + index);
		unsigned long bit = BIT_MASK(index);
		unsigned long frame;

		if (!pte_present(pte))
			continue;
		frame = pte_pfn(pte);
		if (unlikely(frame == zero_frame)) {
			walk->region.flags |= MEGA_REGION_ZERO_PAGE;
			continue;
		}
		mapped |= bit;
		if (!pte_young(pte))
			continue;
		accessed |= bit;
		if (!clear)
			continue;
		/* Under the table's lock nobody else clears it. */
		clear_bit(_PAGE_BIT_ACCESSED, (unsigned long *)&table[index].pte);
		note_cleared(walk, &last, pte, frame);
	}
	walk->mapped[BIT_WORD(first)] |= mapped;
	walk->accessed[BIT_WORD(first)] |= accessed;
	if (clear)
		walk->cleared += hweight_long(accessed);
}

/* What an entry of a table above the PTE level leads to. */
enum step { STEP_NOTHING, STEP_TABLE, STEP_LEAF };

static enum step step_of_pmd(pmd_t pmd)
{
	/* Not present: a migration entry, or swap. */
	if (pmd_none(pmd) || !pmd_present(pmd))
		return STEP_NOTHING;
	if (pmd_leaf(pmd))
		return STEP_LEAF;
	return pmd_bad(pmd) ? STEP_NOTHING : STEP_TABLE;
}

/* Reads the table that pmd names if entry names it still, in an RCU read side section. */
static bool read_if_same(struct mega_walk *walk, pmd_t *entry, pmd_t pmd,
			 struct part part)
{
	spinlock_t *lock = pte_lockptr(walk->mm, &pmd); /* the table's own */
	pte_t *table = (pte_t *)pmd_page_vaddr(pmd);
	unsigned int index = part.first;
	unsigned int next;
	bool same;

	spin_lock(lock);
	same = pmd_same(pmd, pmdp_get_lockless(entry));
	for (; same && index < part.end; index = next) {
		next = min(ALIGN(index + 1, BITS_PER_LONG), part.end);
		read_word(walk, table, index, next);
	}
	spin_unlock(lock);
	return same;
}

/* False when the entry is not a PTE table any more, or another one. See 2. above. */
static bool read_table(struct mega_walk *walk, pmd_t *entry, struct part part)
{
	bool done = false;
	pmd_t pmd;

	rcu_read_lock();
	pmd = pmdp_get_lockless(entry);
	if (step_of_pmd(pmd) == STEP_TABLE)
		done = read_if_same(walk, entry, pmd, part);
	rcu_read_unlock();
	walk->tables += done;
	return done;
}

/* ---- Huge and giant pages ---------------------------------------------- */

/* The Accessed bit of the block at frame was cleared. */
static void note_huge(struct mega_walk *walk, unsigned long frame)
{
	struct mega_block_heat *heat = mega_heat_find(&walk->heat, frame);
	unsigned int word;

	keep_young(page_folio(pfn_to_page(frame)));
	if (!heat)
		return;
	for (word = 0; word < ARRAY_SIZE(heat->accessed); word++)
		xchg(&heat->accessed[word], ~0UL);
}

/* One entry maps the whole of part. */
static void note_leaf(struct mega_walk *walk, struct part part, bool accessed)
{
	bitmap_set(walk->mapped, part.first, part.end - part.first);
	if (accessed)
		bitmap_set(walk->accessed, part.first, part.end - part.first);
}

/*
 * The huge zero page is a folio that belongs to no mapping, anonymous or other;
 * huge_zero_folio itself is not exported.
 */
static bool is_huge_zero(struct vm_area_struct *vma, struct folio *folio)
{
	return vma_is_anonymous(vma) && !folio_test_anon(folio);
}

static void read_pmd_leaf(struct mega_walk *walk, struct vm_area_struct *vma,
			  pmd_t *entry, struct part part)
{
	pmd_t pmd = pmdp_get(entry);
	struct folio *folio = NULL;
	bool accessed;

	if (!pmd_devmap(pmd)) {
		folio = page_folio(pmd_page(pmd));
		if (is_huge_zero(vma, folio)) {
			walk->region.flags |= MEGA_REGION_ZERO_PAGE;
			return;
		}
	}
	accessed = entry_accessed((unsigned long *)entry, walk->clear);
	walk->region.page_shift = PMD_SHIFT;
	note_leaf(walk, part, accessed);
	if (!accessed || !walk->clear)
		return;
	walk->cleared++;
	if (folio)
		note_huge(walk, pmd_pfn(pmd));
}

/* False when it is not a huge page any more. See 3. above. */
static bool read_pmd(struct mega_walk *walk, struct vm_area_struct *vma,
		     pmd_t *entry, struct part part)
{
	spinlock_t *lock = pmd_lock(walk->mm, entry);
	pmd_t pmd = pmdp_get(entry);
	bool leaf = pmd_present(pmd) && pmd_leaf(pmd);

	if (leaf)
		read_pmd_leaf(walk, vma, entry, part);
	spin_unlock(lock);
	return leaf;
}

/*
 * False when it is not a giant page any more. One entry is read again for every
 * one of its regions, so the first to find it accessed marks them all: the
 * Accessed bit stays set until the last region of the span.
 */
static bool read_pud(struct mega_walk *walk, pud_t *entry,
		     unsigned long address, struct part part)
{
	bool last = IS_ALIGNED(address + PMD_SIZE, PUD_SIZE);
	spinlock_t *lock = pud_lock(walk->mm, entry);
	pud_t pud = pudp_get(entry);
	bool leaf = pud_leaf(pud);
	bool accessed;

	if (leaf && pud_present(pud)) {
		accessed = entry_accessed((unsigned long *)entry,
					  walk->clear && last);
		walk->region.page_shift = PUD_SHIFT;
		note_leaf(walk, part, accessed);
		if (accessed && walk->clear) {
			walk->cleared += last;
			if (!pud_devmap(pud))
				note_huge(walk, pud_pfn(pud) +
					  PHYS_PFN(address & ~PUD_MASK));
		}
	}
	spin_unlock(lock);
	return leaf;
}

/* ---- The way down ------------------------------------------------------ */

/*
 * Finds the PUD entry of address. NULL when nothing is mapped there; *next is
 * then where the empty entry ends.
 */
static pud_t *find_pud(struct mm_struct *mm, unsigned long address,
		       unsigned long *next)
{
	pgd_t *pgd = pgd_offset(mm, address);
	p4d_t *p4d;

	if (pgd_none(pgdp_get(pgd)) || pgd_bad(pgdp_get(pgd))) {
		*next = ALIGN_DOWN(address, PGDIR_SIZE) + PGDIR_SIZE;
		return NULL;
	}
	p4d = p4d_offset(pgd, address);
	if (!p4d_present(p4dp_get(p4d)) || p4d_bad(p4dp_get(p4d))) {
		*next = ALIGN_DOWN(address, P4D_SIZE) + P4D_SIZE;
		return NULL;
	}
	return pud_offset(p4d, address);
}

static enum step step_of_pud(pud_t pud)
{
	/* First: while a leaf is being split it is not present for a moment. */
	if (pud_leaf(pud))
		return STEP_LEAF;
	if (pud_none(pud) || !pud_present(pud))
		return STEP_NOTHING;
	return pud_bad(pud) ? STEP_NOTHING : STEP_TABLE;
}

/* Reads the entries under one PMD entry, whatever it is by then. */
static void read_entries(struct mega_walk *walk, struct vm_area_struct *vma,
			 pmd_t *entry, struct part part)
{
	bool done = false;

	while (!done) {
		/* Which way to go, no more: whoever goes it looks again, safely. */
		switch (step_of_pmd(pmdp_get_lockless(entry))) {
		case STEP_NOTHING:
			return;
		case STEP_TABLE:
			done = read_table(walk, entry, part);
			break;
		case STEP_LEAF:
			done = read_pmd(walk, vma, entry, part);
			break;
		}
	}
}

/*
 * Reads the part of the region at address that vma covers. Returns the end of
 * what is known to be empty, or the end of the region.
 */
static unsigned long read_part(struct mega_walk *walk,
			       struct vm_area_struct *vma,
			       unsigned long address, struct part part)
{
	unsigned long next = address + PMD_SIZE;
	pud_t *entry = find_pud(walk->mm, address, &next);

	while (entry) {
		pud_t pud = pudp_get(entry);

		switch (step_of_pud(pud)) {
		case STEP_NOTHING:
			return ALIGN_DOWN(address, PUD_SIZE) + PUD_SIZE;
		case STEP_TABLE:
			read_entries(walk, vma,
				     pmd_offset(&pud, address), part);
			return next;
		case STEP_LEAF:
			if (read_pud(walk, entry, address, part))
				return next;
			break;	/* It changed: look again. */
		}
	}
	return next;
}

/* ---- One region -------------------------------------------------------- */

static void note_vma(struct mega_walk *walk, struct vm_area_struct *vma,
		     struct part part)
{
	u16 *flags = &walk->region.flags;

	if (part.first == 0 && part.end == MEGA_REGION_PAGES)
		*flags |= MEGA_REGION_WHOLE;
	if (!vma_is_anonymous(vma))
		*flags &= ~MEGA_REGION_ANONYMOUS;
	if (vma->vm_flags & VM_NOHUGEPAGE)
		*flags |= MEGA_REGION_NOHUGEPAGE;
	if (vma->vm_flags & VM_LOCKED)
		*flags |= MEGA_REGION_LOCKED;
}

static struct part part_of(struct vm_area_struct *vma, unsigned long address)
{
	unsigned long first = max(vma->vm_start, address);
	unsigned long end = min(vma->vm_end, address + PMD_SIZE);

	return (struct part){
		.first = PHYS_PFN(first - address),
		.end = PHYS_PFN(end - address),
	};
}

/* Reads what one VMA has in the region; returns as read_part() does. */
static unsigned long read_vma(struct mega_walk *walk,
			      struct vm_area_struct *vma, unsigned long address)
{
	struct part part = part_of(vma, address);

	/* No struct page behind it: nothing that mega could act on. */
	if (vma->vm_flags & (VM_PFNMAP | VM_IO))
		return address + PMD_SIZE;
	note_vma(walk, vma, part);
	if (is_vm_hugetlb_page(vma)) {
		walk->region.flags |= MEGA_REGION_HUGETLB;
		walk->region.page_shift = ilog2(vma_kernel_pagesize(vma));
		return address + PMD_SIZE;
	}
	return read_part(walk, vma, address, part);
}

unsigned long mega_walk_region(struct mega_walk *walk, unsigned long address,
			       struct vm_area_struct *vma)
{
	unsigned long end = address + PMD_SIZE;
	unsigned long vma_end = vma->vm_end;
	unsigned long empty;

	walk->region = (struct mega_region){
		.address = address,
		.page_shift = PAGE_SHIFT,
		.flags = MEGA_REGION_ANONYMOUS,
	};
	bitmap_zero(walk->mapped, MEGA_REGION_PAGES);
	bitmap_zero(walk->accessed, MEGA_REGION_PAGES);

	empty = read_vma(walk, vma, address);
	while (vma->vm_end < end) {
		vma = find_vma_intersection(walk->mm, vma->vm_end, end);
		if (!vma)
			break;
		read_vma(walk, vma, address);
	}

	walk->region.mapped = bitmap_weight(walk->mapped, MEGA_REGION_PAGES);
	walk->region.accessed = bitmap_weight(walk->accessed, MEGA_REGION_PAGES);
	/* Another VMA in what is empty may be hugetlb, and has to be reported. */
	return max(end, ALIGN_DOWN(min(empty, vma_end), PMD_SIZE));
}
