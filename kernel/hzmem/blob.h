/* SPDX-License-Identifier: GPL-2.0 */
/* Compressed data, in base pages. */
#ifndef HZMEM_BLOB_H
#define HZMEM_BLOB_H

#include "hzmem.h"

struct hz_blob {
	void *data;
	u32 length;
	u8 algorithm;
	u64 hash;	/* xxh64 of data */
};

int hz_blob_store(struct hz_mount *mount, struct mem_cgroup *memcg,
		  struct hz_blob *blob, int algorithm, const void *data,
		  size_t length);
bool hz_blob_load(const struct hz_blob *blob, void *page);
void hz_blob_free(struct hz_mount *mount, struct hz_blob *blob);

#endif
