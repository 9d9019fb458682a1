// SPDX-License-Identifier: GPL-2.0
/* COMPACT on blocks whose contents are known: emptied, or left alone, and why. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "device.h"
#include "memory.h"
#include "tap.h"

static int device;

/* Blocks of a sparse program, one by one: nearly all can be emptied. */
static void sparse_blocks(void)
{
	struct sparse sparse = sparse_make(64 * HUGE, 8, 1);
	unsigned int done = 0, tried = 0, counted = 0;
	struct mega_compact request;
	size_t from = 0;
	uint64_t frame;

	while (tried < 16 && (frame = sparse_block(&sparse, device, 30, &from))) {
		request = compact(device, frame, 9, 0);
		tried++;
		done += request.stop == MEGA_STOP_DONE;
		counted += request.stop == MEGA_STOP_DONE &&
			   request.migrated + 64 >= request.occupied &&
			   request.isolated >= request.migrated &&
			   /* Free frames that the kernel skips it counts on some kernels only. */
			   request.scanned >= request.isolated;
		if (tried == 1 || request.stop != MEGA_STOP_DONE)
			compact_note(&request);
	}
	tap_equal(tried, 16, "a sparse program leaves blocks that could be emptied");
	tap_ok(done >= 15, "and they are emptied");
	tap_equal(counted, done, "with what was scanned, isolated and migrated");
	tap_equal(sparse_wrong(&sparse), 0, "no byte of the program changed");
	tap_note("%u of %u emptied", done, tried);
	sparse_free(&sparse);
}

static void dry_run(void)
{
	struct sparse sparse = sparse_make(64 * HUGE, 8, 2);
	size_t from = 0;
	uint64_t frame = sparse_block(&sparse, device, 30, &from);
	struct mega_compact request = compact_until(device, frame, 9, MEGA_COMPACT_DRY_RUN,
						    MEGA_STOP_WOULD);

	tap_ok(frame && request.stop == MEGA_STOP_WOULD && request.occupied >= 30,
	       "a dry run says that it would");
	tap_ok(!request.attempts && !request.migrated && !request.scanned, "and moves nothing");
	request = compact_until(device, frame, 9, 0, MEGA_STOP_DONE);
	tap_equal(request.stop, MEGA_STOP_DONE, "then it does");
	request = compact(device, frame, 9, 0);
	tap_ok(request.stop == MEGA_STOP_ALREADY_FREE || request.occupied < 64,
	       "a block just emptied is free, or nearly");
	tap_equal(sparse_wrong(&sparse), 0, "no byte changed");
	sparse_free(&sparse);
}

/* ---- Blocks that are next ---------------------------------------------- */

/* Blocks of a sparse program: which are still to be emptied, and where its pages lie. */
struct plan {
	uint64_t list[1 + 64];		/* as struct mega_avoid: a count, and frames */
	uint64_t *frames;		/* of each kept page, at the last look; NULL before the first */
};

static bool is_next(const struct plan *plan, uint64_t frame)
{
	for (uint64_t i = 1; i <= plan->list[0]; i++)
		if (plan->list[i] == frame / MEGA_BLOCK_FRAMES * MEGA_BLOCK_FRAMES)
			return true;
	return false;
}

/* How many pages of the program have moved since the last look, and how many of them into blocks that are next. */
static void look(struct plan *plan, const struct sparse *sparse, unsigned int *moved,
		 unsigned int *into_next)
{
	uint64_t *frames = sparse_frames(sparse);

	for (size_t i = 0; plan->frames && i < sparse_pages(sparse); i++) {
		if (plan->frames[i] && frames[i] != plan->frames[i]) {
			(*moved)++;
			*into_next += is_next(plan, frames[i]);
		}
	}
	free(plan->frames);
	plan->frames = frames;
}

/* Empties one block after the other, told which are next, or not. */
static void empty_in_turn(bool told, unsigned int *done, unsigned int *moved,
			  unsigned int *into_next)
{
	struct sparse sparse = sparse_make(64 * HUGE, 8, 9);
	struct plan plan = {};
	struct mega_compact request;
	unsigned int blocks = 0;
	size_t from = 0;
	uint64_t frame;

	*done = *moved = *into_next = 0;
	while (blocks < 33 && (frame = sparse_block(&sparse, device, 30, &from)))
		plan.list[1 + blocks++] = frame;
	look(&plan, &sparse, moved, into_next);
	for (unsigned int left = blocks; left > 1; left--) {
		/* The last is emptied first, so that the list of the others is what is before it. */
		request = compact_request(plan.list[left], 9);
		plan.list[0] = left - 1;
		request.avoid = told ? (uintptr_t)plan.list : 0;
		if (ioctl(device, MEGA_IOC_COMPACT, &request))
			tap_bail("COMPACT of frame 0x%llx",
				 (unsigned long long)request.frame);
		*done += request.stop == MEGA_STOP_DONE;
		if (request.stop != MEGA_STOP_DONE)
			compact_note(&request);
		look(&plan, &sparse, moved, into_next);
	}
	tap_ok(blocks == 33 && *done >= 30, "of 33 blocks all but one are emptied in turn%s",
	       told ? ", told which are next" : "");
	tap_equal(sparse_wrong(&sparse), 0, "no byte changed");
	free(plan.frames);
	sparse_free(&sparse);
}

/*
 * Everything that is free in blocks that are next is what the allocator gives first: the program
 * has just given it back.
 */
static void blocks_that_are_next(void)
{
	unsigned int done, moved, into_next;

	empty_in_turn(false, &done, &moved, &into_next);
	tap_note("not told: of %u pages moved %u went into blocks that were next", moved, into_next);
	if (!avoid_available(device))
		return;
	empty_in_turn(true, &done, &moved, &into_next);
	tap_ok(moved >= 30 * 30, "their pages are moved");
	tap_equal(into_next, 0, "and none into a block that was next");
	tap_note("told: of %u pages moved %u went into blocks that were next", moved, into_next);
}

/* ---- Ranges and huge pages --------------------------------------------- */

/* The largest aligned range of memory that a dry run says could be emptied. */
static struct mega_compact largest_range(uint32_t flags)
{
	struct mega_compact request = { 0 };
	uint64_t end = end_frame(device);

	for (uint32_t order = 18; order > 9; order--) {
		for (uint64_t frame = 0; frame + (1ULL << order) <= end; frame += 1ULL << order) {
			request = compact_request(frame, order);
			request.flags = flags | MEGA_COMPACT_DRY_RUN;
			if (!ioctl(device, MEGA_IOC_COMPACT, &request) &&
			    request.stop == MEGA_STOP_WOULD)
				return request;
		}
	}
	return request;
}

static void large_range(void)
{
	struct sparse sparse = sparse_make(64 * HUGE, 4, 3);
	struct mega_compact found, request;

	/*
	 * So large a range takes long to look through, and the kernel may take a
	 * free page of it for itself before it is emptied: then another is looked for.
	 */
	for (unsigned int i = 0; i < 10; i++) {
		found = largest_range(MEGA_COMPACT_MOVE_HUGE);
		if (found.stop != MEGA_STOP_WOULD)
			continue;
		request = compact(device, found.frame, found.order, MEGA_COMPACT_MOVE_HUGE);
		compact_note(&request);
		if (request.stop == MEGA_STOP_DONE)
			break;
	}
	if (!tap_equal(found.stop, MEGA_STOP_WOULD, "there is a large range that could be emptied"))
		return;
	tap_equal(request.stop, MEGA_STOP_DONE, "it is emptied in one call");
	tap_ok(request.migrated <= request.occupied + 64, "no page is moved twice");
	tap_equal(sparse_wrong(&sparse), 0, "no byte changed");
	sparse_free(&sparse);
}

static void huge_page(void)
{
	char *memory = map_aligned(HUGE);
	struct mega_compact request;
	unsigned int wrong = 0;
	uint64_t frame;

	madvise(memory, HUGE, MADV_HUGEPAGE);
	for (size_t at = 0; at < HUGE; at += PAGE)
		page_fill(memory + at, 4);
	if (madvise(memory, HUGE, MADV_COLLAPSE)) {
		tap_skip("a huge page", "the kernel did not give one");
		return;
	}
	frame = frame_of(memory);
	request = compact(device, frame, 9, 0);
	tap_equal(request.stop, MEGA_STOP_HUGE, "a huge page is left alone");
	tap_equal(request.blocker, frame, "and named");
	tap_equal(frame_of(memory), frame, "and has not moved");
	request = compact(device, frame, 9, MEGA_COMPACT_MOVE_HUGE);
	compact_note(&request);
	tap_equal(request.stop, MEGA_STOP_DONE, "unless it is to be moved");
	tap_ok(frame_of(memory) != frame, "then it has");
	for (size_t at = 0; at < HUGE; at += PAGE)
		wrong += !page_right(memory + at, 4);
	tap_equal(wrong, 0, "with every byte");
	munmap(memory, HUGE);
}

/* The frames of the kernel's code, wherever KASLR has put it: [start, end). */
static void kernel_code(uint64_t *start, uint64_t *end)
{
	FILE *iomem = fopen("/proc/iomem", "re");
	unsigned long long first, last;
	char line[256], name[32];

	if (!iomem)
		tap_bail("open /proc/iomem");
	while (fgets(line, sizeof(line), iomem)) {
		if (sscanf(line, " %llx-%llx : %31[^\n]", &first, &last, name) == 3 &&
		    !strcmp(name, "Kernel code")) {
			fclose(iomem);
			*start = first / PAGE;
			*end = (last + 1) / PAGE;
			return;
		}
	}
	tap_bail("find the kernel's code in /proc/iomem");
}

static void unmovable(void)
{
	unsigned int blocks = 0, unmovable = 0, touched = 0;
	struct mega_compact request;
	uint64_t start, end;

	kernel_code(&start, &end);
	for (uint64_t frame = (start + 511) & ~511ULL; frame + 512 <= end; frame += 512) {
		request = compact(device, frame, 9, 0);
		blocks++;
		unmovable += request.stop == MEGA_STOP_UNMOVABLE;
		touched += request.attempts || request.isolated || request.migrated;
	}
	tap_ok(blocks && unmovable == blocks, "the kernel's own blocks are unmovable");
	tap_equal(touched, 0, "and are not touched");
	tap_note("%u blocks of code from frame %#llx", blocks, (unsigned long long)start);
}

/* ---- Two at once ------------------------------------------------------- */

struct caller {
	struct sparse *sparse;
	unsigned int backwards;
	unsigned int done;
	unsigned int strange;
};

static void *compact_all(void *argument)
{
	struct caller *caller = argument;
	uint64_t end = end_frame(device) / 512 * 512;

	for (uint64_t offset = 512; offset < end; offset += 512) {
		struct mega_compact request =
			compact_request(caller->backwards ? end - offset : offset, 9);

		if (ioctl(device, MEGA_IOC_COMPACT, &request)) {
			caller->strange += errno != ENXIO;
			continue;
		}
		caller->done += request.stop == MEGA_STOP_DONE;
		caller->strange += request.stop == MEGA_STOP_WOULD ||
				   request.stop == MEGA_STOP_SIGNAL;
	}
	return NULL;
}

static void two_callers(void)
{
	struct sparse sparse = sparse_make(64 * HUGE, 16, 5);
	struct caller callers[2] = { { .sparse = &sparse }, { .sparse = &sparse, .backwards = 1 } };
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, compact_all, &callers[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	tap_ok(callers[0].done + callers[1].done > 0 && !callers[0].strange && !callers[1].strange,
	       "two callers over all memory at once, from both ends");
	tap_equal(sparse_wrong(&sparse), 0, "no byte changed");
	tap_note("%u and %u blocks emptied", callers[0].done, callers[1].done);
	sparse_free(&sparse);
}

/* ---- While others allocate --------------------------------------------- */

static volatile bool stop_allocating;

/* Maps, writes, checks and unmaps memory until told to stop. */
static void *allocate(void *argument)
{
	unsigned long *wrong = argument;

	while (!stop_allocating) {
		char *memory = map_aligned(16 * HUGE);

		for (size_t at = 0; at < 16 * HUGE; at += PAGE)
			page_fill(memory + at, 6);
		for (size_t at = 0; at < 16 * HUGE; at += PAGE)
			*wrong += !page_right(memory + at, 6);
		munmap(memory, 16 * HUGE);
	}
	return NULL;
}

static void being_allocated_from(void)
{
	struct sparse sparse = sparse_make(64 * HUGE, 16, 7);
	struct caller caller = { .sparse = &sparse };
	unsigned long wrong = 0;
	pthread_t thread;

	stop_allocating = false;
	pthread_create(&thread, NULL, allocate, &wrong);
	compact_all(&caller);
	stop_allocating = true;
	pthread_join(thread, NULL);
	tap_ok(caller.done > 0 && !caller.strange, "blocks are emptied while others allocate from them");
	tap_equal(wrong, 0, "no byte of what is allocated meanwhile changes");
	tap_equal(sparse_wrong(&sparse), 0, "nor of what is moved");
	tap_note("%u blocks emptied", caller.done);
	sparse_free(&sparse);
}

/* ---- Signals ----------------------------------------------------------- */

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

/* Kills a caller in the middle of compacting all memory, again and again. */
static void fatal_signal(void)
{
	struct sparse sparse = sparse_make(64 * HUGE, 4, 8);
	unsigned int killed = 0;
	double longest = 0;

	for (unsigned int round = 0; round < 10; round++) {
		pid_t child = fork();
		double begin;
		int status;

		if (!child) {
			for (;;) {
				struct mega_compact range = largest_range(MEGA_COMPACT_MOVE_HUGE);

				range.flags = MEGA_COMPACT_MOVE_HUGE;
				ioctl(device, MEGA_IOC_COMPACT, &range);
			}
		}
		usleep(5000 + round * 15000);
		begin = seconds();
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		longest = seconds() - begin > longest ? seconds() - begin : longest;
		killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	}
	tap_equal(killed, 10, "a fatal signal ends a caller");
	tap_note("the longest took %.0f ms", longest * 1e3);
	tap_equal(sparse_wrong(&sparse), 0, "no byte changed");
	sparse_free(&sparse);
}

int main(void)
{
	device = device_open();
	sparse_blocks();
	dry_run();
	blocks_that_are_next();
	large_range();
	huge_page();
	unmovable();
	two_callers();
	being_allocated_from();
	fatal_signal();
	return tap_end();
}
