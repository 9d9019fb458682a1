// SPDX-License-Identifier: GPL-2.0
/* hzmem.ko: parameters, beginning and end. */

#define pr_fmt(fmt) "hzmem: " fmt

#include <linux/module.h>
#include "compress.h"
#include "entry.h"
#include "hibernate.h"
#include "hotplug.h"
#include "inject.h"
#include "inode.h"
#include "pool.h"
#include "readahead.h"
#include "stats.h"
#include "super.h"

static char *memory = "";
module_param(memory, charp, 0444);
MODULE_PARM_DESC(memory, "memory kept from the kernel by memmap=: SIZE@START[,SIZE@START]...");

static unsigned long section = SZ_4G;
module_param(section, ulong, 0444);
MODULE_PARM_DESC(section, "bytes of a section, which has a lock and a free list of its own (default 4 GiB)");

static int __init set_section(void)
{
	if (section < HZ_SIZE || !IS_ALIGNED(section, HZ_SIZE)) {
		pr_err("section=%lu: give a multiple of 2 MiB, in bytes\n",
		       section);
		return -EINVAL;
	}
	hz_section_size = section;
	return 0;
}

/* Memory comes after all that it needs; mounts and requests for memory come last. */
static int __init hz_init(void)
{
	int error;

	error = set_section();
	if (error)
		return error;
	error = hz_compress_init();
	if (error)
		return error;
	error = hz_entry_init();
	if (error)
		goto no_entries;
	error = hz_inode_init();
	if (error)
		goto no_inodes;
	error = hz_readahead_init();
	if (error)
		goto no_readahead;
	error = hz_stats_init();
	if (error)
		goto no_stats;
	error = hz_hotplug_boot(memory);
	if (error)
		goto no_memory;
	error = hz_stats_open();
	if (error)
		goto no_memory;
	hz_inject_init();
	error = hz_hibernate_init();
	if (error)
		goto no_hibernate;
	error = hz_super_init();
	if (error)
		goto no_mounts;
	return 0;

no_mounts:
	hz_hibernate_exit();
no_hibernate:
	hz_inject_exit();
	hz_stats_close();
no_memory:
	hz_pool_stop();
	hz_hotplug_exit();
	hz_pool_exit();
	hz_stats_exit();
no_stats:
	hz_readahead_exit();
no_readahead:
	hz_inode_exit();
no_inodes:
	hz_entry_exit();
no_entries:
	hz_compress_exit();
	return error;
}

static void __exit hz_exit(void)
{
	hz_super_exit();
	hz_hibernate_exit();
	hz_inject_exit();
	hz_stats_close();
	hz_pool_stop();
	hz_hotplug_exit();
	hz_pool_exit();
	hz_stats_exit();
	hz_readahead_exit();
	hz_inode_exit();
	hz_entry_exit();
	hz_compress_exit();
}

module_init(hz_init);
module_exit(hz_exit);

MODULE_DESCRIPTION("A huge page allocator beside buddy that compresses cold huge pages");
MODULE_AUTHOR("The mega developers");
MODULE_LICENSE("GPL");
