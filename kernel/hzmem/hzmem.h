/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of hzmem.ko share: its unit, its settings, a mount.
 *
 * Order of the locks, outermost first:
 *
 * Who finds a page may look for it for seconds, with any of those down to the entry lock
 * held. So they are waited for killably, but where nothing can be left undone: where
 * content is dropped, and by the kernel's own callers of setattr().
 *
 *	mmap_lock
 *	  inode lock			truncate, fallocate, the size at mmap
 *	    mapping->invalidate_lock	faults, fork, readahead: shared;
 *					truncate and punch: exclusive
 *	      overlays lock of an inode
 *	      fault mutex		of a file, by index
 *	        entry lock		a second one only by trylock
 *	          reclaim lock of a node
 *	            i_mmap_rwsem	unmapping, reading Accessed bits
 *	              page table lock
 *	                LRU, section, pinned, charging, mount list: spinlocks
 */
#ifndef HZMEM_H
#define HZMEM_H

#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/types.h>

/* The only page size there is. */
#define HZ_SHIFT PMD_SHIFT
#define HZ_SIZE PMD_SIZE
#define HZ_FRAMES (HZ_SIZE >> PAGE_SHIFT)

#define HZ_MAGIC 0x487a6d4d /* sb->s_magic; statfs() says HUGETLBFS_MAGIC */

struct hz_lru;

/*
 * With what a touched page's own small structures are asked for: where a cgroup is at its
 * limit, or the machine has no memory, the page is refused and nobody is killed for it.
 */
#define HZ_GFP (GFP_KERNEL | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* Of one mount, since it was mounted. The order is that of the files' names in stats.c. */
enum hz_event {
	HZ_FAULTS_ZERO,
	HZ_FAULTS_RESIDENT,
	HZ_FAULTS_DECOMPRESS,
	HZ_FAULTS_COW,
	HZ_COMPRESSIONS,
	HZ_COMPRESSIONS_ZERO,
	HZ_COMPRESSIONS_REFUSED,
	HZ_DIRECT_RECLAIMS,
	HZ_READAHEADS,
	HZ_SIGBUS,
	HZ_SCANS,
	HZ_PAGES_SCANNED,
	HZ_EVENTS,
};

/* What an entry is (entry.h); a mount counts its entries by it. */
enum hz_state {
	HZ_ZERO,	/* all bytes zero; no memory */
	HZ_RESIDENT,	/* in a huge page */
	HZ_COMPRESSED,	/* in base pages */
	HZ_CORRUPT,	/* was compressed, and its bytes are not what they were */
	HZ_POISONED,	/* was in a huge page that has a memory error */
	HZ_DEAD,	/* in no store any more */
	HZ_STATES,
};

/* Further counts of a mount's pages. */
enum hz_mark {
	HZ_INCOMPRESSIBLE,
	HZ_PINNED,
	HZ_MARKS,
};

/* Of a limit that a mount was given: none. 0 is what limits.c says where nothing was given. */
#define HZ_UNLIMITED ULONG_MAX

struct hz_settings {
	unsigned long size;		/* pages */
	unsigned int watermark;		/* percent */
	unsigned int period_ms;
	int algorithm;			/* compress.h; HZ_NO_ALGORITHM: none */
	int node;			/* or NUMA_NO_NODE */
	unsigned int readahead;		/* pages */
	u64 compressed_limit;		/* bytes */
	kuid_t uid;
	kgid_t gid;
	umode_t mode;
};

/*
 * One mount. The superblock owns it; the daemons and reclaim, who find it in
 * the list of mounts, take a reference on its kobject. It is freed when the last
 * reference goes, with no entry left in it by then: unmounting drops them all.
 */
struct hz_mount {
	struct kobject kobject;
	struct list_head list;
	dev_t device;
	/* Changed by remounting, one field at a time, and read without a lock. */
	struct hz_settings settings;

	atomic_long_t used;			/* pages charged against size */
	atomic_long_t states[HZ_STATES];
	atomic_long_t marks[HZ_MARKS];
	atomic_long_t events[HZ_EVENTS];
	atomic64_t compressed_bytes;
	atomic_t readaheads_under_way;

	struct hz_lru *lrus;			/* by node */
};

static inline void hz_count(struct hz_mount *mount, enum hz_event event)
{
	atomic_long_inc(&mount->events[event]);
}

static inline struct hz_mount *hz_mount_of(struct super_block *sb)
{
	return sb->s_fs_info;
}

struct hz_mount *hz_mount_next(struct hz_mount *mount);
void hz_mount_put(struct hz_mount *mount);

/* Walks all mounts, with a reference on the current one; put it when leaving early. */
#define hz_for_each_mount(mount) \
	for (mount = hz_mount_next(NULL); mount; mount = hz_mount_next(mount))

#endif
