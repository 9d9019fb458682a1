// SPDX-License-Identifier: GPL-2.0
/*
 * An exchanger for tests, in the guest itself: it swaps the contents of the two
 * huge pages. Its parameter mode says how well, and may be written at any time:
 *
 * off      there is no exchanger
 * honest   every pair is exchanged
 * fails    every second one, at random, is left alone
 * slow     honest, after a while
 * lies     none is exchanged, and nobody is told
 * mixed    one of these, at random, for each batch
 * stops    after some pairs it stops in the middle of others, as a host does
 *          that moves page by page, and goes on some time after; the rest is
 *          left alone
 * late     honest, but for a pair or so that is left unsettled and exchanged
 *          some time after
 *
 * The last two cost memory that is not to be had again until the next boot.
 */

#include <linux/anon_pud.h>
#include <linux/delay.h>
#include <linux/highmem.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/stop_machine.h>
#include <linux/string.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

enum mode { OFF, HONEST, FAILS, SLOW, LIES, MIXED, STOPS, LATE };

static const char *const names[] = {
	"off", "honest", "fails", "slow", "lies", "mixed", "stops", "late",
};

static enum mode mode;

static unsigned long batches, pairs, swapped, unsettled;
module_param(batches, ulong, 0444);
module_param(pairs, ulong, 0444);
module_param(swapped, ulong, 0444);
module_param(unsettled, ulong, 0444);

/* For the counts, and for the page that contents go through. */
static DEFINE_MUTEX(lock);
static char room[PAGE_SIZE];

static struct workqueue_struct *queue;

struct late {
	struct delayed_work work;
	struct anon_pud_pair pair;
};

static void swap_huge_pages(const struct anon_pud_pair *pair)
{
	unsigned int i;

	for (i = 0; i < HPAGE_PMD_NR; i++) {
		void *left = page_address(pfn_to_page(pair->source + i));
		void *right = page_address(pfn_to_page(pair->target + i));

		memcpy(room, left, PAGE_SIZE);
		memcpy(left, right, PAGE_SIZE);
		memcpy(right, room, PAGE_SIZE);
	}
}

static void exchange_pair(const struct anon_pud_pair *pair)
{
	swap_huge_pages(pair);
	swapped++;
	cond_resched();
}

static int swap_stopped(void *pair)
{
	swap_huge_pages(pair);
	return 0;
}

/*
 * A hypervisor does it at one moment, so whoever saves the contents meanwhile is
 * not to see half of it.
 */
static void come_late(struct work_struct *work)
{
	struct late *late = container_of(to_delayed_work(work), struct late,
					 work);

	mutex_lock(&lock);
	stop_machine(swap_stopped, &late->pair, NULL);
	mutex_unlock(&lock);
	kfree(late);
}

static void leave_unsettled(struct anon_pud_pair *pair)
{
	pair->unsettled = true;
	unsettled++;
}

/* At once or up to 30 ms later: while the contents are being saved, or after. */
static void exchange_late(struct anon_pud_pair *pair)
{
	struct late *late = kmalloc(sizeof(*late), GFP_NOIO | __GFP_NOFAIL);

	late->pair = *pair;
	INIT_DELAYED_WORK(&late->work, come_late);
	leave_unsettled(pair);
	queue_delayed_work(queue, &late->work,
			   msecs_to_jiffies(get_random_u32_below(30)));
}

/* A pair in the middle. A step moves a page: aside, to the target, to the source. */
struct stopped {
	struct delayed_work work;
	struct anon_pud_pair pair;
	void *aside;
	unsigned int done;
};

#define STEPS (3 * HPAGE_PMD_NR)
#define STOPPED_AT_ONCE 32

static void *page_at(unsigned long frame, unsigned int i)
{
	return page_address(pfn_to_page(frame + i));
}

/* It is in its new place before it leaves the old one. */
static void move_page(void *to, void *from)
{
	memcpy(to, from, PAGE_SIZE);
	/* Whoever looks here first finds it there. */
	smp_wmb();
	memset(from, 0, PAGE_SIZE);
}

static void step(struct stopped *stopped)
{
	unsigned int i = stopped->done % HPAGE_PMD_NR;
	void *source = page_at(stopped->pair.source, i);
	void *target = page_at(stopped->pair.target, i);
	void *aside = stopped->aside + i * PAGE_SIZE;

	switch (stopped->done++ / HPAGE_PMD_NR) {
	case 0:
		move_page(aside, target);
		break;
	case 1:
		move_page(target, source);
		break;
	case 2:
		move_page(source, aside);
		break;
	}
}

static void go_on(struct work_struct *work)
{
	struct stopped *stopped = container_of(to_delayed_work(work), struct stopped,
					 work);

	while (stopped->done < STEPS)
		step(stopped);
	vfree(stopped->aside);
	kfree(stopped);
}

/* Goes on at once, while the contents are being saved, or up to 30 ms later. */
static void stop_in_the_middle(struct anon_pud_pair *pair)
{
	unsigned int end = get_random_u32_below(STEPS);
	struct stopped *stopped = kmalloc(sizeof(*stopped), GFP_NOIO);
	void *aside = vmalloc(HPAGE_PMD_SIZE);

	if (!stopped || !aside) {
		vfree(aside);
		kfree(stopped);
		return;
	}
	leave_unsettled(pair);
	stopped->pair = *pair;
	stopped->aside = aside;
	stopped->done = 0;
	INIT_DELAYED_WORK(&stopped->work, go_on);
	while (stopped->done < end)
		step(stopped);
	queue_delayed_work(queue, &stopped->work,
			   msecs_to_jiffies(get_random_u32_below(30)));
}

/* Of those after the pairs that are exchanged some, so that they stop at many places. */
static void exchange_and_stop(struct anon_pud_pair *all, unsigned int nr)
{
	unsigned int i, end = get_random_u32_below(nr);

	for (i = 0; i < end; i++)
		exchange_pair(&all[i]);
	for (; i < nr; i += DIV_ROUND_UP(nr, STOPPED_AT_ONCE))
		stop_in_the_middle(&all[i]);
}

static void exchange_some(struct anon_pud_pair *all, unsigned int nr, enum mode how)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		if (how == FAILS && get_random_u32_below(2))
			continue;
		if (how == LATE && !get_random_u32_below(nr))
			exchange_late(&all[i]);
		else
			exchange_pair(&all[i]);
	}
}

static void exchange(struct anon_pud_pair *all, unsigned int nr)
{
	enum mode how = READ_ONCE(mode);

	mutex_lock(&lock);
	if (how == MIXED)
		how = HONEST + get_random_u32_below(MIXED - HONEST);
	batches++;
	pairs += nr;
	if (how == SLOW)
		msleep(get_random_u32_below(200));
	if (how == STOPS)
		exchange_and_stop(all, nr);
	else if (how != LIES)
		exchange_some(all, nr, how);
	mutex_unlock(&lock);
}

static const struct anon_pud_exchanger exchanger = {
	.max = 512,
	.exchange = exchange,
};

/* Under the lock of the module's parameters, so one at a time. */
static int set_mode(const char *value, const struct kernel_param *parameter)
{
	int error = 0, new = sysfs_match_string(names, value);

	if (new < 0)
		return new;
	if (mode == OFF && new != OFF)
		error = anon_pud_set_exchanger(&exchanger);
	else if (mode != OFF && new == OFF)
		anon_pud_set_exchanger(NULL);
	if (!error)
		WRITE_ONCE(mode, new);
	return error;
}

static int get_mode(char *buffer, const struct kernel_param *parameter)
{
	return sysfs_emit(buffer, "%s\n", names[mode]);
}

static const struct kernel_param_ops mode_operations = {
	.set = set_mode,
	.get = get_mode,
};

module_param_cb(mode, &mode_operations, NULL, 0600);
MODULE_PARM_DESC(mode, "How well it exchanges: off, honest, fails, slow, lies, mixed, stops, late");

static int __init loopback_init(void)
{
	queue = alloc_workqueue("exchange_loopback", 0, 0);
	if (!queue && mode != OFF)
		anon_pud_set_exchanger(NULL);
	return queue ? 0 : -ENOMEM;
}

static void __exit loopback_exit(void)
{
	if (mode != OFF)
		anon_pud_set_exchanger(NULL);
	/* What comes late has to have come: a queue does not wait for timers. */
	msleep(100);
	destroy_workqueue(queue);
}

module_init(loopback_init);
module_exit(loopback_exit);

MODULE_DESCRIPTION("Exchanges huge pages by copying them, for tests");
MODULE_AUTHOR("The mega developers");
MODULE_LICENSE("GPL");
