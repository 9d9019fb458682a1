// SPDX-License-Identifier: GPL-2.0
/* An array of entries, each with one share that is the array's. */

#include <linux/sched.h>
#include "store.h"

void hz_store_init(struct hz_store *store)
{
	xa_init_flags(&store->entries, XA_FLAGS_ACCOUNT);
}

/*
 * With a reference, or NULL. The array's lock keeps the entry between finding it and
 * taking the reference: who drops it erases it from the array first.
 */
struct hz_entry *hz_store_find(struct hz_store *store, pgoff_t index)
{
	struct hz_entry *entry;

	xa_lock(&store->entries);
	entry = xa_load(&store->entries, index);
	if (entry)
		hz_entry_get(entry);
	xa_unlock(&store->entries);
	return entry;
}

/*
 * Puts the entry, with the caller's share, in the place of the one that is there.
 * Fails only where there was none, and the share is the caller's still.
 */
int hz_store_put(struct hz_store *store, struct hz_entry *entry)
{
	struct hz_entry *old = xa_store(&store->entries, entry->index, entry,
					HZ_GFP);

	if (xa_is_err(old))
		return xa_err(old);
	if (old)
		hz_entry_drop(old);
	return 0;
}

/* Drops the entries first to last; returns how many there were. */
unsigned long hz_store_drop(struct hz_store *store, pgoff_t first,
			    pgoff_t last)
{
	unsigned long dropped = 0;
	struct hz_entry *entry;
	unsigned long index;

	xa_for_each_range(&store->entries, index, entry, first, last) {
		/* Erasing gives the array's share to one caller only. */
		entry = xa_erase(&store->entries, index);
		if (!entry)
			continue;
		hz_entry_drop(entry);
		dropped++;
		cond_resched();
	}
	return dropped;
}
