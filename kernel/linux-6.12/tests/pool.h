/* SPDX-License-Identifier: GPL-2.0 */
/* The size of 1 GiB in sysfs: who may have it at a fault, and the pool that it comes from. */
#ifndef POOL_H
#define POOL_H

#include <stdbool.h>
#include <stdint.h>

#define SIZE_FOLDER "/sys/kernel/mm/transparent_hugepage/hugepages-1048576kB"

/* Sets who may have it: "always", "madvise", "inherit" or "never". */
void size_enable(const char *who);

/* A counter of the size. */
long size_stat(const char *name);

/* What pool_chunks says: chunks that are zeroed and ready, on all nodes. */
long pool_chunks(void);

/* How many nodes have memory. */
int nodes_with_memory(void);

/* How many threads fill it, and in *nice the nice value of one of them. */
int pool_threads(long *nice);

/* Sets how many chunks each node shall have, without waiting; as fast as it goes. */
void pool_want(unsigned int chunks);

/* Waits until there are so many on all nodes, or for a minute; whether they are. */
bool pool_reaches(long chunks);

/* Waits until the pool's memory is `chunks` GiB, those that are being zeroed too; whether it is. */
bool pool_memory_reaches(long chunks);

/*
 * Has each node have that many chunks, and bails out if they do not come. For tests that take from it.
 */
void pool_fill(unsigned int chunks);

/* Empties it, and waits for that. */
void pool_empty(void);

/*
 * First frame of the last chunk that is in the pool and zeroed, or 0. The last, because the kernel's own memory is mostly on
 * the first node: that may have no other.
 */
uint64_t pooled_frame(uint64_t end);

#endif /* POOL_H */
