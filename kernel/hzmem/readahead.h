/* SPDX-License-Identifier: GPL-2.0 */
/* Decompresses the neighbours of a page that was faulted in. */
#ifndef HZMEM_READAHEAD_H
#define HZMEM_READAHEAD_H

#include <linux/fs.h>

struct hz_overlay;

void hz_readahead(struct inode *inode, struct hz_overlay *overlay,
		  pgoff_t index);
void hz_readahead_drain(void);
int hz_readahead_init(void);
void hz_readahead_exit(void);

#endif
