// SPDX-License-Identifier: GPL-2.0
/* Giant pages that DAMON watches, by their addresses and by their frames: as they are, and as they come and go. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "kernel.h"
#include "random.h"
#include "span.h"
#include "tap.h"

#define DAMON "/sys/kernel/mm/damon/admin/kdamonds/"
#define CONTEXT "0/contexts/0/"
#define SCHEME CONTEXT "schemes/0/"

/* It looks at a page of each region every sample, and sums up every tenth. */
#define SAMPLE_USEC 20000UL
#define AGGREGATION_USEC (10 * SAMPLE_USEC)

/* How long it may take until something is seen. */
#define PATIENCE_SECONDS 120

static void damon_say(const char *file, const char *word)
{
	char path[256];

	snprintf(path, sizeof(path), DAMON "%s", file);
	set_file(path, word);
}

static void damon_set(const char *file, unsigned long value)
{
	char number[32];

	snprintf(number, sizeof(number), "%lu", value);
	damon_say(file, number);
}

/* A scheme that does nothing to regions that have been accessed but count them. */
static void count_accessed(void)
{
	damon_set(CONTEXT "schemes/nr_schemes", 1);
	damon_say(SCHEME "action", "stat");
	damon_set(SCHEME "access_pattern/sz/max", 1UL << 40);
	damon_set(SCHEME "access_pattern/nr_accesses/min", 1);
	damon_set(SCHEME "access_pattern/nr_accesses/max", AGGREGATION_USEC / SAMPLE_USEC);
	damon_set(SCHEME "access_pattern/age/max", 1UL << 30);
}

/* Begins to watch addresses of the kind that `operations` takes. */
static void damon_on(const char *operations, uint64_t start, uint64_t end)
{
	damon_set("nr_kdamonds", 1);
	damon_set("0/contexts/nr_contexts", 1);
	damon_say(CONTEXT "operations", operations);
	damon_set(CONTEXT "monitoring_attrs/intervals/sample_us", SAMPLE_USEC);
	damon_set(CONTEXT "monitoring_attrs/intervals/aggr_us", AGGREGATION_USEC);
	damon_set(CONTEXT "targets/nr_targets", 1);
	damon_set(CONTEXT "targets/0/pid_target", getpid());
	damon_set(CONTEXT "targets/0/regions/nr_regions", 1);
	/* The end first: a region never ends before it begins. */
	damon_set(CONTEXT "targets/0/regions/0/end", end);
	damon_set(CONTEXT "targets/0/regions/0/start", start);
	count_accessed();
	damon_say("0/state", "on");
}

static void damon_off(void)
{
	damon_say("0/state", "off");
	damon_set("nr_kdamonds", 0);
}

/* Bytes of all regions that it has ever found accessed. */
static long accessed_ever(void)
{
	damon_say("0/state", "update_schemes_stats");
	return read_number(DAMON SCHEME "stats/sz_tried", -1);
}

/* Bytes that it finds accessed in some aggregations from now on. */
static long accessed_now(void)
{
	long before = accessed_ever();

	usleep(4 * AGGREGATION_USEC);
	return accessed_ever() - before;
}

/* Until it sees that memory is in use, or that it is not; false where it does not. */
static bool sees(bool use)
{
	time_t end = time(NULL) + PATIENCE_SECONDS;

	while (time(NULL) < end)
		if ((accessed_now() > 0) == use)
			return true;
	return false;
}

static volatile bool stop;

/* Reads pages of the span, never many at a time that the processor could remember. */
static void *use(void *span)
{
	uint64_t state = 1;

	while (!stop) {
		for (unsigned int i = 0; i < 100; i++)
			*(volatile char *)((char *)span + next(&state) % SPAN_PAGES * PAGE);
		usleep(1000);
	}
	return NULL;
}

static pthread_t use_begin(char *span)
{
	pthread_t thread;

	stop = false;
	if (pthread_create(&thread, NULL, use, span))
		tap_bail("pthread_create");
	return thread;
}

static void use_end(pthread_t thread)
{
	stop = true;
	pthread_join(thread, NULL);
}

static void watched(char *span, const char *operations, uint64_t start)
{
	long splits = vmstat("anon_pud_split");
	pthread_t thread;

	damon_on(operations, start, start + GIANT);
	tap_ok(sees(false), "%s: a giant page that nobody uses is not accessed", operations);
	thread = use_begin(span);
	tap_ok(sees(true), "%s: one that is used is", operations);
	use_end(thread);
	tap_ok(sees(false), "%s: and when it is not any more, it is not", operations);
	damon_off();
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "%s leaves it giant", operations);
	tap_equal(vmstat("anon_pud_split") - splits, 0, "vmstat counts no split");
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "no byte changed");
}

/* Promoted and demoted again and again while it is watched and used. */
static void watched_changing(int device, char *span, const char *operations, uint64_t start)
{
	time_t end = time(NULL) + seconds_of("TRIDENT_RACES_SECONDS", 10);
	unsigned int promotions = 0, rounds = 0;
	pthread_t thread;

	damon_on(operations, start, start + GIANT);
	thread = use_begin(span);
	while (time(NULL) < end) {
		demote(device, span);
		promotions += promote(device, span, MEGA_PROMOTE_IN_PLACE).stop == MEGA_PROMOTE_DONE;
		rounds++;
	}
	tap_note("%u rounds, %u promotions", rounds, promotions);
	tap_ok(promotions > 0, "%s: it is promoted while it is watched and used", operations);
	tap_ok(sees(true), "%s: and seen to be in use", operations);
	use_end(thread);
	damon_off();
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "no byte changed");
}

int main(void)
{
	int device = device_open();
	char *span;

	if (access(DAMON "nr_kdamonds", W_OK)) {
		tap_skip("DAMON", "this kernel has none");
		return tap_end();
	}
	span = giant_new(device);
	watched(span, "fvaddr", (uintptr_t)span);
	watched(span, "paddr", frame_of(span) * PAGE);
	/* In place: it keeps its frames. */
	watched_changing(device, span, "fvaddr", (uintptr_t)span);
	watched_changing(device, span, "paddr", frame_of(span) * PAGE);
	munmap(span, GIANT);
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
