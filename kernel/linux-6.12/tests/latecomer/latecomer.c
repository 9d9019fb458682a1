// SPDX-License-Identifier: GPL-2.0
/*
 * Takes references to frames that it has no business with, and drops them again:
 * as who has found a folio in the page cache and is late, when the folio is gone
 * and its frames are somebody else's. So often is nobody late otherwise.
 *
 * The parameter chunk is the first frame of 1 GiB whose frames it goes through,
 * again and again; -1: none. taken counts the references.
 */

#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/module.h>

/* So many references are held at the same time. */
#define HELD 64

static long chunk = -1;

static unsigned long taken;
module_param(taken, ulong, 0444);

static struct task_struct *thread;

static void visit(unsigned long first)
{
	struct page *held[HELD];
	unsigned int i, nr = 0;

	for (i = 0; i < HELD; i++) {
		struct page *page = pfn_to_online_page(first + i);

		if (page && get_page_unless_zero(page))
			held[nr++] = page;
	}
	taken += nr;
	while (nr)
		put_page(held[--nr]);
}

static int walk(void *unused)
{
	unsigned long at = 0;

	while (!kthread_should_stop()) {
		long first = READ_ONCE(chunk);

		if (first < 0) {
			msleep(20);
			continue;
		}
		visit(first + at);
		at = (at + HELD) % HPAGE_PUD_NR;
		cond_resched();
	}
	return 0;
}

module_param(chunk, long, 0600);
MODULE_PARM_DESC(chunk, "First frame of the 1 GiB whose frames it goes through; -1: none");

static int __init latecomer_init(void)
{
	thread = kthread_run(walk, NULL, "latecomer");
	return PTR_ERR_OR_ZERO(thread);
}

static void __exit latecomer_exit(void)
{
	kthread_stop(thread);
}

module_init(latecomer_init);
module_exit(latecomer_exit);

MODULE_DESCRIPTION("Takes and drops references to frames that are not its own, for tests");
MODULE_AUTHOR("The mega developers");
MODULE_LICENSE("GPL");
