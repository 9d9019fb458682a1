// SPDX-License-Identifier: GPL-2.0
/*
 * Ranges of memory, cut into sections with free lists, by NUMA node.
 *
 * memremap_pages() gives the memory struct pages, one compound page for each huge
 * page, with a reference count of 1, which is the pool's own and stays: a page is
 * never freed in the kernel's sense. A count above 1 means that somebody else
 * (get_user_pages(), read()) holds the page. Whether a page that is mapped nowhere
 * is held is certain: get_user_pages_fast() raises the count and then looks whether
 * the page table entry is still there; who takes a page away clears the entry and
 * then looks at the count. Both steps are fully ordered, so at least one of the two
 * notices. A count raised in vain is dropped again without a look at the page, and
 * harms neither a free nor a reused page.
 */

#define pr_fmt(fmt) "hzmem: " fmt

#include <linux/ioport.h>
#include <linux/kthread.h>
#include <linux/memremap.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include "compress.h"
#include "daemon.h"
#include "poison.h"
#include "pool.h"
#include "stats.h"

/* Pages kept free ahead of faults, however large the node: 512 MiB. */
#define MOST_RESERVE 256UL

unsigned long hz_section_size = SZ_4G;
LIST_HEAD(hz_ranges);

/*
 * Ranges, sections, nodes coming and going. Memory is taken offline under it, which
 * takes device_hotplug_lock.
 */
static DEFINE_MUTEX(pool_lock);
/*
 * Which algorithms every node has memory for. A lock of its own, inside pool_lock: a
 * mount asks under s_umount, and hibernation takes s_umount under device_hotplug_lock.
 */
static DEFINE_MUTEX(algorithms_lock);
static unsigned long algorithms_prepared;
/* Written under both locks, and never taken back. */
static struct hz_node *nodes[MAX_NUMNODES];

void hz_pool_lock(void)
{
	mutex_lock(&pool_lock);
}

void hz_pool_unlock(void)
{
	mutex_unlock(&pool_lock);
}

/* ---- Nodes --------------------------------------------------------------- */

/* NULL where the node has never had memory of ours. */
struct hz_node *hz_node(int id)
{
	if (id < 0 || id >= nr_node_ids)
		return NULL;
	/* Pairs with the release in add_node(). */
	return smp_load_acquire(&nodes[id]);
}

/* Whether at least this share of the node's pages is in use. */
bool hz_node_used(const struct hz_node *node, unsigned int percent)
{
	unsigned long total = atomic_long_read(&node->total);
	unsigned long free = atomic_long_read(&node->free);

	return total && (total - min(free, total)) * 100 >= total * percent;
}

/* How many pages are in use above this share of the node's. */
unsigned long hz_node_excess(const struct hz_node *node, unsigned int percent)
{
	unsigned long total = atomic_long_read(&node->total);
	unsigned long free = atomic_long_read(&node->free);
	unsigned long used = total - min(free, total);

	return used - min(used, total * percent / 100);
}

/*
 * Up to how many free pages the daemon compresses ahead of faults, with this watermark: no
 * more than that leaves, so none where it is 100 %.
 */
unsigned long hz_node_reserve(const struct hz_node *node, unsigned int percent)
{
	unsigned long total = atomic_long_read(&node->total);

	return min3(total / 8, MOST_RESERVE, total * (100 - percent) / 100);
}

/* Whether fewer than half of those are free, and it has to begin. */
bool hz_node_short(const struct hz_node *node, unsigned int percent)
{
	unsigned long free = atomic_long_read(&node->free);

	return free < DIV_ROUND_UP(hz_node_reserve(node, percent), 2);
}

void hz_node_wake(struct hz_node *node)
{
	WRITE_ONCE(node->wake, true);
	wake_up(&node->wait);
}

/* The daemon clears wake before ahead, so it either sees ahead or runs once more. */
void hz_node_wake_ahead(struct hz_node *node)
{
	WRITE_ONCE(node->ahead, true);
	/* Pairs with the xchg() in run(). */
	smp_wmb();
	hz_node_wake(node);
}

static int prepare_node(struct hz_node *node, int algorithm)
{
	int error = hz_work_prepare(&node->direct_work, algorithm);

	return error ?: hz_work_prepare(&node->daemon_work, algorithm);
}

/* Memory for compressing with this algorithm, so that no page is refused for want of it. */
int hz_pool_prepare(int algorithm)
{
	struct hz_node *node;
	int error = 0;
	int id;

	if (algorithm == HZ_NO_ALGORITHM)
		return 0;
	mutex_lock(&algorithms_lock);
	for_each_node(id) {
		node = nodes[id];
		error = node ? prepare_node(node, algorithm) : 0;
		if (error)
			break;
	}
	if (!error)
		algorithms_prepared |= BIT(algorithm);
	mutex_unlock(&algorithms_lock);
	return error;
}

static void free_node(struct hz_node *node)
{
	hz_work_free(&node->direct_work);
	hz_work_free(&node->daemon_work);
	kobject_put(&node->kobject);	/* frees it */
}

static struct hz_node *new_node(int id)
{
	struct hz_node *node = kzalloc(sizeof(*node), GFP_KERNEL);

	if (!node)
		return NULL;
	node->id = id;
	INIT_LIST_HEAD(&node->sections);
	INIT_LIST_HEAD(&node->pinned_pages);
	spin_lock_init(&node->pinned_lock);
	mutex_init(&node->reclaim_lock);
	init_waitqueue_head(&node->wait);
	hz_stats_init_node(node);
	return node;
}

static int add_node(int id)
{
	struct hz_node *node = new_node(id);
	int algorithm;
	int error = 0;

	if (!node)
		return -ENOMEM;
	/* Until others see the node: what is prepared meanwhile would miss it. */
	mutex_lock(&algorithms_lock);
	for (algorithm = 0; algorithm < HZ_ALGORITHMS && !error; algorithm++) {
		if (algorithms_prepared & BIT(algorithm))
			error = prepare_node(node, algorithm);
	}
	if (error)
		goto no_daemon;
	error = hz_daemon_start(node);
	if (error)
		goto no_daemon;
	/* Its files say what the daemon did, so the daemon is there as long as they are. */
	error = hz_stats_add_node(node);
	if (error)
		goto no_files;
	/* Whoever sees the node sees it complete. */
	smp_store_release(&nodes[id], node);
	mutex_unlock(&algorithms_lock);
	return 0;
no_files:
	hz_daemon_stop(node);
no_daemon:
	mutex_unlock(&algorithms_lock);
	free_node(node);
	return error;
}

/* ---- Free pages ---------------------------------------------------------- */

static struct hz_page *take_from(struct hz_section *section)
{
	struct hz_page *page = NULL;

	if (!READ_ONCE(section->free))
		return NULL;
	spin_lock(&section->lock);
	if (!section->closed && section->free) {
		page = list_first_entry(&section->free_pages, struct hz_page,
					list);
		hz_page_begins(page);
		list_del_init(&page->list);
		page->free = false;
		section->free--;
		atomic_long_dec(&section->node->free);
	}
	spin_unlock(&section->lock);
	return page;
}

/*
 * A free page of the node, or NULL. What it holds is what its last user left in it.
 * A section is freed after a grace period, and only with all its pages free, so a
 * page that was taken keeps its section.
 */
struct hz_page *hz_pool_take(struct hz_node *node)
{
	struct hz_section *section;
	struct hz_page *page = NULL;

	rcu_read_lock();
	list_for_each_entry_rcu(section, &node->sections, list) {
		page = take_from(section);
		if (page)
			break;
	}
	rcu_read_unlock();
	return page;
}

/* Under the section's lock, of a page in no list: it stays in none. */
static void retire(struct hz_page *page)
{
	struct hz_section *section = page->section;

	section->retired++;
	/* What is closed is counted for the node no more. */
	if (section->closed)
		return;
	atomic_long_inc(&section->node->retired);
	atomic_long_dec(&section->node->total);
}

static void put_on_free_list(struct hz_page *page)
{
	struct hz_section *section = page->section;

	spin_lock(&section->lock);
	if (page->poisoned) {
		retire(page);
	} else {
		list_add(&page->list, &section->free_pages);
		page->free = true;
		section->free++;
		atomic_long_inc(&section->node->free);
	}
	spin_unlock(&section->lock);
}

/*
 * The page has a memory error and is not used again: a free one is in no list from here on,
 * another one from when it is given back.
 */
void hz_pool_poison(struct hz_page *page)
{
	struct hz_section *section = page->section;

	spin_lock(&section->lock);
	WRITE_ONCE(page->poisoned, true);
	if (page->free) {
		list_del_init(&page->list);
		page->free = false;
		section->free--;
		if (!section->closed)
			atomic_long_dec(&section->node->free);
		retire(page);
	}
	spin_unlock(&section->lock);
}

/*
 * Takes back a page that is mapped nowhere and in no list. One that somebody still
 * holds must not be used again: it waits for the daemon, and keeps the module.
 */
void hz_pool_give(struct hz_page *page)
{
	struct hz_node *node = hz_page_node(page);

	page->owner = NULL;
	if (folio_ref_count(hz_page_folio(page)) == 1) {
		put_on_free_list(page);
		hz_page_settles(page);
		return;
	}
	__module_get(THIS_MODULE);
	spin_lock(&node->pinned_lock);
	list_add_tail(&page->list, &node->pinned_pages);
	atomic_long_inc(&node->pinned);
	spin_unlock(&node->pinned_lock);
	hz_page_settles(page);
	hz_node_wake(node);
}

/*
 * Frees the pinned pages that nobody holds any more. True if others remain; those that
 * another task is freeing just then are in no list, and said to be on their way into one.
 */
bool hz_pool_collect(struct hz_node *node)
{
	struct hz_page *page;
	struct hz_page *next;
	LIST_HEAD(released);
	bool remain;

	spin_lock(&node->pinned_lock);
	list_for_each_entry_safe(page, next, &node->pinned_pages, list) {
		if (folio_ref_count(hz_page_folio(page)) != 1)
			continue;
		hz_page_begins(page);
		list_move(&page->list, &released);
		atomic_long_dec(&node->pinned);
	}
	remain = !list_empty(&node->pinned_pages);
	spin_unlock(&node->pinned_lock);

	list_for_each_entry_safe(page, next, &released, list) {
		list_del_init(&page->list);
		put_on_free_list(page);
		hz_page_settles(page);
		/* The last one lets the module go, which stops the daemon first. */
		module_put(THIS_MODULE);
	}
	return remain;
}

static long total_of(const struct hz_node *node)
{
	return atomic_long_read(&node->total);
}

static long free_of(const struct hz_node *node)
{
	return atomic_long_read(&node->free);
}

/* Of one node, or of all nodes. */
static unsigned long over_nodes(int only, long (*count)(const struct hz_node *node))
{
	unsigned long sum = 0;
	struct hz_node *node;
	int id;

	for_each_node(id) {
		node = hz_node(id);
		if (node && (only == NUMA_NO_NODE || only == id))
			sum += count(node);
	}
	return sum;
}

unsigned long hz_pool_total(int only)
{
	return over_nodes(only, total_of);
}

unsigned long hz_pool_free(int only)
{
	return over_nodes(only, free_of);
}

/* ---- Sections ------------------------------------------------------------ */

static struct hz_section *new_section(struct hz_node *node, u64 start,
				      unsigned long pages)
{
	struct hz_section *section;
	unsigned long index;

	section = kvzalloc(struct_size(section, pages, pages), GFP_KERNEL);
	if (!section)
		return NULL;
	section->node = node;
	section->first_frame = PHYS_PFN(start);
	section->total = pages;
	section->free = pages;
	spin_lock_init(&section->lock);
	INIT_LIST_HEAD(&section->free_pages);
	for (index = 0; index < pages; index++) {
		section->pages[index].section = section;
		section->pages[index].free = true;
		list_add_tail(&section->pages[index].list,
			      &section->free_pages);
	}
	return section;
}

static void free_sections(struct hz_range *range)
{
	struct hz_section *section;
	struct hz_section *next;

	list_for_each_entry_safe(section, next, &range->sections, sibling) {
		list_del(&section->sibling);
		kvfree(section);
	}
}

static int make_sections(struct hz_range *range)
{
	u64 end = range->start + range->size;
	struct hz_section *section;
	u64 start;
	u64 size;

	for (start = range->start; start < end; start += size) {
		size = min_t(u64, end - start, hz_section_size);
		section = new_section(range->node, start, size >> HZ_SHIFT);
		if (!section) {
			free_sections(range);
			return -ENOMEM;
		}
		list_add_tail(&section->sibling, &range->sections);
	}
	return 0;
}

/* From here on its pages are taken. */
static void open_sections(struct hz_range *range)
{
	struct hz_section *section;

	list_for_each_entry(section, &range->sections, sibling) {
		atomic_long_add(section->total, &range->node->total);
		atomic_long_add(section->total, &range->node->free);
		list_add_tail_rcu(&section->list, &range->node->sections);
	}
}

/* False, and nothing changed, if one of the section's pages is in use. */
static bool close_section(struct hz_section *section)
{
	bool all;

	spin_lock(&section->lock);
	all = section->free + section->retired == section->total;
	if (all) {
		section->closed = true;
		atomic_long_sub(section->free, &section->node->free);
		atomic_long_sub(section->free, &section->node->total);
		atomic_long_sub(section->retired, &section->node->retired);
	}
	spin_unlock(&section->lock);
	return all;
}

static void reopen_section(struct hz_section *section)
{
	spin_lock(&section->lock);
	section->closed = false;
	atomic_long_add(section->free, &section->node->total);
	atomic_long_add(section->free, &section->node->free);
	atomic_long_add(section->retired, &section->node->retired);
	spin_unlock(&section->lock);
}

static int close_sections(struct hz_range *range)
{
	struct hz_section *section;

	list_for_each_entry(section, &range->sections, sibling) {
		if (close_section(section))
			continue;
		list_for_each_entry_continue_reverse(section, &range->sections,
						     sibling)
			reopen_section(section);
		return -EBUSY;
	}
	list_for_each_entry(section, &range->sections, sibling)
		list_del_rcu(&section->list);
	/* Who was looking through the node's sections has left. */
	synchronize_rcu();
	return 0;
}

/* ---- Ranges -------------------------------------------------------------- */

static int map_range(struct hz_range *range)
{
	void *mapped;

	range->resource = request_mem_region(range->start, range->size,
					     "hzmem");
	if (!range->resource) {
		pr_err("cannot take %#llx bytes at %#llx: something else has that memory, see /proc/iomem\n",
		       range->size, range->start);
		return -EBUSY;
	}
	range->map.type = MEMORY_DEVICE_GENERIC;
	range->map.ops = &hz_map_operations;
	range->map.vmemmap_shift = HZ_SHIFT - PAGE_SHIFT;
	range->map.nr_range = 1;
	range->map.range.start = range->start;
	range->map.range.end = range->start + range->size - 1;
	mapped = memremap_pages(&range->map, range->node->id);
	if (IS_ERR(mapped)) {
		pr_err("cannot map %#llx bytes at %#llx: error %ld\n",
		       range->size, range->start, PTR_ERR(mapped));
		release_mem_region(range->start, range->size);
		return PTR_ERR(mapped);
	}
	return 0;
}

/*
 * All its pages are free, so nobody holds one and nothing maps one:
 * memunmap_pages() waits for get_user_pages_fast() that may still look.
 */
static void unmap_range(struct hz_range *range)
{
	memunmap_pages(&range->map);
	release_mem_region(range->start, range->size);
}

static int fill_range(struct hz_range *range)
{
	int error = make_sections(range);

	if (error)
		return error;
	error = map_range(range);
	if (error)
		goto no_memory;
	error = hz_stats_add_range(range);
	if (error)
		goto no_files;
	return 0;
no_files:
	unmap_range(range);
no_memory:
	free_sections(range);
	return error;
}

/* Under the pool's lock. Nothing is left behind on failure. */
int hz_pool_add_range(u64 start, u64 size, int node, bool added)
{
	struct hz_range *range;
	int error = 0;

	if (!hz_node(node))
		error = add_node(node);
	if (error)
		return error;
	range = kzalloc(sizeof(*range), GFP_KERNEL);
	if (!range)
		return -ENOMEM;
	hz_stats_init_range(range);
	INIT_LIST_HEAD(&range->sections);
	range->node = hz_node(node);
	range->start = start;
	range->size = size;
	range->added = added;
	error = fill_range(range);
	if (error) {
		kobject_put(&range->kobject);
		return error;
	}
	open_sections(range);
	list_add_tail(&range->list, &hz_ranges);
	return 0;
}

struct hz_range *hz_pool_find_range(u64 start)
{
	struct hz_range *range;

	list_for_each_entry(range, &hz_ranges, list) {
		if (range->start == start)
			return range;
	}
	return NULL;
}

unsigned long hz_range_free(const struct hz_range *range)
{
	struct hz_section *section;
	unsigned long free = 0;

	list_for_each_entry(section, &range->sections, sibling)
		free += READ_ONCE(section->free);
	return free;
}

unsigned long hz_range_retired(const struct hz_range *range)
{
	struct hz_section *section;
	unsigned long retired = 0;

	list_for_each_entry(section, &range->sections, sibling)
		retired += READ_ONCE(section->retired);
	return retired;
}

/* The page that a frame of the range is in. The range keeps its sections while it is mapped. */
struct hz_page *hz_range_page(const struct hz_range *range, unsigned long frame)
{
	struct hz_section *section;

	list_for_each_entry(section, &range->sections, sibling) {
		unsigned long first = section->first_frame;

		if (frame >= first && frame < first + section->total * HZ_FRAMES)
			return &section->pages[(frame - first) / HZ_FRAMES];
	}
	return NULL;
}

/*
 * Under the pool's lock. -EBUSY, and nothing changed, while a page of it is in use. *retired is
 * how many of its pages have a memory error: such memory must not be given to anybody.
 */
int hz_pool_remove_range(struct hz_range *range, unsigned long *retired)
{
	int error = close_sections(range);

	if (error)
		return error;
	list_del(&range->list);
	hz_stats_remove_range(range);
	unmap_range(range);
	/* No more of them are found now. */
	*retired = hz_range_retired(range);
	free_sections(range);
	kobject_put(&range->kobject);
	return 0;
}

/* ---- The end ------------------------------------------------------------- */

void hz_pool_stop(void)
{
	int id;

	for_each_node(id) {
		if (!nodes[id])
			continue;
		hz_stats_remove_node(nodes[id]);
		hz_daemon_stop(nodes[id]);
	}
}

/* After the ranges have gone. */
void hz_pool_exit(void)
{
	int id;

	for_each_node(id) {
		if (nodes[id])
			free_node(nodes[id]);
		nodes[id] = NULL;
	}
}
