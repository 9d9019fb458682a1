// SPDX-License-Identifier: GPL-2.0
/*
 * Where the pool's memory comes from. At boot: what memmap= on the kernel's command line
 * kept from it, named once more by the module's parameter. At run time: memory blocks that
 * are emptied (by mega's COMPACT, or by the kernel itself as it takes them offline), and
 * that go back when they are not wanted any more.
 */

#define pr_fmt(fmt) "hzmem: " fmt

#include <linux/capability.h>
#include <linux/ctype.h>
#include <linux/ioport.h>
#include <linux/kernel.h>
#include <linux/memory.h>
#include <linux/memory_hotplug.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "firmware.h"
#include "hotplug.h"
#include "pool.h"

/* ---- At boot ---------------------------------------------------------------------------- */

static bool is_kernels(u64 start, u64 size)
{
	return region_intersects(start, size, IORESOURCE_SYSTEM_RAM,
				 IORES_DESC_NONE) != REGION_DISJOINT;
}

/* memmap=SIZE$START makes memory reserved; a hole, or a device's window, is not. */
static bool is_reserved(u64 start, u64 size)
{
	return region_intersects(start, size, IORESOURCE_MEM,
				 IORES_DESC_RESERVED) == REGION_INTERSECTS;
}

static int add_boot_range(u64 start, u64 size)
{
	int node = phys_to_target_node(start);
	int error;

	if (!size || !IS_ALIGNED(start | size, HZ_SIZE) ||
	    start + size < start) {
		pr_err("memory=: %#llx@%#llx is not in whole pages of 2M\n",
		       size, start);
		return -EINVAL;
	}
	if (is_kernels(start, size)) {
		pr_err("memory=: %#llx@%#llx is the kernel's: keep it with memmap=%lluM$%#llx on its command line\n",
		       size, start, size >> 20, start);
		return -EBUSY;
	}
	if (!is_reserved(start, size)) {
		pr_err("memory=: %#llx@%#llx is not memory that memmap=%lluM$%#llx on the kernel's command line has kept, see /proc/iomem\n",
		       size, start, size >> 20, start);
		return -ENXIO;
	}
	/* What else is reserved: the firmware's tables, a device's window, a hole. */
	error = hz_firmware_memory(start, size);
	if (error == -ENXIO)
		pr_err("memory=: %#llx@%#llx is reserved by the firmware, not by memmap=: see /sys/firmware/memmap\n",
		       size, start);
	else if (error)
		pr_err("memory=: %#llx@%#llx may be no memory: cannot read /sys/firmware/memmap (error %d); mount sysfs before loading hzmem\n",
		       size, start, error);
	if (error)
		return error;
	if (node != NUMA_NO_NODE && phys_to_target_node(start + size - 1) != node) {
		pr_err("memory=: %#llx@%#llx is on more than one node: name the parts one by one\n",
		       size, start);
		return -EINVAL;
	}
	if (node == NUMA_NO_NODE)
		node = first_online_node;
	hz_pool_lock();
	error = hz_pool_add_range(start, size, node, false);
	hz_pool_unlock();
	return error;
}

/* SIZE@START[,SIZE@START]... On failure what was added before it stays, for hz_hotplug_exit(). */
int hz_hotplug_boot(const char *text)
{
	char *at = (char *)text;
	u64 start;
	u64 size;
	int error;

	if (!*at)
		return 0;
	for (;;) {
		if (!isdigit(*at))
			goto bad;
		size = memparse(at, &at);
		if (*at++ != '@' || !isdigit(*at))
			goto bad;
		start = memparse(at, &at);
		if (*at && *at != ',')
			goto bad;
		error = add_boot_range(start, size);
		if (error || !*at)
			return error;
		at++;
	}
bad:
	pr_err("memory=%s: give SIZE@START, such as 512M@4G, and more after commas\n",
	       text);
	return -EINVAL;
}

/* ---- At run time ------------------------------------------------------------------------ */

static int give_to_kernel(u64 start, u64 size, int node)
{
	int error = add_memory(node, start, size, MHP_NONE);

	if (error)
		pr_err("the kernel does not take %#llx bytes at %#llx back (error %d): they are lost until the next boot\n",
		       size, start, error);
	return error;
}

/* Neither the kernel nor the pool would know which of its pages have them. */
static void say_poisoned(u64 start, u64 size)
{
	pr_err("%#llx bytes at %#llx have memory errors, and are given to nobody until the next boot\n",
	       size, start);
}

/* The node of a range that is the kernel's, online, and in one piece. */
static int node_of(u64 start, u64 size)
{
	int node = NUMA_NO_NODE;
	struct page *page;
	u64 at;

	for (at = start; at < start + size; at += memory_block_size_bytes()) {
		page = pfn_to_online_page(PHYS_PFN(at));
		if (!page)
			return -ENXIO;
		if (node != NUMA_NO_NODE && page_to_nid(page) != node)
			return -EINVAL;
		node = page_to_nid(page);
	}
	return node;
}

/* The piece of /proc/iomem, named System RAM, that a block lies in. */
struct piece {
	u64 start;
	u64 end;
};

static int note_piece(struct resource *resource, void *argument)
{
	struct piece *piece = argument;

	*piece = (struct piece){ resource->start, resource->end };
	return 1;
}

static bool find_piece(unsigned long kind, u64 start, u64 end,
		       struct piece *piece)
{
	return walk_iomem_res_desc(kind, IORESOURCE_SYSTEM_RAM | IORESOURCE_BUSY,
				   start, end, piece, note_piece) == 1;
}

/*
 * Whether Linux can cut the range out of the piece that it is in. 7.3 always can, but no
 * header says so (reparent_children_after_split()). 6.12 cannot cut
 * out of the middle of one when what has an entry of its own in it, the kernel's image or
 * the memory of a crash kernel, lies above the cut: release_mem_region_adjustable() warns,
 * and the range stays marked as the kernel's for ever, after it has been removed.
 */
static bool can_be_cut(u64 start, u64 end)
{
	u64 image = __pa(&iomem_resource);	/* a part of it, all near by */
	struct piece piece;
	struct piece crash;

	/* A piece that only begins at start can be cut, as can one that ends at end. */
	if (!is_kernels(start - 1, 1) ||
	    !find_piece(IORES_DESC_NONE, start, U64_MAX, &piece) ||
	    piece.end <= end)
		return true;
	if (image > end && image < piece.end)
		return false;
	return !find_piece(IORES_DESC_CRASH_KERNEL, end + 1, piece.end, &crash);
}

/* Who added it (virtio-mem, kmem) takes it away again one day, as its own. */
static bool is_a_drivers(u64 start, u64 size)
{
	return region_intersects(start, size, IORESOURCE_SYSTEM_RAM |
				 IORESOURCE_SYSRAM_DRIVER_MANAGED,
				 IORES_DESC_NONE) != REGION_DISJOINT;
}

static int take_from_kernel(u64 start, u64 size)
{
	int node;
	int error;

	if (!size || start + size < start ||
	    !IS_ALIGNED(start | size, memory_block_size_bytes())) {
		pr_err("cannot add memory: %#llx bytes at %#llx are not in whole memory blocks of %#lx\n",
		       size, start, memory_block_size_bytes());
		return -EINVAL;
	}
	node = node_of(start, size);
	if (node < 0) {
		pr_err("cannot add memory: %#llx bytes at %#llx are not online memory of one node\n",
		       size, start);
		return node;
	}
	if (is_a_drivers(start, size)) {
		pr_err("cannot add memory: %#llx bytes at %#llx belong to a driver that may take them away, see /proc/iomem\n",
		       size, start);
		return -EOPNOTSUPP;
	}
	if (!can_be_cut(start, start + size - 1)) {
		pr_err("cannot add memory: Linux cannot cut %#llx bytes at %#llx out, because the kernel itself lies above it: take memory above that\n",
		       size, start);
		return -EOPNOTSUPP;
	}
	error = offline_and_remove_memory(start, size);
	if (error) {
		pr_err("cannot add memory: the kernel cannot give up %#llx bytes at %#llx (error %d): empty them first\n",
		       size, start, error);
		return error;
	}
	error = hz_pool_add_range(start, size, node, true);
	if (error)
		give_to_kernel(start, size, node);
	return error;
}

/* Two numbers; as in C, 0x is hexadecimal. */
static int parse_range(const char *text, u64 *start, u64 *size)
{
	char *copy = kstrdup(text, GFP_KERNEL);
	char *rest = copy;
	char *first;
	int error;

	if (!copy)
		return -ENOMEM;
	rest = strim(copy);
	first = strsep(&rest, " \t");
	error = kstrtou64(first, 0, start);
	if (!error)
		error = rest ? kstrtou64(strim(rest), 0, size) : -EINVAL;
	kfree(copy);
	return error;
}

/* "PHYS SIZE", in bytes. */
int hz_hotplug_add(const char *text)
{
	u64 start;
	u64 size;
	int error;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	error = parse_range(text, &start, &size);
	if (error)
		return error;
	hz_pool_lock();
	error = take_from_kernel(start, size);
	hz_pool_unlock();
	return error;
}

/* If the kernel does not take it, the pool has it again. What is lost has a line in the log. */
static int give_range(struct hz_range *range)
{
	u64 start = range->start;
	u64 size = range->size;
	int node = range->node->id;
	bool added = range->added;
	unsigned long retired = hz_range_retired(range);
	int error;

	if (retired) {
		pr_err("cannot remove memory: %lu huge pages at %#llx have memory errors, which the kernel would not know of\n",
		       retired, start);
		return -EIO;
	}
	error = hz_pool_remove_range(range, &retired);
	if (error)
		return error;
	if (retired) {
		/* Found since the look above. */
		say_poisoned(start, size);
		return -EIO;
	}
	error = add_memory(node, start, size, MHP_NONE);
	if (!error)
		return 0;
	pr_err("cannot remove memory: the kernel does not take %#llx bytes at %#llx (error %d)\n",
	       size, start, error);
	if (hz_pool_add_range(start, size, node, added))
		pr_err("nor can hzmem have them again: they are lost until the next boot\n");
	return error;
}

static int remove_range(u64 start)
{
	struct hz_range *range = hz_pool_find_range(start);

	if (!range)
		return -ENOENT;
	if (!IS_ALIGNED(range->start | range->size,
			memory_block_size_bytes())) {
		pr_err("cannot remove memory: %#llx bytes at %#llx are not in whole memory blocks of %#lx\n",
		       range->size, range->start, memory_block_size_bytes());
		return -EINVAL;
	}
	return give_range(range);
}

/* "PHYS": where a range begins. */
int hz_hotplug_remove(const char *text)
{
	u64 start;
	int error;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	error = kstrtou64(text, 0, &start);
	if (error)
		return error;
	hz_pool_lock();
	error = remove_range(start);
	hz_pool_unlock();
	return error;
}

/*
 * The module goes, so nothing is mounted and no page is in use. What was the kernel's
 * is the kernel's again; what it never had stays kept from it.
 */
void hz_hotplug_exit(void)
{
	struct hz_range *range;
	struct hz_range *next;

	hz_pool_lock();
	list_for_each_entry_safe(range, next, &hz_ranges, list) {
		u64 start = range->start;
		u64 size = range->size;
		int node = range->node->id;
		bool added = range->added;
		unsigned long retired;

		if (WARN_ON(hz_pool_remove_range(range, &retired)) || !added)
			continue;
		if (retired)
			say_poisoned(start, size);
		else
			give_to_kernel(start, size, node);
	}
	hz_pool_unlock();
}
