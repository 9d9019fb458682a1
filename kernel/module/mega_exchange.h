/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * The page through which a guest asks its host to exchange what is behind pairs
 * of guest-physical 2 MiB blocks. It is BAR 2 of QEMU's ivshmem-doorbell; an
 * exchanger in the VMM's process (crates/exchange) serves it.
 *
 * Little endian, naturally aligned. The header fills the first 4 KiB, the pairs
 * the 12 KiB after it.
 *
 * A request, one at a time:
 *
 *  - The guest writes a random token into the first 8 bytes of each target, and
 *    into the last 8. It fills the pairs (state PENDING), then pairs and sequence.
 *    It changes state from IDLE or DONE or CANCELLED to PENDING (release), writes
 *    host_peer << 16 to MEGA_EXCHANGE_BAR0_DOORBELL once, and polls.
 *  - The host changes state from PENDING to RUNNING, copies the pairs and checks
 *    its copy. It changes each pair from PENDING to RUNNING just before it
 *    exchanges it, writes result, and sets DONE (release). At the end it writes
 *    done_sequence and changes state from RUNNING to DONE.
 *  - To give up, the guest changes state from PENDING to CANCELLED. Where that
 *    fails as the host is RUNNING, it does the same with each pair. A request or a
 *    pair that was cancelled is never carried out.
 *
 * Results are advice. The token says what happened: where the first 8 bytes of
 * the source hold it, the pair was exchanged; where those of the target do, it
 * was not. From PENDING to DONE nobody may touch a source or a target: what is
 * written there may be lost. All or nothing of a pair is exchanged.
 *
 * The host puts the target's memory aside, moves the source's to the target and
 * the target's to the source, from the first page to the last. So if it stops in
 * the middle the source's contents are in the guest all the same: while the token
 * is in neither block, each of their pages is in one of the two, and in the other
 * there is nothing, which is read as zeroes.
 *
 * No field that the host reads is trusted by it, and none that the guest reads
 * may be trusted by the guest.
 */
#ifndef MEGA_EXCHANGE_H
#define MEGA_EXCHANGE_H

#include <linux/types.h>

/* ivshmem-doorbell: its PCI id, and its registers in BAR 0. */
#define MEGA_EXCHANGE_PCI_VENDOR 0x1af4
#define MEGA_EXCHANGE_PCI_DEVICE 0x1110
#define MEGA_EXCHANGE_BAR0_POSITION 8
#define MEGA_EXCHANGE_BAR0_DOORBELL 12

/* The bytes of BAR 2. */
#define MEGA_EXCHANGE_BYTES 0x4000
/* Where the pairs begin. */
#define MEGA_EXCHANGE_PAIRS_OFFSET 0x1000

/* The bytes "MEGAEXCH" in the order of addresses. */
#define MEGA_EXCHANGE_MAGIC 0x484358454147454dULL
#define MEGA_EXCHANGE_VERSION 1
#define MEGA_EXCHANGE_MAX_PAIRS 512
#define MEGA_EXCHANGE_PAGE_SHIFT 21

/* features: an exchanger answers. Only the host writes it. Without it, copy. */
#define MEGA_EXCHANGE_FEATURE_SERVING 0x1U

/* refusal: why none answers. Only the host writes it, and 0 if it does not know. */
#define MEGA_EXCHANGE_REFUSES_DEVICES 1U	/* devices are assigned to the guest */
#define MEGA_EXCHANGE_REFUSES_ENCRYPTED 2U	/* the guest is encrypted */
#define MEGA_EXCHANGE_REFUSES_MEMORY 3U		/* its memory is shared, of a file, hugetlb */
#define MEGA_EXCHANGE_REFUSES_HOST 4U		/* the host's kernel or daemon cannot */
#define MEGA_EXCHANGE_REFUSES_OTHER 5U

/* state, of a request and of a pair (which is never IDLE) */
#define MEGA_EXCHANGE_IDLE 0
#define MEGA_EXCHANGE_PENDING 1
#define MEGA_EXCHANGE_RUNNING 2
#define MEGA_EXCHANGE_DONE 3
#define MEGA_EXCHANGE_CANCELLED 4

struct mega_exchange_header {
	__u64 magic;		/* MEGA_EXCHANGE_MAGIC */
	__u32 version;		/* MEGA_EXCHANGE_VERSION */
	__u32 features;
	__u32 host_peer;	/* the peer of the doorbell */
	__u32 max_pairs;	/* MEGA_EXCHANGE_MAX_PAIRS */
	__u32 page_shift;	/* MEGA_EXCHANGE_PAGE_SHIFT */
	__u32 refusal;		/* MEGA_EXCHANGE_REFUSES_*, or 0 */
	__u32 state;		/* changed by compare-and-exchange only */
	__u32 pairs;		/* how many are meant, 1 to max_pairs */
	__u64 sequence;		/* the guest counts its requests */
	__u64 done_sequence;	/* the sequence of the last request that ended */
	__u64 session;		/* random, of the exchanger's life */
};

struct mega_exchange_pair {
	__u64 source;		/* guest-physical, a multiple of 2 MiB */
	__u64 target;
	__u32 state;		/* changed by compare-and-exchange only */
	/*
	 * 0 exchanged; else nothing happened to the pair:
	 * -EINVAL	not aligned, source is target, or in another pair too
	 * -EPERM	not this guest's memory
	 * -EOPNOTSUPP	memory that cannot be exchanged (hugetlb, shared)
	 * -EBUSY	pinned, shared with a child process, or in use
	 * -EAGAIN	the VMM has paused exchanges, or the guest is migrated
	 * -ENOMEM	the host lacks memory
	 * -EIO		failed and was undone
	 */
	__s32 result;
};

#endif
