// SPDX-License-Identifier: GPL-2.0
/*
 * Keeps compressed data in vmalloc memory, so outside the huge pages, checks it
 * when it is read, and counts it against the mount's limit and its owner's cgroup.
 */

#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/vmalloc.h>
#include <linux/xxhash.h>
#include "blob.h"
#include "compress.h"
#include "inject.h"
#include "limits.h"
#include "super.h"

/* One charge at a time, so that mounts do not pass together what they have together. */
static DEFINE_SPINLOCK(charging);

/* What there is already below the limit: the mount's own, or, as limits.c has it, all that share one. */
static u64 charged(struct hz_mount *mount)
{
	if (!READ_ONCE(mount->settings.compressed_limit))
		return hz_compressed_by_default();
	return atomic64_read(&mount->compressed_bytes);
}

/* False if the limit would be passed, which it is not for a moment. */
static bool charge(struct hz_mount *mount, size_t bytes)
{
	bool fits;

	spin_lock(&charging);
	fits = charged(mount) + bytes <= hz_limit_compressed(mount);
	if (fits)
		atomic64_add(bytes, &mount->compressed_bytes);
	spin_unlock(&charging);
	return fits;
}

/*
 * Whoever compresses does so to make memory free, maybe while there is little of
 * any kind: better no blob than a long search for base pages, or a process killed.
 * The pages are the owner's, whoever needs the room: with __GFP_NORETRY a cgroup at its
 * limit refuses, and nobody in it is killed.
 *
 * That holds for the pages. A table that maps them, one page for each 2 MiB of addresses
 * and kept for whatever lies there later, vmalloc asks for by flags of its own, with which
 * the OOM killer may run where not one page is to be had.
 */
static void *allocate(size_t bytes, struct mem_cgroup *memcg)
{
	struct mem_cgroup *before;
	void *data;

	if (hz_inject_failure())
		return NULL;
	before = set_active_memcg(memcg);
	data = __vmalloc(bytes, GFP_KERNEL_ACCOUNT | __GFP_NOWARN |
			 __GFP_NORETRY);
	set_active_memcg(before);
	return data;
}

/* Copies the data. -ENOSPC: the mount's limit; -ENOMEM: no base pages, or the cgroup's limit. */
int hz_blob_store(struct hz_mount *mount, struct mem_cgroup *memcg,
		  struct hz_blob *blob, int algorithm, const void *data,
		  size_t length)
{
	size_t bytes = PAGE_ALIGN(length);

	if (!charge(mount, bytes))
		return -ENOSPC;
	blob->data = allocate(bytes, memcg);
	if (!blob->data) {
		atomic64_sub(bytes, &mount->compressed_bytes);
		return -ENOMEM;
	}
	memcpy(blob->data, data, length);
	blob->length = length;
	blob->algorithm = algorithm;
	blob->hash = xxh64(blob->data, length, 0);
	hz_inject_corruption(blob->data, length);
	return 0;
}

/* False if the data is not what was stored. */
bool hz_blob_load(const struct hz_blob *blob, void *page)
{
	return xxh64(blob->data, blob->length, 0) == blob->hash &&
	       hz_decompress(blob->algorithm, blob->data, blob->length, page);
}

void hz_blob_free(struct hz_mount *mount, struct hz_blob *blob)
{
	atomic64_sub(PAGE_ALIGN(blob->length), &mount->compressed_bytes);
	vfree(blob->data);
	blob->data = NULL;
}
