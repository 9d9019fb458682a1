// SPDX-License-Identifier: GPL-2.0
/* Mounting, remounting, unmounting, and the list of mounts. */

#include <linux/fs_context.h>
#include <linux/magic.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include "compat/compat.h"
#include "daemon.h"
#include "inode.h"
#include "limits.h"
#include "lru.h"
#include "options.h"
#include "readahead.h"
#include "stats.h"
#include "super.h"

static LIST_HEAD(mounts);
static DEFINE_SPINLOCK(mounts_lock);

/* ---- The list of mounts ----------------------------------------------------------- */

void hz_mount_put(struct hz_mount *mount)
{
	kobject_put(&mount->kobject);	/* the last one frees it (stats.c) */
}

/*
 * The mount after this one, with a reference; this one's is put. NULL: the first. After
 * one that was unmounted meanwhile comes the first again: better some mounts twice than
 * others not at all, for whoever looks for a page.
 */
struct hz_mount *hz_mount_next(struct hz_mount *mount)
{
	struct list_head *position = &mounts;
	struct hz_mount *next = NULL;

	spin_lock(&mounts_lock);
	if (mount && !list_empty(&mount->list))
		position = &mount->list;
	if (!list_is_last(position, &mounts)) {
		next = list_entry(position->next, struct hz_mount, list);
		kobject_get(&next->kobject);
	}
	spin_unlock(&mounts_lock);
	if (mount)
		hz_mount_put(mount);
	return next;
}

/* Bytes of compressed data of all the mounts that were given no limit for them. */
u64 hz_compressed_by_default(void)
{
	struct hz_mount *mount;
	u64 sum = 0;

	spin_lock(&mounts_lock);
	list_for_each_entry(mount, &mounts, list) {
		if (!READ_ONCE(mount->settings.compressed_limit))
			sum += atomic64_read(&mount->compressed_bytes);
	}
	spin_unlock(&mounts_lock);
	return sum;
}

static struct hz_mount *new_mount(const struct hz_settings *settings)
{
	struct hz_mount *mount = kzalloc(sizeof(*mount), GFP_KERNEL);

	if (!mount)
		return NULL;
	INIT_LIST_HEAD(&mount->list);
	mount->settings = *settings;
	mount->lrus = hz_lrus_new();
	if (!mount->lrus) {
		kfree(mount);
		return NULL;
	}
	hz_stats_init_mount(mount);
	return mount;
}

/* ---- Mounting ------------------------------------------------------------------------ */

static int make_root(struct super_block *sb, const struct hz_settings *settings)
{
	struct inode *inode = hz_inode_new(sb, &nop_mnt_idmap, NULL,
					   S_IFDIR | settings->mode, 0);

	if (!inode)
		return -ENOMEM;
	inode->i_uid = settings->uid;
	inode->i_gid = settings->gid;
	sb->s_root = d_make_root(inode);
	return sb->s_root ? 0 : -ENOMEM;
}

static int fill_super(struct super_block *sb, struct fs_context *context)
{
	struct hz_options *options = context->fs_private;
	struct hz_mount *mount;
	int error;

	error = hz_pool_prepare(options->settings.algorithm);
	if (error)
		return error;
	mount = new_mount(&options->settings);
	if (!mount)
		return -ENOMEM;
	mount->device = sb->s_dev;
	/* From here on kill_sb() undoes it all. */
	sb->s_fs_info = mount;
	sb->s_maxbytes = MAX_LFS_FILESIZE;
	sb->s_blocksize = HZ_SIZE;
	sb->s_blocksize_bits = HZ_SHIFT;
	sb->s_magic = HZ_MAGIC;
	sb->s_op = &hz_super_operations;
	sb->s_time_gran = 1;
	error = hz_stats_add_mount(mount);
	if (!error)
		error = make_root(sb, &options->settings);
	if (error)
		return error;
	spin_lock(&mounts_lock);
	list_add_tail(&mount->list, &mounts);
	spin_unlock(&mounts_lock);
	hz_daemons_wake();
	return 0;
}

static int get_tree(struct fs_context *context)
{
	int error = hz_options_complete(context);

	return error ?: get_tree_nodev(context, fill_super);
}

/* What does not compress with one algorithm may with another. Who is killed leaves the rest as it is. */
static void retry_incompressible(struct hz_mount *mount)
{
	struct hz_entry *entry;
	unsigned long count;
	int list;
	int node;
	int error;

	for (node = 0; node < nr_node_ids; node++) {
		for (list = 0; list < HZ_LISTS; list++) {
			count = READ_ONCE(mount->lrus[node].counts[list]);
			while (count--) {
				entry = hz_lru_rotate(&mount->lrus[node], list);
				if (!entry)
					break;
				error = hz_entry_retry(entry);
				hz_entry_put(entry);
				if (error)
					return;
				cond_resched();
			}
		}
	}
}

static int reconfigure(struct fs_context *context)
{
	struct super_block *sb = context->root->d_sb;
	struct hz_mount *mount = hz_mount_of(sb);
	struct hz_options *options = context->fs_private;
	struct hz_settings wanted = mount->settings;
	bool other_algorithm;
	int error;

	error = hz_options_complete(context);
	if (error)
		return error;
	hz_options_apply(options, &wanted);
	error = hz_pool_prepare(wanted.algorithm);
	if (error)
		return error;
	if (wanted.size && wanted.size < atomic_long_read(&mount->used))
		return invalf(context,
			      "hzmem: size: %lu pages are in use, which is more",
			      atomic_long_read(&mount->used));
	other_algorithm = wanted.algorithm != mount->settings.algorithm;
	hz_options_apply(options, &mount->settings);
	if (other_algorithm)
		retry_incompressible(mount);
	hz_options_apply_to_root(options, d_inode(sb->s_root));
	hz_daemons_wake();
	return 0;
}

static void free_context(struct fs_context *context)
{
	kfree(context->fs_private);
}

static const struct fs_context_operations context_operations = {
	.parse_param = hz_options_parse,
	.get_tree = get_tree,
	.reconfigure = reconfigure,
	.free = free_context,
};

/* Remounting begins with what is set, by which options are judged; what is not given stays. */
static int init_context(struct fs_context *context)
{
	struct hz_options *options = kzalloc(sizeof(*options), GFP_KERNEL);

	if (!options)
		return -ENOMEM;
	if (context->purpose == FS_CONTEXT_FOR_RECONFIGURE)
		options->settings = hz_mount_of(context->root->d_sb)->settings;
	else
		hz_options_default(options);
	context->fs_private = options;
	context->ops = &context_operations;
	return 0;
}

/* ---- Unmounting ------------------------------------------------------------------------ */

/*
 * Nobody has a file open or mapped any more. Readahead has references on inodes, and
 * lets them go before they are evicted. Daemons and reclaim may have a reference on the
 * mount, and on entries, which they find dead; they do not find the mount again.
 */
static void kill_super(struct super_block *sb)
{
	struct hz_mount *mount = hz_mount_of(sb);

	if (mount) {
		spin_lock(&mounts_lock);
		list_del_init(&mount->list);
		spin_unlock(&mounts_lock);
		hz_readahead_drain();
		/* Its name is the device's number, which is free after the next step. */
		hz_stats_remove_mount(mount);
	}
	mega_kill_kept(sb);
	if (mount)
		hz_mount_put(mount);
}

/* ---- Statistics of the file system ----------------------------------------------------- */

/* It says that it is hugetlbfs: programs look at f_type to find huge pages. */
int hz_statfs(struct dentry *dentry, struct kstatfs *out)
{
	struct hz_mount *mount = hz_mount_of(dentry->d_sb);
	unsigned long limit = hz_limit_pages(mount);
	unsigned long used = atomic_long_read(&mount->used);

	out->f_type = HUGETLBFS_MAGIC;
	out->f_bsize = HZ_SIZE;
	out->f_namelen = NAME_MAX;
	out->f_fsid = u64_to_fsid(huge_encode_dev(dentry->d_sb->s_dev));
	if (limit != HZ_UNLIMITED) {
		out->f_blocks = limit;
		out->f_bfree = limit - min(limit, used);
	} else {
		out->f_blocks = hz_pool_total(mount->settings.node);
		out->f_bfree = hz_pool_free(mount->settings.node);
	}
	out->f_bavail = out->f_bfree;
	return 0;
}

int hz_show_options(struct seq_file *out, struct dentry *root)
{
	hz_options_show(out, &hz_mount_of(root->d_sb)->settings);
	return 0;
}

static struct file_system_type type = {
	.owner = THIS_MODULE,	/* a mount keeps the module loaded */
	.name = "hzmem",
	.init_fs_context = init_context,
	.parameters = hz_parameters,
	.kill_sb = kill_super,
};
MODULE_ALIAS_FS("hzmem");

int hz_super_init(void)
{
	return register_filesystem(&type);
}

void hz_super_exit(void)
{
	unregister_filesystem(&type);
}
