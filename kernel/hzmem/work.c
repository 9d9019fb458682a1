// SPDX-License-Identifier: GPL-2.0
/* Allocates the memory that compressing needs, before it is needed. */

#include <linux/vmalloc.h>
#include "work.h"

/* A process that is killed while it mounts gets none, which is nothing to warn of. */
static void *allocate(size_t size)
{
	return __vmalloc(size, GFP_KERNEL | __GFP_NOWARN);
}

int hz_work_prepare(struct hz_work *work, int algorithm)
{
	if (!work->in)
		work->in = allocate(PMD_SIZE);
	if (!work->out)
		work->out = allocate(HZ_OUT_SIZE);
	if (!work->memory[algorithm])
		work->memory[algorithm] = allocate(hz_memory_size(algorithm));
	return work->in && work->out && work->memory[algorithm] ? 0 : -ENOMEM;
}

void hz_work_free(struct hz_work *work)
{
	int algorithm;

	for (algorithm = 0; algorithm < HZ_ALGORITHMS; algorithm++)
		vfree(work->memory[algorithm]);
	vfree(work->out);
	vfree(work->in);
}
