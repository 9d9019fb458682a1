// SPDX-License-Identifier: GPL-2.0
/*
 * Work under memory pressure for a long time: endure [SECONDS], or HZMEM_ENDURE_SECONDS, or 20. Processes with more data
 * in all than there are pages touch it at random, a few pages often and the others seldom, and know every byte of it.
 * One takes and gives back base memory at the same time.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "hz.h"
#include "random.h"

#define WORKERS 3

struct board {
	volatile bool stop;
	unsigned long touches, writes, wrong, losses;
};

static struct board *board;

static void count(unsigned long *counter, unsigned long by)
{
	__atomic_fetch_add(counter, by, __ATOMIC_RELAXED);
}

struct worker {
	char *memory;
	unsigned int pages;
	uint64_t state;
};

static enum text kind_of(uint64_t seed)
{
	return seed % 5 == 0 ? TEXT_ZEROS : TEXT_LINES;
}

static void work(void *argument)
{
	struct worker *worker = argument;
	uint64_t *seeds = calloc(worker->pages, sizeof(*seeds)), state = worker->state;

	for (unsigned int i = 0; i < worker->pages; i++) {
		seeds[i] = mix(state + i);
		text_fill(worker->memory + i * HUGE, kind_of(seeds[i]), seeds[i]);
	}
	while (!board->stop) {
		unsigned int page;

		state = mix(state);
		/* Three touches of four go to an eighth of the pages. */
		page = state % (state >> 62 ? (worker->pages + 7) / 8 : worker->pages);
		if (!text_right(worker->memory + page * HUGE, kind_of(seeds[page]), seeds[page]))
			count(&board->wrong, 1);
		count(&board->touches, 1);
		if (state >> 60 & 1)
			continue;
		seeds[page] = mix(state);
		text_fill(worker->memory + page * HUGE, kind_of(seeds[page]), seeds[page]);
		count(&board->writes, 1);
	}
	for (unsigned int i = 0; i < worker->pages; i++)
		if (!text_right(worker->memory + i * HUGE, kind_of(seeds[i]), seeds[i]))
			count(&board->losses, 1);
	free(seeds);
}

/* Base memory comes and goes, so that allocations for compressed data meet a machine that is not idle. */
static void press(void *argument)
{
	size_t length = 64 * HUGE;

	(void)argument;
	while (!board->stop) {
		char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		for (size_t at = 0; memory != MAP_FAILED && at < length && !board->stop; at += PAGE)
			memory[at] = 1;
		usleep(100000);
		munmap(memory, length);
	}
}

int main(int argc, char **argv)
{
	long seconds = argc > 1 ? atol(argv[1]) : seconds_of("HZMEM_ENDURE_SECONDS", 20);
	unsigned int total = node_count(-1, "free"), pages = total * 3 / 2 / WORKERS;
	struct mount mount = mount_new("hzmem", "watermark=80,period=200ms");
	struct worker workers[WORKERS];
	pid_t children[WORKERS + 1];
	int file = file_new(&mount), shared = 0, failed = 0;
	time_t end;

	board = share(sizeof(*board));
	for (unsigned int i = 0; i < WORKERS; i++) {
		/* One of them has a private mapping. */
		workers[i] = (struct worker){ .pages = pages, .state = 1 + i };
		workers[i].memory = i ? map_pages(file, pages, PROT_READ | PROT_WRITE, MAP_SHARED,
						  (off_t)shared++ * pages * HUGE) : map_private(file, pages);
		children[i] = start(work, &workers[i]);
	}
	children[WORKERS] = start(press, NULL);
	tap_note("%ld seconds, %u pages of data in %u", seconds, pages * WORKERS, total);
	end = time(NULL) + seconds;
	while (time(NULL) < end)
		sleep(1);
	board->stop = true;
	for (unsigned int i = 0; i <= WORKERS; i++)
		failed += ended(children[i]) != 0;
	tap_equal(failed, 0, "every process ends by itself");
	tap_equal(board->wrong, 0, "no touch met a wrong byte");
	tap_equal(board->losses, 0, "and in the end every byte of every page is there");
	tap_equal(count_of(&mount, "sigbus"), 0, "nobody was refused");
	tap_equal(count_of(&mount, "corrupt"), 0, "nothing was corrupt");
	tap_ok(count_of(&mount, "compressions") > 0 && count_of(&mount, "faults_decompress") > 0,
	       "pages went out and came back");
	tap_note("%lu touches, %lu writes, %ld compressions, %ld decompressions, %ld direct, %ld bytes for compressed data",
		 board->touches, board->writes, count_of(&mount, "compressions"), count_of(&mount, "faults_decompress"),
		 count_of(&mount, "direct_reclaims"), count_of(&mount, "compressed_bytes"));
	for (unsigned int i = 0; i < WORKERS; i++)
		unmap_pages(workers[i].memory, pages);
	close(file);
	tap_equal(count_of(&mount, "compressed_bytes"), 0, "base memory is given back");
	mount_end(&mount);
	tap_equal(node_count(-1, "free"), total, "and every page");
	return tap_end();
}
