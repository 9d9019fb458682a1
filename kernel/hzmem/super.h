/* SPDX-License-Identifier: GPL-2.0 */
/* The file system type. */
#ifndef HZMEM_SUPER_H
#define HZMEM_SUPER_H

#include <linux/fs.h>
#include <linux/statfs.h>

u64 hz_compressed_by_default(void);

int hz_statfs(struct dentry *dentry, struct kstatfs *out);
int hz_show_options(struct seq_file *out, struct dentry *root);

int hz_super_init(void);
void hz_super_exit(void);

#endif
