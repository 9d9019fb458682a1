// SPDX-License-Identifier: GPL-2.0
/* /dev/mega: the device and its requests. */

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include "compact_counts.h"
#include "exchange.h"
#include "heat.h"
#include "hotplug.h"
#include "mega.h"

static long mega_ioctl(struct file *file, unsigned int request,
		       unsigned long argument)
{
	void __user *user = (void __user *)argument;

	/* At every call, not at open: a descriptor may be passed on. */
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;

	switch (request) {
	case MEGA_IOC_INFO:
		return mega_ioctl_info(user);
	case MEGA_IOC_SCAN_TASK:
		return mega_ioctl_scan_task(user);
	case MEGA_IOC_SCAN_BLOCKS:
		return mega_ioctl_scan_blocks(user);
	case MEGA_IOC_COMPACT:
		return mega_ioctl_compact(user);
	case MEGA_IOC_PROMOTE:
		return mega_ioctl_promote(user);
	case MEGA_IOC_DEMOTE:
		return mega_ioctl_demote(user);
	case MEGA_IOC_FREE_ZERO:
		return mega_ioctl_free_zero(user);
	default:
		return -ENOTTY;
	}
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
