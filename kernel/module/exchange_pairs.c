// SPDX-License-Identifier: GPL-2.0
/*
 * EXCHANGE: pairs of huge pages of a process that change places.
 *
 * The patched kernel does the work (kernel/linux-6.12, CONFIG_ANON_PUD). On any
 * other the request is refused.
 */

#include <linux/err.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "mega.h"
#include "task.h"
#include "trace.h"

bool mega_exchange_pairs_available(void)
{
#ifdef HAVE_HUGE_EXCHANGE
	return true;
#else
	return false;
#endif
}

static int check(const void *argument)
{
	const struct mega_exchange *request = argument;

	if (request->flags || request->reserved)
		return -EINVAL;
	if (!request->count || request->count > MEGA_MAX_PAIRS)
		return -EINVAL;
	if (!IS_ALIGNED(request->pairs, 8))
		return -EINVAL;
	return mega_exchange_pairs_available() ? 0 : -EOPNOTSUPP;
}

#ifdef HAVE_HUGE_EXCHANGE
#include <linux/huge_exchange.h>

/* The pairs as the caller has them, and as the kernel does. */
struct pairs {
	struct mega_pair user[MEGA_MAX_PAIRS];
	struct huge_exchange_pair kernel[MEGA_MAX_PAIRS];
};

static bool is_region(u64 address)
{
	return IS_ALIGNED(address, MEGA_REGION_BYTES) && address < TASK_SIZE_MAX;
}

static int read_pairs(const struct mega_exchange *request, struct pairs *pairs)
{
	size_t bytes = request->count * sizeof(struct mega_pair);
	void __user *user = u64_to_user_ptr(request->pairs);
	u32 i;

	BUILD_BUG_ON(MEGA_MAX_PAIRS > HUGE_EXCHANGE_MAX);
	if (copy_from_user(pairs->user, user, bytes))
		return -EFAULT;
	for (i = 0; i < request->count; i++) {
		const struct mega_pair *pair = &pairs->user[i];

		if (pair->reserved || pair->first == pair->second ||
		    !is_region(pair->first) || !is_region(pair->second))
			return -EINVAL;
		pairs->kernel[i].first = pair->first;
		pairs->kernel[i].second = pair->second;
	}
	/* Nothing is done of which nobody could be told. */
	return fault_in_safe_writeable(user, bytes) ? -EFAULT : 0;
}

static int write_pairs(struct mega_exchange *request, struct pairs *pairs)
{
	void __user *user = u64_to_user_ptr(request->pairs);
	u32 i;

	for (i = 0; i < request->count; i++) {
		pairs->user[i].result = pairs->kernel[i].result;
		if (pairs->kernel[i].result == HUGE_EXCHANGE_DONE)
			request->exchanged++;
	}
	return copy_to_user(user, pairs->user,
			    request->count * sizeof(struct mega_pair)) ?
		       -EFAULT : 0;
}

/* The kernel's results are the interface's. */
static_assert((u32)MEGA_PAIR_EXCHANGED == HUGE_EXCHANGE_DONE);
static_assert((u32)MEGA_PAIR_NOT_ELIGIBLE == HUGE_EXCHANGE_NOT_ELIGIBLE);
static_assert((u32)MEGA_PAIR_NOT_HUGE == HUGE_EXCHANGE_NOT_HUGE);
static_assert((u32)MEGA_PAIR_SHARED == HUGE_EXCHANGE_SHARED);
static_assert((u32)MEGA_PAIR_HELD == HUGE_EXCHANGE_HELD);
static_assert((u32)MEGA_PAIR_BUSY == HUGE_EXCHANGE_BUSY);
static_assert((u32)MEGA_PAIR_POISONED == HUGE_EXCHANGE_POISONED);
static_assert((u32)MEGA_PAIR_LOGGED == HUGE_EXCHANGE_LOGGED);

static int exchange_in(struct mega_exchange *request, struct mm_struct *mm,
		       struct pairs *pairs)
{
	u64 begin = ktime_get_ns();
	int error = exchange_huge_pages(mm, pairs->kernel, request->count);

	request->nanoseconds = ktime_get_ns() - begin;
	return error ?: write_pairs(request, pairs);
}

static int exchange(struct mega_exchange *request, struct pairs *pairs)
{
	int error = read_pairs(request, pairs);
	struct mm_struct *mm;

	if (error)
		return error;
	mm = mega_mm_of_pidfd(request->pidfd);
	if (IS_ERR(mm))
		return PTR_ERR(mm);
	request->exchanged = 0;
	error = exchange_in(request, mm, pairs);
	/* Never tear down an exiting process's memory on our caller's time. */
	mmput_async(mm);
	trace_mega_exchange(request, error);
	return error;
}

static int run(void *argument)
{
	struct pairs *pairs = kvmalloc(sizeof(*pairs), GFP_KERNEL_ACCOUNT);
	int error;

	if (!pairs)
		return -ENOMEM;
	error = exchange(argument, pairs);
	kvfree(pairs);
	return error;
}
#else
/* Never called: check() has refused. */
static int run(void *argument)
{
	return -EOPNOTSUPP;
}
#endif /* HAVE_HUGE_EXCHANGE */

const struct mega_request mega_request_exchange = {
	.command = MEGA_IOC_EXCHANGE,
	.check = check,
	.run = run,
};
