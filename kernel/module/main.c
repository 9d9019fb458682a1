// SPDX-License-Identifier: GPL-2.0
/* /dev/mega: the device and its requests. */

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/uaccess.h>
#include "compact_counts.h"
#include "exchange.h"
#include "heat.h"
#include "hotplug.h"
#include "mega.h"

static const struct mega_request *const requests[] = {
	&mega_request_info,
	&mega_request_scan_task,
	&mega_request_scan_blocks,
	&mega_request_compact,
	&mega_request_promote,
	&mega_request_demote,
	&mega_request_free_zero,
	&mega_request_exchange,
};

/* What is copied from user space; each begins with its size. */
union argument {
	__u32 size;
	struct mega_info info;
	struct mega_scan_task scan_task;
	struct mega_scan_blocks scan_blocks;
	struct mega_compact compact;
	struct mega_promote promote;
	struct mega_demote demote;
	struct mega_free_zero free_zero;
	struct mega_exchange exchange;
};

/* NULL: there is none, or not of that size. */
static const struct mega_request *find_request(unsigned int command)
{
	unsigned int index;

	for (index = 0; index < ARRAY_SIZE(requests); index++)
		if (requests[index]->command == command)
			return requests[index];
	return NULL;
}

static int serve(const struct mega_request *request, void __user *user)
{
	unsigned int size = _IOC_SIZE(request->command);
	union argument argument;
	int error;

	if (copy_from_user(&argument, user, size))
		return -EFAULT;
	error = argument.size == size ? request->check(&argument) : -EINVAL;
	if (error)
		return error;
	/* Nothing is done of which nobody could be told. */
	if (fault_in_safe_writeable(user, size))
		return -EFAULT;
	error = request->run(&argument);
	if (error)
		return error;
	return copy_to_user(user, &argument, size) ? -EFAULT : 0;
}

static long mega_ioctl(struct file *file, unsigned int command,
		       unsigned long argument)
{
	const struct mega_request *request;

	/* At every call, not at open: a descriptor may be passed on. */
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	request = find_request(command);
	return request ? serve(request, (void __user *)argument) : -ENOTTY;
}

static const struct file_operations mega_operations = {
	.owner = THIS_MODULE,	/* an open descriptor keeps the module loaded */
	.open = nonseekable_open,
	.unlocked_ioctl = mega_ioctl,
};

static struct miscdevice mega_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "mega",
	.mode = 0600,
	.fops = &mega_operations,
};

static int __init mega_init(void)
{
	int error;

	error = mega_hotplug_init();
	if (error)
		return error;

	mega_counts_init();

	error = mega_exchange_init();
	if (error)
		goto undo;
	error = misc_register(&mega_device);
	if (!error)
		return 0;
	mega_exchange_exit();
undo:
	mega_counts_exit();
	mega_hotplug_exit();
	return error;
}

static void __exit mega_exit(void)
{
	misc_deregister(&mega_device);
	mega_exchange_exit();
	mega_counts_exit();
	mega_hotplug_exit();
	mega_heat_exit();
}

module_init(mega_init);
module_exit(mega_exit);

MODULE_DESCRIPTION("Scan-and-clear of Accessed bits and compaction of chosen physical blocks");
MODULE_AUTHOR("The mega developers");
MODULE_LICENSE("GPL");
