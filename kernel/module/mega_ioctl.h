/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The interface of /dev/mega: mechanism for huge pages that an unmodified
 * kernel does not offer to user space. Policy stays in user space.
 *
 * Every request is one ioctl with one fixed-size structure.
 *
 *  - Every call needs CAP_SYS_ADMIN in the initial user namespace at the time
 *    of the call, whoever opened the device (EPERM); a call about a process other
 *    than the caller CAP_SYS_PTRACE in the user namespace of its memory as well.
 *  - The member size is the size of the structure and is checked against the
 *    one that the module was built with (EINVAL). A changed structure gets a
 *    new size, so a new request number, and a new MEGA_INTERFACE_VERSION.
 *  - Unknown flags, and members called reserved that are not zero: EINVAL.
 *  - Pointers are passed as __u64, are checked to be writable before anything
 *    is done (EFAULT), and must be aligned to 8 bytes (EINVAL).
 *  - When a call fails nothing was changed; except that a buffer unmapped while
 *    the call runs (EFAULT) leaves cleared what was cleared by then, and that a
 *    caller who is killed (EINTR) leaves given back what was by then.
 *
 * Units: a base page is 4 KiB; a frame number (PFN) is a physical address
 * divided by 4096; a region is an aligned 2 MiB of virtual addresses; a block is
 * an aligned 2 MiB of physical memory; a span is an aligned 1 GiB of virtual
 * addresses; a chunk is an aligned 1 GiB of physical memory.
 */
#ifndef MEGA_IOCTL_H
#define MEGA_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define MEGA_DEVICE "/dev/mega"
#define MEGA_INTERFACE_VERSION 1

#define MEGA_REGION_PAGES 512
#define MEGA_REGION_BYTES 0x200000ULL
#define MEGA_BLOCK_FRAMES 512
#define MEGA_SPAN_BYTES 0x40000000ULL
#define MEGA_CHUNK_FRAMES 0x40000ULL

/* ---- INFO -------------------------------------------------------------- */

/* SCAN_TASK is there. */
#define MEGA_FEATURE_SCAN_TASK 0x1ULL
/* SCAN_BLOCKS is there. */
#define MEGA_FEATURE_SCAN_BLOCKS 0x2ULL
/* COMPACT is there. Without this bit it fails with EOPNOTSUPP. */
#define MEGA_FEATURE_COMPACT 0x4ULL
/*
 * COMPACT's scanned, isolated, migrated and failed are counted by the kernel
 * itself (its tracepoints were found). Without this bit those members are 0.
 */
#define MEGA_FEATURE_COMPACT_COUNTS 0x8ULL
/*
 * SCAN_TASK with MEGA_TASK_CLEAR hands the accesses it took away on to the
 * kernel's reclaim and idle page tracking (the folio's young flag). Without
 * this bit a cleared page looks older to reclaim than it is.
 */
#define MEGA_FEATURE_KEEPS_YOUNG 0x10ULL
/* SCAN_TASK with MEGA_TASK_CLEAR flushes the TLB. Never set by this version. */
#define MEGA_FEATURE_FLUSH 0x20ULL
/* MEGA_TASK_CLEAR reaches secondary MMUs. Never set by this version. */
#define MEGA_FEATURE_SECONDARY 0x40ULL
/*
 * PROMOTE and DEMOTE are there: the kernel has CONFIG_ANON_PUD and the CPU can
 * map 1 GiB by one entry. Without this bit both fail with EOPNOTSUPP.
 */
#define MEGA_FEATURE_GIANT 0x80ULL
/*
 * FREE_ZERO is there: the kernel has CONFIG_ANON_PUD. Without this bit it fails
 * with EOPNOTSUPP.
 */
#define MEGA_FEATURE_FREE_ZERO 0x100ULL

/*
 * A hypervisor is there that exchanges the memory of 2 MiB pages for PROMOTE, as
 * far as it can; may come and go. Without this bit all that is moved is copied.
 */
#define MEGA_FEATURE_EXCHANGE 0x200ULL

/*
 * PROMOTE knows MEGA_PROMOTE_COLLAPSE. Without this bit it fails with EOPNOTSUPP
 * where that is asked for.
 */
#define MEGA_FEATURE_COLLAPSE 0x400ULL

/*
 * COMPACT knows mega_compact.avoid (a kernel of kernel/linux-6.12). Without this bit
 * it fails with EOPNOTSUPP where that is not 0.
 */
#define MEGA_FEATURE_AVOID 0x800ULL

/*
 * EXCHANGE is there (a kernel of kernel/linux-6.12). Without this bit it fails with
 * EOPNOTSUPP.
 */
#define MEGA_FEATURE_EXCHANGE_PAIRS 0x1000ULL

struct mega_info {
	__u32 size;
	__u32 version;		/* out: MEGA_INTERFACE_VERSION */
	__u64 features;		/* out: MEGA_FEATURE_* */
	__u64 end_frame;	/* out: one past the last frame of any zone */
	__u32 max_regions;	/* out: largest mega_scan_task.capacity */
	__u32 max_blocks;	/* out: largest mega_scan_blocks.count */
	__u32 min_order;	/* out: smallest mega_compact.order */
	__u32 max_order;	/* out: largest mega_compact.order */
	__u32 page_table_levels; /* out: 4 or 5 */
	__u32 reserved;
	__u64 reserved2[2];
};

/* ---- SCAN_TASK --------------------------------------------------------- */

/*
 * Clear, in the same pass, every Accessed bit that was read as set. The TLB is
 * not flushed, as for the kernel's own idle page tracking on x86: a
 * translation that stays in a TLB does not set the bit again until it is
 * evicted. Without the flag nothing is changed.
 */
#define MEGA_TASK_CLEAR 0x1U

/* One VMA covers the whole region: it could be one huge page. */
#define MEGA_REGION_WHOLE 0x1U
/* All of the region that is mapped is private anonymous memory. */
#define MEGA_REGION_ANONYMOUS 0x2U
/* A VMA in it is marked MADV_NOHUGEPAGE. */
#define MEGA_REGION_NOHUGEPAGE 0x4U
/* A VMA in it is mlocked. */
#define MEGA_REGION_LOCKED 0x8U
/*
 * hugetlb memory. It is reported by its VMA alone with its page_shift; its
 * page tables are shared and locked by rules of their own, so mapped and
 * accessed are 0 and nothing is cleared.
 */
#define MEGA_REGION_HUGETLB 0x10U
/* The zero page maps some of it. Those pages are not counted as mapped. */
#define MEGA_REGION_ZERO_PAGE 0x20U

/* One region with at least one page mapped (or of a hugetlb VMA). */
struct mega_region {
	__u64 address;		/* of its first byte */
	__u16 mapped;		/* base pages with a physical page, 0 to 512 */
	__u16 accessed;		/* of them, with the Accessed bit set; a larger
				 * page has one bit for all its base pages
				 */
	__u8 page_shift;	/* of what maps it: 12, 21 or 30 */
	__u8 reserved;		/* 0 */
	__u16 flags;		/* MEGA_REGION_* */
};

/* Bit N of word N / 64 is base page N of the region. */
struct mega_region_maps {
	__u64 mapped[MEGA_REGION_PAGES / 64];
	__u64 accessed[MEGA_REGION_PAGES / 64];
};

/*
 * A secondary MMU (a virtual machine's, a device's) maps the process too; its
 * own Accessed bits were neither read nor cleared, because the kernel does not
 * export the means.
 */
#define MEGA_TASK_SECONDARY_NOT_SEEN 0x1U

/*
 * Scans the page tables of the process that pidfd names, over start to
 * start + length, both multiples of 2 MiB. Regions with nothing mapped, and
 * mappings that have no struct page (VM_PFNMAP, VM_IO), are left out.
 *
 * The target's mmap lock is held for reading, and is dropped after every 64
 * page-table pages or 128 regions reported and whenever somebody waits for it.
 *
 * The scan stops early, successfully, when regions is full or a signal is
 * pending: next is where to go on. A whole scan ends with
 * next == start + length.
 *
 * A page mapped twice has two Accessed bits. A giant page (1 GiB) has one for all
 * its regions; it is cleared when the last of them is scanned.
 *
 * Errors, beside the general ones: EBADF pidfd is not a pidfd; ESRCH the
 * process has no memory (any more), or is a kernel thread; EINTR a signal came
 * before anything was scanned; ENOMEM.
 */
struct mega_scan_task {
	__u32 size;
	__u32 flags;		/* MEGA_TASK_* */
	__s32 pidfd;
	__u32 capacity;		/* entries of regions, 1 to max_regions */
	__u64 start;
	__u64 length;
	__u64 regions;		/* struct mega_region[capacity] */
	__u64 maps;		/* struct mega_region_maps[capacity], or 0 */
	__u64 reserved;
	__u64 next;		/* out */
	__u64 tables;		/* out: pages of page table entries read */
	__u64 cleared;		/* out: Accessed bits cleared */
	__u64 nanoseconds;	/* out: time taken */
	__u32 count;		/* out: entries of regions filled */
	__u32 result;		/* out: MEGA_TASK_SECONDARY_NOT_SEEN */
};

/* ---- SCAN_BLOCKS ------------------------------------------------------- */

/* Forget, after reporting them, the accesses gathered so far. */
#define MEGA_BLOCKS_RESET 0x1U

/* The block is not online memory: all its counts are 0. */
#define MEGA_BLOCK_ABSENT 0x1U
/* First scan of the block since the module was loaded: see age and accessed. */
#define MEGA_BLOCK_NEW 0x2U
/* The whole block is one page (or part of one) of 2 MiB or more. */
#define MEGA_BLOCK_HUGE 0x4U
/* Some frames of the block belong to pages that are mlocked. */
#define MEGA_BLOCK_UNEVICTABLE 0x8U
/* No state could be kept for the block (no memory): age and accessed are 0. */
#define MEGA_BLOCK_UNTRACKED 0x10U
/*
 * Its pageblock is kept for atomic allocations (MIGRATE_HIGHATOMIC) or CMA, or is
 * isolated by somebody. COMPACT leaves it alone (MEGA_STOP_UNMOVABLE).
 */
#define MEGA_BLOCK_RESERVED 0x20U

/* enum zone_type of a kernel with all zones. */
#define MEGA_ZONE_DMA 0
#define MEGA_ZONE_DMA32 1
#define MEGA_ZONE_NORMAL 2
#define MEGA_ZONE_MOVABLE 3
#define MEGA_ZONE_NONE 255

/*
 * One block. free + movable + unmovable is 512, or 0 where there is no online
 * memory (frames the firmware keeps, inside a block that has some, are
 * unmovable). The counts are a snapshot taken without locks, as
 * /proc/kpageflags is: pages come and go while it is taken.
 */
struct mega_block {
	__u16 free;		/* in the buddy allocator or a per-CPU list */
	__u16 movable;		/* in use; the kernel could migrate it, now or in
				 * a moment (locked, written back, isolated)
				 */
	__u16 unmovable;	/* in use by the kernel, or pinned, or held by
				 * references that nothing explains
				 */
	__u16 huge;		/* of movable: in pages of 2 MiB or more */
	__u16 accessed;		/* frames seen accessed by SCAN_TASK with
				 * MEGA_TASK_CLEAR since the last
				 * MEGA_BLOCKS_RESET, each counted once
				 */
	__u8 zone;		/* MEGA_ZONE_*, of its first frame */
	__u8 flags;		/* MEGA_BLOCK_* */
	__u32 age;		/* milliseconds since the scan that last found a
				 * frame in use that the scan before it had
				 * found free; so at the resolution of the scans.
				 * 0 on the first. Saturates.
				 */
};

/*
 * Reports count blocks from start_frame, a multiple of 512. Blocks beyond the
 * end of memory are reported as MEGA_BLOCK_ABSENT. All callers
 * share one state for age and accessed.
 *
 * Stops early, successfully, on a signal; done says how far it came.
 *
 * Errors, beside the general ones: EBUSY memory is being taken offline; EINTR
 * a signal came before anything was scanned.
 */
struct mega_scan_blocks {
	__u32 size;
	__u32 flags;		/* MEGA_BLOCKS_* */
	__u64 start_frame;
	__u64 blocks;		/* struct mega_block[count] */
	__u32 count;		/* 1 to max_blocks */
	__u32 done;		/* out: entries of blocks filled */
	__u64 nanoseconds;	/* out: time taken */
	__u64 reserved;
};

/* ---- COMPACT ----------------------------------------------------------- */

/* Look, and say why it would stop; move nothing. */
#define MEGA_COMPACT_DRY_RUN 0x1U
/*
 * Move pages of 2 MiB and more too. Without it a range that holds one is not
 * touched (MEGA_STOP_HUGE): emptying one block by filling another gains nothing.
 */
#define MEGA_COMPACT_MOVE_HUGE 0x2U

/* Largest mega_avoid.count. */
#define MEGA_MAX_AVOID 65536

/*
 * Ranges that the caller will empty next, each of 1 << mega_compact.order frames:
 * what is moved goes into none of them, to be moved once more. Where all room is there
 * the call stops with MEGA_STOP_NO_MEMORY, and also where so much of what is free lies
 * there that no other room was found among 32 MiB. Pages of hugetlb, which
 * MEGA_COMPACT_MOVE_HUGE moves, go to wherever their pool has room, and what is in the
 * same range with them.
 */
struct mega_avoid {
	__u64 count;		/* 1 to MEGA_MAX_AVOID */
	__u64 frames[];		/* their first frames, ascending, each once */
};

enum mega_stop {
	MEGA_STOP_DONE = 0,		/* every frame was free at the end */
	MEGA_STOP_ALREADY_FREE = 1,	/* every frame was free before */
	MEGA_STOP_UNMOVABLE = 2,	/* a frame belongs to the kernel, or a block
					 * is MEGA_BLOCK_RESERVED
					 */
	MEGA_STOP_PINNED = 3,		/* a frame is pinned or held */
	MEGA_STOP_BUSY = 4,		/* pages were locked, written back, being
					 * allocated or isolated by others
					 */
	MEGA_STOP_NO_MEMORY = 5,	/* nowhere to move the pages to */
	MEGA_STOP_HUGE = 6,		/* see MEGA_COMPACT_MOVE_HUGE */
	MEGA_STOP_SIGNAL = 7,		/* a fatal signal */
	MEGA_STOP_WOULD = 8,		/* dry run: nothing stands in the way */
};

/*
 * Empties exactly the 1 << order frames from frame, which is a multiple of
 * that, by migrating what is in them, and frees them to the buddy allocator.
 * The range is looked through first, and nothing is moved when any page in it
 * could not be. What changes afterwards is found by the kernel's
 * alloc_contig_range(): pages moved by then stay moved, all else is as before.
 * The pageblocks emptied become MIGRATE_MOVABLE.
 *
 * Clean page cache that no process maps is dropped instead of moved.
 *
 * For base pages it never enters direct reclaim: where no free memory is left it
 * stops. For large folios the kernel may reclaim and compact, in bounds, for a
 * free page of their size; nobody is killed for it. One call at a time moves;
 * others wait, killably. A fatal signal stops it between batches of 32 pages.
 *
 * A valid call succeeds whatever stop is. Errors, beside the general ones: ENXIO
 * the range is not all online memory of one zone; EBUSY memory is being taken
 * offline; EINTR a fatal signal came while waiting for another call; EFAULT or EINVAL
 * mega_avoid cannot be read or says what it must not; ENOMEM there is no memory for it.
 */
struct mega_compact {
	__u32 size;
	__u32 flags;		/* MEGA_COMPACT_* */
	__u64 frame;
	__u32 order;		/* 9 (one block) to 18 (1 GiB) */
	__u32 stop;		/* out: enum mega_stop */
	__u64 blocker;		/* out: the frame that UNMOVABLE, PINNED, BUSY or
				 * HUGE is about, ~0 where none is known
				 */
	__u64 occupied;		/* out: frames in use before */
	__u64 scanned;		/* out: frames looked at for isolation */
	__u64 isolated;		/* out: frames isolated */
	__u64 migrated;		/* out: frames migrated */
	__u64 failed;		/* out: attempts to migrate a frame that failed;
				 * one frame may fail more than once
				 */
	__u64 nanoseconds;	/* out: time taken, without waiting for others */
	__u32 attempts;		/* out: calls of alloc_contig_range() */
	__s32 error;		/* out: what the last returned, 0 or -errno */
	__u64 avoid;		/* where a struct mega_avoid is, or 0: see
				 * MEGA_FEATURE_AVOID
				 */
};

/* ---- PROMOTE ----------------------------------------------------------- */

/* Only if no page has to be moved for it (MEGA_PROMOTE_WOULD_MOVE otherwise). */
#define MEGA_PROMOTE_IN_PLACE 0x1U
/*
 * Regions that base pages map are promoted as well: collapsed by the rules of
 * MADV_COLLAPSE, but straight into the chunk, so that they are copied once.
 */
#define MEGA_PROMOTE_COLLAPSE 0x2U

/* No frame, or: whichever the kernel chooses. */
#define MEGA_ANY_FRAME (~0ULL)

enum mega_promote_stop {
	MEGA_PROMOTE_DONE = 0,		/* a giant page maps the span now */
	MEGA_PROMOTE_ALREADY = 1,	/* and did before */
	MEGA_PROMOTE_NOT_ELIGIBLE = 2,	/* the span does not lie in one private
					 * anonymous VMA that may have huge pages
					 */
	MEGA_PROMOTE_NOT_HUGE = 3,	/* a region of it is not mapped by one
					 * 2 MiB page, see MADV_COLLAPSE; with
					 * MEGA_PROMOTE_COLLAPSE: nor can it be
					 */
	MEGA_PROMOTE_BUSY = 4,		/* a page is pinned, shared, or changed
					 * meanwhile: later, perhaps
					 */
	MEGA_PROMOTE_NO_CHUNK = 5,	/* no chunk to move the pages to */
	MEGA_PROMOTE_SIGNAL = 6,	/* a fatal signal */
	MEGA_PROMOTE_WOULD_MOVE = 7,	/* see MEGA_PROMOTE_IN_PLACE */
};

/*
 * Maps the span at start, of the process that pidfd names, by one giant page. All
 * its regions have to be mapped by 2 MiB pages, which stay what they are: those
 * that lie at their place in a chunk stay there, the others are moved into it.
 * But see MEGA_PROMOTE_COLLAPSE.
 *
 * A valid call succeeds whatever stop is; what was moved by then stays moved and
 * the memory keeps its contents and its 2 MiB pages.
 *
 * Errors, beside the general ones: EOPNOTSUPP see MEGA_FEATURE_GIANT; EBADF, ESRCH
 * as for SCAN_TASK.
 */
struct mega_promote {
	__u32 size;
	__u32 flags;		/* MEGA_PROMOTE_* */
	__s32 pidfd;
	__u32 stop;		/* out: enum mega_promote_stop */
	__u64 start;		/* a multiple of 1 GiB */
	__u64 frame;		/* in: first frame of the chunk to use, a
				 * multiple of MEGA_CHUNK_FRAMES, or
				 * MEGA_ANY_FRAME; out: first frame of the giant
				 * page, MEGA_ANY_FRAME where there is none
				 */
	__u32 in_place;		/* out: 2 MiB pages that were at their place */
	__u32 moved;		/* out: 2 MiB pages moved to it, or made there */
	__u32 attempts;		/* out: times that the kernel tried */
	__s32 error;		/* out: what the kernel said, 0 or -errno */
	__u64 nanoseconds;	/* out: time taken */
	__u32 exchanged;	/* out: of moved, those for which nothing
				 * was copied: see MEGA_FEATURE_EXCHANGE. Was
				 * reserved before, so the size is the same.
				 */
	__u32 reserved;
};

/* ---- DEMOTE ------------------------------------------------------------ */

enum mega_demote_stop {
	MEGA_DEMOTE_DONE = 0,		/* 2 MiB pages map the span now */
	MEGA_DEMOTE_NOT_GIANT = 1,	/* no giant page mapped it */
};

/*
 * Maps the span at start, of the process that pidfd names, by 2 MiB pages again
 * where it is mapped by a giant page. Nothing is moved.
 *
 * Errors: as for PROMOTE; and EINTR a fatal signal came first.
 */
struct mega_demote {
	__u32 size;
	__u32 flags;		/* 0 */
	__s32 pidfd;
	__u32 stop;		/* out: enum mega_demote_stop */
	__u64 start;		/* a multiple of 1 GiB */
	__u64 nanoseconds;	/* out: time taken */
	__u64 reserved;
};

/* ---- FREE_ZERO --------------------------------------------------------- */

/*
 * Gives back the zero-filled 2 MiB pages of the span at start, of the process
 * that pidfd names, whether a giant page maps it or 2 MiB pages do. They read as
 * zeroes as before, and take memory again when they are written to. A giant page
 * is demoted, but only when there is such a page in it.
 *
 * Each page is looked at as far as its first byte that is not zero; one
 * that has none is write-protected and looked at again. So no write is ever
 * lost: what is written meanwhile stays, and the page with it.
 *
 * Not looked at is memory that the process may not write to, that is mlocked,
 * or registered with userfaultfd. Kept is what is shared after a fork, pinned or
 * held by I/O.
 *
 * The target's mmap lock is held for reading, for one page of 2 MiB at a time.
 *
 * Errors: as for PROMOTE, but see MEGA_FEATURE_FREE_ZERO; and EINTR a fatal signal
 * came, perhaps after some were given back.
 */
struct mega_free_zero {
	__u32 size;
	__u32 flags;		/* 0 */
	__s32 pidfd;
	__u32 reserved;
	__u64 start;		/* a multiple of 1 GiB */
	__u32 looked;		/* out: 2 MiB pages looked at */
	__u32 zero;		/* out: of them, zero-filled */
	__u32 freed;		/* out: of these, given back */
	__u32 busy;		/* out: the others of these: in use by somebody
				 * else, or written to meanwhile
				 */
	__u64 nanoseconds;	/* out: time taken */
	__u64 reserved2;
};

/* ---- EXCHANGE ---------------------------------------------------------- */

/* Largest mega_exchange.count. */
#define MEGA_MAX_PAIRS 512

enum mega_pair_result {
	MEGA_PAIR_EXCHANGED = 0,
	MEGA_PAIR_NOT_ELIGIBLE = 1,	/* not both lie in private anonymous VMAs
					 * that are writable and alike, not
					 * mlocked, and not registered with
					 * userfaultfd
					 */
	MEGA_PAIR_NOT_HUGE = 2,		/* not both are mapped by a 2 MiB page */
	MEGA_PAIR_SHARED = 3,		/* a page belongs to another process too, or
					 * did, and was not written to since
					 */
	MEGA_PAIR_HELD = 4,		/* a page is pinned, or held by I/O */
	MEGA_PAIR_BUSY = 5,		/* a page is just being moved, swapped or
					 * changed: later, perhaps
					 */
	MEGA_PAIR_POISONED = 6,		/* a page has memory that has gone bad */
	MEGA_PAIR_LOGGED = 7,		/* KVM logs what is written there, as while a
					 * guest is migrated; an exchange is in no log
					 */
};

struct mega_pair {
	__u64 first;		/* an address, a multiple of 2 MiB */
	__u64 second;		/* another one */
	__u32 result;		/* out: enum mega_pair_result */
	__u32 reserved;		/* 0 */
};

/*
 * Has pairs of 2 MiB pages, of the process that pidfd names, change places: either
 * address of a pair then holds what the other did, and nothing is copied. So a
 * virtual machine's memory gets another order. Each pair is exchanged at one moment,
 * or nothing happened to it. No access finds an address without memory; one to a
 * page of a pair may wait until the call is over. Both pages are dirty, and
 * soft-dirty, afterwards. A giant page over one of them is demoted; over what is
 * refused it stays, unless somebody got hold of one of the pages at that moment.
 *
 * Pairs are taken together. Two that have an address in common are exchanged in an
 * order that is not defined.
 *
 * A valid call succeeds whatever the results are. Errors, beside the general ones:
 * EOPNOTSUPP see MEGA_FEATURE_EXCHANGE_PAIRS; EBADF, ESRCH as for SCAN_TASK; EFAULT
 * or EINVAL pairs cannot be read or has what it must not; ENOMEM; EINTR a fatal signal
 * came, perhaps after some were exchanged.
 */
struct mega_exchange {
	__u32 size;
	__u32 flags;		/* 0 */
	__s32 pidfd;
	__u32 count;		/* entries of pairs, 1 to MEGA_MAX_PAIRS */
	__u64 pairs;		/* struct mega_pair[count] */
	__u64 nanoseconds;	/* out: time taken */
	__u32 exchanged;	/* out: pairs that were exchanged */
	__u32 reserved;
};

#define MEGA_IOCTL_TYPE 0xB6
#define MEGA_IOC_INFO _IOWR(MEGA_IOCTL_TYPE, 0, struct mega_info)
#define MEGA_IOC_SCAN_TASK _IOWR(MEGA_IOCTL_TYPE, 1, struct mega_scan_task)
#define MEGA_IOC_SCAN_BLOCKS _IOWR(MEGA_IOCTL_TYPE, 2, struct mega_scan_blocks)
#define MEGA_IOC_COMPACT _IOWR(MEGA_IOCTL_TYPE, 3, struct mega_compact)
#define MEGA_IOC_PROMOTE _IOWR(MEGA_IOCTL_TYPE, 4, struct mega_promote)
#define MEGA_IOC_DEMOTE _IOWR(MEGA_IOCTL_TYPE, 5, struct mega_demote)
#define MEGA_IOC_FREE_ZERO _IOWR(MEGA_IOCTL_TYPE, 6, struct mega_free_zero)
#define MEGA_IOC_EXCHANGE _IOWR(MEGA_IOCTL_TYPE, 7, struct mega_exchange)

#endif /* MEGA_IOCTL_H */
