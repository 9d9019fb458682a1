// SPDX-License-Identifier: GPL-2.0
/*
 * Keeps compressed data in vmalloc memory, so outside the huge pages, checks it
 * when it is read, and counts it against the mount's limit.
 */

#include <linux/string.h>
#include <linux/vmalloc.h>
#include <linux/xxhash.h>
#include "blob.h"
#include "compress.h"
#include "inject.h"

/* False if the mount's limit would be passed, which it is not for a moment. */
static bool charge(struct hz_mount *mount, size_t bytes)
{
	u64 limit = READ_ONCE(mount->settings.compressed_limit);
	s64 sum = atomic64_read(&mount->compressed_bytes);

	do {
		if (limit && sum + bytes > limit)
			return false;
	} while (!atomic64_try_cmpxchg(&mount->compressed_bytes, &sum,
				       sum + bytes));
	return true;
}

/*
 * Whoever compresses does so to make memory free, maybe while there is little of
 * any kind: better no blob than a long search for base pages, or a process killed.
 */
static void *allocate(size_t bytes)
{
	if (hz_inject_failure())
		return NULL;
	return __vmalloc(bytes, GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY);
}

/* Copies the data. -ENOSPC: the mount's limit; -ENOMEM: no base pages. */
int hz_blob_store(struct hz_mount *mount, struct hz_blob *blob, int algorithm,
		  const void *data, size_t length)
{
	size_t bytes = PAGE_ALIGN(length);

	if (!charge(mount, bytes))
		return -ENOSPC;
	blob->data = allocate(bytes);
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
