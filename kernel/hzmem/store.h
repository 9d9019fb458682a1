/* SPDX-License-Identifier: GPL-2.0 */
/* Entries by index: the content of a file, or of a private mapping. */
#ifndef HZMEM_STORE_H
#define HZMEM_STORE_H

#include <linux/xarray.h>
#include "entry.h"

struct hz_store {
	struct xarray entries;
};

void hz_store_init(struct hz_store *store);
struct hz_entry *hz_store_find(struct hz_store *store, pgoff_t index);
int hz_store_put(struct hz_store *store, struct hz_entry *entry);
unsigned long hz_store_drop(struct hz_store *store, pgoff_t first,
			    pgoff_t last);

#endif
