// SPDX-License-Identifier: GPL-2.0
/*
 * One pass over every task: what selects a process, and what tells whether it ran since the last pass.
 *
 * It is a task iterator without a limit (Linux 5.8). The kernel holds a reference on each task while it is
 * looked at. Pointers below a task are read with bpf_probe_read_kernel(), which fails instead of faulting: a
 * task that exits meanwhile gives zeros, and its record is dropped by the reader.
 */

#include "../../bpf/types.bpf.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "GPL";

/* The fields used of the kernel's own types; their offsets are filled in from the kernel's BTF at load. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

typedef struct {
	__u32 val;
} kuid_t;

struct cred {
	kuid_t euid;
};

struct signal_struct {
	__u64 sum_sched_runtime;
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

/* Linux 6.4 to 6.13. What follows three underscores is no part of the name that the kernel's BTF is asked for. */
struct mm_struct {
	int mm_lock_seq;
};

struct seqcount {
	__u32 sequence;
};

/* Linux 6.14 and newer. */
struct mm_struct___seqcount {
	struct seqcount mm_lock_seq;
};

struct task_struct {
	__u32 flags;
	struct sched_entity se;
	struct mm_struct *mm;
	int exit_state;
	__s32 pid;
	__s32 tgid;
	struct task_struct *real_parent;
	__u64 start_boottime;
	const struct cred *cred;
	__u64 self_exec_id;
	struct signal_struct *signal;
	struct css_set *cgroups;
};

#pragma clang attribute pop

#define PF_KTHREAD 0x00200000

/* What tells whether a thread ran: of every thread that has memory. */
struct thread {
	__u64 mm;
	__u64 runtime; /* in ns; of a process's first thread with what its ended threads ran */
	__u32 tgid;
	__u32 process; /* 1 where the rest of struct process follows */
};

/* What selects a process: of its first thread. */
struct process {
	struct thread thread;
	__u64 start_time; /* in ns since boot */
	__u64 exec_id;
	__u64 cgroup;
	__u32 parent;
	__u32 uid;
	__u32 layout; /* differs once a mapping changed; 0 where the kernel cannot tell */
	__u32 exit_state;
};

/* How often the mmap lock was taken for writing: unchanged, every mapping is. */
static __always_inline __u32 layout(struct mm_struct *mm)
{
	struct mm_struct___seqcount *newer = (void *)mm;

	if (!mm)
		return 0;
	if (bpf_core_field_exists(newer->mm_lock_seq.sequence))
		return BPF_CORE_READ(newer, mm_lock_seq.sequence);
	if (bpf_core_field_exists(mm->mm_lock_seq))
		return BPF_CORE_READ(mm, mm_lock_seq);
	return 0;
}

SEC("iter/task")
int tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct process out = {};
	struct mm_struct *mm;

	if (!task || task->flags & PF_KTHREAD)
		return 0;
	mm = task->mm;
	out.thread.mm = (__u64)mm;
	out.thread.runtime = task->se.sum_exec_runtime;
	out.thread.tgid = task->tgid;
	if (task->pid != task->tgid) {
		if (mm)
			bpf_seq_write(ctx->meta->seq, &out.thread, sizeof(out.thread));
		return 0;
	}
	out.thread.process = 1;
	out.thread.runtime += BPF_CORE_READ(task, signal, sum_sched_runtime);
	out.start_time = task->start_boottime;
	out.exec_id = task->self_exec_id;
	out.cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	out.parent = BPF_CORE_READ(task, real_parent, tgid);
	out.uid = BPF_CORE_READ(task, cred, euid.val);
	out.exit_state = task->exit_state;
	out.layout = layout(mm);
	bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
	return 0;
}
