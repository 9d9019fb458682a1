// SPDX-License-Identifier: GPL-2.0
/*
 * Reads the page tables of one process: per 2 MiB region, how many base pages are mapped, how many of
 * them have their Accessed bit set, and the size of the page that maps it. Reads only, changes nothing.
 *
 * It is a task iterator limited to one thread (Linux 6.1), because no other way to a task works from 6.1
 * on: bpf_task_from_pid() is newer. One run does a bounded amount of work, writes one struct result and
 * its records to the iterator's seq file, and says where to resume.
 *
 * The tables may change, and even be freed, while they are read: nothing here takes a lock. Every read is
 * bpf_probe_read_kernel(), which fails instead of faulting, and every address is checked to be inside
 * memory first. The reader of the result checks that the process is still the one it was.
 */

#include "../../bpf/types.bpf.h"

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

/* The fields used of the kernel's own types; their offsets are filled in from the kernel's BTF at load. */
struct mm_struct {
	void *pgd;
} __attribute__((preserve_access_index));

struct task_struct {
	__u32 flags;
	struct mm_struct *mm;
	__u64 self_exec_id;
	__u64 start_boottime;
} __attribute__((preserve_access_index));

/* What one run may do at most; walk.rs knows these numbers too. */
#define MAX_RANGES 128
#define MAX_RECORDS 2048
#define MAX_TABLES 1024 /* page tables of base pages read, 0.5 to 1 us each */
#define MAX_STEPS 16384 /* loop iterations, of which an empty one takes about 10 ns */

struct range {
	__u64 start; /* both multiples of 2 MiB */
	__u64 end;
};

struct request {
	__u64 direct_map;      /* page_offset_base: the virtual address of physical address 0 */
	__u64 memory_end;      /* physical addresses at and above it are not memory */
	__u64 encryption_mask; /* the bit that memory encryption adds to a physical address, or 0 */
	__u64 huge_zero_page;  /* physical address of the huge zero page, or ~0 */
	__u32 levels;          /* of page tables: 4 or 5 */
	__u32 range_count;
	__u32 count_lines;     /* whether records have bits 57-63 */
	__u32 unused;
	struct range ranges[MAX_RANGES];
};

enum status {
	STATUS_OK = 0,
	STATUS_NO_MEMORY_MAP = 1, /* the thread has exited, or its memory map was replaced in the middle */
	STATUS_KERNEL_THREAD = 2,
	STATUS_BROKEN = 3,        /* cannot happen: bpf_loop() refused its arguments */
};

struct result {
	__u64 mm;
	__u64 pgd;
	__u64 exec_id;
	__u64 start_time; /* of the process, in ns since boot */
	__u64 next_address;
	__u32 next_range; /* == range_count when all was walked */
	__u32 status;
	__u32 records; /* that follow this struct */
	__u32 tables;  /* page tables of base pages that were read */
	__u32 invalid; /* entries that pointed outside memory, and reads that failed */
	__u32 steps;
	__u64 time; /* when the walk ended, in ns of CLOCK_MONOTONIC */
};

/* A record is one region that has at least one base page mapped:
 * bits 0-9 mapped, 10-19 accessed, 20-21 log512 of the page size in base pages, 22-56 address >> 21 (addresses of
 * user space are below 2^56), 57-63 where asked for: cache lines of eight entries in which one is accessed.
 * A region of which base pages are in swap has a second record after that one: bits 0-9 how many, and SWAPPED in
 * bits 20-21. */
#define SWAPPED 3
#define RECORD(address, counted, size) ((counted) | (__u64)(size) << 20 | ((address) >> 21) << 22)


/* Written before a run, each loaded program by its own owner; a section of its own is a map of its own. */
struct request request SEC(".data.request");

/* All that a run works with is global. The verifier then takes every number in it as unknown, where it would
 * follow counters on the stack through all their values. Not per CPU: a run may be preempted, but each loaded
 * program has its own and runs once at a time. None is static, or clang would split `at` into variables whose
 * names the kernel refuses. */
struct output {
	struct result result;
	__u64 records[MAX_RECORDS];
} out;

struct position {
	__u64 pgd;
	__u64 address; /* where the walk is */
	__u64 end;     /* of the range it is in */
	__u64 cached;  /* the span whose PMD table is in pmd_table, or ~0 */
	__u64 giant;   /* the PUD entry that maps the span `cached`, or 0 */
	__u32 range;   /* the one it is in */
} at;

__u64 pmd_table[512]; /* of the span `cached` */
__u64 pte_table[512]; /* of the region that the walk is in */

#define PF_KTHREAD 0x00200000 /* of task_struct.flags */

#define PRESENT (1ull << 0)
#define ACCESSED (1ull << 5)
#define LEAF (1ull << 7)
#define PROT_NONE (1ull << 8) /* when not PRESENT: a page is there, access is not allowed */
#define SPECIAL (1ull << 9)   /* no page of the process's own: the zero page, or a raw PFN mapping */
#define ADDRESS 0x000ffffffffff000ull
/* Set in every entry that is neither present nor empty: bits 9-58 hold an offset (in the swap area, or a frame number)
 * inverted, and none is as large as 2^43. Never set in a present one. */
#define NOT_THERE (1ull << 52)
/* Bits 59-63 of such an entry are its type. The swap areas are the lowest; above are what looks the same and is none:
 * pages under migration, with memory errors, on a device, and marks. There are at most 9 of those (include/linux/swap.h,
 * 6.1 to 6.18), so that an area up to number 22 is told for sure. */
#define TYPE(entry) ((entry) >> 59)
#define FIRST_TYPE_OF_NO_SWAP 23
/* 1 or 0, by the sign of a difference: clang makes a branch of a comparison. */
#define IS_SWAP(entry) ((TYPE(entry) - FIRST_TYPE_OF_NO_SWAP) >> 63)

#define REGION (1ull << 21)
#define SPAN (1ull << 30)

/* Reads `size` bytes of the table that `entry` points to, from `offset` on. */
static __always_inline int read_table(void *to, __u32 size, __u64 entry, __u64 offset)
{
	__u64 physical = entry & ADDRESS & ~request.encryption_mask;

	if (physical < request.memory_end &&
	    !bpf_probe_read_kernel(to, size, (void *)(request.direct_map + physical + offset)))
		return 0;
	out.result.invalid++;
	return -1;
}

/* Moves on to the next multiple of `size`, a power of two. */
static __always_inline void skip_to_next(__u64 size)
{
	at.address = (at.address | (size - 1)) + 1;
}

static __always_inline __u64 index_of(__u64 address, __u32 shift)
{
	return address >> shift & 511;
}

/* Fills pmd_table for the span of at.address. Returns 0, or 1 after moving on past a hole. */
static __always_inline int enter_span(void)
{
	__u64 address = at.address, entry;
	__u32 five = request.levels == 5;

	at.cached = ~0ull;
	at.giant = 0;
	if (bpf_probe_read_kernel(&entry, sizeof(entry),
				  (void *)(at.pgd + 8 * index_of(address, five ? 48 : 39)))) {
		out.result.invalid++;
		entry = 0;
	}
	if (!(entry & PRESENT)) {
		skip_to_next(five ? 1ull << 48 : 1ull << 39);
		return 1;
	}
	if (five) {
		if (read_table(&entry, sizeof(entry), entry, 8 * index_of(address, 39)) ||
		    !(entry & PRESENT)) {
			skip_to_next(1ull << 39);
			return 1;
		}
	}
	if (read_table(&entry, sizeof(entry), entry, 8 * index_of(address, 30)) ||
	    !(entry & (PRESENT | LEAF))) {
		skip_to_next(SPAN);
		return 1;
	}
	if (entry & LEAF) {
		at.giant = entry;
	} else if (read_table(pmd_table, sizeof(pmd_table), entry, 0)) {
		skip_to_next(SPAN);
		return 1;
	}
	at.cached = address & ~(SPAN - 1);
	return 0;
}

static __always_inline void record(__u32 counted, __u32 size, __u64 lines)
{
	__u32 index = out.result.records;

	if (index >= MAX_RECORDS)
		return;
	out.records[index] = RECORD(at.address, counted & 0xfffff, size) | lines << 57;
	out.result.records = index + 1;
}

static __always_inline void record_leaf(__u64 entry, __u32 size)
{
	if ((entry & ADDRESS & ~request.encryption_mask & ~(REGION - 1)) ==
	    request.huge_zero_page)
		return;
	if (entry & SPECIAL)
		return;
	record(512 | (entry & ACCESSED ? 512 << 10 : 0), size, 0);
}

/* Both counting functions are global, not static: the verifier then looks into each only once, however many
 * paths lead to it. They return what they counted as a record has it, mapped in bits 0-9 and accessed in 10-19, and
 * in bits 20-29 how many are in swap. */

/* Counts pte_table where some entry is not simply absent or present: a page that is there but not
 * accessible (PROT_NONE, NUMA hinting), the zero page, a page on swap. Without branches, or the verifier would follow
 * both ways of each. */
__noinline __u32 count_carefully(void)
{
	__u64 mapped = 0, accessed = 0, swapped = 0;

	for (__u32 i = 0; i < 512; i++) {
		__u64 entry = pte_table[i];
		__u64 present = (entry | entry >> 8) & 1;
		__u64 there = present & ~(entry >> 9);

		mapped += there;
		accessed += there & entry >> 5;
		swapped += ~present & entry >> 52 & IS_SWAP(entry);
	}
	return mapped | accessed << 10 | swapped << 20;
}

/* Counts pte_table. The common case adds up two fields of every entry at once: in a sum of 16 entries
 * masked to PRESENT and ACCESSED, bits 0-4 count the first and the bits from 5 on the second. */
__noinline __u32 count(void)
{
	__u64 seen = 0, mapped = 0, accessed = 0;

	for (__u32 i = 0; i < 512; i += 16) {
		__u64 sum = 0;
#pragma unroll
		for (__u32 j = 0; j < 16; j++) {
			__u64 entry = pte_table[i + j];

			seen |= entry;
			sum += entry & (PRESENT | ACCESSED);
		}
		mapped += sum & 31;
		accessed += sum >> 5;
	}
	if (seen & (PROT_NONE | SPECIAL | NOT_THERE))
		return count_carefully();
	return mapped | accessed << 10;
}

/* Counts the cache lines of pte_table in which an entry of a page that is there was accessed. Without branches, as above. */
__noinline __u32 count_lines(void)
{
	__u64 lines = 0;

	for (__u32 i = 0; i < 512; i += 8) {
		__u64 accessed = 0;
#pragma unroll
		for (__u32 j = 0; j < 8; j++) {
			__u64 entry = pte_table[i + j];

			accessed |= (entry | entry >> 8) & ~(entry >> 9) & entry >> 5;
		}
		lines += accessed & 1;
	}
	return lines;
}

/* One step: past a hole, or one region. Returns 1 to end this run. */
static long step(__u32 index, void *unused)
{
	__u64 entry;
	__u32 counted, lines;

	if (at.address >= at.end) {
		__u32 range = at.range + 1;

		at.range = range;
		if (range >= request.range_count || range >= MAX_RANGES)
			return 1;
		at.address = request.ranges[range].start;
		at.end = request.ranges[range].end;
		return 0;
	}
	/* A region may take two. */
	if (out.result.records >= MAX_RECORDS - 1 || out.result.tables >= MAX_TABLES)
		return 1;
	if (at.cached != (at.address & ~(SPAN - 1)) && enter_span())
		return 0;
	if (at.giant) {
		record_leaf(at.giant, 2);
	} else {
		entry = pmd_table[index_of(at.address, 21)];
		if (entry & LEAF) {
			record_leaf(entry, 1);
		} else if (entry & PRESENT) {
			out.result.tables++;
			if (!read_table(pte_table, sizeof(pte_table), entry, 0)) {
				counted = count();
				if (counted & 0x3ff) {
					lines = request.count_lines ? count_lines() : 0;
					record(counted, 0, lines);
					if (counted >> 20)
						record(counted >> 20, SWAPPED, 0);
				}
			}
		}
	}
	at.address += REGION;
	return 0;
}

static __always_inline __u32 walk_tables(struct task_struct *task)
{
	struct mm_struct *mm = task->mm;
	long steps;

	if (task->flags & PF_KTHREAD)
		return STATUS_KERNEL_THREAD;
	if (!mm)
		return STATUS_NO_MEMORY_MAP;
	at.pgd = (__u64)mm->pgd;
	out.result.mm = (__u64)mm;
	out.result.pgd = at.pgd;
	out.result.exec_id = task->self_exec_id;
	out.result.start_time = task->start_boottime;
	if (!request.range_count)
		return STATUS_OK;

	at.cached = ~0ull;
	at.range = 0;
	at.address = request.ranges[0].start;
	at.end = request.ranges[0].end;
	steps = bpf_loop(MAX_STEPS, step, 0, 0);
	if (steps < 0)
		return STATUS_BROKEN;
	out.result.steps = steps;
	out.result.next_address = at.address;
	out.result.next_range = at.range;
	out.result.time = bpf_ktime_get_ns();
	/* The same question again: an exit or exec in the middle shows here. */
	return task->mm == mm && (__u64)mm->pgd == at.pgd ? STATUS_OK : STATUS_NO_MEMORY_MAP;
}

SEC("iter/task")
int walk(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 records;

	if (!task)
		return 0;
	__builtin_memset(&out.result, 0, sizeof(out.result));
	out.result.status = walk_tables(task);
	records = out.result.records;
	if (records > MAX_RECORDS)
		records = MAX_RECORDS;
	bpf_seq_write(ctx->meta->seq, &out, sizeof(out.result) + records * sizeof(__u64));
	return 0;
}
