// SPDX-License-Identifier: GPL-2.0
/* The pool of zeroed chunks: that it is filled, at what rate, and given back. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "counts.h"
#include "kernel.h"
#include "pool.h"
#include "span.h"
#include "tap.h"

#define KIB (GIANT / 1024)

static int device;
static long nodes;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void refused(void)
{
	tap_ok(!write_file(SIZE_FOLDER "/pool_rate", "0"), "a rate of 0 is refused");
	tap_ok(!write_file(SIZE_FOLDER "/pool_rate", "fast"), "and one that is not a number");
	tap_ok(!write_file(SIZE_FOLDER "/pool_target", "-1"), "and a number of chunks below 0");
	tap_equal(read_number(SIZE_FOLDER "/pool_target", -1), 0, "which changes nothing");
}

/* How many chunks the nodes can give if each is to give two: as many as are there that can be emptied, and those it has given. */
static long two_each(void)
{
	struct chunks chunks = chunks_now();
	long each[2] = { 0 };

	for (size_t i = 0; i < chunks.count; i++) {
		const struct chunk *chunk = chunks.chunk + i;

		if (!chunk->unmovable && each[chunk->node] < 2)
			each[chunk->node]++;
	}
	return each[0] + each[1];
}

static void filled(void)
{
	long zeroed = vmstat("anon_pud_pool_zeroed"), available = meminfo("MemAvailable"), nice = 0;

	pool_want(1);
	tap_ok(pool_reaches(nodes), "each node gets the chunk that it shall have");
	tap_equal(meminfo("AnonPudPool"), nodes * (long)KIB, "meminfo says how much that is");
	tap_equal(vmstat("nr_anon_pud_pool"), nodes * (long)SPAN_PAGES, "and vmstat");
	tap_equal(vmstat("anon_pud_pool_zeroed") - zeroed, nodes, "and how many were zeroed");
	tap_ok(labs(meminfo("MemAvailable") - available) < 256 << 10, "the memory is as available as before");
	tap_equal(pool_threads(&nice), nodes, "each node has a thread");
	tap_equal(nice, 19, "which gives way to everybody");
	pool_want(2);
	tap_ok(pool_reaches(two_each()), "and a second one, if it has one: %ld in all", pool_chunks());
}

/* Emulated or not, no more than this was zeroed in a second. */
static void limited(void)
{
	double began, took;

	pool_empty();
	set_file(SIZE_FOLDER "/pool_rate", "256");
	began = now();
	set_file(SIZE_FOLDER "/pool_target", "1");
	tap_ok(pool_reaches(nodes), "at 256 MiB a second there are chunks, too");
	took = now() - began;
	tap_ok(took > 3.5, "but not before the %.0f seconds are over that it has to take", 4.0);
	tap_note("it took %.1f s", took);
}

static void given_back(void)
{
	long before = meminfo("MemFree"), free, wanted;

	pool_want(0);
	tap_ok(pool_memory_reaches(0), "no more wanted, the memory is given back");
	/* Some waits in the lists of each processor first, and may stay there. */
	wanted = nodes * ((long)KIB - (96 << 10));
	for (int i = 0; i < 300 && meminfo("MemFree") - before < wanted; i++)
		usleep(100000);
	free = meminfo("MemFree") - before;
	tap_ok(free >= wanted, "to those that look for free memory: %ld KiB", free);
	tap_equal(pool_chunks(), 0, "and nothing is left");

	/* In the middle of a chunk. */
	set_file(SIZE_FOLDER "/pool_rate", "16");
	set_file(SIZE_FOLDER "/pool_target", "1");
	tap_ok(pool_memory_reaches(nodes), "chunks are being zeroed");
	tap_equal(pool_chunks(), 0, "none is ready");
	set_file(SIZE_FOLDER "/pool_target", "0");
	tap_ok(pool_memory_reaches(0), "not wanted any more, what was begun is given back");
}

static void shrunk(void)
{
	long before;

	pool_fill(1);
	before = vmstat("anon_pud_pool_shrunk");
	set_file("/proc/sys/vm/drop_caches", "2");
	tap_ok(vmstat("anon_pud_pool_shrunk") - before >= nodes, "told to drop what can be made again, the pool is dropped");
	tap_equal(pool_chunks(), 0, "all of it");
	usleep(500000);
	tap_equal(meminfo("AnonPudPool"), 0, "and not taken again at once");
}

/* Takes memory until hardly any is left that is not the pool's, and half a chunk of that. */
static void take_memory(void)
{
	size_t length = ((size_t)meminfo("MemFree") + KIB / 2) * 1024;
	char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		_exit(1);
	for (size_t at = 0; at < length; at += PAGE)
		*(uint64_t *)(memory + at) = at;
	for (size_t at = 0; at < length; at += PAGE)
		if (*(uint64_t *)(memory + at) != at)
			_exit(2);
	_exit(0);
}

static void under_pressure(void)
{
	long kills = vmstat("oom_kill"), before;
	pid_t child;

	pool_fill(1);
	before = vmstat("anon_pud_pool_shrunk");
	child = fork();
	if (!child)
		take_memory();
	tap_ok(ended_well(child), "who takes more than is free gets it");
	tap_ok(vmstat("anon_pud_pool_shrunk") > before, "out of the pool");
	tap_equal(vmstat("oom_kill") - kills, 0, "and nobody is killed for it");
}

static void offline(void)
{
	unsigned long bytes = memory_block_bytes();
	uint64_t frame;
	char path[128];

	if (!bytes) {
		tap_skip("memory going offline", "this kernel cannot do that");
		return;
	}
	pool_fill(1);
	frame = pooled_frame(end_frame(device));
	if (!frame)
		tap_bail("no chunk looks as those of the pool do");
	/* The last block of it, as the first may have what has to stay beside it. */
	snprintf(path, sizeof(path), "/sys/devices/system/memory/memory%lu/state",
		 ((frame + SPAN_PAGES) * PAGE - bytes) / bytes);
	/* Not to be filled again from elsewhere meanwhile, which would look as if it had been kept. */
	set_file(SIZE_FOLDER "/pool_rate", "1");
	tap_ok(write_file(path, "offline"), "a block of a chunk in the pool can go offline");
	tap_equal(pool_chunks(), nodes - 1, "the pool has given it up");
	set_file(path, "online");
	pool_fill(1);
	tap_ok(true, "and is filled again");
}

/* A promotion looks for another chunk than those of the pool. */
static void left_alone(void)
{
	char *span;

	pool_fill(1);
	span = giant_new(device);
	tap_equal(pool_chunks(), nodes, "a promotion takes none of the pool's chunks");
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "and moves what it has to");
	munmap(span, GIANT);
}

/* A frame of it that is said to be bad, and is for as long as the kernel runs. */
static void bad_frame(void)
{
	long corrupted = meminfo("HardwareCorrupted");
	uint64_t chunk, other;
	char address[32];

	pool_fill(1);
	chunk = pooled_frame(end_frame(device));
	if (!chunk)
		tap_bail("no chunk looks as those of the pool do");
	snprintf(address, sizeof(address), "0x%lx", (unsigned long)(chunk + 777) * PAGE);
	set_file(SIZE_FOLDER "/pool_rate", "1");
	if (!write_file("/sys/devices/system/memory/hard_offline_page", address)) {
		tap_skip("a frame in the pool that goes bad", "this kernel cannot be told so");
		return;
	}
	tap_equal(pool_chunks(), nodes - 1, "a chunk with a bad frame in it is given up");
	tap_equal(meminfo("HardwareCorrupted") - corrupted, PAGE / 1024, "and nothing lost but the frame");
	pool_fill(1);
	other = pooled_frame(end_frame(device));
	tap_ok(other && other != chunk, "another one takes its place");
}

int main(void)
{
	device = device_open();
	nodes = nodes_with_memory();
	refused();
	filled();
	limited();
	given_back();
	shrunk();
	under_pressure();
	left_alone();
	offline();
	bad_frame();
	pool_empty();
	set_file(SIZE_FOLDER "/pool_rate", "512");
	tap_equal(meminfo("AnonPudPool"), 0, "at the end the pool has no memory");
	return tap_end();
}
