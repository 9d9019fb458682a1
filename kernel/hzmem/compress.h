/* SPDX-License-Identifier: GPL-2.0 */
/* The algorithms that this kernel has. */
#ifndef HZMEM_COMPRESS_H
#define HZMEM_COMPRESS_H

#include <linux/lzo.h>
#include <linux/mm.h>
#include <linux/types.h>

enum hz_algorithm {
	HZ_LZ4,
	HZ_LZO,
	HZ_ZSTD,
	HZ_ALGORITHMS,
	HZ_NO_ALGORITHM = -1,
};

/* LZO is not told how much room there is, so it gets what it may need. */
#define HZ_OUT_SIZE lzo1x_worst_compress(PMD_SIZE)

/* What a page may be compressed to at most; beyond, nothing is gained. */
#define HZ_MAX_COMPRESSED (PMD_SIZE / 16 * 15)

bool hz_has_algorithm(int algorithm);
const char *hz_algorithm_name(int algorithm);
int hz_find_algorithm(const char *name);
size_t hz_memory_size(int algorithm);

size_t hz_compress(int algorithm, const void *page, void *out, void *memory);
bool hz_decompress(int algorithm, const void *data, size_t length, void *page);

int hz_compress_init(void);
void hz_compress_exit(void);

#endif
