// SPDX-License-Identifier: GPL-2.0
/*
 * Errors of the memory itself. Somebody finds one: a program's access, the memory controller,
 * or the module as it reads a page to compress or copy it. Its huge page is used no more; what
 * it held is lost, and SIGBUS for who touches that; all else stays as it is.
 *
 * A page with an error is marked first, and then looked at for an owner. Who makes it an
 * owner's does so first, and then looks at the mark (settle() in entry.c). Both steps are fully
 * ordered, so at least one of the two notices.
 *
 * Not handled: an error in memory that is the kernel's, such as compressed data. The kernel
 * has no recovery for those either.
 */

#define pr_fmt(fmt) "hzmem: " fmt

#include <linux/mm.h>
#include <linux/page-flags.h>
#include <linux/uaccess.h>
#include "entry.h"
#include "inject.h"
#include "poison.h"

static void mark(struct hz_page *page, unsigned long frame)
{
	/* For who else looks at frames: /proc/kpageflags, /proc/kcore. */
	SetPageHWPoison(pfn_to_page(frame));
	pr_err("memory error at %#llx: its huge page is used no more\n",
	       (u64)PFN_PHYS(frame));
	hz_pool_poison(page);
}

/* The kernel has learnt of an error, and holds the mapping. Nothing is locked. */
static int memory_failed(struct dev_pagemap *map, unsigned long frame,
			 unsigned long count, int flags)
{
	struct hz_range *range = container_of(map, struct hz_range, map);
	struct hz_entry *entry;
	struct hz_page *page;
	unsigned long end = frame + count;

	for (; frame < end; frame++) {
		page = hz_range_page(range, frame);
		if (!page)
			return -ENXIO;
		mark(page, frame);
		/* Orders the mark before the look. */
		smp_mb();
		entry = hz_page_owner(page);
		if (!entry)
			continue;
		hz_entry_lose(entry, page);
		hz_entry_put(entry);
	}
	return 0;
}

const struct dev_pagemap_ops hz_map_operations = {
	.memory_failure = memory_failed,
};

/*
 * Copies PAGE_SIZE bytes of a page's content. -EHWPOISON: that memory has an error, which is
 * no panic where the CPU can recover from such (MCG_SER_P); the page is marked, and the owner's
 * content is to be given up by the caller, who has its lock.
 */
int hz_copy_from_page(struct hz_page *page, unsigned long offset, void *to)
{
	unsigned long frame = hz_page_frame(page) + PHYS_PFN(offset);

	if (!hz_inject_memory_error() &&
	    !copy_mc_to_kernel(to, hz_page_data(page) + offset, PAGE_SIZE))
		return 0;
	mark(page, frame);
	/* The kernel is told, by a worker. */
	memory_failure_queue(frame, 0);
	return -EHWPOISON;
}
