// SPDX-License-Identifier: GPL-2.0
/* More data than there are huge pages: what can be compressed is, ahead of faults or in them; what cannot is a signal, at once. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hz.h"
#include "random.h"

/* The daemon has no part in this. */
#define ALONE "watermark=100,period=3600"

static unsigned int total;

static void done(struct mount *mount, const char *what)
{
	mount_end(mount);
	tap_equal(node_count(-1, "free"), total, "%s: every page is given back", what);
}

static void more_than_there_is(void)
{
	struct mount mount = mount_new("hzmem", ALONE);
	unsigned int pages = total + total / 2;
	int file = file_new(&mount);
	char *memory = map_shared(file, pages);

	text_fill_all(memory, pages, TEXT_LINES, 1);
	tap_equal(text_wrong(memory, pages, TEXT_LINES, 1), 0, "half as much again as there is, written and read back");
	tap_ok(count_of(&mount, "direct_reclaims") >= (long)(pages - total), "by compressing in the faults");
	tap_equal(count_of(&mount, "resident") + count_of(&mount, "compressed"), pages, "every page is here or compressed");
	tap_ok(count_of(&mount, "compressed") >= (long)(pages - total), "as many as have no place");
	tap_equal(count_of(&mount, "sigbus"), 0, "nobody was refused");
	unmap_pages(memory, pages);
	close(file);
	tap_equal(count_of(&mount, "compressed_bytes"), 0, "no base memory is left in use");
	done(&mount, "more than there is");
}

/* A page is given up and had again, which uses one of the last free ones and wakes the daemon where it should be. */
static void take_again(char *page)
{
	if (madvise(page, HUGE, MADV_REMOVE))
		tap_bail("madvise");
	text_fill(page, TEXT_LINES, 1);
}

/* The daemon looks for cold pages once an hour, and so does what is seen here only because faults wake it. */
static void ahead_of_faults(void)
{
	struct mount mount = mount_new("hzmem", "period=3600");
	unsigned int pages = total + total / 4, more;
	int file = file_new(&mount);
	char *memory = map_shared(file, pages);

	text_fill_all(memory, total, TEXT_LINES, 1);
	tap_ok(wait_until((take_again(memory), node_count(-1, "free") > 1)), "when the last free pages are taken, the daemon frees some");
	more = node_count(-1, "free");
	text_fill_all(memory + total * HUGE, more, TEXT_LINES, 1 + total);
	tap_equal(count_of(&mount, "direct_reclaims"), 0, "so the next faults find some, and compress none themselves");
	tap_equal(text_wrong(memory, total + more, TEXT_LINES, 1), 0, "every byte is right");
	unmap_pages(memory, pages);
	close(file);
	done(&mount, "ahead of faults");
}

/* Memory that is used from end to end, round and round, and is enough: what was compressed comes back, and stays. */
static void enough(void)
{
	struct mount mount = mount_new("hzmem", "period=3600");
	int file = file_new(&mount);
	char *memory = map_shared(file, total);
	long compressions, worked;

	text_fill_all(memory, total, TEXT_LINES, 1);
	/* Whatever the daemon was woken for while memory was filled it is through with: it compresses nothing, and sleeps. */
	do {
		compressions = count_of(&mount, "compressions");
		worked = node_count(-1, "daemon_cpu_ns");
		usleep(1000000);
	} while (count_of(&mount, "compressions") != compressions || node_count(-1, "daemon_cpu_ns") != worked);
	for (int round = 0; round < 3; round++)
		tap_equal(text_wrong(memory, total, TEXT_LINES, 1), 0, "all of the memory, round %d", round);
	tap_equal(count_of(&mount, "compressed"), 0, "all pages have come back");
	tap_equal(count_of(&mount, "compressions"), compressions, "and none went for it");
	unmap_pages(memory, total);
	close(file);
	done(&mount, "enough");
}

static void not_ahead(void)
{
	struct mount mount = mount_new("hzmem", ALONE);
	int file = file_new(&mount);
	char *memory = map_shared(file, total);

	text_fill_all(memory, total, TEXT_LINES, 1);
	for (int i = 0; i < 20; i++) {
		take_again(memory);
		usleep(10000);
	}
	tap_equal(count_of(&mount, "compressions"), 0, "with watermark=100 it frees none");
	unmap_pages(memory, total);
	close(file);
	done(&mount, "not ahead");
}

static void zeros_without_end(void)
{
	struct mount mount = mount_new("hzmem", ALONE);
	unsigned int pages = total * 3;
	int file = file_new(&mount);
	char *memory = map_shared(file, pages);
	unsigned int wrong = 0;

	for (unsigned int i = 0; i < pages; i++)
		memory[i * HUGE + 123] = 0;
	for (unsigned int i = 0; i < pages; i += 7)
		wrong += !text_right(memory + i * HUGE, TEXT_ZEROS, 0);
	tap_equal(wrong, 0, "three times as many zero pages as there are pages");
	tap_equal(count_of(&mount, "compressed_bytes"), 0, "take no base memory");
	unmap_pages(memory, pages);
	close(file);
	done(&mount, "zeros");
}

/* ---- Several processes on one file ------------------------------------- */

#define PROCESSES 4
#define ROUNDS 3

struct crowd {
	struct mount mount;
	char *memory;
	unsigned int pages;
	unsigned int arrived[ROUNDS + 1];
	unsigned int number;
};

/* All of them are past this point before one goes on. */
static void meet(unsigned int *arrived)
{
	__atomic_fetch_add(arrived, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(arrived, __ATOMIC_ACQUIRE) < PROCESSES)
		usleep(1000);
}

static uint64_t seed_in(unsigned int round, unsigned int page)
{
	return round * 10000ULL + page;
}

/* Each writes every fourth page in turn, then reads all that the others have written. */
static bool one_of_crowd(struct crowd *crowd, unsigned int number)
{
	unsigned int wrong = 0;

	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = (number + round) % PROCESSES; i < crowd->pages; i += PROCESSES)
			text_fill(crowd->memory + i * HUGE, TEXT_LINES, seed_in(round, i));
		meet(&crowd->arrived[round]);
		for (unsigned int i = 0; i < crowd->pages; i++) {
			/* Two from the one end, two from the other. */
			unsigned int at = number % 2 ? crowd->pages - 1 - i : i;

			wrong += !text_right(crowd->memory + at * HUGE, TEXT_LINES, seed_in(round, at));
		}
		/* Nobody writes again before all have read. */
		__atomic_fetch_add(&crowd->number, 1, __ATOMIC_ACQ_REL);
		while (__atomic_load_n(&crowd->number, __ATOMIC_ACQUIRE) < PROCESSES * (round + 1))
			usleep(1000);
	}
	return !wrong;
}

static void together(void)
{
	struct crowd *crowd = share(sizeof(*crowd));
	pid_t children[PROCESSES];
	int file, failed = 0;

	crowd->mount = mount_new("hzmem", "watermark=50,period=50ms");
	file = file_new(&crowd->mount);
	crowd->pages = total + total / 4;
	crowd->memory = map_shared(file, crowd->pages);
	for (unsigned int i = 0; i < PROCESSES; i++) {
		children[i] = fork();
		if (!children[i])
			_exit(!one_of_crowd(crowd, i));
	}
	for (unsigned int i = 0; i < PROCESSES; i++)
		failed += ended(children[i]) != 0;
	tap_equal(failed, 0, "%d processes write and read one file, larger than there are pages", PROCESSES);
	tap_equal(count_of(&crowd->mount, "sigbus"), 0, "none was refused");
	tap_equal(count_of(&crowd->mount, "corrupt"), 0, "nothing was corrupt");
	tap_note("%ld compressions, %ld decompressions, %ld direct", count_of(&crowd->mount, "compressions"),
		 count_of(&crowd->mount, "faults_decompress"), count_of(&crowd->mount, "direct_reclaims"));
	unmap_pages(crowd->memory, crowd->pages);
	close(file);
	done(&crowd->mount, "together");
}

/* ---- Nothing left ------------------------------------------------------ */

/* Fills pages with random data until one is refused; returns how many were not. */
static unsigned int fill_until_refused(char *memory, unsigned int pages)
{
	unsigned int filled = 0;

	for (; filled < pages && !write_faults(memory + filled * HUGE); filled++)
		text_fill(memory + filled * HUGE, TEXT_RANDOM, filled);
	return filled;
}

static bool child_is_refused(void *argument)
{
	struct crowd *crowd = argument;

	return write_faults(crowd->memory);
}

static void refused(void)
{
	struct mount mount = mount_new("hzmem", ALONE);
	unsigned int pages = total + 4, filled;
	int file = file_new(&mount), log = log_open();
	char *memory = map_shared(file, pages), *private;
	struct crowd crowd;
	long refusals;

	/* A hang ends the test. */
	alarm(1200);
	filled = fill_until_refused(memory, pages);
	tap_equal(filled, total, "random data fills all pages, and the next touch is a signal");
	tap_ok(count_of(&mount, "sigbus") > 0, "which is counted");
	/* Ten such lines in five seconds are logged, and others may have had them: touched until there is one. */
	tap_ok(wait_until((write_faults(memory + filled * HUGE), log_lines(log, "hzmem") > 0)), "and logged");
	tap_ok(write_faults(memory + filled * HUGE) && read_faults(memory + (filled + 1) * HUGE),
	       "again and again, for reads too");
	tap_ok(fallocate(file, 0, filled * HUGE, HUGE) < 0 && (errno == ENOSPC || errno == ENOMEM),
	       "fallocate is refused");
	private = map_private(file, 1);
	tap_ok(text_right(private, TEXT_RANDOM, 0), "a private mapping can be read");
	tap_ok(write_faults(private), "and not written");
	crowd.memory = private;
	tap_ok(in_child(child_is_refused, &crowd), "nor by a child");
	tap_ok(text_right(private, TEXT_RANDOM, 0), "which changes nothing");
	tap_equal(text_wrong(memory, filled, TEXT_RANDOM, 0), 0, "every byte of the rest is right");
	madvise(memory + HUGE, HUGE, MADV_REMOVE);
	tap_ok(!write_faults(memory + filled * HUGE), "a page given up is one to be had");
	text_fill(memory + 3 * HUGE, TEXT_LINES, 77);
	text_fill(memory + 4 * HUGE, TEXT_LINES, 78);
	refusals = count_of(&mount, "sigbus");
	tap_ok(!write_faults(private), "and so is one whose data compresses now, at the first touch");
	for (int round = 0; round < 3; round++)
		tap_ok(text_right(memory + 3 * HUGE, TEXT_LINES, 77) && text_right(memory + 4 * HUGE, TEXT_LINES, 78),
		       "the one of two makes room for the other, and both are as they were, round %d", round);
	tap_equal(count_of(&mount, "sigbus"), refusals, "nobody is refused while a page can be compressed");
	alarm(0);
	unmap_pages(private, 1);
	unmap_pages(memory, pages);
	close(file);
	done(&mount, "refused");
}

/* Letters of an alphabet of 64, at random: zstd finds that two bits of eight are always the same, LZ4 finds nothing. */
static void letters(char *page, uint64_t seed)
{
	for (unsigned long i = 0; i < HUGE; i++)
		page[i] = '0' + mix(seed * HUGE + i) % 64;
}

static bool letters_right(const char *page, uint64_t seed)
{
	for (unsigned long i = 0; i < HUGE; i++)
		if (page[i] != (char)('0' + mix(seed * HUGE + i) % 64))
			return false;
	return true;
}

static bool has_zstd(void)
{
	char names[128] = "";
	FILE *file = fopen(HZ_SYSFS "compressors", "re");

	if (!file || !fgets(names, sizeof(names), file))
		tap_bail("read " HZ_SYSFS "compressors");
	fclose(file);
	return strstr(names, "zstd");
}

/* What one algorithm has given up is not given up for another. */
static void another_algorithm(void)
{
	struct mount mount_;
	unsigned int filled = 0;
	char *memory;
	int file;

	if (!has_zstd()) {
		tap_skip("another algorithm", "this kernel has no zstd");
		return;
	}
	mount_ = mount_new("hzmem", ALONE ",compress=lz4");
	file = file_new(&mount_);
	memory = map_shared(file, total + 2);
	for (; filled < total + 2 && !write_faults(memory + filled * HUGE); filled++)
		letters(memory + filled * HUGE, filled);
	tap_equal(filled, total, "letters at random fill all pages, as LZ4 cannot compress them");
	tap_equal(count_of(&mount_, "incompressible"), total, "all of them are known for that");
	tap_equal(mount("none", mount_.path, "hzmem", MS_REMOUNT, "compress=zstd"), 0, "remounted with zstd");
	tap_equal(count_of(&mount_, "incompressible"), 0, "none is");
	tap_ok(!write_faults(memory + filled * HUGE), "and the next touch is no signal");
	tap_ok(letters_right(memory, 0) && letters_right(memory + (filled - 1) * HUGE, filled - 1), "every byte is right");
	unmap_pages(memory, total + 2);
	close(file);
	done(&mount_, "another algorithm");
}

/* ---- All that can be compressed is in use at any moment ---------------- */

#define SLOTS 2
#define WANTED 6

/* Reads one page of a few at a time, of which fewer have room; every other time by a system call that holds it meanwhile. */
static bool one_of_many(char *memory, unsigned int number, unsigned int rounds)
{
	uint64_t state = number + 1;
	static char copy[HUGE];
	unsigned int wrong = 0;

	for (unsigned int i = 0; i < rounds; i++) {
		unsigned int at = next(&state) % WANTED;
		struct iovec to = { copy, HUGE }, from = { memory + at * HUGE, HUGE };

		if (i % 2)
			wrong += !text_right(memory + at * HUGE, TEXT_LINES, at);
		else
			wrong += process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)HUGE || !text_right(copy, TEXT_LINES, at);
	}
	return !wrong;
}

static void all_in_use(void)
{
	struct mount mount = mount_new("hzmem", ALONE);
	int file = file_new(&mount), failed = 0;
	unsigned int fixed = total - SLOTS;
	char *memory = map_shared(file, fixed + WANTED);
	pid_t children[PROCESSES];

	text_fill_all(memory, fixed, TEXT_RANDOM, 5);
	text_fill_all(memory + fixed * HUGE, WANTED, TEXT_LINES, 0);
	for (unsigned int i = 0; i < PROCESSES; i++) {
		children[i] = fork();
		if (!children[i])
			_exit(!one_of_many(memory + fixed * HUGE, i, 40));
	}
	for (unsigned int i = 0; i < PROCESSES; i++)
		failed += ended(children[i]) != 0;
	tap_equal(failed, 0, "%d processes use %d pages, of which %d have room at a time, and nothing else compresses", PROCESSES,
		  WANTED, SLOTS);
	tap_equal(count_of(&mount, "sigbus"), 0, "none was refused");
	tap_equal(text_wrong(memory, fixed, TEXT_RANDOM, 5), 0, "every byte of the rest is right");
	unmap_pages(memory, fixed + WANTED);
	close(file);
	done(&mount, "all in use");
}

/* A limit on base memory that is reached: refused as well, until there is room. */
static void base_memory_limited(void)
{
	struct mount mount = mount_new("hzmem", ALONE ",compressed=1M");
	unsigned int pages = total + total / 2, filled = 0;
	int file = file_new(&mount);
	char *memory = map_shared(file, pages);

	alarm(1200);
	for (; filled < pages && !write_faults(memory + filled * HUGE); filled++)
		text_fill(memory + filled * HUGE, TEXT_LINES, filled);
	tap_ok(filled > total && filled < pages, "with 1 MiB for compressed data some more fits, and then no more");
	tap_ok(count_of(&mount, "compressed_bytes") <= 1 << 20, "the limit is kept");
	tap_note("%u pages filled of %u", filled, total);
	/* What is not needed is given up, so that the compressed ones find room. */
	ftruncate(file, (total - 2) * HUGE);
	tap_equal(text_wrong(memory, total - 2, TEXT_LINES, 0), 0, "every byte of what is kept is right");
	alarm(0);
	unmap_pages(memory, pages);
	close(file);
	done(&mount, "base memory limited");
}

int main(void)
{
	total = node_count(-1, "free");
	tap_equal(total, node_count(-1, "total"), "all pages are free at the start");
	more_than_there_is();
	ahead_of_faults();
	enough();
	not_ahead();
	zeros_without_end();
	together();
	all_in_use();
	refused();
	another_algorithm();
	base_memory_limited();
	return tap_end();
}
