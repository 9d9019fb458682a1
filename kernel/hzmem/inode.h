/* SPDX-License-Identifier: GPL-2.0 */
/* Files, and who has private copies of what is in them. */
#ifndef HZMEM_INODE_H
#define HZMEM_INODE_H

#include <linux/fs.h>
#include <linux/mutex.h>
#include "store.h"

/* How many pages of a file can be made at a time. */
#define HZ_FAULT_LOCKS 8

struct hz_inode {
	struct inode inode;
	struct hz_store store;
	struct mutex fault_locks[HZ_FAULT_LOCKS];
	struct mutex overlays_lock;
	struct list_head overlays;	/* overlay.h */
};

static inline struct hz_inode *hz_inode(struct inode *inode)
{
	return container_of(inode, struct hz_inode, inode);
}

/* How many pages a file of this size has, the last one perhaps in part. */
static inline pgoff_t hz_inode_pages(struct inode *inode)
{
	return (i_size_read(inode) + HZ_SIZE - 1) >> HZ_SHIFT;
}

extern const struct super_operations hz_super_operations;
extern const struct file_operations hz_file_operations;
extern const struct inode_operations hz_file_inode_operations;

struct inode *hz_inode_new(struct super_block *sb, struct mnt_idmap *idmap,
			   struct inode *folder, umode_t mode, dev_t device);
int hz_inode_put(struct inode *inode, struct hz_entry *entry);
void hz_inode_drop(struct inode *inode, pgoff_t first, pgoff_t last);

/*
 * Under it is decided what the file, and each private mapping of it, has at the index. It
 * may be held for as long as it takes to find a page, so it is waited for killably, and
 * nothing that has to do with another file waits for it.
 */
static inline struct mutex *hz_fault_lock(struct inode *inode, pgoff_t index)
{
	return &hz_inode(inode)->fault_locks[index % HZ_FAULT_LOCKS];
}

int hz_inode_init(void);
void hz_inode_exit(void);

#endif
