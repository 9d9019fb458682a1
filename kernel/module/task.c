// SPDX-License-Identifier: GPL-2.0
/* From a pidfd to the memory of the process that it names. */

#include <linux/capability.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/pid.h>
#include <linux/rwsem.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/string.h>
#include "compat/compat.h"
#include "task.h"

/*
 * What a pidfd names, or NULL for any other file; the file holds it. pidfd_pid() is
 * not exported. From 6.9 on every pidfd is a file of the kernel's own pidfs mount,
 * which user space cannot mount, and the inode's i_private is the struct pid; pidfs
 * has no other kind of file. Before, it is an anonymous inode's file with the struct
 * pid as its private data; the name of such a file is given by the kernel's code
 * alone, never changes, and is no other kind's.
 */
static struct pid *pid_of(const struct file *file)
{
	const struct super_block *super = file_inode(file)->i_sb;

#ifdef PID_FS_MAGIC
	if (super->s_magic == PID_FS_MAGIC &&
	    !strcmp(super->s_type->name, "pidfs"))
		return file_inode(file)->i_private;
#else
	if (super->s_magic == ANON_INODE_FS_MAGIC &&
	    !strcmp(file->f_path.dentry->d_name.name, "[pidfd]"))
		return file->private_data;
#endif
	return NULL;
}

/*
 * ptrace_may_access() is not exported, nor what asks the security modules. So this
 * asks for what lets a caller look into any process of the target's user
 * namespace, and grants nothing for having the target's user.
 */
static bool may_look_into(struct task_struct *task, struct mm_struct *mm)
{
	bool may;

	if (mm == current->mm)
		return true;
	rcu_read_lock();
	may = ns_capable(mega_user_ns_of(task, mm), CAP_SYS_PTRACE);
	rcu_read_unlock();
	return may;
}

/*
 * As mm_access() does: under the lock an exec() does not put another program's
 * memory in place of the one whose user namespace is asked.
 */
static struct mm_struct *mm_of_task(struct task_struct *task)
{
	struct rw_semaphore *lock = &task->signal->exec_update_lock;
	struct mm_struct *mm;

	if (down_read_killable(lock))
		return ERR_PTR(-EINTR);
	mm = get_task_mm(task);
	if (!mm) {
		mm = ERR_PTR(-ESRCH);
	} else if (!may_look_into(task, mm)) {
		/* Never tear down an exiting process's memory on our caller's time. */
		mmput_async(mm);
		mm = ERR_PTR(-EPERM);
	}
	up_read(lock);
	return mm;
}

struct mm_struct *mega_mm_of_pidfd(int pidfd)
{
	struct task_struct *task;
	struct mm_struct *mm;
	struct file *file;
	struct pid *pid;

	file = fget(pidfd);
	if (!file)
		return ERR_PTR(-EBADF);
	pid = pid_of(file);
	if (!pid) {
		fput(file);
		return ERR_PTR(-EBADF);
	}
	task = get_pid_task(pid, PIDTYPE_PID);
	fput(file);
	if (!task)
		return ERR_PTR(-ESRCH);

	/* A task that is held keeps its signal_struct, and so the lock in it. */
	mm = mm_of_task(task);
	put_task_struct(task);
	return mm;
}
