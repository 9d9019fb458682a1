// SPDX-License-Identifier: GPL-2.0
/*
 * Faults to order, for tests: what is written to debugfs hzmem/ is how many times
 * they happen. A wrong byte in compressed data; no base memory for it; a memory error in a
 * page that is read.
 */

#include <linux/atomic.h>
#include <linux/debugfs.h>
#include "inject.h"

static struct dentry *folder;
static atomic_t failures = ATOMIC_INIT(0);
static atomic_t corruptions = ATOMIC_INIT(0);
static atomic_t memory_errors = ATOMIC_INIT(0);

bool hz_inject_failure(void)
{
	return atomic_dec_if_positive(&failures) >= 0;
}

bool hz_inject_memory_error(void)
{
	return atomic_dec_if_positive(&memory_errors) >= 0;
}

void hz_inject_corruption(void *data, size_t length)
{
	u8 *bytes = data;

	if (atomic_dec_if_positive(&corruptions) >= 0)
		bytes[length / 2] ^= 0x40;
}

void hz_inject_init(void)
{
	folder = debugfs_create_dir("hzmem", NULL);
	debugfs_create_atomic_t("fail_alloc", 0600, folder, &failures);
	debugfs_create_atomic_t("corrupt", 0600, folder, &corruptions);
	debugfs_create_atomic_t("memory_error", 0600, folder, &memory_errors);
}

void hz_inject_exit(void)
{
	debugfs_remove(folder);
}
