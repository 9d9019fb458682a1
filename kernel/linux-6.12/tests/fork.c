// SPDX-License-Identifier: GPL-2.0
/* Giant pages of processes that fork, execute another program and exit. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kernel.h"
#include "span.h"
#include "tap.h"

static int device;

/* What a child does with the span; its exit status says whether it found what it should. */
typedef bool (*part)(char *span);

static pid_t forked(char *span, part part)
{
	pid_t child = fork();

	if (child < 0)
		tap_bail("fork");
	if (!child)
		_exit(part(span) ? 0 : 1);
	return child;
}

static bool reads_all(char *span)
{
	return !wrong_pages(span, GIANT, 0, 1);
}

/* A page of each 64th region is written: so both have pages of their own beside those that they share. */
#define WRITTEN_STEP (64 * HUGE)

static void write_some(char *span, uint64_t seed)
{
	for (size_t at = PAGE; at < GIANT; at += WRITTEN_STEP)
		fill_part(span + at, PAGE, at, seed);
}

static size_t wrong_after_some(const char *span, uint64_t seed)
{
	size_t wrong = 0;

	for (size_t at = 0; at < GIANT; at += PAGE)
		wrong += wrong_pages(span + at, PAGE, at, at % WRITTEN_STEP == PAGE ? seed : 1);
	return wrong;
}

static bool writes_some(char *span)
{
	write_some(span, 3);
	return !wrong_after_some(span, 3);
}

/* Half a region page by page, the rest of the span a page here and there. */
static bool writes_much(char *span)
{
	fill_part(span + HUGE / 2, HUGE, HUGE / 2, 4);
	for (size_t at = 16 * HUGE; at < GIANT; at += 16 * HUGE)
		fill_part(span + at, PAGE, at, 1);
	return !wrong_pages(span + HUGE / 2, HUGE, HUGE / 2, 4) && !wrong_pages(span, HUGE / 2, 0, 1) &&
	       !wrong_pages(span + 2 * HUGE, GIANT - 2 * HUGE, 2 * HUGE, 1);
}

/* A child's own can be giant too, once nothing of it is shared. */
static bool promotes_its_own(char *span)
{
	for (size_t at = 0; at < GIANT; at += HUGE)
		fill_part(span + at, PAGE, at, 1);
	if (madvise(span, GIANT, MADV_COLLAPSE) || promote_surely(device, span).stop != MEGA_PROMOTE_DONE)
		return false;
	return !wrong_pages(span, GIANT, 0, 1) && giant_kib(span, GIANT) == (long)(GIANT / 1024);
}

static bool is_moved(char *span)
{
	struct mega_compact request = compact_until(device, frame_of(span) & ~(MEGA_BLOCK_FRAMES - 1ULL), 9,
						    MEGA_COMPACT_MOVE_HUGE, MEGA_STOP_DONE);

	return request.stop == MEGA_STOP_DONE;
}

/* The huge page becomes base pages, not only its mapping. */
static bool is_split(char *span)
{
	long splits = vmstat("thp_split_page");
	char range[64];

	snprintf(range, sizeof(range), "%d,0x%lx,0x%lx", getpid(), (unsigned long)span, (unsigned long)span + HUGE);
	set_file("/sys/kernel/debug/split_huge_pages", range);
	return vmstat("thp_split_page") > splits;
}

/* Both have pages of their own; what is done to the parent's is no reason to take the child's giant page apart. */
static void beside_a_giant_child(char *span, bool (*act)(char *span), const char *what)
{
	int ready[2], go[2];
	char byte = 0;
	pid_t child;

	if (pipe(ready) || pipe(go))
		tap_bail("pipe");
	child = fork();
	if (child < 0)
		tap_bail("fork");
	if (!child) {
		bool well = promotes_its_own(span) && write(ready[1], &byte, 1) == 1 && read(go[0], &byte, 1) == 1;

		_exit(well && giant_kib(span, GIANT) == (long)(GIANT / 1024) && reads_all(span) ? 0 : 1);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		tap_bail("a child has no giant page of its own");
	tap_ok(act(span), "a huge page of the parent is %s", what);
	if (write(go[1], &byte, 1) != 1)
		tap_bail("write");
	tap_ok(ended_well(child), "and the child's giant page stays giant");
	tap_ok(reads_all(span), "and the parent's data is as it was");
	close(ready[0]);
	close(go[0]);
	close(go[1]);
}

static bool gives_it_back(char *span)
{
	return !munmap(span + 9 * HUGE, HUGE) && !wrong_pages(span, 9 * HUGE, 0, 1);
}

static bool forks_again(char *span)
{
	bool well = ended_well(forked(span, reads_all));

	write_some(span, 6);
	return !ended_well(forked(span, reads_all)) && well && !wrong_after_some(span, 6);
}

static bool executes(char *span)
{
	span[0] = 1;
	execl("/bin/busybox", "true", NULL);
	return false;
}

static bool is_killed(char *span)
{
	span[5 * HUGE] = 1;
	raise(SIGKILL);
	return false;
}

static void sharing(char *span)
{
	long splits = vmstat("anon_pud_split");

	tap_ok(ended_well(forked(span, reads_all)), "a child reads what its parent wrote");
	tap_ok(vmstat("anon_pud_split") > splits, "fork takes the giant page apart");
	tap_equal(regions_of(device, span, GIANT, 21), SPAN_REGIONS, "into 2 MiB pages");
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "and the parent has its data");
}

/* The span is the parent's alone again: it can be giant, by whichever way. */
static void once_more(char *span, const char *when)
{
	struct mega_promote request;

	fill(span, GIANT, 1);
	request = promote_surely(device, span);
	promote_note(&request);
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "%s the span can be giant again", when);
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "%s no byte changed by that", when);
}

static void both_write(char *span)
{
	pid_t child = forked(span, writes_some);

	write_some(span, 2);
	tap_equal(wrong_after_some(span, 2), 0, "the parent has what it wrote");
	tap_ok(ended_well(child), "and the child what it wrote");
	tap_equal(wrong_after_some(span, 2), 0, "also when the child is gone");
}

static void child_does(char *span, part part, const char *what)
{
	tap_ok(ended_well(forked(span, part)), "a child %s", what);
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "and its parent's data is as it was");
}

/* Pages that are shared cannot be moved under the other's feet. */
static void shared_is_not_promoted(char *span)
{
	int go[2];
	char byte = 0;
	pid_t child;
	struct mega_promote request;

	if (pipe(go))
		tap_bail("pipe");
	child = fork();
	if (child < 0)
		tap_bail("fork");
	if (!child) {
		bool well = read(go[0], &byte, 1) == 1 && reads_all(span);

		_exit(well ? 0 : 1);
	}
	request = promote(device, span, 0);
	promote_note(&request);
	tap_ok(request.stop != MEGA_PROMOTE_ALREADY, "what is shared with a child is not giant");
	write_some(span, 7);
	if (write(go[1], &byte, 1) != 1)
		tap_bail("write");
	tap_ok(ended_well(child), "and the child has what was there at the fork, whatever came of promoting");
	tap_equal(wrong_after_some(span, 7), 0, "and the parent what it wrote since");
	close(go[0]);
	close(go[1]);
}

static void kept_from_children(char *span)
{
	pid_t child;

	madvise(span, GIANT, MADV_DONTFORK);
	promote_surely(device, span);
	child = fork();
	if (!child)
		_exit(mincore(span, PAGE, (unsigned char[1]){ 0 }) ? 0 : 1);
	tap_ok(ended_well(child), "MADV_DONTFORK: a child has nothing there");
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "and the parent's is giant still");
	madvise(span, GIANT, MADV_DOFORK);

	madvise(span, GIANT, MADV_WIPEONFORK);
	promote_surely(device, span);
	child = fork();
	if (!child)
		_exit(nonzero_pages(span + 8 * HUGE, HUGE) != 0);
	tap_ok(ended_well(child), "MADV_WIPEONFORK: a child finds zeros");
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "and the parent has its data");
	madvise(span, GIANT, MADV_KEEPONFORK);
}

static void killed(char *span)
{
	pid_t child = forked(span, is_killed);
	int status;

	waitpid(child, &status, 0);
	tap_ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a child is killed");
	tap_equal(wrong_pages(span + HUGE, GIANT - HUGE, HUGE, 1), 0, "and its parent's data is as it was");
}

/* Processes that end with giant pages of their own. */
static void ending(void)
{
	pid_t child = fork();

	if (!child) {
		giant_new(device);
		_exit(0);
	}
	tap_ok(ended_well(child), "a process with a giant page exits");
	child = fork();
	if (!child) {
		giant_new(device);
		execl("/bin/busybox", "true", NULL);
		_exit(1);
	}
	tap_ok(ended_well(child), "another executes a program");
	tap_equal(meminfo("AnonPudMapped"), 0, "and no giant page is left");
}

int main(void)
{
	long free_before, free_after;
	char *span;

	device = device_open();
	free_before = meminfo("MemFree");
	span = giant_new(device);
	sharing(span);
	once_more(span, "after a child that only read");
	both_write(span);
	once_more(span, "after both wrote");
	child_does(span, writes_much, "writes much of it");
	child_does(span, gives_it_back, "gives a part of it back");
	child_does(span, forks_again, "has a child of its own");
	child_does(span, promotes_its_own, "has a giant page of its own");
	beside_a_giant_child(span, is_moved, "moved");
	once_more(span, "after that");
	beside_a_giant_child(span, is_split, "split");
	once_more(span, "after that");
	shared_is_not_promoted(span);
	once_more(span, "after that");
	child_does(span, executes, "executes a program");
	once_more(span, "after that");
	killed(span);
	once_more(span, "after that");
	kept_from_children(span);
	munmap(span, GIANT);
	ending();
	free_after = meminfo("MemFree");
	tap_note("free before %ld, after %ld KiB", free_before, free_after);
	tap_ok(free_before - free_after < (long)(GIANT / 1024 / 2), "the memory is free again");
	return tap_end();
}
