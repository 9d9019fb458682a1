// SPDX-License-Identifier: GPL-2.0
/* What the balloon asks for and the kernel has not: to be told of free pages. */
#include <linux/errno.h>
#include <linux/page_reporting.h>

int page_reporting_register(struct page_reporting_dev_info *device)
{
	return -EOPNOTSUPP;
}

void page_reporting_unregister(struct page_reporting_dev_info *device)
{
}
