// SPDX-License-Identifier: GPL-2.0
/*
 * What each thread of one process has used of the CPU, until now. The scheduler adds to a running thread's sum once
 * a tick or when the thread stops, and every interface of the kernel shows that sum: up to 10 ms late. The touch
 * meter looks for a millisecond.
 *
 * A task iterator limited to one process (Linux 6.1). Reads only. Takes no lock: what it reads of a thread that
 * stops in that moment may be wrong by one tick, which the reader of the result bears among many.
 */

#include "../../bpf/types.bpf.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "GPL";

/* The fields used of the kernel's own types; their offsets are filled in from the kernel's BTF at load. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rq {
	__u64 clock;
	__u64 clock_task; /* the same without interrupts and what a hypervisor took */
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	__u64 exec_start; /* in clock_task: up to here is in the sum */
	__u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct signal_struct {
	__u64 sum_sched_runtime; /* of threads that have ended */
};

struct task_struct {
	int on_cpu;
	struct sched_entity se;
	__s32 pid;
	__s32 tgid;
	struct signal_struct *signal;
};

#pragma clang attribute pop

/* Of one thread. Times in ns. */
struct thread {
	__u64 sum;  /* of a process's first thread with what its ended threads used */
	__u64 time; /* CLOCK_MONOTONIC, when this was read */
	/* Of a running thread: what it used since the sum was made, less what the scheduler's clock shows now. */
	__s64 since;
	/* How far the scheduler's clock is ahead of CLOCK_MONOTONIC, at least: it stands still until it is looked at. */
	__s64 ahead;
	__u64 running;
};

SEC("iter/task")
int used(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task, *self = (void *)bpf_get_current_task();
	struct thread out = {};
	struct rq *rq;

	if (!task || !bpf_core_field_exists(task->se.cfs_rq->rq))
		return 0;
	out.running = task->on_cpu;
	rq = BPF_CORE_READ(task, se.cfs_rq, rq);
	out.since = BPF_CORE_READ(rq, clock_task) - BPF_CORE_READ(task, se.exec_start) - BPF_CORE_READ(rq, clock);
	out.sum = BPF_CORE_READ(task, se.sum_exec_runtime);
	if (task->pid == task->tgid)
		out.sum += BPF_CORE_READ(task, signal, sum_sched_runtime);
	out.time = bpf_ktime_get_ns();
	/* Of all CPUs' clocks this one's was looked at last: when this program's own thread began to run. */
	out.ahead = BPF_CORE_READ(self, se.cfs_rq, rq, clock) - out.time;
	bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
	return 0;
}
