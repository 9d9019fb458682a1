// SPDX-License-Identifier: GPL-2.0
/*
 * Promotion where little memory is free: less than the 1 GiB that a whole span takes for a while, and as much, which others want,
 * too. It takes as much at a time as
 * leaves others what the kernel keeps for them, and gives that back before it takes more. Each zone is kept from running short, so
 * this wants a machine with one large zone: what is moved from one to another is given back there.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "kernel.h"
#include "span.h"
#include "tap.h"

/* What is left in the chunk's zone beside its low watermark: less than a span, more than some huge pages. */
#define ROOM (160UL << 20)
/* What else is left beside the low watermarks, in KiB: the small zones keep some tens of MiB to themselves. */
#define REST_KIB (64L << 10)
#define SPAN_KIB ((long)(GIANT / 1024))

static int device;

/* The sum of a line of /proc/zoneinfo over all zones, in KiB. */
static long zones_kib(const char *name)
{
	FILE *file = fopen("/proc/zoneinfo", "re");
	char line[256], key[64];
	long pages, sum = 0;

	if (!file)
		tap_bail("/proc/zoneinfo");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, " %63s %ld", key, &pages) == 2 && !strcmp(key, name))
			sum += pages;
	fclose(file);
	return sum * (long)(PAGE / 1024);
}

/* Touches memory, 2 MiB at a time, until so many KiB are free. */
static char *eat(char *from, const char *end, long free_kib)
{
	for (; from < end && meminfo("MemFree") > free_kib; from += HUGE)
		fill_part(from, HUGE, 0, 1);
	return from;
}

static volatile bool over;
static long least;

static void *look_at_free_memory(void *nothing)
{
	while (!over) {
		long free = zones_kib("nr_free_pages");

		if (free < least)
			least = free;
		usleep(500);
	}
	return nothing;
}

static struct mega_promote promote_watched(char *span, uint64_t chunk)
{
	struct mega_promote request;
	pthread_t looker;

	over = false;
	least = zones_kib("nr_free_pages");
	pthread_create(&looker, NULL, look_at_free_memory, NULL);
	for (int i = 0; i < 5; i++, usleep(200000)) {
		request = promote_into(device, span, chunk);
		if (request.stop == MEGA_PROMOTE_DONE)
			break;
	}
	over = true;
	pthread_join(looker, NULL);
	return request;
}

/* ---- Among others who want memory -------------------------------------- */

#define ALLOCATORS 8
#define ALLOCATION (32UL << 20)

/* What is shared with the allocators: that it is over, and how often each has got and lost its memory. */
struct contest {
	bool over;
	unsigned long rounds[ALLOCATORS];
};

/* Gets memory, base pages or huge ones, looks whether it keeps it, and gives it back, again and again. */
static int allocate(struct contest *contest, size_t number)
{
	while (!__atomic_load_n(&contest->over, __ATOMIC_ACQUIRE)) {
		char *memory = mmap(NULL, ALLOCATION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			return 1;
		madvise(memory, ALLOCATION, number % 2 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
		fill_part(memory, ALLOCATION, 0, number);
		if (wrong_pages(memory, ALLOCATION, 0, number))
			return 2;
		munmap(memory, ALLOCATION);
		contest->rounds[number]++;
	}
	return 0;
}

/* 1 GiB is free, which a promotion would take for itself, and others want of it, too: nobody is killed for want of it. */
static void among_allocators(char *span, char *ballast, char *end)
{
	struct contest *contest = mmap(NULL, sizeof(*contest), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long killed = vmstat("oom_kill");
	unsigned int promoted = 0, well = 0;
	unsigned long rounds = 0;
	pid_t children[ALLOCATORS];

	tap_note("free %ld KiB", meminfo("MemFree"));
	/* What is shared with a child is not promoted. */
	if (madvise(span, GIANT, MADV_DONTFORK) || madvise(ballast, end - ballast, MADV_DONTFORK))
		tap_bail("MADV_DONTFORK");
	for (size_t i = 0; i < ALLOCATORS; i++) {
		children[i] = fork();
		if (children[i] < 0)
			tap_bail("fork");
		if (!children[i])
			_exit(allocate(contest, i));
	}
	for (int i = 0; i < 6; i++) {
		struct mega_promote request;

		demote(device, span);
		/* Out of its place, so that there is something to move. */
		madvise(span + 3 * HUGE, 64 * HUGE, MADV_DONTNEED);
		fill_part(span + 3 * HUGE, 64 * HUGE, 3 * HUGE, 1);
		request = promote(device, span, 0);
		promote_note(&request);
		promoted += request.stop == MEGA_PROMOTE_DONE;
	}
	__atomic_store_n(&contest->over, true, __ATOMIC_RELEASE);
	for (size_t i = 0; i < ALLOCATORS; i++) {
		well += ended_well(children[i]);
		rounds += contest->rounds[i];
	}
	tap_equal(well, ALLOCATORS, "1 GiB free and many who want of it: all of them get and keep what they ask for");
	tap_equal(vmstat("oom_kill") - killed, 0, "and nobody is killed for memory");
	tap_note("%u of 6 promotions came through, beside %lu allocations of %lu MiB", promoted, rounds, ALLOCATION >> 20);
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "no word of the span changed");
	munmap(contest, sizeof(*contest));
}

int main(void)
{
	long low, kept, total = meminfo("MemTotal");
	char *span, *holder, *ballast, *end, *at;
	struct mega_promote request;
	uint64_t chunk;

	device = device_open();
	low = zones_kib("low");
	kept = zones_kib("min");
	/* The chunk is held while all other memory is eaten, and then most of it. */
	holder = giant_new(device);
	chunk = frame_of(holder);
	span = map_spans(1);
	fill(span, GIANT, 1);
	ballast = map_spans(total / SPAN_KIB + 1);
	end = ballast + (total / SPAN_KIB + 1) * GIANT;
	at = eat(ballast, end, low + REST_KIB);
	munmap(holder, GIANT);
	at = eat(at, end, low + REST_KIB);
	/* By now all that is free is of the small zones: the large one is used first. What was eaten first is of that. */
	munmap(ballast, ROOM);
	ballast += ROOM;
	tap_note("free %ld KiB, low watermarks %ld, min %ld", meminfo("MemFree"), low, kept);
	tap_ok(meminfo("MemFree") < SPAN_KIB / 2, "less is free than a promotion takes as a whole");

	request = promote_watched(span, chunk);
	tap_note("at least %ld KiB were free", least);
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "a span is promoted all the same");
	tap_equal(giant_kib(span, GIANT), SPAN_KIB, "and giant");
	tap_ok(least > kept, "there was always more free than what the kernel keeps for itself");
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "no word of it changed");
	for (char *region = ballast; region < at; region += HUGE)
		if (wrong_pages(region, HUGE, 0, 1))
			tap_bail("a word of the others' memory changed");
	tap_ok(true, "nor of the memory that had to be moved for it");
	for (at = ballast; at < end && meminfo("MemFree") < low + SPAN_KIB; at += HUGE)
		munmap(at, HUGE);
	among_allocators(span, at, end);
	munmap(at, end - at);
	munmap(span, GIANT);
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
