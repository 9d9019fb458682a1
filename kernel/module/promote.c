// SPDX-License-Identifier: GPL-2.0
/*
 * PROMOTE and DEMOTE: one span of a process mapped by a giant page, or by huge
 * pages again.
 *
 * The patched kernel does the work (kernel/linux-6.12, CONFIG_ANON_PUD). On any
 * other the requests are refused.
 */

#include <linux/cpufeature.h>
#include <linux/err.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include "giant.h"
#include "mega.h"
#include "task.h"
#include "trace.h"

bool mega_giant_available(void)
{
	return IS_ENABLED(CONFIG_ANON_PUD) &&
	       boot_cpu_has(X86_FEATURE_GBPAGES);
}

bool mega_collapse_available(void)
{
	return mega_giant_available() && ANON_PUD_COLLAPSE;
}

/*
 * What the kernel's answer means. Beside those of its interface there is none
 * that says more than that it did not work this time.
 */
static enum mega_promote_stop stop_of(int error, bool tried)
{
	switch (error) {
	case 0:
		return tried ? MEGA_PROMOTE_DONE : MEGA_PROMOTE_ALREADY;
	case -EINVAL:
		return MEGA_PROMOTE_NOT_ELIGIBLE;
	case -ENODATA:
		return MEGA_PROMOTE_NOT_HUGE;
	case -ENOMEM:
		return MEGA_PROMOTE_NO_CHUNK;
	case -EINTR:
		return MEGA_PROMOTE_SIGNAL;
	case -EXDEV:
		return MEGA_PROMOTE_WOULD_MOVE;
	default:
		return MEGA_PROMOTE_BUSY;
	}
}

static void promote(struct mega_promote *request, struct mm_struct *mm)
{
	unsigned int flags = 0;
	unsigned long chunk = ~0UL;
	struct anon_pud_promotion did = {};

	if (request->flags & MEGA_PROMOTE_IN_PLACE)
		flags |= ANON_PUD_IN_PLACE;
	if (request->flags & MEGA_PROMOTE_COLLAPSE)
		flags |= ANON_PUD_COLLAPSE;
	if (request->frame != MEGA_ANY_FRAME)
		chunk = request->frame;

	request->error = anon_pud_promote(mm, request->start, flags, chunk,
					  &did);
	request->in_place = did.in_place;
	request->moved = did.moved;
	request->exchanged = mega_giant_exchanged(&did);
	request->attempts = did.attempts;
	request->stop = stop_of(request->error, did.attempts);
	request->frame = request->error ? MEGA_ANY_FRAME : did.pfn;
}

static int demote(struct mega_demote *request, struct mm_struct *mm)
{
	int error = anon_pud_demote(mm, request->start);

	request->stop = error == -ENODATA ? MEGA_DEMOTE_NOT_GIANT :
					    MEGA_DEMOTE_DONE;
	return error == -ENODATA ? 0 : error;
}

bool mega_is_span(u64 start)
{
	return IS_ALIGNED(start, MEGA_SPAN_BYTES) && start < TASK_SIZE_MAX;
}

static int check_promote(const void *argument)
{
	const struct mega_promote *request = argument;

	if (request->reserved ||
	    request->flags & ~(MEGA_PROMOTE_IN_PLACE | MEGA_PROMOTE_COLLAPSE))
		return -EINVAL;
	if (!mega_is_span(request->start))
		return -EINVAL;
	if (request->frame != MEGA_ANY_FRAME &&
	    !IS_ALIGNED(request->frame, MEGA_CHUNK_FRAMES))
		return -EINVAL;
	if (request->flags & MEGA_PROMOTE_COLLAPSE && !mega_collapse_available())
		return -EOPNOTSUPP;
	return mega_giant_available() ? 0 : -EOPNOTSUPP;
}

static int run_promote(void *argument)
{
	struct mega_promote *request = argument;
	struct mm_struct *mm = mega_mm_of_pidfd(request->pidfd);
	u64 begin;

	if (IS_ERR(mm))
		return PTR_ERR(mm);
	begin = ktime_get_ns();
	promote(request, mm);
	request->nanoseconds = ktime_get_ns() - begin;
	/* Never tear down an exiting process's memory on our caller's time. */
	mmput_async(mm);
	trace_mega_promote(request, 0);
	return 0;
}

const struct mega_request mega_request_promote = {
	.command = MEGA_IOC_PROMOTE,
	.check = check_promote,
	.run = run_promote,
};

static int check_demote(const void *argument)
{
	const struct mega_demote *request = argument;

	if (request->reserved || request->flags || !mega_is_span(request->start))
		return -EINVAL;
	return mega_giant_available() ? 0 : -EOPNOTSUPP;
}

static int run_demote(void *argument)
{
	struct mega_demote *request = argument;
	struct mm_struct *mm = mega_mm_of_pidfd(request->pidfd);
	u64 begin;
	int error;

	if (IS_ERR(mm))
		return PTR_ERR(mm);
	begin = ktime_get_ns();
	error = demote(request, mm);
	request->nanoseconds = ktime_get_ns() - begin;
	mmput_async(mm);
	trace_mega_demote(request, error);
	return error;
}

const struct mega_request mega_request_demote = {
	.command = MEGA_IOC_DEMOTE,
	.check = check_demote,
	.run = run_demote,
};
