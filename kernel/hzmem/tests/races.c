// SPDX-License-Identifier: GPL-2.0
/*
 * Faults at the same time as truncation, holes, fork, munmap, mremap, compression and exit; HZMEM_RACES_SECONDS for each
 * (default 3). Every word that is written says whose it is, so a page that went to the wrong place shows.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "hz.h"
#include "random.h"

#define PAGES 12
#define TOUCHERS 3
/* Words looked at in a page, spread over it. */
#define MARKS 32
#define STRIDE (HUGE / MARKS / sizeof(uint64_t))

struct board {
	volatile bool stop;
	unsigned long touches, signals, wrong, acts;
};

static struct board *board;
static struct mount mount_;
static int file;
static long seconds;

static void count(unsigned long *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* What a word of a page is when it is not zero: whose it is, and whatever in the low half. */
static uint64_t owner_of(uint64_t tag, unsigned int page, unsigned int mark)
{
	return (tag << 56) | ((uint64_t)page << 44) | ((uint64_t)mark << 32);
}

#define OWNER_MASK 0xffffffff00000000ULL

/* Each word is zero or its place's. */
static void check(const uint64_t *words, uint64_t tag, unsigned int page)
{
	for (unsigned int mark = 0; mark < MARKS; mark++) {
		uint64_t word = ((const volatile uint64_t *)words)[mark * STRIDE];

		if (word && (word & OWNER_MASK) != owner_of(tag, page, mark)) {
			count(&board->wrong);
			tap_note("page %u has 0x%lx at mark %u (tag %lu)", page, word, mark, tag);
		}
	}
}

static void mark_all(uint64_t *words, uint64_t tag, unsigned int page, uint32_t value)
{
	for (unsigned int mark = 0; mark < MARKS; mark++)
		((volatile uint64_t *)words)[mark * STRIDE] = owner_of(tag, page, mark) | value;
}

static sigjmp_buf out;

static void jump_out(int signal)
{
	siglongjmp(out, signal);
}

/* Checks and marks pages at random; a signal is an answer too where the file may end. */
static void touch_until(char *memory, uint64_t tag, bool may_fault)
{
	struct sigaction jump = { .sa_handler = jump_out, .sa_flags = SA_NODEFER };
	volatile uint64_t state = getpid();

	sigaction(SIGBUS, &jump, NULL);
	while (!board->stop) {
		unsigned int page;
		uint64_t *words;

		state = mix(state);
		page = state % PAGES;
		words = (uint64_t *)(memory + page * HUGE);
		if (!sigsetjmp(out, 1)) {
			check(words, tag, page);
			if (state >> 60 & 1)
				mark_all(words, tag, page, state);
			count(&board->touches);
		} else {
			count(&board->signals);
			if (!may_fault)
				count(&board->wrong);
		}
	}
}

struct toucher {
	bool may_fault;
};

static void touch_shared(void *argument)
{
	struct toucher *toucher = argument;

	touch_until(map_shared(file, PAGES), 1, toucher->may_fault);
}

/* Until the time is up, what act does; the touchers run meanwhile. */
static void against(const char *what, bool may_fault, void (*act)(unsigned int round))
{
	struct toucher toucher = { .may_fault = may_fault };
	pid_t children[TOUCHERS];
	int failed = 0;
	time_t end;

	memset(board, 0, sizeof(*board));
	file = file_new(&mount_);
	ftruncate(file, PAGES * HUGE);
	for (unsigned int i = 0; i < TOUCHERS; i++)
		children[i] = start(touch_shared, &toucher);
	end = time(NULL) + seconds;
	for (unsigned int round = 0; time(NULL) < end; round++) {
		act(round);
		count(&board->acts);
	}
	board->stop = true;
	for (unsigned int i = 0; i < TOUCHERS; i++)
		failed += ended(children[i]) != 0;
	tap_equal(failed, 0, "faults and %s: all processes end by themselves", what);
	tap_equal(board->wrong, 0, "and no word is another's");
	tap_note("%lu touches, %lu signals, %lu acts, %ld compressions", board->touches, board->signals, board->acts,
		 count_of(&mount_, "compressions"));
	close(file);
}

static void truncates(unsigned int round)
{
	ftruncate(file, (mix(round) % PAGES) * HUGE);
	ftruncate(file, PAGES * HUGE);
}

static void punches(unsigned int round)
{
	off_t from = mix(round) % PAGES, length = 1 + mix(round + 1) % (PAGES - from);

	/* Now and then a part of a page, that is not one in which a mark lies alone. */
	if (round % 5 == 0)
		fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from * HUGE + 8 * PAGE, HUGE / 2);
	else
		fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from * HUGE, length * HUGE);
}

static void maps_and_unmaps(unsigned int round)
{
	char *memory = map_shared(file, PAGES);
	unsigned int page = mix(round) % PAGES;

	check((uint64_t *)(memory + page * HUGE), 1, page);
	if (page + 1 < PAGES)
		unmap_pages(memory + page * HUGE, 1);
	munmap(memory, PAGES * HUGE);
}

static void moves(unsigned int round)
{
	char *memory = map_shared(file, PAGES), *room = map_aligned(PAGES * HUGE);
	unsigned int page = round % PAGES;

	check((uint64_t *)(memory + page * HUGE), 1, page);
	if (mremap(memory, PAGES * HUGE, PAGES * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, room) != room)
		tap_bail("mremap");
	check((uint64_t *)(room + page * HUGE), 1, page);
	/* One page moves back alone. */
	if (mremap(room + page * HUGE, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, memory) != memory)
		tap_bail("mremap");
	check((uint64_t *)memory, 1, page);
	unmap_pages(memory, 1);
	munmap(room, PAGES * HUGE);
}

static void protects(unsigned int round)
{
	char *memory = map_shared(file, PAGES);

	check((uint64_t *)(memory + round % PAGES * HUGE), 1, round % PAGES);
	mprotect(memory, PAGES * HUGE, PROT_READ);
	check((uint64_t *)(memory + round % PAGES * HUGE), 1, round % PAGES);
	mprotect(memory + HUGE, HUGE, PROT_NONE);
	mprotect(memory, PAGES * HUGE, PROT_READ | PROT_WRITE);
	check((uint64_t *)(memory + (round + 1) % PAGES * HUGE), 1, (round + 1) % PAGES);
	unmap_pages(memory, PAGES);
}

/* A process that touches is killed in the middle of it. */
static void kills(unsigned int round)
{
	struct toucher toucher = { .may_fault = false };
	pid_t child = start(touch_shared, &toucher);

	usleep(mix(round) % 20000);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void forgets(unsigned int round)
{
	char *memory = map_shared(file, PAGES);

	check((uint64_t *)(memory + round % PAGES * HUGE), 1, round % PAGES);
	madvise(memory, PAGES * HUGE, MADV_DONTNEED);
	check((uint64_t *)(memory + round % PAGES * HUGE), 1, round % PAGES);
	unmap_pages(memory, PAGES);
}

/* Options that decide about compression change all the time. */
static void remounts(unsigned int round)
{
	static const char *const options[] = { "compress=lzo", "watermark=0", "compress=lz4", "watermark=50", "period=10ms", "watermark=0,period=5ms" };

	if (mount("none", mount_.path, "hzmem", MS_REMOUNT, options[round % 6]))
		tap_bail("remount with %s", options[round % 6]);
	usleep(20000);
}

/* ---- Private pages over forks ------------------------------------------ */

static void look_at_private(char *memory, uint64_t tag)
{
	for (unsigned int page = 0; page < PAGES; page++)
		check((uint64_t *)(memory + page * HUGE), tag, page);
}

/* Threads fault while the process forks; each child checks what it has, writes its own over it and exits. */
struct threads {
	char *memory;
	uint64_t tag;
};

static void *touch_in_thread(void *argument)
{
	struct threads *threads = argument;
	uint64_t state = (uintptr_t)&state;

	while (!board->stop) {
		unsigned int page = (state = mix(state)) % PAGES;
		uint64_t *words = (uint64_t *)(threads->memory + page * HUGE);

		check(words, threads->tag, page);
		mark_all(words, threads->tag, page, state);
		count(&board->touches);
	}
	return NULL;
}

static void forks(void)
{
	struct threads threads = { .tag = 2 };
	pthread_t thread[2];
	time_t end;
	unsigned int failed = 0;

	memset(board, 0, sizeof(*board));
	file = file_new(&mount_);
	threads.memory = map_private(file, PAGES);
	for (unsigned int page = 0; page < PAGES; page++)
		mark_all((uint64_t *)(threads.memory + page * HUGE), 2, page, 1);
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, touch_in_thread, &threads);
	end = time(NULL) + seconds;
	while (time(NULL) < end) {
		pid_t child = fork();

		if (!child) {
			look_at_private(threads.memory, 2);
			for (unsigned int page = 0; page < PAGES; page++)
				mark_all((uint64_t *)(threads.memory + page * HUGE), 3, page, 1);
			look_at_private(threads.memory, 3);
			_exit(0);
		}
		usleep(5000);
		/* Sometimes it is killed in the middle of that. */
		if (++board->acts % 3 == 0)
			kill(child, SIGKILL);
		failed += ended(child) != 0 && board->acts % 3;
	}
	board->stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	tap_equal(failed, 0, "faults and fork of private pages: all children end by themselves");
	tap_equal(board->wrong, 0, "and no word is another's");
	tap_note("%lu touches, %lu forks, %ld compressions", board->touches, board->acts, count_of(&mount_, "compressions"));
	unmap_pages(threads.memory, PAGES);
	close(file);
}

int main(void)
{
	long before = node_count(-1, "free");

	seconds = seconds_of("HZMEM_RACES_SECONDS", 3);
	board = share(sizeof(*board));
	/* Compression takes part in every race. */
	mount_ = mount_new("hzmem", "watermark=0,period=5ms");
	against("truncation", true, truncates);
	against("holes", false, punches);
	against("munmap", false, maps_and_unmaps);
	against("mremap", false, moves);
	against("mprotect", false, protects);
	against("MADV_DONTNEED", false, forgets);
	against("a killed process", false, kills);
	against("remounting", false, remounts);
	forks();
	tap_ok(count_of(&mount_, "compressions") > 0, "pages were compressed meanwhile");
	tap_equal(count_of(&mount_, "corrupt"), 0, "none was corrupt");
	mount_end(&mount_);
	tap_ok(wait_until(node_count(-1, "free") == before), "every page is given back");
	return tap_end();
}
