// SPDX-License-Identifier: GPL-2.0
/*
 * What the first write to a span costs: where a chunk from the pool of zeroed chunks becomes a giant
 * page, and where the same gigabyte is zeroed then, as the huge pages of 512 faults.
 *
 * Prints for each that was measured a line: pool or zeroed, a tab, nanoseconds.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include "device.h"
#include "kernel.h"
#include "pool.h"
#include "span.h"
#include "tap.h"

/* In the first ones the host gives the guest the memory, which is not what is measured: the median leaves them out. */
#define ROUNDS 7
#define SIZES "/sys/kernel/mm/transparent_hugepage/"

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

/* Writes to every region of a span, and returns how long that took; with a giant page all but the first find it mapped. */
static uint64_t write_regions(volatile char *span)
{
	uint64_t begin = now();

	for (size_t at = 0; at < GIANT; at += HUGE)
		span[at] = 1;
	return now() - begin;
}

/* What was mapped has to be zero but for what was written to it, and of these pages. */
static void check(const char *span, const char *line)
{
	long mapped = smaps(span, GIANT, line);
	size_t nonzero = nonzero_pages(span, GIANT);

	if (mapped != (long)(GIANT / 1024))
		tap_bail("%s: %ld KiB of the span", line, mapped);
	if (nonzero != SPAN_REGIONS)
		tap_bail("%zu pages of the span are not zero, %lu were written to", nonzero, SPAN_REGIONS);
}

static void measure(const char *what, const char *giant, unsigned int chunks, const char *line)
{
	char *span;
	uint64_t took;

	size_enable(giant);
	pool_fill(chunks);
	span = map_spans(1);
	took = write_regions(span);
	check(span, line);
	munmap(span, GIANT);
	printf("%s\t%llu\n", what, (unsigned long long)took);
	fflush(stdout);
}

int main(void)
{
	set_file(SIZES "hugepages-2048kB/enabled", "madvise");
	set_file(SIZES "defrag", "always");
	for (int round = 0; round < ROUNDS; round++) {
		measure("pool", "madvise", 1, "AnonPudMapped");
		measure("zeroed", "never", 0, "AnonHugePages");
	}
	return 0;
}
