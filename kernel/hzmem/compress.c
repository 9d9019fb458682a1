// SPDX-License-Identifier: GPL-2.0
/* LZ4, LZO and zstd behind one face. A kernel may lack any of them. */

#include <linux/lz4.h>
#include <linux/lzo.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <linux/vmalloc.h>
#include <linux/zstd.h>
#include "compress.h"

#define HAS_LZ4 (IS_ENABLED(CONFIG_LZ4_COMPRESS) && \
		 IS_ENABLED(CONFIG_LZ4_DECOMPRESS))
#define HAS_LZO (IS_ENABLED(CONFIG_LZO_COMPRESS) && \
		 IS_ENABLED(CONFIG_LZO_DECOMPRESS))
#define HAS_ZSTD (IS_ENABLED(CONFIG_ZSTD_COMPRESS) && \
		  IS_ENABLED(CONFIG_ZSTD_DECOMPRESS))

/* Beyond the first levels zstd is too slow for what it gains on a page. */
#define ZSTD_LEVEL 1

static const char * const names[HZ_ALGORITHMS] = {
	[HZ_LZ4] = "lz4",
	[HZ_LZO] = "lzo",
	[HZ_ZSTD] = "zstd",
};

bool hz_has_algorithm(int algorithm)
{
	switch (algorithm) {
	case HZ_LZ4:
		return HAS_LZ4;
	case HZ_LZO:
		return HAS_LZO;
	case HZ_ZSTD:
		return HAS_ZSTD;
	default:
		return false;
	}
}

const char *hz_algorithm_name(int algorithm)
{
	return algorithm == HZ_NO_ALGORITHM ? "none" : names[algorithm];
}

/* HZ_NO_ALGORITHM for "none", -EINVAL for one that this kernel does not have. */
int hz_find_algorithm(const char *name)
{
	int algorithm;

	if (!strcmp(name, "none"))
		return HZ_NO_ALGORITHM;
	algorithm = match_string(names, HZ_ALGORITHMS, name);
	/* -EINVAL is not HZ_NO_ALGORITHM. */
	return hz_has_algorithm(algorithm) ? algorithm : -EINVAL;
}

/* ---- zstd ---------------------------------------------------------------- */

/*
 * Decompressing needs memory too. Faults take it as they go; when there is none,
 * they take turns with this one, so that none of them fails for want of it.
 */
static DEFINE_MUTEX(reserve_lock);
static void *reserve;

static zstd_parameters zstd_settings(void)
{
	return zstd_get_params(ZSTD_LEVEL, PMD_SIZE);
}

static size_t compress_zstd(const void *page, void *out, void *memory)
{
	zstd_parameters settings = zstd_settings();
	zstd_cctx *context;
	size_t length;

	context = zstd_init_cctx(memory,
				 zstd_cctx_workspace_bound(&settings.cParams));
	if (!context)
		return 0;
	length = zstd_compress_cctx(context, out, HZ_MAX_COMPRESSED, page,
				    PMD_SIZE, &settings);
	return zstd_is_error(length) ? 0 : length;
}

static bool decompress_zstd_in(void *memory, const void *data, size_t length,
			       void *page)
{
	zstd_dctx *context = zstd_init_dctx(memory, zstd_dctx_workspace_bound());

	return context && zstd_decompress_dctx(context, page, PMD_SIZE, data,
					       length) == PMD_SIZE;
}

static bool decompress_zstd(const void *data, size_t length, void *page)
{
	void *memory = __vmalloc(zstd_dctx_workspace_bound(),
				 GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY);
	bool done;

	if (memory) {
		done = decompress_zstd_in(memory, data, length, page);
		vfree(memory);
		return done;
	}
	mutex_lock(&reserve_lock);
	done = decompress_zstd_in(reserve, data, length, page);
	mutex_unlock(&reserve_lock);
	return done;
}

/* ---- LZ4, LZO ------------------------------------------------------------ */

static size_t compress_lz4(const void *page, void *out, void *memory)
{
	int length = LZ4_compress_default(page, out, PMD_SIZE,
					  HZ_MAX_COMPRESSED, memory);

	return max(length, 0);
}

static bool decompress_lz4(const void *data, size_t length, void *page)
{
	return LZ4_decompress_safe(data, page, length, PMD_SIZE) == PMD_SIZE;
}

static size_t compress_lzo(const void *page, void *out, void *memory)
{
	size_t length = HZ_OUT_SIZE;

	if (lzo1x_1_compress(page, PMD_SIZE, out, &length, memory) != LZO_E_OK)
		return 0;
	return length;
}

static bool decompress_lzo(const void *data, size_t length, void *page)
{
	size_t size = PMD_SIZE;

	return lzo1x_decompress_safe(data, length, page, &size) == LZO_E_OK &&
	       size == PMD_SIZE;
}

/* ---- All of them ---------------------------------------------------------- */

size_t hz_memory_size(int algorithm)
{
	switch (algorithm) {
	case HZ_LZ4:
		return LZ4_MEM_COMPRESS;
	case HZ_LZO:
		return LZO1X_1_MEM_COMPRESS;
	default:
		if (HAS_ZSTD) {
			zstd_parameters settings = zstd_settings();

			return zstd_cctx_workspace_bound(&settings.cParams);
		}
		return 0;
	}
}

/*
 * Compresses a page to out (HZ_OUT_SIZE bytes), with memory of the algorithm's own.
 * Returns the length, or 0 if it is above HZ_MAX_COMPRESSED.
 */
size_t hz_compress(int algorithm, const void *page, void *out, void *memory)
{
	size_t length = 0;

	if (HAS_LZ4 && algorithm == HZ_LZ4)
		length = compress_lz4(page, out, memory);
	else if (HAS_LZO && algorithm == HZ_LZO)
		length = compress_lzo(page, out, memory);
	else if (HAS_ZSTD && algorithm == HZ_ZSTD)
		length = compress_zstd(page, out, memory);
	return length <= HZ_MAX_COMPRESSED ? length : 0;
}

/* Whether the data gave exactly a page. What is in the page otherwise is undefined. */
bool hz_decompress(int algorithm, const void *data, size_t length, void *page)
{
	if (HAS_LZ4 && algorithm == HZ_LZ4)
		return decompress_lz4(data, length, page);
	if (HAS_LZO && algorithm == HZ_LZO)
		return decompress_lzo(data, length, page);
	if (HAS_ZSTD && algorithm == HZ_ZSTD)
		return decompress_zstd(data, length, page);
	return false;
}

int hz_compress_init(void)
{
	if (!HAS_ZSTD)
		return 0;
	reserve = vmalloc(zstd_dctx_workspace_bound());
	return reserve ? 0 : -ENOMEM;
}

void hz_compress_exit(void)
{
	vfree(reserve);
}
