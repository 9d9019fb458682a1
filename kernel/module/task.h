/* SPDX-License-Identifier: GPL-2.0 */
/* From a pidfd to the memory of the process that it names. */
#ifndef MEGA_TASK_H
#define MEGA_TASK_H

struct mm_struct;

/*
 * The memory of the process that pidfd names, with a reference on its users
 * (drop it with mmput_async()). ERR_PTR: EBADF not a pidfd; ESRCH the process has
 * no memory: it has exited, or is a kernel thread; EPERM the caller may not look
 * into other processes, which takes CAP_SYS_PTRACE.
 */
struct mm_struct *mega_mm_of_pidfd(int pidfd);

#endif /* MEGA_TASK_H */
