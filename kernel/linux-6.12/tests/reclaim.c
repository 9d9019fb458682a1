// SPDX-License-Identifier: GPL-2.0
/* Memory that is taken away from giant pages: page by page, and by reclaim that needs some; with swap to zram. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "kernel.h"
#include "span.h"
#include "tap.h"

static int device;

static void as_it_was(const char *span, const char *when)
{
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "%s: every byte comes back", when);
}

/*
 * Giant again. A page of each region is written first: what comes back from swap by being read is mapped read-only, and
 * regions in which nothing is writable are not collapsed.
 */
static struct mega_promote again(char *span)
{
	for (size_t at = 0; at < GIANT; at += HUGE)
		fill_part(span + at, PAGE, at, 1);
	return promote_surely(device, span);
}

/* ---- By advice --------------------------------------------------------- */

static void paged_out(char *span)
{
	tap_equal(madvise(span + 10 * HUGE + 3 * PAGE, PAGE, MADV_PAGEOUT), 0, "MADV_PAGEOUT of a page");
	tap_equal(giant_kib(span, GIANT), 0, "it is not giant any more");
	as_it_was(span, "MADV_PAGEOUT of a page");
	again(span);

	tap_equal(madvise(span + 10 * HUGE, 4 * HUGE, MADV_PAGEOUT), 0, "MADV_PAGEOUT of four regions");
	tap_ok(smaps(span, GIANT, "Swap") > 0, "some of it is in swap");
	tap_ok(regions_of(device, span, GIANT, 21) >= SPAN_REGIONS - 4, "the others are 2 MiB pages");
	as_it_was(span, "MADV_PAGEOUT of four regions");
	tap_equal(again(span).stop, MEGA_PROMOTE_DONE, "and it can be giant again");
	as_it_was(span, "promoted again");
}

static void cold(char *span)
{
	tap_equal(madvise(span + 20 * HUGE, 2 * HUGE, MADV_COLD), 0, "MADV_COLD of two regions");
	as_it_was(span, "MADV_COLD");
	again(span);
	tap_equal(madvise(span, GIANT, MADV_COLD), 0, "MADV_COLD of the span");
	as_it_was(span, "MADV_COLD of the span");
	again(span);
}

/* What was moved by mremap has to be found by its pages all the same. */
static void moved_and_paged_out(char *span)
{
	char *moved = mremap(span, GIANT, GIANT, MREMAP_MAYMOVE | MREMAP_FIXED, room_for(GIANT));

	if (moved == MAP_FAILED)
		tap_bail("mremap");
	tap_equal(giant_kib(moved, GIANT), GIANT / 1024, "moved, it is giant");
	madvise(moved + 30 * HUGE, 2 * HUGE, MADV_PAGEOUT);
	tap_ok(smaps(moved, GIANT, "Swap") > 0, "and can be paged out there");
	as_it_was(moved, "moved and paged out");
	if (mremap(moved, GIANT, GIANT, MREMAP_MAYMOVE | MREMAP_FIXED, span) != span)
		tap_bail("mremap");
	again(span);
}

/* ---- By a cgroup ------------------------------------------------------- */

/* What a group with a giant page in it is told to give back. */
static void reclaimed(char *span, bool multi_generational)
{
	const char *with = multi_generational ? "with MGLRU" : "without MGLRU";
	long splits;

	if (!write_file("/sys/kernel/mm/lru_gen/enabled", multi_generational ? "7" : "0")) {
		tap_skip(with, "this kernel has no MGLRU");
		return;
	}
	again(span);
	splits = vmstat("anon_pud_split");
	cgroup_write("memory.reclaim", "64M");
	tap_ok(smaps(span, GIANT, "Swap") > 0, "memory.reclaim %s takes some of it", with);
	tap_ok(vmstat("anon_pud_split") > splits, "by taking the giant page apart");
	tap_note("%ld KiB in swap, %zu regions are 2 MiB pages", smaps(span, GIANT, "Swap"),
		 regions_of(device, span, GIANT, 21));
	as_it_was(span, with);
}

/* A limit below what the group has is kept by reclaim in the middle of its faults. */
static void at_the_limit(char *span)
{
	char *more;

	again(span);
	if (!cgroup_write("memory.max", "1200M"))
		tap_bail("set memory.max");
	more = map_aligned(300UL << 20);
	for (size_t at = 0; at < 300UL << 20; at += PAGE)
		*(uint64_t *)(more + at) = at;
	for (size_t at = 0; at < 300UL << 20; at += PAGE)
		if (*(uint64_t *)(more + at) != at)
			tap_bail("another's byte changed");
	tap_ok(smaps(span, GIANT, "Swap") + smaps(more, 300UL << 20, "Swap") > 0, "a limit is kept by swapping");
	/* First the room for it, or each page that is read drives out another. */
	munmap(more, 300UL << 20);
	as_it_was(span, "at the limit");
	cgroup_write("memory.max", "max");
}

#define CURRENT "/sys/fs/cgroup/giant/memory.current"

/* All that a giant page is made of is charged, and uncharged once. */
static void in_a_cgroup(void)
{
	long slack = 64L << 20, before, with;
	char *span;

	if (!cgroup_enter()) {
		tap_skip("memory.reclaim", "there is no memory cgroup");
		return;
	}
	before = read_number(CURRENT, -1);
	span = giant_new(device);
	with = read_number(CURRENT, -1);
	tap_note("memory.current: %ld before, %ld with a giant page", before, with);
	tap_ok(with - before >= (long)GIANT && with - before < (long)GIANT + slack, "a giant page is charged");
	reclaimed(span, true);
	reclaimed(span, false);
	write_file("/sys/kernel/mm/lru_gen/enabled", "7");
	at_the_limit(span);
	again(span);
	munmap(span, GIANT);
	tap_ok(read_number(CURRENT, -1) - before < slack, "and uncharged when it is unmapped");
	cgroup_leave();
}

/* ---- Swap that is taken away ------------------------------------------- */

/* swapoff looks through every page table for what is in swap. */
static void without_swap(char *span)
{
	char *other = map_aligned(16 * HUGE);

	memset(other, 7, 16 * HUGE);
	madvise(other, 16 * HUGE, MADV_PAGEOUT);
	tap_ok(smaps(other, 16 * HUGE, "Swap") > 0, "something beside it is in swap");
	swap_off();
	tap_equal(smaps(other, 16 * HUGE, "Swap"), 0, "swapoff brings it back");
	for (size_t at = 0; at < 16 * HUGE; at += PAGE)
		if (other[at] != 7)
			tap_bail("another's byte changed");
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "and leaves the giant page giant");
	as_it_was(span, "swapoff");
	munmap(other, 16 * HUGE);
}

int main(void)
{
	char *span;

	device = device_open();
	if (!swap_on()) {
		tap_skip("reclaim", "there is nothing to swap to");
		return tap_end();
	}
	span = giant_new(device);
	paged_out(span);
	cold(span);
	moved_and_paged_out(span);
	munmap(span, GIANT);
	in_a_cgroup();
	span = giant_new(device);
	without_swap(span);
	munmap(span, GIANT);
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
