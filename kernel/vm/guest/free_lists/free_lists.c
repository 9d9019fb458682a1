// SPDX-License-Identifier: GPL-2.0
/*
 * Says what the free lists of all zones hold, in the order of the lists, and of
 * which type each pageblock is.
 *
 * "begin" written to free_lists in debugfs takes that down and lets tracing begin
 * in the same moment; "end" stops tracing and takes it down again. Nothing comes
 * in between on a machine with one CPU, and on no other it is allowed. Reading
 * gives both.
 */

#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/module.h>
#include <linux/pageblock-flags.h>
#include <linux/seq_file.h>
#include <linux/vmalloc.h>

/* A free area, in the order of its list. */
struct area {
	u32 pfn;
	u8 zone;
	u8 order;
	u8 type;
};

/* What was there at one moment. */
struct state {
	struct area *areas;
	unsigned int nr_areas;
	u8 *types;		/* of the pageblocks, by their number */
	u8 *movable;		/* of each frame: in use, and on an LRU list */
	bool is_taken;
};

static struct state begin, end;
static unsigned int most;	/* frames, and so areas, that there can be */

static struct dentry *file;

/* As is_reserved() of kernel/module/frames.c. */
static u8 type_of(unsigned long pfn)
{
	const unsigned long *map = section_to_usemap(__pfn_to_section(pfn));
	unsigned long index = pfn % PAGES_PER_SECTION / pageblock_nr_pages *
			      NR_PAGEBLOCK_BITS;

	return READ_ONCE(map[BIT_WORD(index)]) >> index % BITS_PER_LONG & 7;
}

static void take_lists(struct state *state, struct zone *zone)
{
	unsigned int order, type;
	struct page *page;

	for (order = 0; order < NR_PAGE_ORDERS; order++)
		for (type = 0; type < MIGRATE_TYPES; type++)
			list_for_each_entry(page,
					    &zone->free_area[order].free_list[type],
					    buddy_list) {
				struct area *area;

				if (state->nr_areas == most)
					return;
				area = &state->areas[state->nr_areas++];
				area->pfn = page_to_pfn(page);
				area->zone = zone_idx(zone);
				area->order = order;
				area->type = type;
			}
}

static void take_frames(struct state *state, struct zone *zone)
{
	unsigned long pfn;

	for (pfn = zone->zone_start_pfn; pfn < zone_end_pfn(zone); pfn++) {
		struct page *page = pfn_to_online_page(pfn);

		if (!page || pfn >= most)
			continue;
		if (!(pfn % pageblock_nr_pages))
			state->types[pfn / pageblock_nr_pages] = type_of(pfn);
		state->movable[pfn] = PageLRU(page);
	}
}

/* With interrupts off, on the only CPU: nothing changes. */
static void take(struct state *state)
{
	struct zone *zone;

	state->nr_areas = 0;
	for (zone = NODE_DATA(0)->node_zones;
	     zone < NODE_DATA(0)->node_zones + MAX_NR_ZONES; zone++) {
		if (!populated_zone(zone))
			continue;
		take_lists(state, zone);
		take_frames(state, zone);
	}
	state->is_taken = true;
}

static ssize_t free_lists_write(struct file *file, const char __user *text,
				size_t size, loff_t *at)
{
	char word[8] = {};
	unsigned long flags;

	if (size >= sizeof(word) || copy_from_user(word, text, size))
		return -EINVAL;
	local_irq_save(flags);
	if (!strcmp(word, "begin")) {
		take(&begin);
		tracing_on();
	} else if (!strcmp(word, "end")) {
		tracing_off();
		take(&end);
	} else {
		size = -EINVAL;
	}
	local_irq_restore(flags);
	return size;
}

static void show_state(struct seq_file *out, const struct state *state)
{
	unsigned int i;

	for (i = 0; i < most / pageblock_nr_pages; i++)
		seq_printf(out, "type %u\n", state->types[i]);
	for (i = 0; i < state->nr_areas; i++)
		seq_printf(out, "free %u %u %u %u\n", state->areas[i].zone,
			   state->areas[i].order, state->areas[i].type,
			   state->areas[i].pfn);
}

static int free_lists_show(struct seq_file *out, void *unused)
{
	unsigned int i, next;
	struct zone *zone;

	if (!begin.is_taken || !end.is_taken)
		return -ENODATA;
	for (zone = NODE_DATA(0)->node_zones;
	     zone < NODE_DATA(0)->node_zones + MAX_NR_ZONES; zone++)
		if (populated_zone(zone))
			seq_printf(out, "zone %d %s %lu %lu\n",
				   (int)zone_idx(zone), zone->name, zone->zone_start_pfn,
				   zone_end_pfn(zone));
	for (i = 0; i < most; i = next + 1) {
		for (next = i; next < most && begin.movable[next]; next++)
			;
		if (next > i)
			seq_printf(out, "movable %u %u\n", i, next - i);
	}
	seq_puts(out, "begin\n");
	show_state(out, &begin);
	seq_puts(out, "end\n");
	show_state(out, &end);
	return 0;
}

static int free_lists_open(struct inode *inode, struct file *file)
{
	return single_open_size(file, free_lists_show, NULL, 4 << 20);
}

static const struct file_operations free_lists_operations = {
	.owner = THIS_MODULE,
	.open = free_lists_open,
	.read = seq_read,
	.write = free_lists_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int allocate(struct state *state)
{
	state->areas = vzalloc(array_size(most, sizeof(*state->areas)));
	state->types = vzalloc(most / pageblock_nr_pages);
	state->movable = vzalloc(most);
	return state->areas && state->types && state->movable ? 0 : -ENOMEM;
}

static void release(struct state *state)
{
	vfree(state->areas);
	vfree(state->types);
	vfree(state->movable);
}

static int __init free_lists_init(void)
{
	if (num_online_cpus() != 1 || num_online_nodes() != 1) {
		pr_err("free_lists: there is more than one CPU or node\n");
		return -EINVAL;
	}
	most = ALIGN(pgdat_end_pfn(NODE_DATA(0)), pageblock_nr_pages);
	if (allocate(&begin) || allocate(&end)) {
		release(&begin);
		release(&end);
		return -ENOMEM;
	}
	file = debugfs_create_file("free_lists", 0600, NULL, NULL,
				   &free_lists_operations);
	return 0;
}

static void __exit free_lists_exit(void)
{
	debugfs_remove(file);
	release(&begin);
	release(&end);
}

module_init(free_lists_init);
module_exit(free_lists_exit);
MODULE_DESCRIPTION("What the free lists of all zones hold, for tests");
MODULE_LICENSE("GPL");
