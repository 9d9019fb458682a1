// SPDX-License-Identifier: GPL-2.0
/* SCAN_TASK against processes that know what they touched. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "device.h"
#include "memory.h"
#include "tap.h"

#define PAGES MEGA_REGION_PAGES
#define REGIONS 8
/* Of processes that are scanned meanwhile. */
#define EXITS 12

static int device;
static struct mega_region regions[REGIONS];
static struct mega_region_maps maps[REGIONS];

/* Scans this process's own memory; bails out when the request fails. */
static struct mega_scan_task scan(const void *start, size_t length, uint32_t flags)
{
	int self = pidfd_of(getpid());
	struct mega_scan_task request = scan_task_request(self, start, length, regions, REGIONS);

	request.flags = flags;
	request.maps = (uintptr_t)maps;
	memset(regions, 0xee, sizeof(regions));
	memset(maps, 0xee, sizeof(maps));
	if (ioctl(device, MEGA_IOC_SCAN_TASK, &request))
		tap_bail("SCAN_TASK of %p + %zx", start, length);
	close(self);
	return request;
}

static void touch(char *page)
{
	*(volatile char *)page = 1;
}

/* Every n-th bit of 512. */
static bool is_every(const __u64 *map, unsigned int n)
{
	for (unsigned int bit = 0; bit < PAGES; bit++)
		if ((map[bit / 64] >> bit % 64 & 1) != (bit % n == 0))
			return false;
	return true;
}

static bool is_empty(const __u64 *map)
{
	for (unsigned int word = 0; word < PAGES / 64; word++)
		if (map[word])
			return false;
	return true;
}

static void base_pages(void)
{
	char *memory = map_aligned(4 * HUGE);
	struct mega_scan_task request = scan(memory, 4 * HUGE, 0);

	tap_equal(request.count, 0, "an untouched range has no regions");
	tap_ok(request.next == (uintptr_t)memory + 4 * HUGE, "and is scanned to its end");

	for (unsigned int page = 0; page < PAGES; page += 3)
		touch(memory + HUGE + page * PAGE);
	request = scan(memory, 4 * HUGE, 0);
	tap_equal(request.count, 1, "one touched region is one record");
	tap_ok(regions[0].address == (uintptr_t)memory + HUGE, "with its address");
	tap_equal(regions[0].mapped, 171, "171 pages touched are 171 mapped");
	tap_equal(regions[0].accessed, 171, "and 171 accessed");
	tap_equal(regions[0].page_shift, 12, "by base pages");
	tap_equal(regions[0].flags,
		  MEGA_REGION_WHOLE | MEGA_REGION_ANONYMOUS | MEGA_REGION_NOHUGEPAGE,
		  "of one anonymous VMA without huge pages");
	tap_ok(is_every(maps[0].mapped, 3) && is_every(maps[0].accessed, 3),
	       "both maps have every third bit");
	tap_equal(request.cleared, 0, "nothing is cleared without being asked");

	request = scan(memory, 4 * HUGE, MEGA_TASK_CLEAR);
	tap_equal(request.cleared, 171, "CLEAR clears every bit it read");
	tap_equal(regions[0].accessed, 171, "and reports them");
	scan(memory, 4 * HUGE, 0);
	tap_equal(regions[0].accessed, 0, "cleared bits stay clear");
	tap_ok(regions[0].mapped == 171 && is_every(maps[0].mapped, 3) && is_empty(maps[0].accessed),
	       "the pages stay mapped");
	munmap(memory, 4 * HUGE);
}

static void accesses_after_clear(void)
{
	char *memory = map_aligned(HUGE);

	for (unsigned int page = 0; page < PAGES; page++)
		touch(memory + page * PAGE);
	scan(memory, HUGE, MEGA_TASK_CLEAR);
	forget_translations(memory, HUGE);
	for (unsigned int page = 0; page < PAGES; page += 7)
		touch(memory + page * PAGE);
	scan(memory, HUGE, MEGA_TASK_CLEAR);
	tap_ok(regions[0].accessed == 74 && is_every(maps[0].accessed, 7),
	       "after CLEAR only what is touched again is accessed");
	munmap(memory, HUGE);
}

static void huge_page(void)
{
	char *memory = map_aligned(2 * HUGE);
	struct mega_scan_task request;

	madvise(memory, HUGE, MADV_HUGEPAGE);
	memset(memory, 1, HUGE);
	if (madvise(memory, HUGE, MADV_COLLAPSE)) {
		tap_skip("a huge page", "the kernel did not give one");
		return;
	}
	request = scan(memory, 2 * HUGE, MEGA_TASK_CLEAR);
	tap_equal(request.count, 1, "a huge page is one record");
	tap_equal(regions[0].page_shift, 21, "of 2 MiB");
	tap_ok(regions[0].mapped == PAGES && is_every(maps[0].mapped, 1), "with every page mapped");
	/* The copy into it need not have set the bit: a touch does. */
	touch(memory);
	scan(memory, HUGE, MEGA_TASK_CLEAR);
	forget_translations(memory, HUGE);
	scan(memory, HUGE, 0);
	tap_equal(regions[0].accessed, 0, "cleared, it is not accessed");
	touch(memory + 77 * PAGE);
	scan(memory, HUGE, 0);
	tap_ok(regions[0].accessed == PAGES && is_every(maps[0].accessed, 1),
	       "one touch is an access to all of it");
	munmap(memory, 2 * HUGE);
}

static void zero_pages(void)
{
	char *memory = map_aligned(HUGE);
	volatile char sink;

	for (unsigned int page = 0; page < PAGES; page++)
		sink = memory[page * PAGE];
	(void)sink;
	tap_equal(scan(memory, HUGE, 0).count, 0, "zero pages are not mapped pages");
	touch(memory);
	scan(memory, HUGE, 0);
	tap_equal(regions[0].mapped, 1, "beside them a written one is");
	tap_ok(regions[0].flags & MEGA_REGION_ZERO_PAGE, "and zero pages are reported");
	munmap(memory, HUGE);
}

static void huge_zero_page(void)
{
	char *memory = map_aligned(HUGE);
	volatile char sink;

	madvise(memory, HUGE, MADV_HUGEPAGE);
	sink = memory[0];
	(void)sink;
	tap_equal(scan(memory, HUGE, MEGA_TASK_CLEAR).count, 0,
		  "a huge zero page is not mapped pages either");
	munmap(memory, HUGE);
}

static void several_vmas(void)
{
	char *memory = map_aligned(HUGE);

	memset(memory, 1, HUGE);
	munmap(memory + 10 * PAGE, PAGE);
	mprotect(memory + 20 * PAGE, PAGE, PROT_READ);
	scan(memory, HUGE, 0);
	tap_equal(regions[0].mapped, PAGES - 1, "a region of several VMAs is one record");
	tap_ok(!(regions[0].flags & MEGA_REGION_WHOLE), "that no VMA covers wholly");
	tap_ok(!(maps[0].mapped[0] >> 10 & 1) && maps[0].mapped[0] >> 20 & 1,
	       "with the hole in its map");
	munmap(memory, HUGE);
}

static void file_and_shared(void)
{
	char *memory = map_aligned(HUGE);

	munmap(memory, HUGE);
	memory = mmap(memory, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED,
		      -1, 0);
	memset(memory, 1, 5 * PAGE);
	scan(memory, HUGE, MEGA_TASK_CLEAR);
	tap_equal(regions[0].mapped, 5, "shared memory is seen");
	tap_ok(!(regions[0].flags & MEGA_REGION_ANONYMOUS), "and is not anonymous");
	mlock(memory, 5 * PAGE);
	scan(memory, HUGE, 0);
	tap_ok(regions[0].flags & MEGA_REGION_LOCKED, "mlock is reported");
	munmap(memory, HUGE);
}

static void hugetlb(void)
{
	struct mega_scan_task request;
	char *memory;

	write_file("/proc/sys/vm/nr_hugepages", "2");
	memory = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (memory == MAP_FAILED) {
		tap_skip("hugetlb", "no hugetlb pages");
	} else {
		touch(memory);
		request = scan(memory, 2 * HUGE, MEGA_TASK_CLEAR);
		tap_ok(request.count == 2 && regions[0].flags & MEGA_REGION_HUGETLB &&
		       regions[0].page_shift == 21 && !regions[0].mapped && !request.cleared,
		       "hugetlb is named, not counted, not cleared");
		munmap(memory, 2 * HUGE);
	}
	write_file("/proc/sys/vm/nr_hugepages", "0");
}

/* All of the address space, in as many calls as it takes. */
static void whole_process(void)
{
	unsigned long long start = 0, end = 1ULL << 47;
	unsigned int calls = 0, found = 0, ordered = 1;
	unsigned long long last = 0;
	char *memory = map_aligned(20 * HUGE);

	for (unsigned int region = 0; region < 20; region++)
		touch(memory + region * HUGE);
	while (start < end) {
		struct mega_scan_task request = scan((void *)start, end - start, 0);

		for (unsigned int i = 0; i < request.count; i++) {
			ordered &= regions[i].address >= last;
			last = regions[i].address + HUGE;
			found += regions[i].address >= (uintptr_t)memory &&
				 regions[i].address < (uintptr_t)memory + 20 * HUGE;
		}
		if (request.next <= start)
			break;
		start = request.next;
		calls++;
	}
	tap_ok(start >= end && calls > 2, "a full buffer is gone on from, to the end");
	tap_equal(found, 20, "every region is reported once");
	tap_ok(ordered, "in the order of their addresses");
	munmap(memory, 20 * HUGE);
}

/* A terabyte of nothing is stepped over, not looked at entry by entry. */
static void large_hole(void)
{
	size_t length = 1UL << 40;
	char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uintptr_t start = ((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1);
	struct mega_scan_task request;

	if (memory == MAP_FAILED)
		tap_bail("mmap of a terabyte");
	madvise(memory, length, MADV_NOHUGEPAGE);
	touch(memory + length / 2);
	request = scan((void *)start, (length & ~(HUGE - 1)) - HUGE, 0);
	tap_equal(request.count, 1, "one page in a terabyte is found");
	tap_equal(request.tables, 1, "by reading one page table");
	munmap(memory, length);
}

static void other_processes(void)
{
	struct mega_scan_task request;
	pid_t child = fork();
	int descriptor;

	if (!child) {
		pause();
		_exit(0);
	}
	descriptor = pidfd_of(child);
	request = scan_task_request(descriptor, NULL, 1UL << 47, regions, REGIONS);
	tap_ok(!ioctl(device, MEGA_IOC_SCAN_TASK, &request) && request.count > 0,
	       "another process is scanned");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	tap_fails(ioctl(device, MEGA_IOC_SCAN_TASK, &request), ESRCH, "one that is gone is ESRCH");
	close(descriptor);

	descriptor = pidfd_of(2);
	request = scan_task_request(descriptor, NULL, 1UL << 47, regions, REGIONS);
	tap_fails(ioctl(device, MEGA_IOC_SCAN_TASK, &request), ESRCH,
		  "a kernel thread has no memory: ESRCH");
	close(descriptor);
}

/* A process of 32 MiB exits while it is scanned, at ever other moments. */
static void exiting(void)
{
	unsigned int strange = 0, gone = 0, whole = 0;
	static struct mega_region many[256];

	for (unsigned int round = 0; round < EXITS; round++) {
		struct mega_scan_task request;
		int ready[2];
		pid_t child;
		char byte;

		if (pipe(ready))
			tap_bail("pipe");
		child = fork();
		if (!child) {
			memset(map_aligned(16 * HUGE), 1, 16 * HUGE);
			if (write(ready[1], "", 1) != 1)
				_exit(1);
			usleep(round * 600);
			_exit(0);
		}
		if (read(ready[0], &byte, 1) != 1)
			tap_bail("the child did not start");
		int descriptor = pidfd_of(child);

		for (;;) {
			request = scan_task_request(descriptor, NULL, 1UL << 47, many, 256);
			request.flags = MEGA_TASK_CLEAR;
			if (ioctl(device, MEGA_IOC_SCAN_TASK, &request)) {
				strange += errno != ESRCH;
				gone++;
				break;
			}
			whole++;
		}
		waitpid(child, NULL, 0);
		close(descriptor);
		close(ready[0]);
		close(ready[1]);
	}
	tap_ok(!strange && gone == EXITS, "a process that exits while it is scanned is ESRCH");
	tap_note("%u scans of it before it was gone", whole);
}

/*
 * The age that reclaim sees is not lost, where the kernel has a flag for it: /proc/self/smaps
 * says Referenced.
 */
static void young_is_kept(void)
{
	bool promised = keeps_young(device);
	char *memory = map_aligned(HUGE);
	unsigned long start, end, referenced = 0;
	bool inside = false;
	char line[256];
	FILE *smaps;

	memset(memory, 1, HUGE);
	scan(memory, HUGE, MEGA_TASK_CLEAR);
	smaps = fopen("/proc/self/smaps", "re");
	while (smaps && fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2 && strchr(line, '-') < strchr(line, ' '))
			inside = start <= (uintptr_t)memory && (uintptr_t)memory < end;
		else if (inside)
			sscanf(line, "Referenced: %lu kB", &referenced);
	}
	if (smaps)
		fclose(smaps);
	tap_equal(referenced >= HUGE >> 10, promised, "reclaim still sees a cleared page as referenced where INFO says so");
	munmap(memory, HUGE);
}

int main(void)
{
	device = device_open();
	base_pages();
	accesses_after_clear();
	huge_page();
	zero_pages();
	huge_zero_page();
	several_vmas();
	file_and_shared();
	hugetlb();
	whole_process();
	large_hole();
	young_is_kept();
	other_processes();
	exiting();
	return tap_end();
}
