/* SPDX-License-Identifier: GPL-2.0 */
/* From a page of a file to the page table entries that map it. */
#ifndef HZMEM_RMAP_H
#define HZMEM_RMAP_H

#include "hzmem.h"

bool hz_rmap_clear_young(struct address_space *mapping, pgoff_t index,
			 unsigned long frame);
void hz_rmap_unmap(struct address_space *mapping, pgoff_t index,
		   unsigned long count);

#endif
