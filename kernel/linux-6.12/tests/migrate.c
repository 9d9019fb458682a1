// SPDX-License-Identifier: GPL-2.0
/*
 * Pages of a giant page that are moved by others: to another node, out of a block, out of memory that goes offline. And huge
 * pages that are given back in part while they are moved, as a promotion moves them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "kernel.h"
#include "span.h"
#include "tap.h"

static int device;

static void as_it_was(const char *span, const char *when)
{
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "%s: no byte changed", when);
}

static void one_page(char *span)
{
	char *page = span + 50 * HUGE + 9 * PAGE;
	int other = !node_of(page), status[1];
	void *pages[1] = { page };

	tap_equal(syscall(SYS_move_pages, 0, 1, pages, (int[1]){ other }, status, MPOL_MF_MOVE), 0,
		  "a page of it can be moved to another node");
	tap_equal(status[0], other, "and says that it is there");
	tap_equal(node_of(page), other, "and is");
	tap_equal(giant_kib(span, GIANT), 0, "it is not giant any more");
	tap_ok(regions_of(device, span, GIANT, 21) >= SPAN_REGIONS - 1, "the others are 2 MiB pages");
	as_it_was(span, "a page moved");
	promote_surely(device, span);
}

/* A policy for the span, with what is there moved accordingly. */
static void whole_span(char *span)
{
	int other = !node_of(span);
	unsigned long nodes = 1UL << other;
	struct mega_promote request;

	tap_equal(syscall(SYS_mbind, span, GIANT, MPOL_BIND, &nodes, 3, MPOL_MF_MOVE), 0,
		  "it can be bound to another node");
	tap_ok(node_of(span) == other && node_of(span + GIANT - PAGE) == other, "and is there then");
	as_it_was(span, "bound to another node");
	request = promote_surely(device, span);
	promote_note(&request);
	tap_equal(node_of(span), other, "promoted again it is on the node that it is bound to");
	as_it_was(span, "promoted there");
	syscall(SYS_mbind, span, GIANT, MPOL_DEFAULT, NULL, 0, 0);
	promote_surely(device, span);
}

/*
 * Spans of one node, promoted until it has no chunk for one any more: none of them goes to the other node, from where nothing
 * would bring it back.
 */
static void stays_on_its_node(char *span)
{
	int node = node_of(span), promoted = 0, elsewhere = 0;
	unsigned long nodes = 1UL << node;
	char *more[2];

	for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++) {
		struct mega_promote request;

		more[i] = map_spans(1);
		syscall(SYS_mbind, more[i], GIANT, MPOL_PREFERRED, &nodes, 3, 0);
		fill(more[i], GIANT, 1);
		syscall(SYS_mbind, more[i], GIANT, MPOL_DEFAULT, NULL, 0, 0);
		request = promote(device, more[i], 0);
		promote_note(&request);
		if (request.stop != MEGA_PROMOTE_DONE)
			continue;
		promoted++;
		elsewhere += node_of(more[i]) != node;
	}
	tap_note("%d of %zu promoted", promoted, sizeof(more) / sizeof(*more));
	tap_equal(elsewhere, 0, "what is promoted stays on the node that it is on, also where that has no chunk for it");
	for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++) {
		as_it_was(more[i], "beside it");
		munmap(more[i], GIANT);
	}
}

/* Uses the span for as many seconds; false where that has changed a byte. */
static bool used_for(const char *span, time_t seconds)
{
	bool right = true;

	for (time_t end = time(NULL) + seconds; right && time(NULL) < end;)
		right = !wrong_pages(span, GIANT, 0, 1);
	return right;
}

/* A program that is on the node of its span, and on none other: it is left alone. */
static void stays_where_it_is_used(const char *span, int node)
{
	long looks = vmstat("numa_pte_updates");

	run_on_node(node);
	tap_ok(used_for(span, 20), "used from its node while nodes are balanced");
	tap_note("numa_pte_updates %ld", vmstat("numa_pte_updates") - looks);
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "it stays giant");
}

/* A program that has gone to the other node: NUMA balancing brings the span over. */
static void follows_its_program(char *span, int node)
{
	time_t begin = time(NULL), end = begin + SECONDS_OF_BALANCING;
	bool right = true;

	run_on_node(node);
	while (right && giant_kib(span, GIANT) && time(NULL) < end)
		right = used_for(span, 1);
	tap_equal(giant_kib(span, GIANT), 0, "used from the other node it is not giant any more");
	tap_note("after %ld s", (long)(time(NULL) - begin));
	while (right && regions_on(span, node) < SPAN_REGIONS && time(NULL) < end)
		right = used_for(span, 1);
	tap_ok(right, "no byte changes meanwhile");
	tap_equal(regions_on(span, node), SPAN_REGIONS, "all of its huge pages come over");
	tap_note("after %ld s", (long)(time(NULL) - begin));
	promote_surely(device, span);
	tap_equal(node_of(span), node, "promoted again it is there");
}

/* A thread that prefers the node, as it runs there and uses memory of its own, until the program is told to go on. */
struct resident {
	int node;
	volatile bool over;
};

static void *resides(void *argument)
{
	struct resident *resident = argument;
	volatile uint64_t count = 0;

	run_on_node(resident->node);
	while (!resident->over)
		count++;
	return NULL;
}

/* A program with threads on both nodes: what is on one of them has not been left. */
static void stays_with_one_of_its_threads(const char *span, int node)
{
	struct resident resident = { .node = node };
	pthread_t thread;

	pthread_create(&thread, NULL, resides, &resident);
	run_on_node(!node);
	tap_ok(used_for(span, 40), "used from the other node while a thread is on its own");
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "it stays giant");
	resident.over = true;
	pthread_join(thread, NULL);
}

/* Memory that a policy has where it is. */
static void stays_where_it_is_bound(char *span, int node)
{
	unsigned long nodes = 1UL << node;

	syscall(SYS_mbind, span, GIANT, MPOL_BIND, &nodes, 3, 0);
	run_on_node(!node);
	tap_ok(used_for(span, 40), "used from the other node while it is bound to its own");
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "it stays giant");
	syscall(SYS_mbind, span, GIANT, MPOL_DEFAULT, NULL, 0, 0);
}

/* Pages that a node's balancing makes inaccessible for a while, to see who uses them. */
static void balanced(char *span)
{
	int node = node_of(span);

	if (!write_file(BALANCING, "1")) {
		tap_skip("NUMA balancing", "this kernel has none");
		return;
	}
	stays_where_it_is_used(span, node);
	stays_with_one_of_its_threads(span, node);
	stays_where_it_is_bound(span, node);
	follows_its_program(span, !node);
	set_file(BALANCING, "0");
	run_anywhere();
	as_it_was(span, "balancing nodes");
}

/* COMPACT, as for any other huge page. */
static void out_of_a_block(char *span)
{
	uint64_t frame = frame_of(span) + 3 * MEGA_BLOCK_FRAMES;
	struct mega_compact request = compact_until(device, frame, 9, MEGA_COMPACT_MOVE_HUGE, MEGA_STOP_DONE);

	compact_note(&request);
	tap_equal(request.stop, MEGA_STOP_DONE, "a block under it can be emptied");
	tap_ok(frame_of(span + 3 * HUGE) != frame, "its page is elsewhere");
	tap_equal(giant_kib(span, GIANT), 0, "it is not giant any more");
	as_it_was(span, "a block emptied");
	request = compact_request(frame, 9);
	tap_equal(promote_surely(device, span).stop, MEGA_PROMOTE_DONE, "and it can be giant again");
}

static void compacted(char *span)
{
	long splits = vmstat("anon_pud_split");

	set_file("/proc/sys/vm/compact_memory", "1");
	as_it_was(span, "memory compacted");
	tap_equal(vmstat("anon_pud_split") - splits, 0, "which leaves giant pages alone");
}

/*
 * The memory block that its first page lies in goes offline, which may be refused, and comes back, into the zone that it was in: a
 * chunk that two zones share can hold no giant page.
 */
static void offline(char *span)
{
	unsigned long bytes = memory_block_bytes();
	char path[128];
	bool gone;

	if (!bytes) {
		tap_skip("memory going offline", "this kernel cannot do that");
		return;
	}
	snprintf(path, sizeof(path), "/sys/devices/system/memory/memory%lu/state", frame_of(span) * PAGE / bytes);
	gone = write_file(path, "offline");
	tap_note("%s went offline: %s", path, gone ? "yes" : "no");
	as_it_was(span, "memory going offline");
	if (gone) {
		tap_equal(giant_kib(span, GIANT), 0, "what was in it is not giant any more");
		set_file(path, "online");
	}
	as_it_was(span, "memory back");
	promote_surely(device, span);
}

/* A huge page that one thread has moved to another node. */
struct move {
	char *region;
	volatile bool over;
};

static void *moved(void *argument)
{
	struct move *move = argument;
	void *pages[1] = { move->region };
	int other = !node_of(move->region), status[1];

	syscall(SYS_move_pages, 0, 1, pages, &other, status, MPOL_MF_MOVE_ALL);
	move->over = true;
	return NULL;
}

/* Gives a huge page back, base page by base page, from when its migration has begun to when that is over. How many were. */
static size_t given_back_while_moved(char *region)
{
	struct move move = { .region = region };
	size_t pages = 0;
	pthread_t mover;

	pthread_create(&mover, NULL, moved, &move);
	/* Its entry says where it is on its way to then: no frame is mapped. */
	while (!move.over && frame_of(region))
		;
	for (; !move.over && pages < HUGE / PAGE; pages++)
		madvise(region + pages * PAGE, PAGE, MADV_DONTNEED);
	pthread_join(mover, NULL);
	return pages;
}

#define SHARERS 8
#define SHARED_REGIONS 50

/* A child that has the regions too: it waits, and checks that what it has is what was there. */
static pid_t sharer(const char *regions, const int *go)
{
	pid_t child = fork();
	char nothing;

	if (child < 0)
		tap_bail("fork");
	if (child)
		return child;
	close(go[1]);
	_exit(read(go[0], &nothing, 1) != 0 || wrong_pages(regions, SHARED_REGIONS * HUGE, 0, 1));
}

/*
 * Whoever migrates a huge page and whoever unmaps a part of it both queue it, to be split later, and a kernel that checks itself
 * warns if they do that in an order that it does not expect. Children have the pages too, because then it takes longer from when
 * one is mapped here again to when it is mapped everywhere, which is when migration used to queue it.
 */
static void given_back_meanwhile(void)
{
	char *regions = map_spans(1);
	size_t wrong = 0, met = 0, well = 0;
	pid_t children[SHARERS];
	int go[2];

	if (pipe2(go, O_CLOEXEC))
		tap_bail("pipe");
	fill(regions, SHARED_REGIONS * HUGE, 1);
	for (unsigned int i = 0; i < SHARERS; i++)
		children[i] = sharer(regions, go);
	for (size_t at = 0; at < SHARED_REGIONS * HUGE; at += HUGE) {
		size_t pages = given_back_while_moved(regions + at), given = pages * PAGE;

		met += pages > 0;
		wrong += nonzero_pages(regions + at, given) + wrong_pages(regions + at + given, HUGE - given, at + given, 1);
	}
	close(go[1]);
	for (unsigned int i = 0; i < SHARERS; i++)
		well += ended_well(children[i]);
	close(go[0]);
	tap_note("%zu of %u huge pages were given back in part while they were moved", met, SHARED_REGIONS);
	tap_equal(wrong, 0, "given back while moved: what is left is what it was");
	tap_equal(well, SHARERS, "and all of it where it is shared");
	tap_ok(met > 0, "and some were");
	munmap(regions, GIANT);
}

int main(void)
{
	char *span;

	device = device_open();
	span = giant_new(device);
	if (two_nodes()) {
		one_page(span);
		whole_span(span);
		stays_on_its_node(span);
		balanced(span);
		given_back_meanwhile();
	} else {
		/* Not a skip: on one node there is nothing to move between. */
		tap_note("there is one node");
	}
	out_of_a_block(span);
	compacted(span);
	offline(span);
	as_it_was(span, "after all");
	munmap(span, GIANT);
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
