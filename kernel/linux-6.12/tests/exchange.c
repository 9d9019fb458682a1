// SPDX-License-Identifier: GPL-2.0
/*
 * Promotion by exchange: the exchanger for tests swaps the contents of huge pages, well or badly, and all of them are what they
 * were. What it leaves alone is copied; what it leaves unsettled is saved, and its memory is not used again. With names of parts
 * as arguments it is only those.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "kernel.h"
#include "loopback.h"
#include "span.h"
#include "tap.h"

static int device;

/* What the kernel and the exchanger have counted. */
struct counts {
	long exchanged, failed, abandoned, batches, pairs, swapped, unsettled;
};

/* The kernel's count of that name. */
static long exchanges(const char *name)
{
	FILE *file = fopen("/sys/kernel/debug/anon_pud/exchanges", "re");
	char key[32];
	long value;

	while (file && fscanf(file, "%31s %ld", key, &value) == 2) {
		if (strcmp(key, name))
			continue;
		fclose(file);
		return value;
	}
	tap_bail("%s in debugfs", name);
}

static struct counts counts(void)
{
	return (struct counts){
		.exchanged = exchanges("exchanged"),
		.failed = exchanges("failed"),
		.abandoned = exchanges("abandoned"),
		.batches = loopback_count("batches"),
		.pairs = loopback_count("pairs"),
		.swapped = loopback_count("swapped"),
		.unsettled = loopback_count("unsettled"),
	};
}

static struct counts since(struct counts then)
{
	struct counts now = counts();

	return (struct counts){
		.exchanged = now.exchanged - then.exchanged,
		.failed = now.failed - then.failed,
		.abandoned = now.abandoned - then.abandoned,
		.batches = now.batches - then.batches,
		.pairs = now.pairs - then.pairs,
		.swapped = now.swapped - then.swapped,
		.unsettled = now.unsettled - then.unsettled,
	};
}

static void note(const char *mode, const struct counts *did)
{
	tap_note("%s: %ld batches of %ld pairs, %ld swapped, %ld left unsettled; the kernel found %ld exchanged, %ld not, and gave up the memory of %ld",
		 mode, did->batches, did->pairs, did->swapped, did->unsettled, did->exchanged, did->failed, did->abandoned);
}

/* The span in huge pages again, and a chunk that none of them is in. */
static uint64_t ready(char *span)
{
	uint64_t chunk;

	loopback_set("off");
	promote_surely(device, span);
	chunk = free_chunk(device);
	demote(device, span);
	return chunk;
}

static void as_it_was(const char *span, const char *mode)
{
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "%s: no word changed", mode);
}

/* Nobody to exchange: all is copied. */
static void without(char *span)
{
	uint64_t chunk = ready(span);
	struct counts then = counts(), did;
	struct mega_promote request = promote_into(device, span, chunk);

	did = since(then);
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "without an exchanger a span is promoted");
	tap_equal(request.moved, SPAN_REGIONS, "all of it is moved");
	tap_equal(request.exchanged, 0, "none by exchange");
	tap_equal(did.exchanged + did.failed + did.batches, 0, "and nobody was asked");
	as_it_was(span, "without");
}

/* One promotion into another chunk, with an exchanger of this mode: what it did, and what the exchanger did. */
static struct mega_promote promote_with(char *span, const char *mode, uint64_t *chunk, struct counts *did)
{
	struct mega_promote request;
	struct counts then;

	*chunk = ready(span);
	then = counts();
	loopback_set(mode);
	request = promote_into(device, span, *chunk);
	loopback_set("off");
	*did = since(then);
	note(mode, did);
	return request;
}

/* All is exchanged, at once, and nothing is copied. */
static void whole(char *span, const char *mode)
{
	struct counts did;
	uint64_t chunk;
	struct mega_promote request = promote_with(span, mode, &chunk, &did);

	tap_equal(request.stop, MEGA_PROMOTE_DONE, "%s: a span is promoted", mode);
	tap_equal(request.frame, chunk, "%s: into the chunk that was asked for", mode);
	tap_equal(request.moved, SPAN_REGIONS, "%s: all of it is moved", mode);
	tap_equal(request.exchanged, SPAN_REGIONS, "%s: by exchange, so nothing is copied", mode);
	tap_equal(did.batches, 1, "%s: in one batch", mode);
	tap_equal(did.swapped, SPAN_REGIONS, "%s: the exchanger has swapped as many", mode);
	tap_equal(did.exchanged, SPAN_REGIONS, "%s: the kernel counts them", mode);
	tap_equal(did.failed + did.abandoned, 0, "%s: and none that failed", mode);
	as_it_was(span, mode);
	fill(span, GIANT, 2);
	tap_equal(wrong_pages(span, GIANT, 0, 2), 0, "%s: it can be written", mode);
	fill(span, GIANT, 1);
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "%s: and is giant", mode);
}

/* What is in the way in the chunk is moved by exchange, too. */
static void emptied(char *span)
{
	long moved, exchanged;
	struct mega_promote request;
	struct counts then, did;
	uint64_t chunk;
	char *other;

	loopback_set("off");
	other = giant_new(device);
	promote_surely(device, span);
	chunk = frame_of(other);
	demote(device, other);
	demote(device, span);
	then = counts();
	moved = vmstat("anon_pud_compact_moved");
	exchanged = vmstat("anon_pud_compact_exchanged");
	loopback_set("honest");
	request = promote_into(device, span, chunk);
	loopback_set("off");
	did = since(then);
	note("emptied", &did);
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "into a chunk that is full of huge pages a span is promoted");
	tap_equal(request.exchanged, SPAN_REGIONS, "by exchange");
	tap_equal(vmstat("anon_pud_compact_moved") - moved, (long)SPAN_PAGES, "all that was there was moved away");
	tap_equal(vmstat("anon_pud_compact_exchanged") - exchanged, (long)SPAN_PAGES, "by exchange, so nothing was copied");
	tap_equal(did.exchanged, 2 * SPAN_REGIONS, "the kernel counts both");
	tap_equal(did.failed + did.abandoned, 0, "and none that failed");
	as_it_was(span, "emptied");
	as_it_was(other, "emptied, the other one");
	munmap(other, GIANT);
}

/* Some are left alone, or all: they are copied, and the caller sees no difference. */
static void in_part(char *span, const char *mode)
{
	struct counts did;
	uint64_t chunk;
	struct mega_promote request = promote_with(span, mode, &chunk, &did);

	tap_equal(request.stop, MEGA_PROMOTE_DONE, "%s: a span is promoted", mode);
	tap_equal(request.moved, SPAN_REGIONS, "%s: all of it is moved", mode);
	tap_equal(request.exchanged, did.swapped, "%s: as many by exchange as were swapped", mode);
	tap_ok(request.exchanged < SPAN_REGIONS, "%s: which were not all", mode);
	tap_equal(did.exchanged, did.swapped, "%s: the kernel counts them", mode);
	tap_equal(did.failed, did.pairs - did.swapped, "%s: and those that were not", mode);
	tap_equal(did.abandoned, 0, "%s: no memory was given up", mode);
	as_it_was(span, mode);
}

/*
 * Pairs are left unsettled, and perhaps exchanged when it is too late: the memory of both is given up, and nobody's contents
 * are touched. A promotion into that chunk cannot succeed then.
 */
static void unsettled(char *span, const char *mode)
{
	uint64_t chunk = ready(span);
	struct counts then = counts(), did;
	unsigned int tries = 0;
	struct mega_promote request;

	loopback_set(mode);
	do {
		request = promote_into(device, span, chunk);
		did = since(then);
		demote(device, span);
	} while (!did.unsettled && ++tries < 20 && (chunk = ready(span), loopback_set(mode), true));
	loopback_set("off");
	note(mode, &did);
	tap_ok(did.unsettled > 0, "%s: some were left unsettled", mode);
	tap_equal(did.abandoned, did.unsettled, "%s: the kernel counts as many", mode);
	tap_ok(request.stop != MEGA_PROMOTE_DONE, "%s: into a chunk with such a frame nothing is promoted", mode);
	as_it_was(span, mode);
	/* What comes late has come. */
	usleep(200000);
	as_it_was(span, mode);
	fill(span, GIANT, 3);
	usleep(200000);
	tap_equal(wrong_pages(span, GIANT, 0, 3), 0, "%s: and it can be written", mode);
	fill(span, GIANT, 1);
}

/* Two chunks are lost to giant pages for each of these, so that after the second there may be none left. */
static void stops(char *span, const char *mode)
{
	unsettled(span, mode);
	tap_equal(promote_surely(device, span).stop, MEGA_PROMOTE_DONE, "%s: it is promoted into another", mode);
	as_it_was(span, mode);
}

/* Pages that a pipe holds are somebody's way to their memory: it is not exchanged behind his back. */
static void held(char *span)
{
	struct counts then, did;
	struct iovec vector = { span + 77 * HUGE + 5 * PAGE, PAGE };
	struct mega_promote request;
	uint64_t chunk = ready(span), word = 0;
	int end[2];

	if (pipe(end) || vmsplice(end[1], &vector, 1, 0) != (ssize_t)PAGE)
		tap_bail("vmsplice");
	loopback_set("honest");
	then = counts();
	request = promote_into(device, span, chunk);
	did = since(then);
	note("held", &did);
	tap_equal(request.stop, MEGA_PROMOTE_BUSY, "with a page that a pipe holds a span is not promoted");
	tap_equal(request.exchanged, SPAN_REGIONS - 1, "all other pages are exchanged");
	tap_equal(did.pairs, SPAN_REGIONS - 1, "and for the one that is held nobody is asked");
	/* The pipe has the page and not a copy: it sees what is written now. */
	*(volatile uint64_t *)(span + 77 * HUGE + 5 * PAGE) = 0x5eed;
	tap_ok(read(end[0], &word, sizeof(word)) == sizeof(word) && word == 0x5eed, "what it holds is the process's page");
	close(end[0]);
	close(end[1]);
	fill(span, GIANT, 1);
	request = promote_surely(device, span);
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "it is promoted when the pipe is empty");
	as_it_was(span, "held");
	loopback_set("off");
}

/* Two processes have the pages: an exchange would be seen by both, but promotion does not move what is shared. */
static void shared(char *span)
{
	pid_t child;
	int go[2];
	char byte;

	ready(span);
	if (pipe(go))
		tap_bail("pipe");
	child = fork();
	if (child < 0)
		tap_bail("fork");
	if (!child) {
		close(go[1]);
		_exit(read(go[0], &byte, 1) != 0 || wrong_pages(span, GIANT, 0, 1));
	}
	close(go[0]);
	loopback_set("honest");
	tap_ok(promote(device, span, 0).stop != MEGA_PROMOTE_DONE, "what is shared with a child is not promoted");
	as_it_was(span, "shared");
	close(go[1]);
	tap_ok(ended_well(child), "and the child has what it had");
	tap_equal(promote_surely(device, span).stop, MEGA_PROMOTE_DONE, "it is promoted when the child is gone");
	as_it_was(span, "shared, then not");
	loopback_set("off");
}

static volatile bool over;

static void *register_and_unregister(void *nothing)
{
	(void)nothing;
	while (!over) {
		loopback_set("honest");
		usleep(rand() % 50000);
		loopback_set("off");
		usleep(rand() % 5000);
	}
	return NULL;
}

/* Two regions give their huge pages back and get, mostly, each other's: something to move. */
static void swap_regions(char *span, unsigned int round)
{
	size_t one = round * 2 % SPAN_REGIONS * HUGE, other = one + HUGE;

	if (madvise(span + one, 2 * HUGE, MADV_DONTNEED))
		tap_bail("MADV_DONTNEED");
	/* What was freed last is given out first. */
	fill_part(span + one, HUGE, one, 1);
	fill_part(span + other, HUGE, other, 1);
}

/* The exchanger comes and goes while spans are promoted. */
static void come_and_go(char *span)
{
	struct counts then = counts(), did;
	unsigned int rounds = 0;
	pthread_t other;

	pthread_create(&other, NULL, register_and_unregister, NULL);
	for (time_t end = time(NULL) + 20; time(NULL) < end; rounds++) {
		promote_surely(device, span);
		demote(device, span);
		swap_regions(span, rounds);
	}
	over = true;
	pthread_join(other, NULL);
	did = since(then);
	note("comes and goes", &did);
	tap_note("%u promotions", rounds);
	as_it_was(span, "an exchanger that comes and goes");
	tap_ok(did.swapped > 0, "some pages were exchanged meanwhile");
	tap_equal(did.exchanged, did.swapped, "and all were found exchanged that were swapped");
}

/* Without an argument all parts, else those that are named. */
static bool wanted(int arguments, char **argument, const char *part)
{
	for (int i = 1; i < arguments; i++)
		if (!strcmp(argument[i], part))
			return true;
	return arguments == 1;
}

int main(int arguments, char **argument)
{
	static const struct {
		const char *name;
		void (*run)(char *span, const char *mode);
	} modes[] = {
		{ "honest", whole }, { "slow", whole }, { "fails", in_part }, { "lies", in_part },
		/* Last, as chunks with frames that are given up can hold no giant page. */
		{ "stops", stops }, { "late", unsettled },
	};
	static const struct {
		const char *name;
		void (*run)(char *span);
	} others[] = {
		{ "without", without }, { "held", held }, { "shared", shared }, { "emptied", emptied },
		{ "comes-and-goes", come_and_go },
	};
	char *span = map_spans(1);

	device = device_open();
	fill(span, GIANT, 1);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (wanted(arguments, argument, others[i].name))
			others[i].run(span);
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (wanted(arguments, argument, modes[i].name))
			modes[i].run(span, modes[i].name);
	munmap(span, GIANT);
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
