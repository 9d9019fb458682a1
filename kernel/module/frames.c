// SPDX-License-Identifier: GPL-2.0
/*
 * What is in the frames of a physical block, and whether it could be moved.
 *
 * struct page is read raw, without taking a reference, because a reference on
 * every page of the machine would disturb migration and copy-on-write. The
 * helpers of the page cache assert things about a page that only a reference
 * makes true, so they are not used. Nothing read is trusted further than a
 * bound check: a page may be freed, split or allocated between any two reads.
 */

#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/page-flags.h>
#include <linux/pageblock-flags.h>
#include "compat/compat.h"
#include "frames.h"
#include "mega.h"

/* A page, or the folio that it is a part of, as far as one verdict goes. */
struct verdict {
	enum frame_kind kind;
	unsigned long frames;	/* it is about, from the page looked at on */
	unsigned int order;	/* of the page that they belong to */
	bool unevictable;
};

static bool has_flag(unsigned long flags, enum pageflags flag)
{
	return flags & BIT(flag);
}

/* The order of the free page that head starts, or -1: no such page. */
static int buddy_order(struct page *head)
{
	unsigned long order;

	if (!PageBuddy(head))
		return -1;
	order = READ_ONCE(head->private);
	return order <= MAX_PAGE_ORDER ? (int)order : -1;
}

/*
 * References that the kernel's own bookkeeping explains: as many as
 * migrate_pages() expects to find. One more means that somebody is at it.
 */
static long explained_references(struct page *head, unsigned long flags,
				 unsigned long mapping, unsigned long pages)
{
	long references;

	if (pages > 1)
		references = mega_mapcount_of_large((struct folio *)head, pages);
	else
		references = atomic_read(&head->_mapcount) + 1;

	if (mapping & FOLIO_MAPPING_ANON) {
		if (has_flag(flags, PG_swapcache) && has_flag(flags, PG_swapbacked))
			references += pages;
		return references;
	}
	/* The page cache, or the swap cache for shared memory. */
	references += pages;
	if (flags & PAGE_FLAGS_PRIVATE)
		references++;
	return references;
}

static bool is_pinned(struct page *head, unsigned long pages)
{
	struct folio *folio = (struct folio *)head;

	if (pages > 1)
		return atomic_read(&folio->_pincount) > 0;
	return (unsigned int)page_ref_count(head) >= GUP_PIN_COUNTING_BIAS;
}

static enum frame_kind kind_of_hugetlb(struct page *head,
				       unsigned int order)
{
	/* alloc_contig_range() refuses larger ones. */
	if (order > MEGA_MIN_ORDER)
		return FRAME_UNMOVABLE;
	return is_pinned(head, 1UL << order) ? FRAME_HELD : FRAME_MOVABLE;
}

/* A page, or the head of a compound one, that is in use. */
static enum frame_kind kind_in_use(struct page *head, unsigned int order)
{
	unsigned long mapping = (unsigned long)READ_ONCE(head->mapping);
	unsigned long flags = mega_flags_of(head);
	unsigned long pages = 1UL << order;

	/* No kernel need have a bit for memory that went bad. */
	if (has_flag(flags, PG_reserved) || flags & __PG_HWPOISON)
		return FRAME_UNMOVABLE;
	if (order && folio_test_hugetlb((struct folio *)head))
		return kind_of_hugetlb(head, order);
	/* A flag or a type; it uses mapping for something else. */
	if (PageSlab(head))
		return FRAME_UNMOVABLE;
	if (mega_is_movable_drivers(head, flags, mapping))
		return has_flag(flags, MEGA_PG_ISOLATED) ? FRAME_BUSY :
							   FRAME_MOVABLE;
	/* Page tables and the like. */
	if (page_has_type(head))
		return FRAME_UNMOVABLE;
	/* User pages wait in per-CPU batches on their way to a list. */
	if (!has_flag(flags, PG_lru))
		return mapping ? FRAME_BUSY : FRAME_UNMOVABLE;
	if (is_pinned(head, pages) ||
	    page_ref_count(head) >
		    explained_references(head, flags, mapping, pages))
		return FRAME_HELD;
	if (has_flag(flags, PG_locked) || has_flag(flags, PG_writeback))
		return FRAME_BUSY;
	return FRAME_MOVABLE;
}

static struct verdict judge_compound(struct page *page)
{
	struct page *head = compound_head(page);
	unsigned long offset = page - head;
	unsigned int order = compound_order(head);

	/* Split or freed under our eyes. */
	if (!has_flag(mega_flags_of(head), PG_head) || !order ||
	    order > MEGA_MAX_ORDER || offset >= 1UL << order)
		return (struct verdict){ .kind = FRAME_BUSY, .frames = 1 };

	return (struct verdict){
		.kind = kind_in_use(head, order),
		.frames = (1UL << order) - offset,
		.order = order,
		.unevictable = has_flag(mega_flags_of(head), PG_unevictable),
	};
}

/*
 * On a per-CPU list, or on its way between lists. Slab and others take pages
 * without a reference since 6.14; those have a type. One that was put on a free
 * list just now has a type too, but is in nobody's hands.
 */
static bool is_between_lists(struct page *page, unsigned long flags)
{
	return !page_ref_count(page) && !has_flag(flags, PG_reserved) &&
	       (!page_has_type(page) || PageBuddy(page));
}

static struct verdict judge(struct page *page)
{
	unsigned long flags = mega_flags_of(page);
	int order = buddy_order(page);

	if (order >= 0)
		return (struct verdict){ .kind = FRAME_FREE,
					 .frames = 1UL << order };
	if (has_flag(flags, PG_head) || PageTail(page))
		return judge_compound(page);
	if (is_between_lists(page, flags))
		return (struct verdict){ .kind = FRAME_FREE, .frames = 1 };
	return (struct verdict){
		.kind = kind_in_use(page, 0),
		.frames = 1,
		.unevictable = has_flag(flags, PG_unevictable),
	};
}

/* A free page of 4 MiB (order 10) may start in the block before. */
static bool in_larger_free_page(unsigned long start)
{
	unsigned long before = ALIGN_DOWN(start, MAX_ORDER_NR_PAGES);
	struct page *head;

	if (before == start)
		return false;
	head = pfn_to_online_page(before);
	return head && buddy_order(head) == MAX_PAGE_ORDER;
}

/*
 * get_pfnblock_flags_mask() is not exported; the map that it reads is. The kernel
 * counts what it keeps for atomic allocations, and alloc_contig_range() would
 * make it MIGRATE_MOVABLE without taking it off that count.
 */
static bool is_reserved(unsigned long start)
{
	const unsigned long *map = section_to_usemap(__pfn_to_section(start));
	unsigned long index = start % PAGES_PER_SECTION / MEGA_BLOCK_FRAMES *
			      NR_PAGEBLOCK_BITS;
	unsigned long type;

	/* A block is a pageblock. */
	BUILD_BUG_ON(pageblock_nr_pages != MEGA_BLOCK_FRAMES);

	type = READ_ONCE(map[BIT_WORD(index)]) >> index % BITS_PER_LONG;
	return (type & MEGA_MIGRATETYPE_MASK) >= MIGRATE_PCPTYPES;
}

static void add(struct block_view *view, unsigned long start,
		unsigned int index, unsigned int frames,
		const struct verdict *verdict)
{
	bool huge = verdict->order >= MEGA_MIN_ORDER;

	view->count[verdict->kind] += frames;
	if (view->first[verdict->kind] == NO_FRAME)
		view->first[verdict->kind] = start + index;
	if (verdict->kind == FRAME_FREE)
		return;

	bitmap_set(view->used, index, frames);
	view->unevictable |= verdict->unevictable;
	if (huge && view->first_huge == NO_FRAME)
		view->first_huge = start + index;
	if (huge && verdict->kind == FRAME_MOVABLE)
		view->huge += frames;
	if (huge && frames == MEGA_BLOCK_FRAMES)
		view->whole_huge = true;
}

void mega_view_block(unsigned long start, struct block_view *view)
{
	struct page *page = pfn_to_online_page(start);
	unsigned int index = 0;
	unsigned int kind;

	memset(view, 0, sizeof(*view));
	view->zone = MEGA_ZONE_NONE;
	view->node = -1;
	view->first_huge = NO_FRAME;
	for (kind = 0; kind < FRAME_KINDS; kind++)
		view->first[kind] = NO_FRAME;
	/* Memory is online in units of at least a block. */
	if (!page)
		return;

	view->zone = page_zonenum(page);
	view->node = page_to_nid(page);
	view->reserved = is_reserved(start);
	if (in_larger_free_page(start)) {
		view->count[FRAME_FREE] = MEGA_BLOCK_FRAMES;
		view->first[FRAME_FREE] = start;
		return;
	}
	while (index < MEGA_BLOCK_FRAMES) {
		struct verdict verdict = judge(page + index);
		unsigned int frames = min_t(unsigned long, verdict.frames,
					    MEGA_BLOCK_FRAMES - index);

		add(view, start, index, frames, &verdict);
		index += frames;
	}
}
