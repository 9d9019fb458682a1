// SPDX-License-Identifier: GPL-2.0
/*
 * Commits one fault, named by its parameter, when it is loaded. The harness's own test loads it to see that a kernel
 * reports the fault and that the harness finds the report. Not for a machine that anybody needs.
 */
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

static char *fault = "";
module_param(fault, charp, 0);

static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);
static DEFINE_SPINLOCK(spin);

static void warn(void)
{
	WARN(1, "asked for");
}

static void refcount(void)
{
	refcount_t count = REFCOUNT_INIT(0);

	refcount_inc(&count);
}

static void use_after_free(void)
{
	u8 *memory = kmalloc(64, GFP_KERNEL);

	if (!memory)
		return;
	OPTIMIZER_HIDE_VAR(memory);
	kfree(memory);
	WRITE_ONCE(memory[8], 1);
}

static void lock_order(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);

	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
}

static void sleep_in_atomic(void)
{
	spin_lock(&spin);
	msleep(1);
	spin_unlock(&spin);
}

static void leak(void)
{
	void *memory = kmalloc(512, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(memory);
}

static const struct {
	const char *name;
	void (*commit)(void);
} faults[] = {
	{ "warn", warn },
	{ "refcount", refcount },
	{ "use-after-free", use_after_free },
	{ "lock-order", lock_order },
	{ "sleep-in-atomic", sleep_in_atomic },
	{ "leak", leak },
};

static int __init faults_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		if (strcmp(fault, faults[i].name))
			continue;
		faults[i].commit();
		return 0;
	}
	return -EINVAL;
}

static void __exit faults_exit(void)
{
}

module_init(faults_init);
module_exit(faults_exit);
MODULE_DESCRIPTION("Commits one fault when loaded, to test a test harness");
MODULE_LICENSE("GPL");
