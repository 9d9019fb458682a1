// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <linux/kernel-page-flags.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "device.h"
#include "kernel.h"
#include "pool.h"
#include "tap.h"

#define GIANT_KIB (GIANT / 1024)
#define CHUNK_FRAMES (GIANT / PAGE)

/* How often to look, and for how long. */
#define TICK_MICROSECONDS 100000
#define TICKS 600
#define TICKS_A_SECOND 10

void size_enable(const char *who)
{
	set_file(SIZE_FOLDER "/enabled", who);
}

long size_stat(const char *name)
{
	char path[160];
	long value;

	snprintf(path, sizeof(path), SIZE_FOLDER "/stats/%s", name);
	value = read_number(path, -1);
	if (value < 0)
		tap_bail("read %s", path);
	return value;
}

long pool_chunks(void)
{
	return read_number(SIZE_FOLDER "/pool_chunks", -1);
}

int nodes_with_memory(void)
{
	return access("/sys/devices/system/node/node1", F_OK) ? 1 : 2;
}

int pool_threads(long *nice)
{
	FILE *all = popen("cat /proc/[0-9]*/stat 2>/dev/null", "r");
	char line[512], name[64];
	int found = 0;

	if (!all)
		tap_bail("popen");
	while (fgets(line, sizeof(line), all)) {
		long value;

		if (sscanf(line, "%*d (%63[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %ld",
			   name, &value) == 2 && !strncmp(name, "kzerod", 6)) {
			found++;
			*nice = value;
		}
	}
	pclose(all);
	return found;
}

void pool_want(unsigned int chunks)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", chunks);
	set_file(SIZE_FOLDER "/pool_rate", "1000000");
	set_file(SIZE_FOLDER "/pool_target", number);
}

static bool reaches_within(long chunks, int ticks)
{
	for (int i = 0; i < ticks && pool_chunks() != chunks; i++)
		usleep(TICK_MICROSECONDS);
	return pool_chunks() == chunks;
}

bool pool_reaches(long chunks)
{
	return reaches_within(chunks, TICKS);
}

bool pool_memory_reaches(long chunks)
{
	for (int i = 0; i < TICKS && meminfo("AnonPudPool") != chunks * (long)GIANT_KIB; i++)
		usleep(TICK_MICROSECONDS);
	return meminfo("AnonPudPool") == chunks * (long)GIANT_KIB;
}

void pool_fill(unsigned int chunks)
{
	long all = (long)chunks * nodes_with_memory();

	/*
	 * Asked again each second: a chunk may have had a page in it that was busy, such as one of a process that is just
	 * ending, and then the thread waits for a minute.
	 */
	for (int asked = 0; asked < TICKS / TICKS_A_SECOND; asked++) {
		pool_want(chunks);
		if (reaches_within(all, TICKS_A_SECOND))
			return;
	}
	tap_bail("the pool has %ld chunks, and does not come to have %ld", pool_chunks(), all);
}

void pool_empty(void)
{
	pool_want(0);
	if (!pool_memory_reaches(0))
		tap_bail("the pool keeps %ld KiB", meminfo("AnonPudPool"));
}

/* A folio that is nobody's: what a block of the pool looks like, and hardly anything else. */
static bool nobodys(uint64_t frame)
{
	uint64_t flags = flags_of(frame);
	uint64_t is = 1ULL << KPF_COMPOUND_HEAD | 1ULL << KPF_THP;
	uint64_t is_not = 1ULL << KPF_LRU | 1ULL << KPF_ANON | 1ULL << KPF_MMAP | 1ULL << KPF_HUGE | 1ULL << KPF_ZERO_PAGE;

	return (flags & is) == is && !(flags & is_not);
}

uint64_t pooled_frame(uint64_t end)
{
	uint64_t last = 0;

	for (uint64_t chunk = 0; chunk + CHUNK_FRAMES <= end; chunk += CHUNK_FRAMES) {
		uint64_t at = chunk;

		while (at < chunk + CHUNK_FRAMES && nobodys(at))
			at += HUGE / PAGE;
		if (at == chunk + CHUNK_FRAMES)
			last = chunk;
	}
	return last;
}
