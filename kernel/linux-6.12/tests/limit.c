// SPDX-License-Identifier: GPL-2.0
/*
 * A process whose memory cgroup is at memory.max, or goes beyond memory.high, waits in the fault of a giant page, or right after
 * it, and others do not wait for it: their first writes to spans and their promotions go on. The faults of spans go one after the
 * other by a lock that spans of different processes share, so who waits for memory while he has it stops others that have nothing
 * to do with him.
 *
 * The gate (see gate/) holds him in reclaim for as long as the others need. A mistake shows by others that do not go on.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kernel.h"
#include "pool.h"
#include "span.h"
#include "tap.h"

#define GATE "/sys/module/reclaim_gate/parameters/"
#define CURRENT "/sys/fs/cgroup/giant/memory.current"

/* What the group has left: less than the tables of a giant page take. */
#define ROOM (1UL << 20)
/* What one of it asks for. */
#define LIMITED_PAGES (8 * ROOM / PAGE)
/* Their locks are 64. So many spans in a row have all of them: twice as many as do where they begin at a multiple of them. */
#define SPANS 1024
/* Ticks, of which none has anything new, after which the others are given up. */
#define PATIENCE 3000
#define TICK_MICROSECONDS 100000

static int device;

/* What the processes tell each other. */
static struct {
	bool go;
	unsigned long limited, others;
} *shared;

static void said(unsigned long *what)
{
	__atomic_fetch_add(what, 1, __ATOMIC_RELEASE);
}

static unsigned long seen(const unsigned long *what)
{
	return __atomic_load_n(what, __ATOMIC_ACQUIRE);
}

static void wait_to_go(void)
{
	while (!__atomic_load_n(&shared->go, __ATOMIC_ACQUIRE))
		usleep(1000);
}

/* Memory of so many spans that nobody has asked for huge pages for. */
static char *plain(size_t spans)
{
	char *memory = mmap(room_for(spans * GIANT), spans * GIANT, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (memory == MAP_FAILED)
		tap_bail("mmap of %zu spans", spans);
	return memory;
}

static pid_t child_that(int (*does)(void))
{
	pid_t child = fork();

	if (child < 0)
		tap_bail("fork");
	if (!child)
		_exit(does());
	return child;
}

/* Writes to the first span as to any other memory, until it is told more than its group may have. */
static int limited(void)
{
	char *span = plain(1);

	wait_to_go();
	for (size_t at = 0; at < LIMITED_PAGES * PAGE; at += PAGE) {
		*(volatile char *)(span + at) = 1;
		said(&shared->limited);
	}
	return 0;
}

/* The first write to each of many spans, and a promotion. */
static int others(void)
{
	char *spans = plain(SPANS), *span = map_spans(1);
	struct mega_promote request;

	fill(span, GIANT, 1);
	said(&shared->others);
	wait_to_go();
	while (read_number(GATE "held", -1) < 1)
		usleep(1000);
	for (size_t i = 0; i < SPANS; i++) {
		*(volatile char *)(spans + i * GIANT) = 1;
		said(&shared->others);
	}
	/* One was left for them. */
	if (!giant_kib(spans, SPANS * GIANT))
		return 1;
	munmap(spans, SPANS * GIANT);
	/* The pool has been filled again since, maybe with what is to be promoted to. */
	pool_want(0);
	request = promote_surely(device, span);
	said(&shared->others);
	return request.stop == MEGA_PROMOTE_DONE && !wrong_pages(span, GIANT, 0, 1) ? 0 : 2;
}

/* Where a process waits in the kernel, as a remark. */
static void note_stack(pid_t process)
{
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stack", process);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		tap_note("%.*s", (int)strcspn(line, "\n"), line);
	if (file)
		fclose(file);
}

/* Waits until the process ends, or nothing is heard of it for long; whether it ended, and well. */
static bool goes_on(pid_t child)
{
	unsigned long before = 0;
	int status;

	for (int ticks = 0; ticks < PATIENCE; ticks++) {
		if (waitpid(child, &status, WNOHANG) == child) {
			if (WIFEXITED(status) && WEXITSTATUS(status))
				tap_note("it ended with %d", WEXITSTATUS(status));
			return WIFEXITED(status) && !WEXITSTATUS(status);
		}
		if (seen(&shared->others) != before) {
			before = seen(&shared->others);
			ticks = 0;
		}
		usleep(TICK_MICROSECONDS);
	}
	return false;
}

static void close_and_limit(const char *limit, pid_t *waiting)
{
	char text[32];

	/* In the group, as who closes the gate says which group it is for. */
	if (!cgroup_enter())
		tap_bail("there is no memory cgroup any more");
	set_file(GATE "closed", "1");
	*waiting = child_that(limited);
	set_file("/sys/fs/cgroup/cgroup.procs", "0");
	snprintf(text, sizeof(text), "%lu", read_number(CURRENT, 0) + ROOM);
	if (!cgroup_write(limit, text))
		tap_bail("set %s", limit);
}

/* The limited process finds that many chunks in the pool. At memory.max it gets none; memory.high refuses it nothing. */
static void beside(const char *limit, unsigned int chunks)
{
	pid_t waiting, free;
	unsigned long did;
	bool went_on;

	*shared = (typeof(*shared)){ 0 };
	free = child_that(others);
	while (!seen(&shared->others))
		usleep(10000);
	/* Not before: it is to be promoted. */
	pool_fill(chunks);
	size_enable("always");
	close_and_limit(limit, &waiting);
	__atomic_store_n(&shared->go, true, __ATOMIC_RELEASE);
	while (read_number(GATE "held", -1) < 1) {
		if (seen(&shared->limited) == LIMITED_PAGES)
			tap_bail("a process got more than its group may have");
		usleep(10000);
	}
	/* It may have written more before it was seen here; not now. */
	did = seen(&shared->limited);
	went_on = goes_on(free);
	tap_ok(went_on, "%s: while one waits whose group has reached it, others write to spans and promote them", limit);
	if (!went_on) {
		note_stack(waiting);
		note_stack(free);
	}
	tap_note("%lu of %u first writes and promotions", seen(&shared->others) - 1, SPANS + 1);
	tap_ok(read_number(GATE "held", -1) == 1 && seen(&shared->limited) == did && !waitpid(waiting, NULL, WNOHANG),
	       "%s: he has waited all the time", limit);
	tap_note("after %lu pages", did);
	/* First the room, so that nobody is killed. */
	if (!cgroup_write(limit, "max"))
		tap_bail("set %s", limit);
	set_file(GATE "closed", "0");
	tap_ok(ended_well(waiting), "%s: and goes on when there is room again", limit);
	if (!went_on)
		waitpid(free, NULL, 0);
	cgroup_leave();
	size_enable("never");
}

int main(void)
{
	device = device_open();
	if (!cgroup_enter()) {
		tap_skip("a cgroup at its limit", "there is no memory cgroup");
		return tap_end();
	}
	cgroup_leave();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		tap_bail("mmap");
	beside("memory.max", 1);
	beside("memory.high", 2);
	pool_empty();
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
