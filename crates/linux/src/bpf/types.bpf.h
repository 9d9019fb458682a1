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

#endif
