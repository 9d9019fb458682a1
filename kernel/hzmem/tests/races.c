// SPDX-License-Identifier: GPL-2.0
/*
 * Faults at the same time as truncation, holes, fork, munmap, mremap, compression and exit; HZMEM_RACES_SECONDS for each
 * (default 3).
 *
 * Every word that is written says whose it is, so a page that went to the wrong place shows, and from which writing it is,
 * so data that were lost show too. Each writer has marks of its own in every page, and tells all others, before it writes,
 * what it begins to write there, and afterwards, that it is done. So whoever reads a mark knows the oldest and the newest
 * value that it may have. Zero is right only where a cut (a truncation or a hole) was not over when the last writing began.
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
/* The touchers, and one that is killed. */
#define WRITERS (TOUCHERS + 1)
/* What every mark is at first. */
#define FILLED 1

typedef uint32_t writings[WRITERS][PAGES];

/* Shared by all processes. A writer's part is written by it alone; the cuts are the main process's. */
struct board {
	volatile bool stop;
	unsigned long touches, signals, wrong, acts;
	writings begun, done;
	/* How many cuts of the page were over when what is done was begun. */
	writings cuts_before;
	uint32_t cuts_begun[PAGES], cuts_ended[PAGES];
};

static struct board *board;
static struct mount mount_;
static int file;
static long seconds;

static void count(unsigned long *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static uint32_t now(const uint32_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_SEQ_CST);
}

static void set(uint32_t *counter, uint32_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_SEQ_CST);
}

/* ---- What a word is, and may be ---------------------------------------- */

/* Whose it is, and which writing it is from in the low half. */
static uint64_t word_of(uint64_t tag, unsigned int page, unsigned int mark, uint32_t writing)
{
	return (tag << 56) | ((uint64_t)page << 44) | ((uint64_t)mark << 32) | writing;
}

static volatile uint64_t *place_of(uint64_t *words, unsigned int mark)
{
	return words + mark * STRIDE;
}

static void note_wrong(uint64_t word, uint64_t tag, unsigned int page, unsigned int mark, uint32_t least, uint32_t most)
{
	count(&board->wrong);
	tap_note("page %u has 0x%lx at mark %u, not 0x%lx to 0x%lx", page, word, mark, word_of(tag, page, mark, least),
		 word_of(tag, page, mark, most));
}

/* done is what was done when the words were those that are looked at now, or before. */
static void check_since(uint64_t *words, uint64_t tag, unsigned int page, const writings done)
{
	for (unsigned int mark = 0; mark < MARKS; mark++) {
		unsigned int writer = mark % WRITERS;
		/* In this order: what is right may change meanwhile, and then more is. */
		uint32_t least = now(&done[writer][page]);
		uint32_t cuts_before = now(&board->cuts_before[writer][page]);
		uint64_t word = *place_of(words, mark);
		uint32_t most = now(&board->begun[writer][page]);
		bool cut = now(&board->cuts_begun[page]) != cuts_before;

		if (word ? word < word_of(tag, page, mark, least) || word > word_of(tag, page, mark, most) : !cut)
			note_wrong(word, tag, page, mark, least, most);
	}
}

static void check(uint64_t *words, uint64_t tag, unsigned int page)
{
	check_since(words, tag, page, board->done);
}

/* The next writing of one writer in this page. What a signal or a kill cuts short stays begun. */
static void write_marks(uint64_t *words, uint64_t tag, unsigned int page, unsigned int writer)
{
	uint32_t cuts_before = now(&board->cuts_ended[page]);
	uint32_t writing = now(&board->begun[writer][page]) + 1;

	set(&board->begun[writer][page], writing);
	for (unsigned int mark = writer; mark < MARKS; mark += WRITERS)
		*place_of(words, mark) = word_of(tag, page, mark, writing);
	set(&board->cuts_before[writer][page], cuts_before);
	set(&board->done[writer][page], writing);
}

static void write_all(uint64_t *words, uint64_t tag, unsigned int page)
{
	for (unsigned int mark = 0; mark < MARKS; mark++)
		*place_of(words, mark) = word_of(tag, page, mark, FILLED);
}

/* All pages, before anybody else writes. */
static void fill(char *memory, uint64_t tag)
{
	for (unsigned int page = 0; page < PAGES; page++) {
		write_all((uint64_t *)(memory + page * HUGE), tag, page);
		for (unsigned int writer = 0; writer < WRITERS; writer++) {
			set(&board->begun[writer][page], FILLED);
			set(&board->done[writer][page], FILLED);
		}
	}
}

static void cut_begins(unsigned int first, unsigned int end)
{
	for (unsigned int page = first; page < end; page++)
		set(&board->cuts_begun[page], board->cuts_begun[page] + 1);
}

static void cut_ends(unsigned int first, unsigned int end)
{
	for (unsigned int page = first; page < end; page++)
		set(&board->cuts_ended[page], board->cuts_ended[page] + 1);
}

/* ---- Those that are always there --------------------------------------- */

static sigjmp_buf out;

static void jump_out(int signal)
{
	siglongjmp(out, signal);
}

/* Checks and marks pages at random; a signal is an answer too where the file may end. */
static void touch_until(char *memory, uint64_t tag, unsigned int writer, bool may_fault)
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
				write_marks(words, tag, page, writer);
			count(&board->touches);
		} else {
			count(&board->signals);
			if (!may_fault)
				count(&board->wrong);
		}
	}
}

struct toucher {
	unsigned int writer;
	bool may_fault;
};

static void touch_shared(void *argument)
{
	struct toucher *toucher = argument;

	touch_until(map_shared(file, PAGES), 1, toucher->writer, toucher->may_fault);
}

/* Until the time is up, what act does; the touchers run meanwhile. */
static void against(const char *what, bool may_fault, void (*act)(unsigned int round))
{
	pid_t children[TOUCHERS];
	char *memory;
	int failed = 0;
	time_t end;

	memset(board, 0, sizeof(*board));
	file = file_new(&mount_);
	memory = map_shared(file, PAGES);
	fill(memory, 1);
	for (unsigned int i = 0; i < TOUCHERS; i++) {
		struct toucher toucher = { .writer = i, .may_fault = may_fault };

		children[i] = start(touch_shared, &toucher);
	}
	end = time(NULL) + seconds;
	for (unsigned int round = 0; time(NULL) < end; round++) {
		act(round);
		count(&board->acts);
	}
	board->stop = true;
	for (unsigned int i = 0; i < TOUCHERS; i++)
		failed += ended(children[i]) != 0;
	for (unsigned int page = 0; page < PAGES; page++)
		check((uint64_t *)(memory + page * HUGE), 1, page);
	tap_equal(failed, 0, "faults and %s: all processes end by themselves", what);
	tap_equal(board->wrong, 0, "and no word is another's, old or lost");
	tap_note("%lu touches, %lu signals, %lu acts, %ld compressions", board->touches, board->signals, board->acts,
		 count_of(&mount_, "compressions"));
	unmap_pages(memory, PAGES);
	close(file);
}

/* ---- What else happens ------------------------------------------------- */

static void truncates(unsigned int round)
{
	unsigned int left = mix(round) % PAGES;

	cut_begins(left, PAGES);
	ftruncate(file, left * HUGE);
	cut_ends(left, PAGES);
	ftruncate(file, PAGES * HUGE);
}

static void punches(unsigned int round)
{
	unsigned int from = mix(round) % PAGES, pages = 1 + mix(round + 1) % (PAGES - from);
	bool part = round % 5 == 0;

	if (part)
		pages = 1;
	cut_begins(from, from + pages);
	/* Now and then a part of a page, with some of the marks. */
	if (part)
		fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from * HUGE + 8 * PAGE, HUGE / 2);
	else
		fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from * HUGE, pages * HUGE);
	cut_ends(from, from + pages);
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
	struct toucher toucher = { .writer = TOUCHERS, .may_fault = false };
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

/* In the child, which has the pages as they were when it was forked, and the numbers from before. */
static void look_at_private(char *memory, const writings done)
{
	for (unsigned int page = 0; page < PAGES; page++)
		check_since((uint64_t *)(memory + page * HUGE), 2, page, done);
}

/* The child's own over all of it. */
static void write_over(char *memory)
{
	for (unsigned int page = 0; page < PAGES; page++)
		write_all((uint64_t *)(memory + page * HUGE), 3, page);
	for (unsigned int page = 0; page < PAGES; page++)
		for (unsigned int mark = 0; mark < MARKS; mark++) {
			uint64_t word = *place_of((uint64_t *)(memory + page * HUGE), mark);

			if (word != word_of(3, page, mark, FILLED))
				note_wrong(word, 3, page, mark, FILLED, FILLED);
		}
}

/* Threads fault while the process forks; each child checks what it has, writes its own over it and exits. */
struct thread {
	pthread_t id;
	char *memory;
	unsigned int writer;
};

static void *touch_in_thread(void *argument)
{
	struct thread *thread = argument;
	uint64_t state = thread->writer + 1;

	while (!board->stop) {
		unsigned int page = (state = mix(state)) % PAGES;
		uint64_t *words = (uint64_t *)(thread->memory + page * HUGE);

		check(words, 2, page);
		write_marks(words, 2, page, thread->writer);
		count(&board->touches);
	}
	return NULL;
}

static void forks(void)
{
	struct thread threads[2];
	unsigned int failed = 0;
	writings done;
	char *memory;
	time_t end;

	memset(board, 0, sizeof(*board));
	file = file_new(&mount_);
	memory = map_private(file, PAGES);
	fill(memory, 2);
	for (unsigned int i = 0; i < 2; i++) {
		threads[i] = (struct thread){ .memory = memory, .writer = i };
		pthread_create(&threads[i].id, NULL, touch_in_thread, &threads[i]);
	}
	end = time(NULL) + seconds;
	while (time(NULL) < end) {
		pid_t child;

		memcpy(done, board->done, sizeof(done));
		child = fork();
		if (!child) {
			look_at_private(memory, done);
			write_over(memory);
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
		pthread_join(threads[i].id, NULL);
	for (unsigned int page = 0; page < PAGES; page++)
		check((uint64_t *)(memory + page * HUGE), 2, page);
	tap_equal(failed, 0, "faults and fork of private pages: all children end by themselves");
	tap_equal(board->wrong, 0, "and no word is another's, old or lost");
	tap_note("%lu touches, %lu forks, %ld compressions", board->touches, board->acts, count_of(&mount_, "compressions"));
	unmap_pages(memory, PAGES);
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
