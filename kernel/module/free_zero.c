// SPDX-License-Identifier: GPL-2.0
/*
 * FREE_ZERO: the zero-filled huge pages of one span of a process given back.
 *
 * The patched kernel does the work (kernel/linux-6.12, CONFIG_ANON_PUD). On any
 * other the request is refused.
 */

#include <linux/err.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include "giant.h"
#include "mega.h"
#include "task.h"
#include "trace.h"

bool mega_free_zero_available(void)
{
	return IS_ENABLED(CONFIG_ANON_PUD);
}

static int free_zero(struct mega_free_zero *request, struct mm_struct *mm)
{
	struct anon_pud_zeroes did = {};
	int error = anon_pud_free_zero(mm, request->start, &did);

	request->looked = did.looked;
	request->zero = did.zero;
	request->freed = did.freed;
	request->busy = did.busy;
	return error;
}

static int check(const void *argument)
{
	const struct mega_free_zero *request = argument;

	if (request->reserved || request->reserved2 || request->flags ||
	    !mega_is_span(request->start))
		return -EINVAL;
	return mega_free_zero_available() ? 0 : -EOPNOTSUPP;
}

static int run(void *argument)
{
	struct mega_free_zero *request = argument;
	struct mm_struct *mm = mega_mm_of_pidfd(request->pidfd);
	u64 begin;
	int error;

	if (IS_ERR(mm))
		return PTR_ERR(mm);
	begin = ktime_get_ns();
	error = free_zero(request, mm);
	request->nanoseconds = ktime_get_ns() - begin;
	/* Never tear down an exiting process's memory on our caller's time. */
	mmput_async(mm);
	trace_mega_free_zero(request, error);
	return error;
}

const struct mega_request mega_request_free_zero = {
	.command = MEGA_IOC_FREE_ZERO,
	.check = check,
	.run = run,
};
