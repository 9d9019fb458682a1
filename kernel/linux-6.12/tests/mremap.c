// SPDX-License-Identifier: GPL-2.0
/* A giant page that is moved in the address space, as a whole or in part. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>
#include "kernel.h"
#include "span.h"
#include "tap.h"

static int device;

static char *move(char *from, size_t length, char *to)
{
	char *moved = mremap(from, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, to);

	if (moved != to)
		tap_bail("mremap of 0x%zx bytes from %p to %p", length, from, to);
	return moved;
}

/* To another span the entry moves as it is. */
static void by_spans(void)
{
	char *memory = giant_new(device);
	uint64_t frame = frame_of(memory);

	memory = move(memory, GIANT, room_for(GIANT));
	tap_equal(giant_kib(memory, GIANT), GIANT / 1024, "moved by whole spans it stays giant");
	tap_equal(frame_of(memory), frame, "in the same chunk");
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "and no byte changed");

	/* What was moved can be found from its pages, and taken apart. */
	tap_equal(demote(device, memory), MEGA_DEMOTE_DONE, "it can be demoted there");
	tap_equal(regions_of(device, memory, GIANT, 21), SPAN_REGIONS, "to 2 MiB pages");
	promote_surely(device, memory);
	madvise(memory + 3 * HUGE, PAGE, MADV_PAGEOUT);
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "and paged out there, and no byte changed");
	munmap(memory, GIANT);
}

/* Over another giant page, which is gone then. */
static void over_another(void)
{
	char *memory = giant_new(device), *other = giant_new(device);

	memory = move(memory, GIANT, other);
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "moved over another: no byte changed");
	tap_equal(meminfo("AnonPudMapped"), GIANT / 1024, "and the other is gone");
	munmap(memory, GIANT);
}

/* To an address of another alignment it has to come apart first. */
static void by(size_t distance, size_t huge, const char *what)
{
	char *memory = giant_new(device);

	memory = move(memory, GIANT, room_for(2 * GIANT) + distance);
	tap_equal(giant_kib(memory, GIANT), 0, "moved by %s it is not giant", what);
	tap_equal(regions_of(device, (char *)((uintptr_t)memory & ~(HUGE - 1)), GIANT, 21), huge,
		  "moved by %s: 2 MiB pages", what);
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "moved by %s: no byte changed", what);
	munmap(memory, GIANT);
}

/* Four regions of it elsewhere. */
static void a_part(void)
{
	char *memory = giant_new(device);
	char *part = move(memory + 7 * HUGE, 4 * HUGE, room_for(GIANT) + HUGE);

	tap_equal(giant_kib(memory, GIANT), 0, "a part moved: it is not giant any more");
	tap_equal(regions_of(device, memory, GIANT, 21), SPAN_REGIONS - 4, "what stays is 2 MiB pages");
	tap_equal(regions_of(device, part, 4 * HUGE, 21), 4, "and so is what moved");
	tap_equal(wrong_pages(memory, 7 * HUGE, 0, 1) + wrong_pages(part, 4 * HUGE, 7 * HUGE, 1) +
		  wrong_pages(memory + 11 * HUGE, GIANT - 11 * HUGE, 11 * HUGE, 1), 0, "and no byte changed");
	move(part, 4 * HUGE, memory + 7 * HUGE);
	tap_equal(promote_surely(device, memory).stop, MEGA_PROMOTE_DONE, "and when it is back it can be giant again");
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "and no byte changed");
	munmap(memory, GIANT);
}

static void shrinking(void)
{
	char *memory = giant_new(device);

	if (mremap(memory, GIANT, GIANT / 4, 0) != memory)
		tap_bail("mremap to a quarter");
	tap_equal(giant_kib(memory, GIANT / 4), 0, "a quarter is not giant");
	tap_equal(regions_of(device, memory, GIANT / 4, 21), SPAN_REGIONS / 4, "but 2 MiB pages");
	tap_equal(wrong_pages(memory, GIANT / 4, 0, 1), 0, "and no byte of it changed");
	munmap(memory, GIANT / 4);
}

static void growing(void)
{
	char *memory = giant_new(device), *grown;

	grown = mremap(memory, GIANT, GIANT + 4 * HUGE, 0);
	tap_ok(grown == memory, "it can grow in its place");
	tap_equal(giant_kib(memory, GIANT), GIANT / 1024, "and stays giant");
	grown[GIANT] = 1;
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "and no byte changed");

	/* And by moving: something stands in the way. */
	if (mmap(memory + GIANT + 4 * HUGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
	    MAP_FAILED)
		tap_bail("mmap");
	grown = mremap(memory, GIANT + 4 * HUGE, 2 * GIANT, MREMAP_MAYMOVE);
	if (grown == MAP_FAILED || grown == memory)
		tap_bail("mremap");
	tap_equal(wrong_pages(grown, GIANT, 0, 1), 0, "grown by moving: no byte changed");
	tap_equal(nonzero_pages(grown + GIANT + HUGE, HUGE), 0, "and what is new is zero");
	munmap(grown, 2 * GIANT);
	munmap(memory + GIANT + 4 * HUGE, PAGE);
}

/* The memory moves, the mapping stays, empty. */
static void leaving_the_mapping(void)
{
	char *memory = giant_new(device);
	char *moved = mremap(memory, GIANT, GIANT, MREMAP_MAYMOVE | MREMAP_DONTUNMAP | MREMAP_FIXED, room_for(GIANT));

	if (moved == MAP_FAILED)
		tap_bail("mremap with MREMAP_DONTUNMAP");
	tap_equal(wrong_pages(moved, GIANT, 0, 1), 0, "moved without its mapping: no byte changed");
	tap_equal(smaps(memory, GIANT, "Rss"), 0, "and the mapping is empty");
	tap_equal(nonzero_pages(memory + 9 * HUGE, HUGE), 0, "and zero");
	munmap(moved, GIANT);
	munmap(memory, GIANT);
}

int main(void)
{
	device = device_open();
	by_spans();
	over_another();
	by(HUGE, SPAN_REGIONS, "a region");
	by(PAGE, 0, "a page");
	a_part();
	shrinking();
	growing();
	leaving_the_mapping();
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
