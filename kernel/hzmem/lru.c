// SPDX-License-Identifier: GPL-2.0
/*
 * The active and the inactive list, with a second chance: a page goes from one to
 * the other after two consecutive equal readings of its Accessed bits.
 *
 * A page in a list has an owner, whose reference count cannot be 0: an entry takes
 * its page out of the list before its last reference goes. So the lock of the list
 * is enough to take a reference.
 */

#include <linux/slab.h>
#include "entry.h"
#include "lru.h"

struct hz_lru *hz_lrus_new(void)
{
	struct hz_lru *lrus = kcalloc(nr_node_ids, sizeof(*lrus), GFP_KERNEL);
	int node;

	if (!lrus)
		return NULL;
	for (node = 0; node < nr_node_ids; node++) {
		spin_lock_init(&lrus[node].lock);
		INIT_LIST_HEAD(&lrus[node].lists[HZ_INACTIVE]);
		INIT_LIST_HEAD(&lrus[node].lists[HZ_ACTIVE]);
		lrus[node].next_scan = jiffies;
	}
	return lrus;
}

/* A page that has just been touched. */
void hz_lru_add(struct hz_lru *lru, struct hz_page *page)
{
	page->young = true;
	page->steady = false;

	spin_lock(&lru->lock);
	page->lru = HZ_ACTIVE;
	list_add_tail(&page->list, &lru->lists[HZ_ACTIVE]);
	lru->counts[HZ_ACTIVE]++;
	spin_unlock(&lru->lock);
}

void hz_lru_remove(struct hz_lru *lru, struct hz_page *page)
{
	spin_lock(&lru->lock);
	list_del_init(&page->list);
	lru->counts[page->lru]--;
	spin_unlock(&lru->lock);
}

static void move(struct hz_lru *lru, struct hz_page *page, enum hz_list list)
{
	spin_lock(&lru->lock);
	if (page->lru != list) {
		lru->counts[page->lru]--;
		lru->counts[list]++;
		page->lru = list;
		list_move_tail(&page->list, &lru->lists[list]);
	}
	spin_unlock(&lru->lock);
}

/* A reading of the page's Accessed bits. Under the owner's lock. */
void hz_lru_note(struct hz_lru *lru, struct hz_page *page, bool young)
{
	page->steady = page->young == young;
	page->young = young;
	if (page->steady)
		move(lru, page, young ? HZ_ACTIVE : HZ_INACTIVE);
}

/*
 * The owner of the list's first page, which becomes the last, with a reference; or
 * NULL. So a list is gone through once by as many calls as it has pages, without
 * holding its lock in between, and is in the same order afterwards.
 */
struct hz_entry *hz_lru_rotate(struct hz_lru *lru, enum hz_list list)
{
	struct hz_entry *entry = NULL;
	struct hz_page *page;

	spin_lock(&lru->lock);
	page = list_first_entry_or_null(&lru->lists[list], struct hz_page,
					list);
	if (page) {
		entry = page->owner;
		hz_entry_get(entry);
		list_move_tail(&page->list, &lru->lists[list]);
	}
	spin_unlock(&lru->lock);
	return entry;
}

unsigned long hz_lru_sum(struct hz_mount *mount, enum hz_list list)
{
	unsigned long sum = 0;
	int node;

	for (node = 0; node < nr_node_ids; node++)
		sum += READ_ONCE(mount->lrus[node].counts[list]);
	return sum;
}
