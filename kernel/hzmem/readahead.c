// SPDX-License-Identifier: GPL-2.0
/*
 * Readahead, by a worker: the fault that asks for it does not wait. It takes free pages
 * only while less of the node is used than the watermark allows, and waits for no entry.
 */

#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include "inode.h"
#include "overlay.h"
#include "readahead.h"

/* Of one mount at a time; more would only pile up. */
#define MOST_UNDER_WAY 16

struct readahead {
	struct work_struct work;
	struct inode *inode;		/* with a reference */
	struct hz_overlay *overlay;	/* with a reference; NULL: the file itself */
	pgoff_t first;
	unsigned int count;
};

static struct workqueue_struct *queue;

/* Whether the node from which the page would come is below the watermark. */
static bool plenty(struct hz_mount *mount)
{
	int id = mount->settings.node;
	struct hz_node *node = hz_node(id == NUMA_NO_NODE ? numa_mem_id() : id);

	return node && atomic_long_read(&node->free) &&
	       !hz_node_used(node, mount->settings.watermark);
}

static void load(struct hz_mount *mount, struct hz_entry *entry)
{
	enum hz_event how;

	if (!mutex_trylock(&entry->lock))
		return;
	if (entry->state == HZ_COMPRESSED && plenty(mount) &&
	    !hz_entry_load(entry, &how))
		hz_count(mount, HZ_READAHEADS);
	mutex_unlock(&entry->lock);
}

static void read_ahead(struct work_struct *work)
{
	struct readahead *ahead = container_of(work, struct readahead, work);
	struct hz_mount *mount = hz_mount_of(ahead->inode->i_sb);
	struct hz_store *store = ahead->overlay ?
		&ahead->overlay->store : &hz_inode(ahead->inode)->store;
	struct hz_entry *entry;
	unsigned int step;

	for (step = 0; step < ahead->count && plenty(mount); step++) {
		/* An entry that was dropped meanwhile is found dead, or not at all. */
		entry = hz_store_find(store, ahead->first + step);
		if (!entry)
			continue;
		load(mount, entry);
		hz_entry_put(entry);
		cond_resched();
	}
	atomic_dec(&mount->readaheads_under_way);
	if (ahead->overlay)
		hz_overlay_put(ahead->overlay);
	iput(ahead->inode);
	kfree(ahead);
}

/* index was decompressed, in the overlay or, if that is NULL, in the file. */
void hz_readahead(struct inode *inode, struct hz_overlay *overlay,
		  pgoff_t index)
{
	struct hz_mount *mount = hz_mount_of(inode->i_sb);
	unsigned int count = READ_ONCE(mount->settings.readahead);
	struct readahead *ahead;

	if (!count || !plenty(mount))
		return;
	if (atomic_inc_return(&mount->readaheads_under_way) > MOST_UNDER_WAY)
		goto too_many;
	ahead = kmalloc(sizeof(*ahead), GFP_NOWAIT | __GFP_NOWARN);
	if (!ahead)
		goto too_many;
	INIT_WORK(&ahead->work, read_ahead);
	ihold(inode);
	ahead->inode = inode;
	ahead->overlay = overlay;
	if (overlay)
		kref_get(&overlay->references);
	ahead->first = index + 1;
	ahead->count = count;
	queue_work(queue, &ahead->work);
	return;
too_many:
	atomic_dec(&mount->readaheads_under_way);
}

/* Before a mount ends: its inodes are let go. */
void hz_readahead_drain(void)
{
	flush_workqueue(queue);
}

int hz_readahead_init(void)
{
	queue = alloc_workqueue("hzmem_readahead", WQ_UNBOUND, 0);
	return queue ? 0 : -ENOMEM;
}

void hz_readahead_exit(void)
{
	destroy_workqueue(queue);
}
