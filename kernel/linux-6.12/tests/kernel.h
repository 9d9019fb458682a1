/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel says about memory, in /proc. */
#ifndef KERNEL_H
#define KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The value of a line of /proc/vmstat; bails out where there is no such line. */
long vmstat(const char *name);

/* The value of a line of /proc/meminfo in KiB; bails out likewise. */
long meminfo(const char *name);

/*
 * The sum of a line of /proc/self/smaps in KiB, over all VMAs that overlap length bytes
 * from memory. Bails out where no VMA has it.
 */
long smaps(const char *memory, size_t length, const char *name);

/* Makes a file of /proc or /sys read from begin to end; bails out where it cannot be. */
void read_all(const char *path);

/* Writes value to a file of /proc or /sys; bails out where it cannot be. */
void set_file(const char *path, const char *value);

/* Marks the frames' pages as idle, a multiple of 64 of them; false where the kernel tracks none. */
bool mark_idle(uint64_t frame, size_t frames);
/* How many of the frames begin a page that is idle still. */
size_t idle_pages(uint64_t frame, size_t frames);

/* Whether there is another NUMA node to move memory to. */
bool two_nodes(void);

/* The node of a page, or a negative errno. */
int node_of(const char *page);

/* NUMA balancing: 0 or 1. */
#define BALANCING "/proc/sys/kernel/numa_balancing"

/*
 * It looks every few seconds, the less often the more it finds in its place. This is how long it may take to look twice, where
 * guests are emulated, and to move a gigabyte.
 */
#define SECONDS_OF_BALANCING 300

/* Has this thread run on the CPUs of a node only, and on all that it may run on. Bails out where that cannot be. */
void run_on_node(int node);
void run_anywhere(void);

/* Ends a child that ran to its own exit; true if that was with status 0. */
bool ended_well(pid_t child);

/* Swap on a RAM disk; false where the kernel has none. Undone by swap_off(). */
bool swap_on(void);
void swap_off(void);

/* A memory cgroup that this process is in from now on; false where there is no cgroup2. */
bool cgroup_enter(void);
/* Writes to a file of it, false on an error (such as reclaim that came not far enough). */
bool cgroup_write(const char *file, const char *value);
/* Back to the root group, and the group is gone. */
void cgroup_leave(void);

#endif /* KERNEL_H */
