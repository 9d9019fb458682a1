// SPDX-License-Identifier: GPL-2.0
/*
 * A page just faulted in waits in a per-CPU batch before it is put on an LRU
 * list, and alloc_contig_range() takes one that does for unmovable.
 * lru_add_drain_all() is not exported; releasing a folio batch, even an empty
 * one, drains the CPU that it runs on.
 */

#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <linux/workqueue.h>
#include "compat/compat.h"
#include "drain.h"

static DEFINE_PER_CPU(struct work_struct, drain_work);
/* Of the one caller: too large for a stack where there may be 8,192 CPUs. */
static cpumask_t queued;

static void drain_this_cpu(struct work_struct *work)
{
	struct folio_batch batch;

	folio_batch_init(&batch);
	mega_release_batch(&batch);
}

void mega_drain_lru(void)
{
	unsigned int cpu;

	/*
	 * A CPU that goes offline meanwhile is drained by the kernel, and its
	 * work item runs elsewhere, to no purpose and no harm.
	 */
	cpumask_copy(&queued, cpu_online_mask);
	for_each_cpu(cpu, &queued) {
		INIT_WORK(&per_cpu(drain_work, cpu), drain_this_cpu);
		queue_work_on(cpu, mega_workqueue, &per_cpu(drain_work, cpu));
	}
	for_each_cpu(cpu, &queued)
		flush_work(&per_cpu(drain_work, cpu));
}
