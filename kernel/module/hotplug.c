// SPDX-License-Identifier: GPL-2.0
/*
 * Keeps struct page in place while the module reads it. get_online_mems() is
 * not exported; the notifier chain is, and going offline waits for its answer.
 */

#include <linux/cpu.h>
#include <linux/memory.h>
#include <linux/notifier.h>
#include <linux/srcu.h>
#include "hotplug.h"

/* Set and cleared under the memory hotplug lock, which serialises the chain. */
static bool offlining;
DEFINE_STATIC_SRCU(readers);

static int memory_changes(struct notifier_block *block, unsigned long action,
			  void *data)
{
	switch (action) {
	case MEM_GOING_OFFLINE:
		WRITE_ONCE(offlining, true);
		/* Whoever did not see it has left when this returns. */
		synchronize_srcu(&readers);
		break;
	case MEM_CANCEL_OFFLINE:
	case MEM_OFFLINE:
		WRITE_ONCE(offlining, false);
		break;
	}
	return NOTIFY_OK;
}

static struct notifier_block memory_notifier = {
	.notifier_call = memory_changes,
};

int mega_hotplug_enter(void)
	__acquires(&readers)
{
	return srcu_read_lock(&readers);
}

bool mega_hotplug_busy(void)
{
	return READ_ONCE(offlining);
}

void mega_hotplug_leave(int ticket)
	__releases(&readers)
{
	srcu_read_unlock(&readers, ticket);
}

/*
 * Waits until memory that was going offline before the notifier was registered has
 * done so, or failed to: that notice has been missed. All of it is done under
 * device_hotplug_lock, which is not exported; but add_cpu() takes it, and does
 * nothing with a CPU that is online. Which is online stays so meanwhile: the
 * first one need not be before 6.5, and is not to be brought back by this.
 */
static void wait_for_offlining(void)
{
	cpu_hotplug_disable();
	add_cpu(cpumask_first(cpu_online_mask));
	cpu_hotplug_enable();
}

int mega_hotplug_init(void)
{
	int error = register_memory_notifier(&memory_notifier);

	if (!error)
		wait_for_offlining();
	return error;
}

void mega_hotplug_exit(void)
{
	unregister_memory_notifier(&memory_notifier);
}
