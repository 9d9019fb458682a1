// SPDX-License-Identifier: GPL-2.0
/*
 * How many instructions the kernel executes for what programs do with memory: faults, fork,
 * munmap, exit. For a guest in which the time stamp counter counts instructions, as under QEMU's
 * -icount shift=0. What zeroes a fault's page is left out: it is the same in every kernel, and so
 * much that nothing else would be seen beside it.
 *
 * Prints for each operation a line: its name, a tab, how many pages a measurement is of, a tab, and
 * the mean of the measurements. With the argument `giant`, giant pages are used meanwhile: memory of
 * another process is mapped by one, and faults may make them.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "device.h"
#include "pool.h"
#include "span.h"
#include "tap.h"

#define REPEATS 64
/* Not counted: the first of each finds cold lists and no huge zero page. */
#define WARM_UPS 3

/* Each measurement has to fit between two interrupts of the timer, which are millions of instructions apart. */
#define FAULT_PAGES 512
#define FORK_PAGES 2048
#define FORK_REGIONS 16

/* A fraction of a zone that is less than the least that the kernel makes of it: a few hundred pages. */
#define SHORT_LISTS "100000"

/* Whether faults make giant pages; where they can. */
#define AT_FAULT SIZE_FOLDER "/enabled"

/* Far from all else that is mapped, so that each measurement needs the same page tables. */
static char *const area = (char *)(1UL << 40);
static volatile uint64_t *child_began;

static inline uint64_t executed(void)
{
	uint32_t low, high;

	asm volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

/* Two instructions for each turn. */
static uint64_t spin(uint64_t turns)
{
	uint64_t begin = executed();

	asm volatile("1: dec %0; jnz 1b" : "+r"(turns) : : "cc");
	return executed() - begin;
}

/* Bails out where the counter counts something else. */
static void check_counter(void)
{
	if (spin(3000) - spin(1000) != 4000)
		tap_bail("the time stamp counter does not count instructions");
}

/* Bails out where the kernel does not zero pages by `rep stosb`, which it does on a CPU that has ERMS. */
static void check_zeroing(void)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char line[4096];
	bool erms = false;

	while (file && fgets(line, sizeof(line), file))
		erms |= strstr(line, " erms ") != NULL;
	if (!erms)
		tap_bail("this CPU has no ERMS");
	fclose(file);
}

/* Returns right after an interrupt of the timer: that clock stands still in between. */
static void await_tick(void)
{
	struct timespec first, now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &first);
	do
		clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	while (now.tv_nsec == first.tv_nsec);
}

static void map(size_t length, int advice)
{
	if (mmap(area, length, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != area)
		tap_bail("mmap");
	if (madvise(area, length, advice))
		tap_bail("madvise");
}

static void write_each(size_t length, size_t step)
{
	for (size_t offset = 0; offset < length; offset += step)
		*(volatile char *)(area + offset) = 1;
}

static void read_each(size_t length, size_t step)
{
	for (size_t offset = 0; offset < length; offset += step)
		(void)*(volatile char *)(area + offset);
}

/* What is measured, with what is needed before and is to be undone after it. */
struct operation {
	const char *name;
	size_t pages;
	size_t page_size;
	void (*prepare)(const struct operation *operation);
	uint64_t (*measure)(const struct operation *operation);
	void (*finish)(const struct operation *operation);
};

static size_t length_of(const struct operation *operation)
{
	return operation->pages * operation->page_size;
}

static void map_untouched(const struct operation *operation)
{
	map(length_of(operation), operation->page_size == HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

static void map_written(const struct operation *operation)
{
	map_untouched(operation);
	write_each(length_of(operation), operation->page_size);
}

/* The kernel zeroes by `rep stosb`, see check_zeroing(): the counter counts each byte. */
static uint64_t measure_write(const struct operation *operation)
{
	uint64_t begin = executed();

	write_each(length_of(operation), operation->page_size);
	return executed() - begin - length_of(operation);
}

static uint64_t measure_read(const struct operation *operation)
{
	uint64_t begin = executed();

	read_each(length_of(operation), operation->page_size);
	return executed() - begin;
}

static uint64_t measure_munmap(const struct operation *operation)
{
	size_t length = length_of(operation);
	uint64_t begin = executed();

	if (munmap(area, length))
		tap_bail("munmap");
	return executed() - begin;
}

/* A child that notes when it began to exit. */
static pid_t fork_exiting(void)
{
	pid_t child = fork();

	if (child < 0)
		tap_bail("fork");
	if (!child) {
		*child_began = executed();
		_exit(0);
	}
	return child;
}

static void await_child(void)
{
	if (wait(NULL) < 0)
		tap_bail("wait");
}

static uint64_t measure_fork(const struct operation *operation)
{
	uint64_t begin = executed();

	(void)operation;
	fork_exiting();
	return executed() - begin;
}

static uint64_t measure_exit(const struct operation *operation)
{
	(void)operation;
	fork_exiting();
	await_child();
	return executed() - *child_began;
}

static void unmap(const struct operation *operation)
{
	munmap(area, length_of(operation));
}

static void await_child_and_unmap(const struct operation *operation)
{
	await_child();
	unmap(operation);
}

static void nothing(const struct operation *operation)
{
	(void)operation;
}

static const struct operation operations[] = {
	{ "4 KiB write fault", FAULT_PAGES, PAGE, map_untouched, measure_write, unmap },
	{ "4 KiB read fault", FAULT_PAGES, PAGE, map_untouched, measure_read, unmap },
	{ "2 MiB write fault", 1, HUGE, map_untouched, measure_write, unmap },
	{ "2 MiB read fault", FORK_REGIONS, HUGE, map_untouched, measure_read, unmap },
	{ "fork, 4 KiB pages", FORK_PAGES, PAGE, map_written, measure_fork, await_child_and_unmap },
	{ "fork, 2 MiB pages", FORK_REGIONS, HUGE, map_written, measure_fork, await_child_and_unmap },
	{ "exit, 4 KiB pages", FORK_PAGES, PAGE, map_written, measure_exit, unmap },
	{ "exit, 2 MiB pages", FORK_REGIONS, HUGE, map_written, measure_exit, unmap },
	{ "munmap, 4 KiB pages", FORK_PAGES, PAGE, map_written, measure_munmap, nothing },
	{ "munmap, 2 MiB pages", FORK_REGIONS, HUGE, map_written, measure_munmap, nothing },
};

static void report(const struct operation *operation)
{
	uint64_t sum = 0, least = UINT64_MAX, most = 0;

	for (int i = -WARM_UPS; i < REPEATS; i++) {
		uint64_t count;

		operation->prepare(operation);
		await_tick();
		count = operation->measure(operation);
		operation->finish(operation);
		if (i < 0)
			continue;
		sum += count;
		least = count < least ? count : least;
		most = count > most ? count : most;
	}
	tap_note("%s: least %llu, most %llu", operation->name, (unsigned long long)least,
		 (unsigned long long)most);
	printf("%s\t%zu\t%llu\n", operation->name, operation->pages, (unsigned long long)(sum / REPEATS));
	fflush(stdout);
}

/* A child with a span that a giant page maps, until it is ended. */
static pid_t start_giant_holder(void)
{
	int device = device_open(), ready[2];
	pid_t holder;
	char byte;

	if (!giant_available(device))
		tap_bail("this kernel has no giant pages");
	if (pipe(ready))
		tap_bail("pipe");
	holder = fork();
	if (!holder) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		giant_new(device);
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		tap_bail("no giant page");
	tap_note("another process has a giant page");
	return holder;
}

static void let_faults_make_giant_pages(void)
{
	if (access(AT_FAULT, F_OK))
		return;
	if (!write_file(AT_FAULT, "always"))
		tap_bail(AT_FAULT);
	tap_note("faults make giant pages");
}

int main(int argc, char **argv)
{
	struct sched_param batch = { 0 };
	pid_t holder = 0;

	if (argc > 1 && !strcmp(argv[1], "giant")) {
		holder = start_giant_holder();
		let_faults_make_giant_pages();
	}
	check_counter();
	check_zeroing();
	/* With the long lists that the kernel sizes by itself, no page would come from the allocator or go back to it. */
	if (!write_file("/proc/sys/vm/percpu_pagelist_high_fraction", SHORT_LISTS))
		tap_bail("percpu_pagelist_high_fraction");
	/* A child of such a process does not run before its parent has returned from fork. */
	if (sched_setscheduler(0, SCHED_BATCH, &batch))
		tap_bail("SCHED_BATCH");
	child_began = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < sizeof(operations) / sizeof(*operations); i++)
		report(&operations[i]);
	/* It has the device open: the module is to be unloaded next. */
	if (holder && (kill(holder, SIGKILL) || waitpid(holder, NULL, 0) != holder))
		tap_bail("end the process with the giant page");
	return 0;
}
