// SPDX-License-Identifier: GPL-2.0
/* COMPACT of blocks with pages of every kind that can be moved. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/kernel-page-flags.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "device.h"
#include "memory.h"
#include "tap.h"

static int device;

/* The sparse program's blocks, `count` of them, are emptied; its bytes stay. */
static void blocks_are_emptied(struct sparse *sparse, unsigned int count, const char *what)
{
	unsigned int done = 0, tried = 0;
	size_t from = 0;
	uint64_t frame;

	while (tried < count && (frame = sparse_block(sparse, device, 16, &from))) {
		struct mega_compact request = compact(device, frame, 9, 0);

		tried++;
		done += request.stop == MEGA_STOP_DONE;
		if (request.stop != MEGA_STOP_DONE)
			compact_note(&request);
	}
	tap_ok(tried == count && done >= count - 1, "blocks of %s are emptied", what);
	tap_equal(sparse_wrong(sparse), 0, "no byte changed");
}

static void mlocked(void)
{
	struct sparse sparse = sparse_make(32 * HUGE, 8, 21);
	unsigned int absent = 0;

	for (size_t at = 0; at < sparse.length; at += PAGE * sparse.every)
		if (mlock(sparse.memory + at, PAGE))
			tap_bail("mlock");
	blocks_are_emptied(&sparse, 4, "mlocked pages");
	for (size_t at = 0; at < sparse.length; at += PAGE * sparse.every)
		absent += !(flags_of(frame_of(sparse.memory + at)) >> KPF_UNEVICTABLE & 1);
	/* A page just moved may wait in a batch on its way to the list. */
	tap_ok(absent <= 64, "and they are still locked");
	sparse_free(&sparse);
}

static void shared(void)
{
	size_t length = 32 * HUGE;
	struct sparse sparse = {
		.memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
		.length = length,
		.every = 8,
		.seed = 22,
	};

	if (sparse.memory == MAP_FAILED)
		tap_bail("mmap of shared memory");
	madvise(sparse.memory, length, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < length; at += PAGE)
		page_fill(sparse.memory + at, sparse.seed);
	for (size_t at = 0; at < length; at += PAGE)
		if (at / PAGE % sparse.every)
			madvise(sparse.memory + at, PAGE, MADV_REMOVE);
	blocks_are_emptied(&sparse, 4, "shared memory");
	sparse_free(&sparse);
}

static void page_cache(void)
{
	char page[PAGE] __attribute__((aligned(PAGE)));
	int file = open("/tmp/page-cache", O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct mega_compact request;
	unsigned int wrong = 0;
	char *memory;
	uint64_t frame;

	for (int i = 0; i < 256; i++) {
		page_fill(page, i);
		if (write(file, page, PAGE) != (ssize_t)PAGE)
			tap_bail("write");
	}
	memory = mmap(NULL, 256 * PAGE, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
	if (memory == MAP_FAILED)
		tap_bail("mmap of a file");
	frame = frame_of(memory + 100 * PAGE);
	request = compact(device, frame / 512 * 512, 9, 0);
	compact_note(&request);
	for (int i = 0; i < 256; i++) {
		page_fill(page, i);
		wrong += memcmp(page, memory + i * PAGE, PAGE) != 0;
	}
	tap_equal(wrong, 0, "no byte of a file changed");
	munmap(memory, 256 * PAGE);
	close(file);
	unlink("/tmp/page-cache");
}

static void hugetlb(void)
{
	struct mega_compact request;
	unsigned int wrong = 0;
	uint64_t frame;
	char *memory;

	write_file("/proc/sys/vm/nr_hugepages", "4");
	memory = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
		      -1, 0);
	if (memory == MAP_FAILED) {
		tap_skip("hugetlb", "no hugetlb pages");
		return;
	}
	for (size_t at = 0; at < HUGE; at += PAGE)
		page_fill(memory + at, 23);
	frame = frame_of(memory);
	request = compact(device, frame, 9, 0);
	tap_equal(request.stop, MEGA_STOP_HUGE, "a hugetlb page is left alone");
	request = compact_until(device, frame, 9, MEGA_COMPACT_MOVE_HUGE, MEGA_STOP_DONE);
	compact_note(&request);
	tap_equal(request.stop, MEGA_STOP_DONE, "unless it is to be moved");
	for (size_t at = 0; at < HUGE; at += PAGE)
		wrong += !page_right(memory + at, 23);
	tap_ok(frame_of(memory) != frame && !wrong, "then it has, with every byte");
	munmap(memory, HUGE);
	write_file("/proc/sys/vm/nr_hugepages", "0");
	tap_equal(read_number("/proc/sys/vm/nr_hugepages", -1), 0, "the pool can be emptied");
}

#define KSM "/sys/kernel/mm/ksm/"
/*
 * In each of 8 regions 16 different pages, each 32 times. KSM keeps the first of
 * equal pages, so what it keeps lies in blocks here and there: some have pages of
 * the kernel's own, and stay.
 */
#define KSM_REGIONS 8
#define KSM_DIFFERENT 16
#define KSM_SHARING (KSM_REGIONS * (HUGE / PAGE - KSM_DIFFERENT))

static char ksm_mark(size_t at)
{
	return at / HUGE * KSM_DIFFERENT + at / PAGE % KSM_DIFFERENT;
}

/* Empties blocks with merged pages until some were moved; returns how many. */
static unsigned int move_merged(const char *memory, struct mega_compact *request)
{
	unsigned int moved = 0;

	for (size_t page = 0; page < KSM_REGIONS * KSM_DIFFERENT && moved < 4; page++) {
		const char *at = memory + page / KSM_DIFFERENT * HUGE +
				 page % KSM_DIFFERENT * PAGE;
		uint64_t frame = frame_of(at);

		if (!(flags_of(frame) >> KPF_KSM & 1))
			continue;
		*request = compact(device, frame / 512 * 512, 9, 0);
		moved += request->stop == MEGA_STOP_DONE && frame_of(at) != frame;
	}
	return moved;
}

static void ksm(void)
{
	size_t length = KSM_REGIONS * HUGE;
	char *memory = map_aligned(length);
	struct mega_compact request = { .stop = MEGA_STOP_BUSY };
	unsigned int wrong = 0, moved;
	char expected[PAGE] __attribute__((aligned(PAGE)));

	if (!write_file(KSM "run", "1")) {
		tap_skip("KSM", "this kernel has no KSM");
		return;
	}
	write_file(KSM "pages_to_scan", "10000");
	write_file(KSM "sleep_millisecs", "1");
	page_fill(expected, 24);
	for (size_t at = 0; at < length; at += PAGE) {
		memcpy(memory + at, expected, PAGE);
		memory[at] = ksm_mark(at);
	}
	madvise(memory, length, MADV_MERGEABLE);
	/* Several scans by ksmd, which a busy host makes long; there is an end to it where it hangs. */
	for (int i = 0; i < 6000 && read_number(KSM "pages_sharing", 0) < (long)KSM_SHARING; i++)
		usleep(100000);
	tap_ok(read_number(KSM "pages_sharing", 0) >= (long)KSM_SHARING, "KSM merges equal pages");
	moved = move_merged(memory, &request);
	if (!moved)
		compact_note(&request);
	tap_ok(moved > 0, "merged pages are moved");
	for (size_t at = 0; at < length; at += PAGE)
		wrong += memory[at] != ksm_mark(at) ||
			 memcmp(memory + at + 1, expected + 1, PAGE - 1);
	tap_equal(wrong, 0, "no byte changed");
	tap_note("%u merged pages moved", moved);
	write_file(KSM "run", "2");
	munmap(memory, length);
	write_file(KSM "run", "0");
}

int main(void)
{
	device = device_open();
	mlocked();
	shared();
	page_cache();
	hugetlb();
	ksm();
	return tap_end();
}
