// SPDX-License-Identifier: GPL-2.0
/* SCAN_BLOCKS against /proc/kpageflags and against memory whose use is known. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/kernel-page-flags.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "device.h"
#include "memory.h"
#include "tap.h"

static int device;

static struct mega_block scan_one(uint64_t frame, uint32_t flags)
{
	struct mega_block block;
	struct mega_scan_blocks request = scan_blocks_request(frame / 512 * 512, &block, 1);

	request.flags = flags;
	if (ioctl(device, MEGA_IOC_SCAN_BLOCKS, &request) || request.done != 1)
		tap_bail("SCAN_BLOCKS of frame 0x%lx", frame);
	return block;
}

/* What /proc/kpageflags says of a block. */
struct flags {
	unsigned int buddy;	/* surely free */
	unsigned int lru;	/* surely movable or held */
	unsigned int kernel;	/* slab, reserved, page tables */
};

static struct flags flags_of_block(int file, uint64_t start)
{
	static uint64_t words[512];
	struct flags flags = { 0 };

	if (pread(file, words, sizeof(words), start * 8) != sizeof(words))
		return flags;
	for (unsigned int i = 0; i < 512; i++) {
		flags.buddy += words[i] >> KPF_BUDDY & 1;
		flags.lru += words[i] >> KPF_LRU & 1;
		flags.kernel += (words[i] >> KPF_SLAB | words[i] >> 32 /* RESERVED */ |
				 words[i] >> KPF_PGTABLE) & 1;
	}
	return flags;
}

/* How often a block that just changes is looked at. */
#define ATTEMPTS 100

/*
 * Of every block: buddy pages are free, LRU pages are not, kernel pages are
 * unmovable. A block that changes between the readings is read again.
 */
static bool agrees(int file, uint64_t start)
{
	for (unsigned int attempt = 0; attempt < ATTEMPTS; attempt++) {
		struct flags flags = flags_of_block(file, start);
		struct mega_block block = scan_one(start, 0);

		if (block.flags & MEGA_BLOCK_ABSENT)
			return !flags.buddy && !flags.lru;
		if (block.free + block.movable + block.unmovable == 512 &&
		    block.free >= flags.buddy && block.unmovable >= flags.kernel &&
		    block.free + flags.lru + flags.kernel <= 512 &&
		    block.movable + block.unmovable >= flags.lru + flags.kernel)
			return true;
		if (attempt == ATTEMPTS - 1)
			tap_note("frame 0x%lx: free %u movable %u unmovable %u, but buddy %u lru %u kernel %u",
				 start, block.free, block.movable, block.unmovable, flags.buddy,
				 flags.lru, flags.kernel);
	}
	return false;
}

static void against_kpageflags(void)
{
	int file = open("/proc/kpageflags", O_RDONLY);
	uint64_t end = end_frame(device);
	/* Some 300 blocks, from everywhere, whatever the size of memory. */
	uint64_t step = (end / 512 / 300 | 1) * 512;
	unsigned int blocks = 0, wrong = 0;

	for (uint64_t start = 0; start < end; start += step, blocks++)
		wrong += !agrees(file, start);
	close(file);
	tap_ok(!wrong, "the blocks agree with /proc/kpageflags");
	tap_note("%u blocks, %u disagree", blocks, wrong);
}

static void all_at_once(void)
{
	uint64_t count = end_frame(device) / 512 + 16;
	struct mega_block *blocks = calloc(count, sizeof(*blocks));
	struct mega_scan_blocks request = scan_blocks_request(0, blocks, count);
	unsigned long unused = 0, memory = 0;

	if (ioctl(device, MEGA_IOC_SCAN_BLOCKS, &request))
		tap_bail("SCAN_BLOCKS");
	for (uint64_t i = 0; i < count; i++) {
		unused += blocks[i].free;
		memory += blocks[i].free + blocks[i].movable + blocks[i].unmovable;
	}
	tap_equal(request.done, count, "all memory is reported in one call");
	tap_ok(blocks[count - 1].flags & MEGA_BLOCK_ABSENT &&
	       blocks[count - 1].zone == MEGA_ZONE_NONE, "what is beyond its end is absent");
	tap_ok(unused <= memory && unused > 0 &&
	       memory >= (unsigned long)sysconf(_SC_PHYS_PAGES), "the sums are plausible");
	tap_equal(blocks[0].zone, MEGA_ZONE_DMA, "the first block is ZONE_DMA's");
	tap_equal(blocks[8].zone, MEGA_ZONE_DMA32, "that at 16 MiB ZONE_DMA32's");
	tap_note("%lu frames, %lu free, %.1f us a block", memory, unused,
		 request.nanoseconds / 1e3 / count);
	free(blocks);
}

/* Accesses come from SCAN_TASK with CLEAR, by the frame, and are reset. */
static void heat(void)
{
	int self = pidfd_of(getpid());
	char *memory = map_aligned(HUGE);
	struct mega_region region;
	struct mega_scan_task request = scan_task_request(self, memory, HUGE, &region, 1);
	uint64_t frame;

	request.flags = MEGA_TASK_CLEAR;
	memory[0] = 1;
	frame = frame_of(memory);
	scan_one(frame, MEGA_BLOCKS_RESET);
	if (ioctl(device, MEGA_IOC_SCAN_TASK, &request))
		tap_bail("SCAN_TASK");
	tap_equal(scan_one(frame, 0).accessed, 1, "an access that SCAN_TASK clears is its frame's");
	memory[1] = 1;
	if (ioctl(device, MEGA_IOC_SCAN_TASK, &request))
		tap_bail("SCAN_TASK");
	tap_equal(scan_one(frame, MEGA_BLOCKS_RESET).accessed, 1, "a second one is the same frame's");
	tap_equal(scan_one(frame, 0).accessed, 0, "RESET forgets it");
	munmap(memory, HUGE);
	close(self);
}

/* By the clock that ages go by. */
static unsigned long milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void huge_and_age(void)
{
	char *memory = map_aligned(HUGE);
	struct mega_block block, later;
	unsigned long begin, took;
	uint64_t frame;

	madvise(memory, HUGE, MADV_HUGEPAGE);
	memset(memory, 1, HUGE);
	if (madvise(memory, HUGE, MADV_COLLAPSE)) {
		tap_skip("a huge page's block", "the kernel did not give a huge page");
		return;
	}
	frame = frame_of(memory);
	begin = milliseconds();
	block = scan_one(frame, 0);
	/* It may wait in a batch, and count as busy, so movable all the same. */
	tap_ok(block.flags & MEGA_BLOCK_HUGE && block.movable == 512,
	       "a huge page is a whole movable block");
	usleep(50000);
	later = scan_one(frame, 0);
	took = milliseconds() - begin;
	/* The fractions that were cut off make one more at most. */
	tap_ok(later.age >= block.age + 50 && later.age <= block.age + took + 1,
	       "a block that does not change grows older");
	munmap(memory, HUGE);
	/* The first scan that finds it free says it: after that others may allocate from it. */
	block = scan_one(frame, 0);
	for (unsigned int i = 0; i < 100 && !block.free; i++) {
		usleep(10000);
		block = scan_one(frame, 0);
	}
	tap_ok(block.free && block.age >= later.age, "being freed does not make it younger");
}

/* A frame that comes into use makes its block young. */
static void age_of_new_mappings(void)
{
	uint64_t count = end_frame(device) / 512 + 1;
	struct mega_block *blocks = calloc(count, sizeof(*blocks));
	struct mega_scan_blocks request = scan_blocks_request(0, blocks, count);
	char *memory = map_aligned(64 * HUGE);
	struct mega_block block;

	if (ioctl(device, MEGA_IOC_SCAN_BLOCKS, &request))
		tap_bail("SCAN_BLOCKS");
	usleep(200000);
	memset(memory, 1, 64 * HUGE);
	/* Some page in the middle of all: its block was free or had room before. */
	block = scan_one(frame_of(memory + 32 * HUGE), 0);
	tap_ok(block.age < blocks[frame_of(memory + 32 * HUGE) / 512].age + 200 &&
	       !(block.flags & MEGA_BLOCK_NEW),
	       "a frame that comes into use makes its block young");
	free(blocks);
	munmap(memory, 64 * HUGE);
}

/*
 * A page of ours in a block without one unmovable page, or NULL: unmovable pages of
 * the kernel's own come and go, and would hide what is looked for.
 */
static char *in_movable_block(char *memory, size_t length)
{
	for (size_t at = 0; at < length; at += HUGE)
		if (frame_of(memory + at) && !scan_one(frame_of(memory + at), 0).unmovable)
			return memory + at;
	return NULL;
}

static void pinned(void)
{
	struct iovec vector = { .iov_len = PAGE };
	char *memory = map_aligned(64 * HUGE);
	char *page;
	int ends[2];

	memset(memory, 1, 64 * HUGE);
	page = in_movable_block(memory, 64 * HUGE);
	if (!page || pipe(ends))
		tap_bail("a page in a movable block, and a pipe");
	vector.iov_base = page;
	if (vmsplice(ends[1], &vector, 1, 0) != PAGE)
		tap_bail("vmsplice");
	/* Drains the batch that a new page may wait in, on every CPU. */
	write_file("/proc/sys/vm/compact_memory", "1");
	tap_ok(scan_one(frame_of(page), 0).unmovable >= 1, "a page held by a pipe is unmovable");
	close(ends[0]);
	close(ends[1]);
	munmap(memory, 64 * HUGE);
}

int main(void)
{
	device = device_open();
	all_at_once();
	against_kpageflags();
	heat();
	huge_and_age();
	age_of_new_mappings();
	pinned();
	return tap_end();
}
