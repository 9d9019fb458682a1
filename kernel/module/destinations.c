// SPDX-License-Identifier: GPL-2.0
/*
 * Where COMPACT moves pages: wherever there is room, but into no range that its
 * caller will empty next. Only a kernel with alloc_contig_range_to()
 * (kernel/linux-6.12) lets a module say so.
 */

#include <linux/bsearch.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "compat/compat.h"
#include "destinations.h"
#include "mega.h"

bool mega_avoid_available(void)
{
#ifdef HAVE_CONTIG_TO
	return true;
#else
	return false;
#endif
}

/* Whether they are first frames of ranges of 1 << order, each once, ascending. */
static bool is_ascending(const struct mega_destinations *to)
{
	size_t index;

	for (index = 0; index < to->count; index++) {
		if (!IS_ALIGNED(to->avoid[index], 1ULL << to->order))
			return false;
		if (index && to->avoid[index] <= to->avoid[index - 1])
			return false;
	}
	return true;
}

int mega_destinations_read(struct mega_destinations *to, u64 address,
			   unsigned int order)
{
	const struct mega_avoid __user *user = u64_to_user_ptr(address);
	u64 count;

	*to = (struct mega_destinations){ .order = order };
	if (!address)
		return 0;
	if (get_user(count, &user->count))
		return -EFAULT;
	if (!count || count > MEGA_MAX_AVOID)
		return -EINVAL;
	to->avoid = kvmalloc_array(count, sizeof(u64), GFP_KERNEL_ACCOUNT);
	if (!to->avoid)
		return -ENOMEM;
	to->count = count;
	if (copy_from_user(to->avoid, user->frames, count * sizeof(u64))) {
		mega_destinations_free(to);
		return -EFAULT;
	}
	if (!is_ascending(to)) {
		mega_destinations_free(to);
		return -EINVAL;
	}
	return 0;
}

void mega_destinations_free(struct mega_destinations *to)
{
	kvfree(to->avoid);
	to->avoid = NULL;
	to->count = 0;
}

#ifdef HAVE_CONTIG_TO
/*
 * Free pages of the ranges to avoid that are held while one range is emptied, so
 * that the allocator gives others, at most: 32 MiB, which nobody else has meanwhile.
 */
#define MAX_ASIDE 8192

struct search {
	const struct mega_destinations *to;
	gfp_t gfp;
	struct list_head aside;
	unsigned long aside_pages;
	bool hugetlb;		/* there is a page that only the kernel can move */
};

static int compare(const void *left, const void *right)
{
	u64 a = *(const u64 *)left;
	u64 b = *(const u64 *)right;

	return a < b ? -1 : a > b;
}

static bool is_avoided(const struct mega_destinations *to, unsigned long frame)
{
	u64 start = round_down(frame, 1UL << to->order);

	return bsearch(&start, to->avoid, to->count, sizeof(start), compare);
}

/* The allocation that alloc_migration_target() makes for a page that is moved. */
static gfp_t gfp_for(const struct search *search, struct folio *src)
{
	gfp_t gfp = search->gfp | __GFP_HARDWALL | __GFP_MOVABLE;

	if (folio_test_large(src))
		gfp = (gfp & ~__GFP_RECLAIM) | __GFP_RETRY_MAYFAIL |
		      GFP_TRANSHUGE;
	if (folio_zonenum(src) == ZONE_MOVABLE)
		gfp |= __GFP_HIGHMEM;
	return gfp;
}

static struct folio *find_room(struct folio *src, unsigned long private)
{
	struct search *search = (struct search *)private;
	unsigned int order = folio_order(src);
	gfp_t gfp = gfp_for(search, src);

	if (folio_test_hugetlb(src)) {
		search->hugetlb = true;
		return NULL;
	}
	while (search->aside_pages < MAX_ASIDE &&
	       !fatal_signal_pending(current)) {
		struct folio *folio = __folio_alloc(gfp, order, folio_nid(src),
						    NULL);

		if (!folio || !is_avoided(search->to, folio_pfn(folio)))
			return folio;
		list_add(&folio->lru, &search->aside);
		search->aside_pages += 1UL << order;
	}
	return NULL;
}

static void free_aside(struct search *search)
{
	struct folio *folio, *next;

	list_for_each_entry_safe(folio, next, &search->aside, lru) {
		list_del(&folio->lru);
		folio_put(folio);
	}
}

static int alloc_avoiding(struct search *search, unsigned long start,
			  unsigned long end)
{
	struct contig_migration migration = {
		.get_new_folio = find_room,
		.private = (unsigned long)search,
	};
	int error;

	INIT_LIST_HEAD(&search->aside);
	error = alloc_contig_range_to(start, end, MIGRATE_MOVABLE, search->gfp,
				      &migration);
	free_aside(search);
	return error;
}
#endif /* HAVE_CONTIG_TO */

int mega_alloc_contig_range_to(const struct mega_destinations *to,
			       unsigned long start, unsigned long end, gfp_t gfp)
{
#ifdef HAVE_CONTIG_TO
	struct search search = { .to = to, .gfp = gfp };
	int error;

	if (to->count) {
		error = alloc_avoiding(&search, start, end);
		if (!error || !search.hugetlb)
			return error;
	}
#endif
	return mega_alloc_contig_range(start, end, gfp);
}
