// SPDX-License-Identifier: GPL-2.0
/*
 * What a compaction of ours does, as counted by the kernel itself.
 *
 * While the tracepoints are hooked every task of the machine that isolates or
 * migrates pays for a call, and to hook them stops all CPUs for a moment. So they
 * are hooked at the first compaction, and no more a while after the last.
 */

#include <linux/jiffies.h>
#include <linux/migrate.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/tracepoint.h>
#include <linux/workqueue.h>
#include "compact_counts.h"
#include "compat/compat.h"

/* After a compaction, for the next one: a run of them hooks once. */
#define STAY_HOOKED (2 * HZ)

/*
 * Who compacts now. The probes run in every task that isolates or migrates; only
 * the one that is named here reads counts, and it is the one that wrote it.
 */
static struct task_struct *compactor;
static struct compact_counts *counts_of_compactor;

static bool is_ours(void)
{
	return READ_ONCE(compactor) == current;
}

#ifdef MEGA_MIGRATE_REST
static void isolated_probe(void *data, unsigned long start, unsigned long end,
			   unsigned long scanned, unsigned long taken)
{
	if (!is_ours())
		return;
	counts_of_compactor->scanned += scanned;
	counts_of_compactor->isolated += taken;
}

static void migrated_probe(void *data, unsigned long succeeded,
			   unsigned long failed, unsigned long thp_succeeded,
			   unsigned long thp_failed, unsigned long thp_split,
			   MEGA_MIGRATE_REST)
{
	if (!is_ours())
		return;
	counts_of_compactor->migrated += succeeded;
	counts_of_compactor->failed += failed;
}

#endif

/* The probes' arguments are those of this kernel's tracepoints: see compat.h. */
static struct hook {
	const char *name;
	void *probe;
	struct tracepoint *point;
} hooks[] = {
#ifdef MEGA_MIGRATE_REST
	{ .name = "mm_compaction_isolate_migratepages",
	  .probe = isolated_probe },
	{ .name = "mm_migrate_pages", .probe = migrated_probe },
#endif
};

/* They are not exported by name, but may be looked for. */
static void match(struct tracepoint *point, void *data)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(hooks); i++)
		if (!strcmp(point->name, hooks[i].name))
			hooks[i].point = point;
}

/* Both were found. */
static bool available;

/* Guards the two. What is held stays hooked. */
static DEFINE_MUTEX(hooks_lock);
static bool hooked;
static bool held;

/* /sys/module/mega/parameters/hooked: for whoever wonders who hooks them. */
static int show_hooked(char *text, const struct kernel_param *parameter)
{
	return sysfs_emit(text, "%d\n", READ_ONCE(hooked));
}

static int refuse(const char *text, const struct kernel_param *parameter)
{
	return -EPERM;
}

static const struct kernel_param_ops hooked_operations = {
	.get = show_hooked,
	.set = refuse,
};

module_param_cb(hooked, &hooked_operations, NULL, 0444);
MODULE_PARM_DESC(hooked, "read only: 1 while the kernel's tracepoints are hooked, at a COMPACT and shortly after");

/*
 * A probe may run still when this returns. It finds that it is in no compactor,
 * and is gone before the module is: mega_counts_exit().
 */
static void unhook(unsigned int count)
{
	while (count--)
		tracepoint_probe_unregister(hooks[count].point,
					    hooks[count].probe, NULL);
}

static int hook(void)
{
	unsigned int i;
	int error;

	for (i = 0; i < ARRAY_SIZE(hooks); i++) {
		error = tracepoint_probe_register(hooks[i].point,
						  hooks[i].probe, NULL);
		if (error) {
			unhook(i);
			return error;
		}
	}
	return 0;
}

/* Where somebody compacts again, mega_counts_release() orders the next one. */
static void unhook_unused(struct work_struct *work)
{
	mutex_lock(&hooks_lock);
	if (hooked && !held) {
		unhook(ARRAY_SIZE(hooks));
		WRITE_ONCE(hooked, false);
	}
	mutex_unlock(&hooks_lock);
}

static DECLARE_DELAYED_WORK(unhook_work, unhook_unused);

void mega_counts_init(void)
{
	unsigned int i;

	for_each_kernel_tracepoint(match, NULL);
	available = ARRAY_SIZE(hooks) > 0;
	for (i = 0; i < ARRAY_SIZE(hooks); i++)
		available &= hooks[i].point != NULL;
}

/*
 * The device is gone, so nobody compacts, and the work is ordered by nobody. Once
 * it has run or been taken back nothing is hooked, or is unhooked here; and who
 * is in a probe then has left it when the last call returns.
 */
void mega_counts_exit(void)
{
	cancel_delayed_work_sync(&unhook_work);
	unhook_unused(NULL);
	tracepoint_synchronize_unregister();
}

bool mega_counts_available(void)
{
	return available;
}

int mega_counts_hold(void)
{
	int error = 0;

	if (!available)
		return 0;
	mutex_lock(&hooks_lock);
	if (!hooked)
		error = hook();
	if (!error) {
		WRITE_ONCE(hooked, true);
		held = true;
	}
	mutex_unlock(&hooks_lock);
	return error;
}

void mega_counts_release(void)
{
	if (!available)
		return;
	mutex_lock(&hooks_lock);
	held = false;
	mutex_unlock(&hooks_lock);
	mod_delayed_work(mega_workqueue, &unhook_work, STAY_HOOKED);
}

void mega_counts_begin(struct compact_counts *counts)
{
	counts_of_compactor = counts;
	WRITE_ONCE(compactor, current);
}

void mega_counts_end(void)
{
	WRITE_ONCE(compactor, NULL);
	counts_of_compactor = NULL;
}
