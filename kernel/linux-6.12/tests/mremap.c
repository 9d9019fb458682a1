// SPDX-License-Identifier: GPL-2.0
/* A giant page that is moved in the address space, as a whole or in part. One span serves all: making one costs seconds. */
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
static char *by_spans(char *memory)
{
	uint64_t frame = frame_of(memory);

	memory = move(memory, GIANT, room_for(GIANT));
	tap_equal(giant_kib(memory, GIANT), GIANT / 1024, "moved by whole spans it stays giant");
	tap_equal(frame_of(memory), frame, "in the same chunk");
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "and no byte changed");

	tap_equal(demote(device, memory), MEGA_DEMOTE_DONE, "it can be demoted there");
	tap_equal(regions_of(device, memory, GIANT, 21), SPAN_REGIONS, "to 2 MiB pages");
	tap_equal(promote_surely(device, memory).stop, MEGA_PROMOTE_DONE, "and promoted again");
	return memory;
}

/* Four regions of it elsewhere, and back. */
static void a_part(char *memory)
{
	char *part = move(memory + 7 * HUGE, 4 * HUGE, room_for(GIANT) + HUGE);

	tap_equal(giant_kib(memory, GIANT), 0, "a part moved: it is not giant any more");
	tap_equal(regions_of(device, memory, GIANT, 21), SPAN_REGIONS - 4, "what stays is 2 MiB pages");
	tap_equal(regions_of(device, part, 4 * HUGE, 21), 4, "and so is what moved");
	tap_equal(wrong_pages(memory, 7 * HUGE, 0, 1) + wrong_pages(part, 4 * HUGE, 7 * HUGE, 1) +
		  wrong_pages(memory + 11 * HUGE, GIANT - 11 * HUGE, 11 * HUGE, 1), 0, "and no byte changed");
	move(part, 4 * HUGE, memory + 7 * HUGE);
	tap_equal(promote_surely(device, memory).stop, MEGA_PROMOTE_DONE, "and when it is back it can be giant again");
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "and no byte changed");
}

/*
 * To an address of another alignment it has to come apart first. By then khugepaged may have made a huge page of base pages, which is
 * no wonder where all takes long.
 */
static char *by(char *memory, size_t distance, size_t huge, const char *what)
{
	long collapsed = vmstat("thp_collapse_alloc");
	char *moved = move(memory, GIANT, room_for(2 * GIANT) + distance);
	size_t found;

	tap_equal(giant_kib(moved, GIANT), 0, "moved by %s it is not giant", what);
	found = regions_of(device, (char *)((uintptr_t)moved & ~(HUGE - 1)), GIANT, 21);
	collapsed = vmstat("thp_collapse_alloc") - collapsed;
	tap_ok(found >= huge && found <= huge + collapsed, "moved by %s: %zu 2 MiB pages, of which khugepaged made at most %ld",
	       what, found, collapsed);
	tap_equal(wrong_pages(moved, GIANT, 0, 1), 0, "moved by %s: no byte changed", what);
	return moved;
}

static void by_a_region(char *memory)
{
	move(by(memory, HUGE, SPAN_REGIONS, "a region"), GIANT, memory);
	tap_equal(promote_surely(device, memory).stop, MEGA_PROMOTE_DONE, "and when it is back it can be giant again");
}

static char *growing(char *memory)
{
	char *grown = mremap(memory, GIANT, GIANT + 4 * HUGE, 0), *wall = memory + GIANT + 4 * HUGE;

	tap_ok(grown == memory, "it can grow in its place");
	tap_equal(giant_kib(memory, GIANT), GIANT / 1024, "and stays giant");
	grown[GIANT] = 1;
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "and no byte changed");

	/* And by moving: something stands in the way. */
	if (mmap(wall, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
		tap_bail("mmap");
	grown = mremap(memory, GIANT + 4 * HUGE, 2 * GIANT, MREMAP_MAYMOVE);
	if (grown == MAP_FAILED || grown == memory)
		tap_bail("mremap");
	munmap(wall, PAGE);
	tap_equal(wrong_pages(grown, GIANT, 0, 1), 0, "grown by moving: no byte changed");
	tap_equal(nonzero_pages(grown + GIANT + HUGE, HUGE), 0, "and what is new is zero");

	/* Back to one whole span, at an address of its own. */
	if (mremap(grown, 2 * GIANT, GIANT, 0) != grown)
		tap_bail("mremap");
	memory = move(grown, GIANT, room_for(GIANT));
	promote_surely(device, memory);
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "shrunk again: no byte changed");
	return memory;
}

/* The memory moves, the mapping stays, empty. */
static char *leaving_the_mapping(char *memory)
{
	char *moved = mremap(memory, GIANT, GIANT, MREMAP_MAYMOVE | MREMAP_DONTUNMAP | MREMAP_FIXED, room_for(GIANT));

	if (moved == MAP_FAILED)
		tap_bail("mremap with MREMAP_DONTUNMAP");
	tap_equal(wrong_pages(moved, GIANT, 0, 1), 0, "moved without its mapping: no byte changed");
	tap_equal(smaps(memory, GIANT, "Rss"), 0, "and the mapping is empty");
	tap_equal(nonzero_pages(memory + 9 * HUGE, HUGE), 0, "and zero");
	munmap(memory, GIANT);
	promote_surely(device, moved);
	return moved;
}

/* Over another giant page, which is gone then. */
static char *over_another(char *memory)
{
	char *moved = move(memory, GIANT, giant_new(device));

	tap_equal(giant_kib(moved, GIANT), GIANT / 1024, "moved over another it stays giant");
	tap_equal(wrong_pages(moved, GIANT, 0, 1), 0, "and no byte changed");
	tap_equal(meminfo("AnonPudMapped"), GIANT / 1024, "and the other is gone");
	return moved;
}

static void shrinking(char *memory)
{
	if (mremap(memory, GIANT, GIANT / 4, 0) != memory)
		tap_bail("mremap to a quarter");
	tap_equal(giant_kib(memory, GIANT / 4), 0, "a quarter is not giant");
	tap_equal(regions_of(device, memory, GIANT / 4, 21), SPAN_REGIONS / 4, "but 2 MiB pages");
	tap_equal(wrong_pages(memory, GIANT / 4, 0, 1), 0, "and no byte of it changed");
	munmap(memory, GIANT / 4);
}

int main(void)
{
	char *memory;

	device = device_open();
	memory = by_spans(giant_new(device));
	a_part(memory);
	by_a_region(memory);
	memory = growing(memory);
	memory = leaving_the_mapping(memory);
	memory = over_another(memory);
	shrinking(memory);
	memory = by(giant_new(device), PAGE, 0, "a page");
	munmap(memory, GIANT);
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
