// SPDX-License-Identifier: GPL-2.0
/*
 * Preloaded into a program, has it wait for the pool of zeroed chunks before it asks for memory in giant pages: Linux's own tests
 * take one after the other, faster than an emulated kernel zeroes them.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define GIANT (1UL << 30)
#define CHUNKS "/sys/kernel/mm/transparent_hugepage/hugepages-1048576kB/pool_chunks"
#define MOST_SECONDS 120

static int ready(void)
{
	FILE *file = fopen(CHUNKS, "re");
	int chunks = 1;

	/* Where there are no giant pages there is nothing to wait for. */
	if (!file)
		return 1;
	if (fscanf(file, "%d", &chunks) != 1)
		chunks = 1;
	fclose(file);
	return chunks > 0;
}

int madvise(void *start, size_t length, int advice)
{
	const struct timespec tenth = { .tv_nsec = 100000000 };

	if (advice == MADV_HUGEPAGE && length >= GIANT)
		for (int i = 0; i < 10 * MOST_SECONDS && !ready(); i++)
			nanosleep(&tenth, NULL);
	return syscall(SYS_madvise, start, length, advice);
}
