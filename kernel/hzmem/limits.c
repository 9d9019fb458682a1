// SPDX-License-Identifier: GPL-2.0
/*
 * What a mount may have, as its options say, and where they say nothing: such mounts do not
 * have all the kernel's memory, however many they are and whoever may write to them. A share is one of what there is when
 * it is asked for, so it grows with what hzmem is given.
 */

#include <linux/math64.h>
#include <linux/mm.h>
#include "limits.h"
#include "pool.h"

/*
 * Pages of a mount, by how many there are for it. Text is compressed to less than a third
 * (docs/hzmem.md), and some pages are zero.
 */
#define DEFAULT_EXPANSION 4

/*
 * Compressed data, by the kernel's memory in percent: as zswap's max_pool_percent. All mounts
 * whose options say nothing have it together (blob.c).
 */
#define DEFAULT_COMPRESSED_PERCENT 20

/* In pages; HZ_UNLIMITED: no limit. */
unsigned long hz_limit_pages(const struct hz_mount *mount)
{
	unsigned long size = READ_ONCE(mount->settings.size);

	return size ?: DEFAULT_EXPANSION * hz_pool_total(mount->settings.node);
}

/* In bytes; HZ_UNLIMITED: no limit. */
u64 hz_limit_compressed(const struct hz_mount *mount)
{
	u64 bytes = READ_ONCE(mount->settings.compressed_limit);
	u64 memory = (u64)totalram_pages() << PAGE_SHIFT;

	return bytes ?: div_u64(memory * DEFAULT_COMPRESSED_PERCENT, 100);
}
