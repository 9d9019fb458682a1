// SPDX-License-Identifier: GPL-2.0
/* From a pidfd to the memory of the process that it names. */

#include <linux/capability.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/string.h>
#include "task.h"

/*
 * pidfd_pid() is not exported. In 6.12 every pidfd is a file of the kernel's own
 * pidfs mount, which user space cannot mount, and the inode's i_private is the
 * struct pid, held for as long as the inode. pidfs has no other kind of file.
 */
static bool is_pidfd(const struct file *file)
{
	const struct super_block *super = file_inode(file)->i_sb;

	return super->s_magic == PID_FS_MAGIC &&
	       !strcmp(super->s_type->name, "pidfs");
}

/*
 * ptrace_may_access() is not exported, nor what asks the security modules. So this
 * asks for what lets a caller look into any process of the target's user
 * namespace, and grants nothing for having the target's user.
 */
static bool may_look_into(const struct mm_struct *mm)
{
	return mm == current->mm || ns_capable(mm->user_ns, CAP_SYS_PTRACE);
}

struct mm_struct *mega_mm_of_pidfd(int pidfd)
{
	struct task_struct *task;
	struct mm_struct *mm;
	struct file *file;

	file = fget(pidfd);
	if (!file)
		return ERR_PTR(-EBADF);
	if (!is_pidfd(file)) {
		fput(file);
		return ERR_PTR(-EBADF);
	}
	task = get_pid_task(file_inode(file)->i_private, PIDTYPE_PID);
	fput(file);
	if (!task)
		return ERR_PTR(-ESRCH);

	mm = get_task_mm(task);
	put_task_struct(task);
	if (!mm)
		return ERR_PTR(-ESRCH);
	if (!may_look_into(mm)) {
		/* Never tear down an exiting process's memory on our caller's time. */
		mmput_async(mm);
		return ERR_PTR(-EPERM);
	}
	return mm;
}
