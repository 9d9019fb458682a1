/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the module offer to each other. */
#ifndef MEGA_H
#define MEGA_H

#include <linux/types.h>
#include "mega_ioctl.h"

/* Largest mega_scan_task.capacity: 128 GiB of regions in one call. */
#define MEGA_MAX_REGIONS 65536
/* Largest mega_scan_blocks.count: 1 TiB, 8 MiB of records, in one call. */
#define MEGA_MAX_BLOCKS 524288
#define MEGA_MIN_ORDER 9
#define MEGA_MAX_ORDER 18

/*
 * One of the device's requests. argument is the kernel's own copy of struct
 * mega_NAME; its size is right. check() says whether it may be asked for, and
 * changes nothing. run() does it and writes its results there; they are copied
 * to user space where it returns 0.
 */
struct mega_request {
	unsigned int command;	/* MEGA_IOC_NAME, of which size is a part */
	int (*check)(const void *argument);
	int (*run)(void *argument);
};

extern const struct mega_request mega_request_info;
extern const struct mega_request mega_request_scan_task;
extern const struct mega_request mega_request_scan_blocks;
extern const struct mega_request mega_request_compact;
extern const struct mega_request mega_request_promote;
extern const struct mega_request mega_request_demote;
extern const struct mega_request mega_request_free_zero;
extern const struct mega_request mega_request_exchange;

/* Whether this kernel can empty a block. */
bool mega_compact_available(void);
/* Whether this kernel, on this CPU, has PROMOTE and DEMOTE. */
bool mega_giant_available(void);
/* Whether PROMOTE can collapse base pages. */
bool mega_collapse_available(void);
/* Whether this kernel has FREE_ZERO. */
bool mega_free_zero_available(void);
/* Whether this kernel has EXCHANGE. */
bool mega_exchange_pairs_available(void);

/* Whether start can be a span's in the user's half of the address space. */
bool mega_is_span(u64 start);

#endif /* MEGA_H */
