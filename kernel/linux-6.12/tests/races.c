// SPDX-License-Identifier: GPL-2.0
/*
 * Promotion and demotion of a span at the same time as threads touch it and something else happens to it;
 * TRIDENT_RACES_SECONDS for each (default 10). Every word says whose it is, so a page that went astray shows. With the name
 * of a race as the argument it is only that one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "kernel.h"
#include "random.h"
#include "span.h"
#include "tap.h"

#define TOUCHERS 2
/* The last region's pages may be zero: they are given back now and then. */
#define EXPENDABLE (SPAN_REGIONS - 1)

static int device;
static long seconds;
static const char *only;

/* The span that all are at, which may move. */
static char *volatile span;
static volatile bool stop;

static struct {
	unsigned long touches, wrong, acts, promotions, demotions;
	/* By why they were stopped. */
	unsigned long refusals[MEGA_PROMOTE_WOULD_MOVE + 1];
} count;

static void add(unsigned long *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- Whose a word is --------------------------------------------------- */

/* The upper half of a page's word names the page, the lower is whatever was written last. */
static uint64_t word_for(size_t page, uint64_t value)
{
	return (uint64_t)(page + 1) << 32 | (uint32_t)value;
}

static bool is_right(size_t page, uint64_t word)
{
	return word >> 32 == page + 1 || (!word && page / (HUGE / PAGE) == EXPENDABLE);
}

static void check(size_t page, uint64_t word)
{
	if (is_right(page, word))
		return;
	add(&count.wrong);
	tap_note("page %zu has 0x%lx", page, word);
}

static void mark_all(char *memory)
{
	for (size_t page = 0; page < SPAN_PAGES; page++)
		*(volatile uint64_t *)(memory + page * PAGE) = word_for(page, 0);
}

static void check_all(const char *memory, size_t step)
{
	for (size_t page = 0; page < SPAN_PAGES; page += step)
		check(page, *(const volatile uint64_t *)(memory + page * PAGE));
}

/* ---- Those that are always there --------------------------------------- */

static void *touch(void *seed)
{
	uint64_t state = (uintptr_t)seed;

	while (!stop) {
		size_t page = next(&state) % SPAN_PAGES;
		volatile uint64_t *word = (uint64_t *)(span + page * PAGE);

		check(page, *word);
		if (state >> 60 & 1)
			*word = word_for(page, state);
		add(&count.touches);
	}
	return NULL;
}

/* The same where the span may be elsewhere by then: that is an error then, not a signal. */
static void *touch_remotely(void *seed)
{
	uint64_t state = (uintptr_t)seed, word;

	while (!stop) {
		size_t page = next(&state) % SPAN_PAGES;
		struct iovec own = { &word, sizeof(word) }, its = { span + page * PAGE, sizeof(word) };

		if (process_vm_readv(getpid(), &own, 1, &its, 1, 0) != sizeof(word))
			continue;
		check(page, word);
		add(&count.touches);
	}
	return NULL;
}

/* Up and down, by whichever way it goes; base pages are collapsed first. */
static void *promote_and_demote(void *seed)
{
	uint64_t state = (uintptr_t)seed;

	while (!stop) {
		char *at = span;
		struct mega_promote request = promote(device, at, next(&state) % 4 ? 0 : MEGA_PROMOTE_IN_PLACE);

		switch (request.stop) {
		case MEGA_PROMOTE_DONE:
			add(&count.promotions);
			break;
		case MEGA_PROMOTE_ALREADY:
			break;
		default:
			add(&count.refusals[request.stop]);
			if (request.stop == MEGA_PROMOTE_NOT_HUGE)
				madvise(at, GIANT, MADV_COLLAPSE);
		}
		usleep(next(&state) % 3000);
		if (next(&state) % 2 && demote(device, at) == MEGA_DEMOTE_DONE)
			add(&count.demotions);
	}
	return NULL;
}

/* ---- One race ---------------------------------------------------------- */

static void act_for_seconds(void (*act)(uint64_t *state), uint64_t *state)
{
	for (time_t end = time(NULL) + seconds; time(NULL) < end; add(&count.acts))
		act(state);
}

/* What takes the span apart all the time may let no promotion through, which takes long on a slow machine: leave it alone. */
static bool promoted_at_last(void)
{
	for (time_t patience = time(NULL) + 600; !count.promotions && time(NULL) < patience;)
		usleep(100000);
	return count.promotions > 0;
}

/* For some seconds what act does, and again where nothing had been promoted by then. */
static void against(const char *what, void *(*toucher)(void *), void (*act)(uint64_t *state))
{
	uint64_t state = 0x9e3779b97f4a7c15ULL;
	pthread_t threads[TOUCHERS + 1];

	if (only && strcmp(only, what))
		return;
	count = (typeof(count)){ 0 };
	stop = false;
	for (uintptr_t i = 0; i < TOUCHERS; i++)
		pthread_create(&threads[i], NULL, toucher, (void *)(i * 2 + 77));
	pthread_create(&threads[TOUCHERS], NULL, promote_and_demote, (void *)5);
	act_for_seconds(act, &state);
	if (!count.promotions && promoted_at_last())
		act_for_seconds(act, &state);
	stop = true;
	for (unsigned int i = 0; i <= TOUCHERS; i++)
		pthread_join(threads[i], NULL);
	check_all(span, 1);
	tap_equal(count.wrong, 0, "%s: no word is another's", what);
	tap_ok(count.promotions > 0 && count.touches > 0 && count.acts > 0, "%s: everything went on meanwhile", what);
	tap_note("%lu touches, %lu acts, %lu promotions, %lu demotions; refused as not huge %lu, busy %lu, no chunk %lu, not in place %lu",
		 count.touches, count.acts, count.promotions, count.demotions, count.refusals[MEGA_PROMOTE_NOT_HUGE],
		 count.refusals[MEGA_PROMOTE_BUSY], count.refusals[MEGA_PROMOTE_NO_CHUNK],
		 count.refusals[MEGA_PROMOTE_WOULD_MOVE]);
}

/* ---- What else happens ------------------------------------------------- */

static void nothing_else(uint64_t *state)
{
	usleep(next(state) % 10000);
}

static void looks(uint64_t *state)
{
	static const char *const files[] = { "/proc/self/smaps", "/proc/self/smaps_rollup", "/proc/self/numa_maps" };
	static unsigned char vector[SPAN_PAGES];

	switch (next(state) % 5) {
	case 0:
	case 1:
	case 2:
		if (!access(files[*state % 3], R_OK))
			read_all(files[*state % 3]);
		break;
	case 3:
		mincore(span, GIANT, vector);
		set_file("/proc/self/clear_refs", "1");
		break;
	default:
		for (unsigned int i = 0; i < 100; i++)
			frame_of(span + next(state) % SPAN_PAGES * PAGE);
	}
}

/* A child checks what it has, writes its own over some of it, and ends. */
static void forks(uint64_t *state)
{
	pid_t child = fork();

	if (child < 0)
		tap_bail("fork");
	if (!child) {
		count.wrong = 0;
		check_all(span, 61);
		for (size_t page = next(state) % 512; page < SPAN_PAGES; page += 4096)
			*(volatile uint64_t *)(span + page * PAGE) = word_for(page, 1);
		check_all(span, 67);
		_exit(count.wrong != 0);
	}
	if (!ended_well(child))
		add(&count.wrong);
}

static char *rooms[2];

static void moves(uint64_t *state)
{
	char *to = rooms[span == rooms[0]];

	if (mremap(span, GIANT, GIANT, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
		tap_bail("mremap");
	span = to;
	usleep(next(state) % 5000);
}

/* Held by a pipe for a moment: across the border of two regions, mostly. */
static void splices(uint64_t *state)
{
	static int end[2] = { -1, -1 };
	static char pages[8 * PAGE];
	size_t first = next(state) % (SPAN_REGIONS - 2) * 512 + 508;
	struct iovec vector = { span + first * PAGE, sizeof(pages) };
	size_t got = 0;

	if (end[0] < 0 && pipe(end))
		tap_bail("pipe");
	if (vmsplice(end[1], &vector, 1, 0) != (ssize_t)sizeof(pages))
		tap_bail("vmsplice");
	if (next(state) % 4 == 0)
		usleep(next(state) % 2000);
	while (got < sizeof(pages)) {
		ssize_t more = read(end[0], pages + got, sizeof(pages) - got);

		if (more <= 0)
			tap_bail("read from the pipe");
		got += more;
	}
	for (size_t i = 0; i < 8; i++)
		check(first + i, *(uint64_t *)(pages + i * PAGE));
}

static void writes_remotely(uint64_t *state)
{
	size_t page = next(state) % SPAN_PAGES;
	uint64_t word = word_for(page, *state);
	struct iovec own = { &word, sizeof(word) }, its = { span + page * PAGE, sizeof(word) };

	if (process_vm_writev(getpid(), &own, 1, &its, 1, 0) != sizeof(word))
		tap_bail("process_vm_writev");
	if (process_vm_readv(getpid(), &own, 1, &its, 1, 0) != sizeof(word))
		tap_bail("process_vm_readv");
	check(page, word);
}

static void pages_out(uint64_t *state)
{
	size_t region = next(state) % (SPAN_REGIONS - 2);

	madvise(span + region * HUGE + next(state) % 512 * PAGE, (1 + *state % 600) * PAGE,
		next(state) % 4 ? MADV_PAGEOUT : MADV_COLD);
	usleep(next(state) % 20000);
}

static void gives_back(uint64_t *state)
{
	char *region = span + EXPENDABLE * HUGE;

	if (next(state) % 2)
		madvise(region + next(state) % 512 * PAGE, PAGE, MADV_DONTNEED);
	else
		madvise(region, HUGE, next(state) % 2 ? MADV_DONTNEED : MADV_FREE);
	usleep(next(state) % 5000);
}

/* What is zero-filled is given back, be it giant at that moment or not; then there is something to be given back again. */
static void searches(uint64_t *state)
{
	char *region = span + EXPENDABLE * HUGE;
	int self = pidfd_of(getpid());
	struct mega_free_zero request = free_zero_request(self, span);

	if (ioctl(device, MEGA_IOC_FREE_ZERO, &request))
		tap_bail("FREE_ZERO");
	close(self);
	if (next(state) % 2) {
		madvise(region, HUGE, MADV_DONTNEED);
		*(volatile char *)region = 0;
	}
	usleep(next(state) % 5000);
}

static void locks(uint64_t *state)
{
	char *page = span + next(state) % SPAN_PAGES * PAGE;

	if (mlock(page, PAGE) || munlock(page, PAGE))
		tap_bail("mlock");
	/* In between the span is in one VMA again, as a promotion needs it. */
	usleep(next(state) % 5000);
}

/* A page of it to the node that it is not on. */
static void migrates(uint64_t *state)
{
	void *pages[1] = { span + next(state) % SPAN_PAGES * PAGE };
	int node[1], status[1];

	if (syscall(SYS_move_pages, 0, 1, pages, NULL, node, 0))
		tap_bail("move_pages");
	if (node[0] >= 0) {
		node[0] = !node[0];
		syscall(SYS_move_pages, 0, 1, pages, node, status, MPOL_MF_MOVE);
	}
	usleep(next(state) % 50000);
}

static void compacts(uint64_t *state)
{
	uint64_t frame = frame_of(span + next(state) % SPAN_REGIONS * HUGE) & ~(MEGA_BLOCK_FRAMES - 1ULL);
	struct mega_compact request = compact_request(frame, 9);

	request.flags = MEGA_COMPACT_MOVE_HUGE;
	if (frame)
		ioctl(device, MEGA_IOC_COMPACT, &request);
	if (next(state) % 16 == 0)
		set_file("/proc/sys/vm/compact_memory", "1");
	usleep(next(state) % 50000);
}

int main(int arguments, char **argument)
{
	bool swaps = swap_on();

	only = arguments > 1 ? argument[1] : NULL;
	seconds = seconds_of("TRIDENT_RACES_SECONDS", 10);
	device = device_open();
	span = map_spans(1);
	mark_all(span);
	promote_surely(device, span);
	against("touching", touch, nothing_else);
	against("looking", touch, looks);
	against("fork", touch, forks);
	against("pages held by a pipe", touch, splices);
	against("reads and writes by others", touch, writes_remotely);
	against("reclaim", touch, pages_out);
	against("giving back", touch, gives_back);
	against("searching for zeroes", touch, searches);
	against("locking", touch, locks);
	against("compaction", touch, compacts);
	if (two_nodes())
		against("migration", touch, migrates);
	rooms[0] = span;
	rooms[1] = room_for(GIANT);
	against("mremap", touch_remotely, moves);
	munmap(span, GIANT);
	if (swaps)
		swap_off();
	else
		tap_skip("with swap", "there is nothing to swap to");
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
