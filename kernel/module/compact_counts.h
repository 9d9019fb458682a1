/* SPDX-License-Identifier: GPL-2.0 */
/* What a compaction of ours does, as counted by the kernel itself. */
#ifndef MEGA_COMPACT_COUNTS_H
#define MEGA_COMPACT_COUNTS_H

#include <linux/types.h>

struct compact_counts {
	u64 scanned;
	u64 isolated;
	u64 migrated;
	u64 failed;
};

/*
 * alloc_contig_range() reports success or failure only. The kernel's tracepoints
 * for isolation and migration run in the task that compacts, so a probe can
 * count for it. Without them nothing is counted.
 */
void mega_counts_init(void);
void mega_counts_exit(void);
bool mega_counts_available(void);

/*
 * Between these two the tracepoints are hooked. One task at a time. Where the first
 * fails (ENOMEM) there is nothing to release. It takes the CPU hotplug lock, so not
 * between mega_hotplug_enter() and leave.
 */
int mega_counts_hold(void);
void mega_counts_release(void);

/*
 * And between these two, within, the current task's isolations and migrations are
 * added to counts.
 */
void mega_counts_begin(struct compact_counts *counts);
void mega_counts_end(void);

#endif /* MEGA_COMPACT_COUNTS_H */
