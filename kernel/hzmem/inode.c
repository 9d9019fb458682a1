// SPDX-License-Identifier: GPL-2.0
/* Inodes and folders: all in memory, kept by their dentries, as in ramfs. */

#include <linux/namei.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "compat/compat.h"
#include "inode.h"
#include "overlay.h"
#include "rmap.h"
#include "super.h"

static struct kmem_cache *cache;

static const struct inode_operations folder_operations;

/* ---- Content ----------------------------------------------------------------- */

/* Puts an entry where the file has none. The caller's share is the file's then. */
int hz_inode_put(struct inode *inode, struct hz_entry *entry)
{
	int error = hz_store_put(&hz_inode(inode)->store, entry);

	if (!error)
		inode_add_bytes(inode, HZ_SIZE);
	return error;
}

/*
 * Drops the pages first to last, the file's and all private copies of them. Under the
 * invalidate lock, held exclusively, or when nobody has the inode any more: so no fault
 * brings a page back in between.
 */
void hz_inode_drop(struct inode *inode, pgoff_t first, pgoff_t last)
{
	unsigned long dropped;

	if (mapping_mapped(inode->i_mapping))
		unmap_mapping_pages(inode->i_mapping, first * HZ_FRAMES,
				    last < LONG_MAX >> HZ_SHIFT ?
				    (last - first + 1) * HZ_FRAMES : 0, true);
	hz_overlays_drop(inode, first, last);
	dropped = hz_store_drop(&hz_inode(inode)->store, first, last);
	inode_sub_bytes(inode, (loff_t)dropped << HZ_SHIFT);
}

/* Who held a page while it was written to marks it dirty; there is nothing to write it to. */
static const struct address_space_operations mapping_operations = {
	.dirty_folio = noop_dirty_folio,
};

/* ---- Making inodes -------------------------------------------------------------- */

struct inode *hz_inode_new(struct super_block *sb, struct mnt_idmap *idmap,
			   struct inode *folder, umode_t mode, dev_t device)
{
	struct inode *inode = new_inode(sb);

	if (!inode)
		return NULL;
	inode->i_ino = get_next_ino();
	inode_init_owner(idmap, inode, folder, mode);
	simple_inode_init_ts(inode);
	switch (mode & S_IFMT) {
	case S_IFREG:
		inode->i_mapping->a_ops = &mapping_operations;
		inode->i_op = &hz_file_inode_operations;
		inode->i_fop = &hz_file_operations;
		break;
	case S_IFDIR:
		inode->i_op = &folder_operations;
		inode->i_fop = &simple_dir_operations;
		/* for its own "." */
		inc_nlink(inode);
		break;
	case S_IFLNK:
		inode->i_op = &simple_symlink_inode_operations;
		break;
	default:
		init_special_inode(inode, mode, device);
		break;
	}
	lockdep_annotate_inode_mutex_key(inode);
	return inode;
}

static void add_to_folder(struct inode *folder, struct dentry *dentry,
			  struct inode *inode)
{
	inode_set_mtime_to_ts(folder, inode_set_ctime_current(folder));
	mega_keep(dentry, inode);
}

static int make_node(struct mnt_idmap *idmap, struct inode *folder,
		     struct dentry *dentry, umode_t mode, dev_t device)
{
	struct inode *inode = hz_inode_new(folder->i_sb, idmap, folder, mode,
					   device);

	if (!inode)
		return -ENOSPC;
	add_to_folder(folder, dentry, inode);
	return 0;
}

static mega_mkdir_t make_folder(struct mnt_idmap *idmap, struct inode *folder,
				struct dentry *dentry, umode_t mode)
{
	int error = make_node(idmap, folder, dentry, mode | S_IFDIR, 0);

	if (!error)
		inc_nlink(folder);
	return mega_mkdir_result(error);
}

static int create(struct mnt_idmap *idmap, struct inode *folder,
		  struct dentry *dentry, MEGA_CREATE_MODE)
{
	return make_node(idmap, folder, dentry, mode | S_IFREG, 0);
}

static int make_unnamed(struct mnt_idmap *idmap, struct inode *folder,
			struct file *file, umode_t mode)
{
	struct inode *inode = hz_inode_new(folder->i_sb, idmap, folder,
					   mode | S_IFREG, 0);

	if (!inode)
		return -ENOSPC;
	inode_set_mtime_to_ts(folder, inode_set_ctime_current(folder));
	d_tmpfile(file, inode);
	return finish_open_simple(file, 0);
}

static int make_symlink(struct mnt_idmap *idmap, struct inode *folder,
			struct dentry *dentry, const char *target)
{
	struct inode *inode = hz_inode_new(folder->i_sb, idmap, folder,
					   S_IFLNK | 0777, 0);

	if (!inode)
		return -ENOSPC;
	inode->i_link = kstrdup(target, GFP_KERNEL_ACCOUNT);
	if (!inode->i_link) {
		iput(inode);
		return -ENOMEM;
	}
	inode->i_size = strlen(target);
	add_to_folder(folder, dentry, inode);
	return 0;
}

static const struct inode_operations folder_operations = {
	.create = create,
	.lookup = simple_lookup,
	.link = simple_link,
	.unlink = simple_unlink,
	.symlink = make_symlink,
	.mkdir = make_folder,
	.rmdir = simple_rmdir,
	.mknod = make_node,
	.rename = simple_rename,
	.tmpfile = make_unnamed,
};

/* ---- Their memory ---------------------------------------------------------------- */

static struct inode *new_memory(struct super_block *sb)
{
	struct hz_inode *inode = alloc_inode_sb(sb, cache, GFP_KERNEL);
	int index;

	if (!inode)
		return NULL;
	hz_store_init(&inode->store);
	for (index = 0; index < HZ_FAULT_LOCKS; index++)
		mutex_init(&inode->fault_locks[index]);
	mutex_init(&inode->overlays_lock);
	INIT_LIST_HEAD(&inode->overlays);
	return &inode->inode;
}

/* After a grace period: a path walk may have been reading the link. */
static void free_memory(struct inode *inode)
{
	if (S_ISLNK(inode->i_mode))
		kfree(inode->i_link);
	kmem_cache_free(cache, hz_inode(inode));
}

static void evict_inode(struct inode *inode)
{
	if (S_ISREG(inode->i_mode))
		hz_inode_drop(inode, 0, ULONG_MAX);
	clear_inode(inode);
}

const struct super_operations hz_super_operations = {
	.alloc_inode = new_memory,
	.free_inode = free_memory,
	.evict_inode = evict_inode,
	.statfs = hz_statfs,
	.show_options = hz_show_options,
};

static void init_once(void *object)
{
	struct hz_inode *inode = object;

	inode_init_once(&inode->inode);
}

int hz_inode_init(void)
{
	cache = kmem_cache_create("hz_inode", sizeof(struct hz_inode), 0,
				  SLAB_ACCOUNT, init_once);
	return cache ? 0 : -ENOMEM;
}

void hz_inode_exit(void)
{
	/* free_memory() runs after a grace period. */
	rcu_barrier();
	kmem_cache_destroy(cache);
}
