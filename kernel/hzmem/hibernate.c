// SPDX-License-Identifier: GPL-2.0
/*
 * Hibernation saves the kernel's memory. The huge pages are not part of it, so what they hold
 * would be gone: it is refused while one is in use. What is compressed is saved.
 *
 * Asked twice: when it is ordered, and once more when no task runs that could take a page,
 * for which only devices are asked.
 */

#define pr_fmt(fmt) "hzmem: " fmt

#include <linux/notifier.h>
#include <linux/platform_device.h>
#include <linux/pm.h>
#include <linux/suspend.h>
#include "hibernate.h"
#include "pool.h"

static struct platform_device *device;

static int refuse(void)
{
	unsigned long total = hz_pool_total(NUMA_NO_NODE);
	unsigned long used = total - min(total, hz_pool_free(NUMA_NO_NODE));

	if (!used)
		return 0;
	pr_err("hibernation is refused: it would lose the %lu huge pages in use\n",
	       used);
	return -EBUSY;
}

static int ordered(struct notifier_block *block, unsigned long event,
		   void *unused)
{
	if (event == PM_HIBERNATION_PREPARE && refuse())
		return NOTIFY_BAD;
	return NOTIFY_DONE;
}

static struct notifier_block notifier = {
	.notifier_call = ordered,
};

/* All tasks are frozen, and so is who could compress or free a page. */
static int freeze(struct device *unused)
{
	return refuse();
}

static const struct dev_pm_ops operations = {
	.freeze = pm_sleep_ptr(freeze),
};

static struct platform_driver driver = {
	.driver = {
		.name = "hzmem",
		.pm = pm_sleep_ptr(&operations),
	},
};

int hz_hibernate_init(void)
{
	int error = platform_driver_register(&driver);

	if (error)
		return error;
	device = platform_device_register_simple("hzmem", PLATFORM_DEVID_NONE,
						 NULL, 0);
	error = PTR_ERR_OR_ZERO(device);
	if (error)
		goto no_device;
	error = register_pm_notifier(&notifier);
	if (error)
		goto no_notifier;
	return 0;

no_notifier:
	platform_device_unregister(device);
no_device:
	platform_driver_unregister(&driver);
	return error;
}

void hz_hibernate_exit(void)
{
	unregister_pm_notifier(&notifier);
	platform_device_unregister(device);
	platform_driver_unregister(&driver);
}
