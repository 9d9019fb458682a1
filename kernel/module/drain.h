/* SPDX-License-Identifier: GPL-2.0 */
#ifndef MEGA_DRAIN_H
#define MEGA_DRAIN_H

/*
 * Puts the pages that wait in per-CPU batches on their LRU lists, on all CPUs.
 * Sleeps until every CPU has run a short work item. One caller at a time.
 */
void mega_drain_lru(void);

#endif /* MEGA_DRAIN_H */
