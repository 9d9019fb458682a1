/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the module offer to each other. */
#ifndef MEGA_H
#define MEGA_H

#include <linux/types.h>
#include <linux/version.h>
#include "mega_ioctl.h"

/*
 * The module reads page tables and struct page as 6.12 lays them out and locks
 * them. Another series needs a review first, not only a compiler.
 */
#if LINUX_VERSION_MAJOR != 6 || LINUX_VERSION_PATCHLEVEL != 12
#error "mega.ko is for Linux 6.12: its locking follows that series"
#endif

/* Largest mega_scan_task.capacity: 128 GiB of regions in one call. */
#define MEGA_MAX_REGIONS 65536
/* Largest mega_scan_blocks.count: 1 TiB, 8 MiB of records, in one call. */
#define MEGA_MAX_BLOCKS 524288
#define MEGA_MIN_ORDER 9
#define MEGA_MAX_ORDER 18

long mega_ioctl_info(void __user *argument);
long mega_ioctl_scan_task(void __user *argument);
long mega_ioctl_scan_blocks(void __user *argument);
long mega_ioctl_compact(void __user *argument);
long mega_ioctl_promote(void __user *argument);
long mega_ioctl_demote(void __user *argument);
long mega_ioctl_free_zero(void __user *argument);

/* Whether this kernel, on this CPU, has PROMOTE and DEMOTE. */
bool mega_giant_available(void);
/* Whether this kernel has FREE_ZERO. */
bool mega_free_zero_available(void);

/* Whether start can be a span's in the user's half of the address space. */
bool mega_is_span(u64 start);

#endif /* MEGA_H */
