// SPDX-License-Identifier: GPL-2.0
/*
 * When some processes change their mappings: mmap, munmap, mremap, MADV_DONTNEED and fork, each at its time.
 *
 * The programs run where a system call returns, by the names that x86 gives these functions since Linux 4.17, or else by the
 * tracepoint of all system calls. So they see what a process asked for and got; not what io_uring does for it, nor brk, nor 32-bit
 * calls. They only write to their own maps. Who drains the queue too late misses calls, and is told how many.
 */

#include "../bpf/types.bpf.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

/* The fields used of the kernel's own types; their offsets are filled in from the kernel's BTF at load. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r10;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long cs;
};

struct mm_struct;

struct task_struct {
	struct mm_struct *mm;
	__s32 tgid;
	__u64 start_boottime;
};

#pragma clang attribute pop

/* From the kernel's uapi/linux/bpf.h. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_QUEUE = 22,
};

/* Calls that wait for their reader. */
#define MOST_CALLS 1024
/* Processes that can be watched. */
#define MOST_PROCESSES 16384
/* Bytes: what is shorter changes little of a huge page, and allocators do it all the time. */
#define LEAST (64ULL << 10)

/* Of x86-64. */
#define NR_MMAP 9
#define NR_MUNMAP 11
#define NR_MREMAP 25
#define NR_MADVISE 28
/* __USER_CS: system calls of 32-bit programs have other numbers. */
#define USER_CODE_64 0x33

#define MADV_DONTNEED 4
#define MADV_DONTNEED_LOCKED 24

/* What a call did; abi.rs has the same numbers. */
enum kind {
	MAPPED = 1,
	UNMAPPED = 2,
	DISCARDED = 3,
	FORKED = 4,
};

struct call {
	__u64 time;	  /* CLOCK_MONOTONIC, in ns */
	__u64 start_time; /* of the process, as its watcher gave it */
	__u64 start;	  /* of the addresses; of a fork: when the child started, in ns since boot */
	__u64 length;
	__u32 tgid;
	__u32 kind;
	__u32 child; /* of a fork */
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, MOST_CALLS);
	__type(value, struct call);
} calls SEC(".maps");

/* By tgid: when the process started. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MOST_PROCESSES);
	__type(key, __u32);
	__type(value, __u64);
} watched SEC(".maps");

/* How many calls the queue had no room for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline void tell(__u32 tgid, enum kind kind, __u64 start, __u64 length, __u32 child)
{
	struct call call = {
		.start = start,
		.length = length,
		.tgid = tgid,
		.kind = kind,
		.child = child,
	};
	__u64 *start_time = bpf_map_lookup_elem(&watched, &tgid);
	__u64 *count;
	__u32 zero = 0;

	if (!start_time)
		return;
	call.start_time = *start_time;
	call.time = bpf_ktime_get_ns();
	if (!bpf_map_push_elem(&calls, &call, 0))
		return;
	count = bpf_map_lookup_elem(&lost, &zero);
	if (count)
		__sync_fetch_and_add(count, 1);
}

static __always_inline void tell_range(enum kind kind, __u64 start, __u64 length)
{
	if (length >= LEAST)
		tell(bpf_get_current_pid_tgid() >> 32, kind, start, length, 0);
}

/* Whether a call that returns an address returned an error. */
static __always_inline int failed(long result)
{
	return result < 0 && result >= -4095;
}

static __always_inline void mmap_returned(const struct pt_regs *regs, long result)
{
	if (!failed(result))
		tell_range(MAPPED, result, regs->si);
}

static __always_inline void munmap_returned(const struct pt_regs *regs, long result)
{
	if (!result)
		tell_range(UNMAPPED, regs->di, regs->si);
}

static __always_inline void mremap_returned(const struct pt_regs *regs, long result)
{
	__u64 old = regs->di, old_length = regs->si, length = regs->dx;

	if (failed(result))
		return;
	if (old != result) {
		tell_range(UNMAPPED, old, old_length);
		tell_range(MAPPED, result, length);
	} else if (length < old_length) {
		tell_range(UNMAPPED, old + length, old_length - length);
	} else {
		tell_range(MAPPED, old + old_length, length - old_length);
	}
}

static __always_inline void madvise_returned(const struct pt_regs *regs, long result)
{
	int advice = regs->dx;

	if (!result && (advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED))
		tell_range(DISCARDED, regs->di, regs->si);
}

SEC("fexit/__x64_sys_mmap")
int BPF_PROG(exit_mmap, const struct pt_regs *regs, long result)
{
	mmap_returned(regs, result);
	return 0;
}

SEC("fexit/__x64_sys_munmap")
int BPF_PROG(exit_munmap, const struct pt_regs *regs, long result)
{
	munmap_returned(regs, result);
	return 0;
}

SEC("fexit/__x64_sys_mremap")
int BPF_PROG(exit_mremap, const struct pt_regs *regs, long result)
{
	mremap_returned(regs, result);
	return 0;
}

SEC("fexit/__x64_sys_madvise")
int BPF_PROG(exit_madvise, const struct pt_regs *regs, long result)
{
	madvise_returned(regs, result);
	return 0;
}

/* For kernels that refuse the above. It makes every system call of the machine a little longer. */
SEC("tp_btf/sys_exit")
int BPF_PROG(any_returns, const struct pt_regs *regs, long result)
{
	if (regs->cs != USER_CODE_64)
		return 0;
	switch (regs->orig_ax) {
	case NR_MMAP:
		mmap_returned(regs, result);
		break;
	case NR_MUNMAP:
		munmap_returned(regs, result);
		break;
	case NR_MREMAP:
		mremap_returned(regs, result);
		break;
	case NR_MADVISE:
		madvise_returned(regs, result);
		break;
	}
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(forks, struct task_struct *parent, struct task_struct *child)
{
	/* Threads, and vfork's children, have their parent's memory. */
	if (parent->mm && parent->mm != child->mm)
		tell(parent->tgid, FORKED, child->start_boottime, 0, child->tgid);
	return 0;
}
