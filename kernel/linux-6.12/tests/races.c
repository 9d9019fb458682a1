// SPDX-License-Identifier: GPL-2.0
/*
 * Promotion and demotion of a span at the same time as threads touch it and something else happens to it;
 * TRIDENT_RACES_SECONDS for each (default 10). With the name of a race as the argument it is only that one.
 *
 * Every word says whose it is, so a page that went astray shows, and from which writing it is, so data that were lost show
 * too: each page has one writer, which says what it begins to write there, and afterwards, that it is done. So whoever reads
 * knows the oldest and the newest value. Zero is right only where pages are given back.
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
/* The touchers, and what else happens. */
#define WRITERS (TOUCHERS + 1)
/* The last region is the one of which pages are given back, in the races about that. */
#define EXPENDABLE (SPAN_REGIONS - 1)
/* What a forked child writes. */
#define CHILDS 0xffffffff

static int device;
static long seconds;
static const char *only;

/* The span that all are at, which may move. */
static char *volatile span;
static volatile bool stop;

/* In this race, pages of the last region are given back. */
static bool gives_back_pages;

/* By page: the last writing that was begun, and that was done. Shared with children. */
static uint32_t *begun, *done;

static struct {
	unsigned long touches, wrong, acts, promotions, demotions;
	/* By why they were stopped. */
	unsigned long refusals[MEGA_PROMOTE_WOULD_MOVE + 1];
	/* The last error of MADV_COLLAPSE. */
	int collapse_failed;
} count;

static void add(unsigned long *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- What a word may be ------------------------------------------------ */

static uint32_t now(const uint32_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_SEQ_CST);
}

static void set(uint32_t *counter, uint32_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_SEQ_CST);
}

/* The upper half of a page's word names the page, the lower is the writing. */
static uint64_t word_for(size_t page, uint32_t writing)
{
	return (uint64_t)(page + 1) << 32 | writing;
}

/* The word was read after `least` had been done, which was asked first, and before now. */
static bool is_right(size_t page, uint32_t least, uint64_t word)
{
	uint32_t most = now(&begun[page]);

	if (gives_back_pages && page / (HUGE / PAGE) == EXPENDABLE)
		return !word || word >> 32 == page + 1;
	return word >= word_for(page, least) && word <= word_for(page, most);
}

static void check(size_t page, uint32_t least, uint64_t word)
{
	if (is_right(page, least, word))
		return;
	add(&count.wrong);
	tap_note("page %zu has 0x%lx, and 0x%x was done", page, word, least);
}

static volatile uint64_t *place_of(char *memory, size_t page)
{
	return (volatile uint64_t *)(memory + page * PAGE);
}

static void check_page(char *memory, size_t page)
{
	uint32_t least = now(&done[page]);

	check(page, least, *place_of(memory, page));
}

static void check_all(char *memory)
{
	for (size_t page = 0; page < SPAN_PAGES; page++)
		check_page(memory, page);
}

/* Nobody else writes or reads yet. */
static void mark_all(char *memory)
{
	for (size_t page = 0; page < SPAN_PAGES; page++) {
		begun[page] = done[page] = 0;
		*place_of(memory, page) = word_for(page, 0);
	}
}

static uint32_t begin_writing(size_t page)
{
	uint32_t writing = begun[page] + 1;

	set(&begun[page], writing);
	return writing;
}

/* A page that this writer alone writes. */
static size_t any_page_of(unsigned int writer, uint64_t *state)
{
	return next(state) % (SPAN_PAGES / WRITERS) * WRITERS + writer;
}

/* ---- Those that are always there --------------------------------------- */

struct toucher {
	unsigned int writer;
	uint64_t state;
};

static void *touch(void *argument)
{
	struct toucher *toucher = argument;

	while (!stop) {
		check_page(span, next(&toucher->state) % SPAN_PAGES);
		if (toucher->state >> 60 & 1) {
			size_t page = any_page_of(toucher->writer, &toucher->state);
			uint32_t writing = begin_writing(page);

			check_page(span, page);
			*place_of(span, page) = word_for(page, writing);
			set(&done[page], writing);
		}
		add(&count.touches);
	}
	return NULL;
}

/* The same where the span may be elsewhere by then: that is an error then, not a signal. */
static void *touch_remotely(void *argument)
{
	struct toucher *toucher = argument;
	uint64_t word;

	while (!stop) {
		size_t page = next(&toucher->state) % SPAN_PAGES;
		struct iovec own = { &word, sizeof(word) }, its = { span + page * PAGE, sizeof(word) };
		uint32_t least = now(&done[page]);

		if (process_vm_readv(getpid(), &own, 1, &its, 1, 0) != sizeof(word))
			continue;
		check(page, least, word);
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
			if (request.stop == MEGA_PROMOTE_NOT_HUGE && madvise(at, GIANT, MADV_COLLAPSE))
				count.collapse_failed = errno;
		}
		usleep(next(&state) % 3000);
		if (next(&state) % 2 && demote(device, at) == MEGA_DEMOTE_DONE)
			add(&count.demotions);
	}
	return NULL;
}

/* ---- One race ---------------------------------------------------------- */

static void note_refusals(const char *what)
{
	tap_note("%s: refused as not huge %lu, busy %lu, no chunk %lu, not in place %lu; MADV_COLLAPSE failed last with %s",
		 what, count.refusals[MEGA_PROMOTE_NOT_HUGE], count.refusals[MEGA_PROMOTE_BUSY],
		 count.refusals[MEGA_PROMOTE_NO_CHUNK], count.refusals[MEGA_PROMOTE_WOULD_MOVE],
		 count.collapse_failed ? strerror(count.collapse_failed) : "nothing");
}

static void act_for_seconds(void (*act)(uint64_t *state), uint64_t *state)
{
	for (time_t end = time(NULL) + seconds; time(NULL) < end; add(&count.acts))
		act(state);
}

/* What takes the span apart all the time may let no promotion through, which takes long on a slow machine: leave it alone. */
static bool promoted_at_last(void)
{
	time_t begin = time(NULL), told = begin;

	while (!count.promotions && time(NULL) < begin + 600) {
		if (time(NULL) >= told + 30) {
			told = time(NULL);
			note_refusals("still not promoted");
		}
		usleep(100000);
	}
	return count.promotions > 0;
}

/* For some seconds what act does, and again where nothing had been promoted by then. */
static void against(const char *what, void *(*toucher)(void *), void (*act)(uint64_t *state))
{
	uint64_t state = 0x9e3779b97f4a7c15ULL;
	struct toucher touchers[TOUCHERS];
	pthread_t threads[TOUCHERS + 1];

	if (only && strcmp(only, what))
		return;
	count = (typeof(count)){ 0 };
	stop = false;
	mark_all(span);
	for (unsigned int i = 0; i < TOUCHERS; i++) {
		touchers[i] = (struct toucher){ .writer = i, .state = i * 2 + 77 };
		pthread_create(&threads[i], NULL, toucher, &touchers[i]);
	}
	pthread_create(&threads[TOUCHERS], NULL, promote_and_demote, (void *)5);
	act_for_seconds(act, &state);
	if (!count.promotions && promoted_at_last())
		act_for_seconds(act, &state);
	stop = true;
	for (unsigned int i = 0; i <= TOUCHERS; i++)
		pthread_join(threads[i], NULL);
	check_all(span);
	tap_equal(count.wrong, 0, "%s: no word is another's, old or lost", what);
	tap_ok(count.promotions > 0 && count.touches > 0 && count.acts > 0, "%s: everything went on meanwhile", what);
	tap_note("%lu touches, %lu acts, %lu promotions, %lu demotions", count.touches, count.acts, count.promotions, count.demotions);
	note_refusals(what);
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

/* In a child: what it has is what there was when it was forked, and stays so but for what it writes itself. */
static bool child_is_right(const uint32_t *done_before, size_t first)
{
	const size_t own = 4096, step = 61;

	count.wrong = 0;
	for (size_t page = 0; page < SPAN_PAGES; page += step)
		check(page, done_before[page], *place_of(span, page));
	for (size_t page = first; page < SPAN_PAGES; page += own)
		*place_of(span, page) = word_for(page, CHILDS);
	for (size_t page = first; page < SPAN_PAGES; page += own)
		count.wrong += *place_of(span, page) != word_for(page, CHILDS);
	for (size_t page = 0; page < SPAN_PAGES; page += step)
		if (page % own != first)
			check(page, done_before[page], *place_of(span, page));
	return !count.wrong;
}

static void forks(uint64_t *state)
{
	static uint32_t done_before[SPAN_PAGES];
	size_t first = next(state) % 512;
	pid_t child;

	memcpy(done_before, done, sizeof(done_before));
	child = fork();
	if (child < 0)
		tap_bail("fork");
	if (!child)
		_exit(!child_is_right(done_before, first));
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
	uint32_t least[8];
	size_t got = 0;

	if (end[0] < 0 && pipe(end))
		tap_bail("pipe");
	for (size_t i = 0; i < 8; i++)
		least[i] = now(&done[first + i]);
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
		check(first + i, least[i], *(uint64_t *)(pages + i * PAGE));
}

static void writes_remotely(uint64_t *state)
{
	size_t page = any_page_of(TOUCHERS, state);
	uint32_t writing = begin_writing(page);
	uint64_t word = word_for(page, writing);
	struct iovec own = { &word, sizeof(word) }, its = { span + page * PAGE, sizeof(word) };

	if (process_vm_writev(getpid(), &own, 1, &its, 1, 0) != sizeof(word))
		tap_bail("process_vm_writev");
	set(&done[page], writing);
	if (process_vm_readv(getpid(), &own, 1, &its, 1, 0) != sizeof(word))
		tap_bail("process_vm_readv");
	check(page, writing, word);
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
	int node = node_of(pages[0]), status[1];

	if (node >= 0) {
		node = !node;
		syscall(SYS_move_pages, 0, 1, pages, &node, status, MPOL_MF_MOVE);
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
	begun = mmap(NULL, 2 * SPAN_PAGES * sizeof(*begun), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (begun == MAP_FAILED)
		tap_bail("mmap");
	done = begun + SPAN_PAGES;
	span = map_spans(1);
	mark_all(span);
	promote_surely(device, span);
	against("touching", touch, nothing_else);
	against("looking", touch, looks);
	against("fork", touch, forks);
	against("pages held by a pipe", touch, splices);
	against("reads and writes by others", touch, writes_remotely);
	against("reclaim", touch, pages_out);
	gives_back_pages = true;
	against("giving back", touch, gives_back);
	against("searching for zeroes", touch, searches);
	gives_back_pages = false;
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
