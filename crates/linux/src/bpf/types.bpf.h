/* SPDX-License-Identifier: GPL-2.0 */
/* The types by which libbpf's headers name what they declare. Without a vmlinux.h each program brings them itself. */
#ifndef TYPES_BPF_H
#define TYPES_BPF_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed int __s32;
typedef signed long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/*
 * What a task iterator is given (kernel/bpf/task_iter.c, include/linux/bpf.h). Not looked up in the kernel's BTF, which takes libbpf
 * a walk over all of its types for each struct: the verifier knows what lies where in these and refuses a program that does not.
 */
struct seq_file;
struct task_struct;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#endif
