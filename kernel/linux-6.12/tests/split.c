// SPDX-License-Identifier: GPL-2.0
/*
 * What takes a part of a giant page away, or treats it in another way, leaves 2 MiB pages, and base pages only where it
 * was; and all other data.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "kernel.h"
#include "span.h"
#include "tap.h"

/* Where the small operations hit: not the first region, nor at the begin of one. */
#define REGION 5
#define PAGE_AT (REGION * HUGE + 77 * PAGE)

static int device;
static char *memory;

/* The span is giant again, whatever came before, and all its words are seed 1's. */
static void restore(size_t lost, size_t length)
{
	if (length)
		fill_part(memory + lost, length, lost, 1);
	promote_surely(device, memory);
}

/*
 * After what: no giant page, `huge` regions of 2 MiB pages, and every page outside the
 * `length` bytes from `lost` as it was.
 */
static void split_to(const char *what, size_t huge, size_t lost, size_t length)
{
	size_t after = lost + length;

	tap_equal(giant_kib(memory, GIANT), 0, "%s: it is not giant any more", what);
	tap_equal(regions_of(device, memory, GIANT, 21), huge, "%s: the others are 2 MiB pages", what);
	tap_equal(wrong_pages(memory, lost, 0, 1) + wrong_pages(memory + after, GIANT - after, after, 1), 0,
		  "%s: no other byte changed", what);
}

/* ---- Parts given back -------------------------------------------------- */

/* Anonymous memory again where a part was unmapped, in one VMA with the rest. */
static void map_again(size_t at, size_t length)
{
	if (mmap(memory + at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
		 -1, 0) == MAP_FAILED || madvise(memory + at, length, MADV_HUGEPAGE))
		tap_bail("mmap");
}

static void unmapping(void)
{
	munmap(memory + PAGE_AT, PAGE);
	split_to("munmap of a page", SPAN_REGIONS - 1, PAGE_AT, PAGE);
	map_again(PAGE_AT, PAGE);
	tap_equal(nonzero_pages(memory + PAGE_AT, PAGE), 0, "and it is zero when it comes back");
	restore(PAGE_AT, PAGE);

	munmap(memory + REGION * HUGE, HUGE);
	split_to("munmap of a region", SPAN_REGIONS - 1, REGION * HUGE, HUGE);
	map_again(REGION * HUGE, HUGE);
	restore(REGION * HUGE, HUGE);

	/* Another mapping's place. */
	map_again(REGION * HUGE, 2 * HUGE);
	split_to("mmap over two regions", SPAN_REGIONS - 2, REGION * HUGE, 2 * HUGE);
	restore(REGION * HUGE, 2 * HUGE);

	munmap(memory + GIANT / 2, GIANT / 2);
	split_to("munmap of a half", SPAN_REGIONS / 2, GIANT / 2, GIANT / 2);
	map_again(GIANT / 2, GIANT / 2);
	restore(GIANT / 2, GIANT / 2);
}

static void not_needed(void)
{
	madvise(memory + PAGE_AT, PAGE, MADV_DONTNEED);
	split_to("MADV_DONTNEED of a page", SPAN_REGIONS - 1, PAGE_AT, PAGE);
	tap_equal(nonzero_pages(memory + PAGE_AT, PAGE), 0, "and it is zero");
	restore(PAGE_AT, PAGE);

	madvise(memory + REGION * HUGE, HUGE, MADV_DONTNEED);
	split_to("MADV_DONTNEED of a region", SPAN_REGIONS - 1, REGION * HUGE, HUGE);
	restore(REGION * HUGE, HUGE);

	madvise(memory, GIANT, MADV_DONTNEED);
	tap_equal(giant_kib(memory, GIANT), 0, "MADV_DONTNEED of the span: it is not giant any more");
	tap_equal(smaps(memory, GIANT, "Rss"), 0, "and nothing of it is resident");
	/* One region alone: what is read first is base pages once it is written. */
	tap_equal(nonzero_pages(memory + REGION * HUGE, HUGE), 0, "and it is zero");
	restore(0, GIANT);
}

/* Whether each page is its word or zero, as MADV_FREE may do. */
static size_t neither_word_nor_zero(size_t at, size_t length)
{
	size_t wrong = 0;

	for (size_t end = at + length; at < end; at += PAGE)
		wrong += wrong_pages(memory + at, PAGE, at, 1) && nonzero_pages(memory + at, PAGE);
	return wrong;
}

static void freeing(void)
{
	madvise(memory + PAGE_AT, PAGE, MADV_FREE);
	split_to("MADV_FREE of a page", SPAN_REGIONS - 1, PAGE_AT, PAGE);
	tap_equal(neither_word_nor_zero(PAGE_AT, PAGE), 0, "and it is as it was, or zero");
	restore(PAGE_AT, PAGE);

	madvise(memory + REGION * HUGE, HUGE, MADV_FREE);
	tap_equal(giant_kib(memory, GIANT), 0, "MADV_FREE of a region: it is not giant any more");
	tap_equal(neither_word_nor_zero(REGION * HUGE, HUGE), 0, "and it is as it was, or zero");
	tap_equal(wrong_pages(memory, REGION * HUGE, 0, 1), 0, "and the others are as they were");
	restore(REGION * HUGE, HUGE);

	madvise(memory, GIANT, MADV_FREE);
	tap_equal(neither_word_nor_zero(0, GIANT), 0, "MADV_FREE of the span: it is as it was, or zero");
	restore(0, GIANT);
}

/* ---- Parts treated otherwise ------------------------------------------- */

/* Whether the kernel may write to the page on this process's behalf. */
static bool writable(char *page)
{
	static int zero = -1;
	char byte = *page;
	bool could;

	if (zero < 0)
		zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	could = read(zero, page, 1) == 1;
	if (could)
		*page = byte;
	return could;
}

static void protecting(void)
{
	mprotect(memory + PAGE_AT, PAGE, PROT_READ);
	split_to("mprotect of a page", SPAN_REGIONS - 1, 0, 0);
	tap_ok(!writable(memory + PAGE_AT) && writable(memory + PAGE_AT + PAGE) && writable(memory + PAGE_AT - PAGE),
	       "and that page alone cannot be written");
	mprotect(memory, GIANT, PROT_READ | PROT_WRITE);
	tap_ok(writable(memory + PAGE_AT), "until it can again");
	restore(0, 0);

	mprotect(memory + REGION * HUGE, HUGE, PROT_READ);
	split_to("mprotect of a region", SPAN_REGIONS, 0, 0);
	tap_ok(!writable(memory + PAGE_AT) && writable(memory + PAGE_AT + HUGE), "and that region alone cannot be written");
	mprotect(memory, GIANT, PROT_READ | PROT_WRITE);
	restore(0, 0);

	mprotect(memory, GIANT, PROT_READ);
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "mprotect of the span: no byte changed");
	tap_ok(!writable(memory) && !writable(memory + PAGE_AT) && !writable(memory + GIANT - PAGE),
	       "and it cannot be written");
	mprotect(memory, GIANT, PROT_NONE);
	tap_equal(smaps(memory, GIANT, "Rss"), GIANT / 1024, "without access it is resident all the same");
	mprotect(memory, GIANT, PROT_READ | PROT_WRITE);
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "and as it was when access comes back");
	tap_ok(writable(memory + PAGE_AT), "and writable");
	restore(0, 0);
}

static void locking(void)
{
	tap_equal(mlock(memory + PAGE_AT, PAGE), 0, "a page can be locked");
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "mlock of a page: no byte changed");
	tap_equal(smaps(memory + PAGE_AT, PAGE, "Locked"), PAGE / 1024, "and it is locked");
	munlock(memory + PAGE_AT, PAGE);
	restore(0, 0);

	tap_equal(mlock(memory, GIANT), 0, "the span can be locked");
	tap_equal(smaps(memory, GIANT, "Locked"), GIANT / 1024, "and is locked as a whole");
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "mlock of the span: no byte changed");
	promote_surely(device, memory);
	tap_equal(giant_kib(memory, GIANT), GIANT / 1024, "locked memory can be giant");
	tap_equal(munlock(memory, GIANT), 0, "it can be unlocked");
	tap_equal(smaps(memory, GIANT, "Locked"), 0, "and is then unlocked as a whole");
	/* Pages wait per CPU to be unlocked; compaction has them done. */
	set_file("/proc/sys/vm/compact_memory", "1");
	tap_equal(meminfo("Mlocked"), 0, "and nothing stays locked");
	restore(0, 0);
}

/* A VMA that ends inside the span cannot have a giant page in it. */
static void dividing(void)
{
	madvise(memory + REGION * HUGE, HUGE, MADV_DONTFORK);
	split_to("MADV_DONTFORK of a region", SPAN_REGIONS, 0, 0);
	madvise(memory + REGION * HUGE, HUGE, MADV_DOFORK);
	restore(0, 0);

	madvise(memory + PAGE_AT, PAGE, MADV_NOHUGEPAGE);
	split_to("MADV_NOHUGEPAGE of a page", SPAN_REGIONS - 1, 0, 0);
	madvise(memory + PAGE_AT, PAGE, MADV_HUGEPAGE);
	restore(0, 0);
}

static void collapsing(void)
{
	tap_ok(!madvise(memory, GIANT, MADV_COLLAPSE), "MADV_COLLAPSE finds nothing to do: %m");
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "and no byte changed");
	promote_surely(device, memory);
}

static void demoting(void)
{
	uint64_t frame = frame_of(memory);

	tap_equal(demote(device, memory), MEGA_DEMOTE_DONE, "it is demoted");
	split_to("DEMOTE", SPAN_REGIONS, 0, 0);
	tap_ok(frame_of(memory) == frame && frame_of(memory + GIANT - PAGE) == frame + SPAN_PAGES - 1,
	       "and nothing was moved");
	restore(0, 0);
}

int main(void)
{
	long splits, tables;

	device = device_open();
	tables = meminfo("PageTables");
	memory = giant_new(device);
	splits = vmstat("anon_pud_split");
	demoting();
	tap_ok(vmstat("anon_pud_split") > splits, "splits are counted");
	unmapping();
	not_needed();
	freeing();
	protecting();
	locking();
	dividing();
	collapsing();
	munmap(memory, GIANT);
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	/* The span's 512 tables, 2 MiB, are what a leak would be noticed by. */
	tap_ok(meminfo("PageTables") - tables < 1024, "and no page tables are left");
	return tap_end();
}
