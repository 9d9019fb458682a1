/* SPDX-License-Identifier: GPL-2.0 */
/* /dev/mega's requests as functions, and what else the tests ask the kernel. */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "../module/mega_ioctl.h"

#define PAGE 4096UL
#define HUGE (2UL << 20)
#define GIANT (1UL << 30)

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* The device, opened; bails out when it is not there. */
int device_open(void);

int pidfd_of(pid_t pid);

/* Requests with size filled in and everything else 0. */
struct mega_info info_request(void);
struct mega_scan_task scan_task_request(int pidfd, const void *start, size_t length,
					struct mega_region *regions, uint32_t capacity);
struct mega_scan_blocks scan_blocks_request(uint64_t start_frame, struct mega_block *blocks,
					    uint32_t count);
struct mega_compact compact_request(uint64_t frame, uint32_t order);
struct mega_promote promote_request(int pidfd, const void *start);
struct mega_demote demote_request(int pidfd, const void *start);
struct mega_free_zero free_zero_request(int pidfd, const void *start);
struct mega_exchange exchange_request(int pidfd, struct mega_pair *pairs, uint32_t count);

/* Whether INFO says that PROMOTE and DEMOTE are there; and FREE_ZERO. */
bool giant_available(int device);
bool free_zero_available(int device);
/* Whether INFO says that COMPACT can be told what to move nothing into. */
bool avoid_available(int device);
/* Whether INFO says that EXCHANGE is there. */
bool exchange_available(int device);
/* Whether INFO says that an access taken away is handed on to reclaim. */
bool keeps_young(int device);

/* COMPACT; bails out when the request is refused. */
struct mega_compact compact(int device, uint64_t frame, uint32_t order, uint32_t flags);

/*
 * COMPACT of a range that others may allocate from, again until it stops as it
 * should: a page that is just being allocated, freed or moved by somebody is busy,
 * held or unmovable for that moment. Returns the last answer.
 */
struct mega_compact compact_until(int device, uint64_t frame, uint32_t order, uint32_t flags,
				  uint32_t stop);

/* Prints what came of it as a remark. */
void compact_note(const struct mega_compact *request);

/* The name of an enum mega_stop. */
const char *stop_name(uint32_t stop);

/* The frame that maps address in this process, 0 for none. */
uint64_t frame_of(const void *address);

/* Those of so many pages from address on, at once: page by page that takes minutes in a guest under KASAN. */
void frames_of(const void *address, uint64_t *frames, size_t pages);

/* /proc/kpageflags of one frame; KPF_* are in linux/kernel-page-flags.h. */
uint64_t flags_of(uint64_t frame);

/* One past the last frame of memory, as INFO says. */
uint64_t end_frame(int device);

/* Anonymous memory at a multiple of 2 MiB, never huge by itself. */
char *map_aligned(size_t length);

/* Writes value and a line end to a file, such as in /sys. False on an error. */
bool write_file(const char *path, const char *value);

/* The first number in a file, or fallback. */
long read_number(const char *path, long fallback);

/* Seconds from the environment variable, or else fallback. */
long seconds_of(const char *variable, long fallback);

/* The size of what memory goes offline in; 0 where the kernel does not tell. */
unsigned long memory_block_bytes(void);

/* Makes the memory block of that number go "offline" or "online"; whether it did. */
bool set_memory_state(unsigned long block, const char *state);
/* Whether its state begins so: "online", "going-offline". */
bool memory_state_is(unsigned long block, const char *state);

#endif /* DEVICE_H */
