// SPDX-License-Identifier: GPL-2.0
/* What a compaction of ours does, as counted by the kernel itself. */

#include <linux/migrate_mode.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include "compact_counts.h"

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
			   unsigned long large_folio_split,
			   enum migrate_mode mode, int reason)
{
	if (!is_ours())
		return;
	counts_of_compactor->migrated += succeeded;
	counts_of_compactor->failed += failed;
}

/* The probes' arguments are those of the tracepoints in 6.12. */
static struct hook {
	const char *name;
	void *probe;
	struct tracepoint *point;
} hooks[] = {
	{ .name = "mm_compaction_isolate_migratepages",
	  .probe = isolated_probe },
	{ .name = "mm_migrate_pages", .probe = migrated_probe },
};

/* They are not exported by name, but may be looked for. */
static void match(struct tracepoint *point, void *data)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(hooks); i++)
		if (!strcmp(point->name, hooks[i].name))
			hooks[i].point = point;
}

static void unhook(unsigned int count)
{
	while (count--)
		tracepoint_probe_unregister(hooks[count].point,
					    hooks[count].probe, NULL);
	tracepoint_synchronize_unregister();
}

static bool available;

void mega_counts_init(void)
{
	unsigned int i;

	for_each_kernel_tracepoint(match, NULL);
	for (i = 0; i < ARRAY_SIZE(hooks); i++) {
		if (hooks[i].point &&
		    !tracepoint_probe_register(hooks[i].point, hooks[i].probe,
					       NULL))
			continue;
		unhook(i);
		return;
	}
	available = true;
}

void mega_counts_exit(void)
{
	if (available)
		unhook(ARRAY_SIZE(hooks));
	available = false;
}

bool mega_counts_available(void)
{
	return available;
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
