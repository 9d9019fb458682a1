// SPDX-License-Identifier: GPL-2.0
/*
 * Promotion into a chunk to whose frames a latecomer (see latecomer/) takes references, and drops them: of each frame that it
 * finds in use it is right to do so. No count is lost by that: no frame is freed that is in use, and all are free at the end.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include "kernel.h"
#include "span.h"
#include "tap.h"

#define PARAMETERS "/sys/module/latecomer/parameters/"
#define ROUNDS 2

static int device;

static void come_late_to(long chunk)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", chunk);
	set_file(PARAMETERS "chunk", text);
	/* It may be in the middle of a visit. */
	usleep(100000);
}

static long taken(void)
{
	FILE *file = fopen(PARAMETERS "taken", "re");
	long value;

	if (!file || fscanf(file, "%ld", &value) != 1)
		tap_bail(PARAMETERS "taken");
	fclose(file);
	return value;
}

static struct mega_promote promote_against_latecomer(char *span)
{
	struct mega_promote request = { 0 };
	uint64_t chunk = free_chunk(device);

	demote(device, span);
	come_late_to(chunk);
	for (int i = 0; i < 20; i++) {
		request = promote_into(device, span, chunk);
		if (request.stop != MEGA_PROMOTE_BUSY)
			break;
	}
	come_late_to(-1);
	return request;
}

int main(void)
{
	long before = meminfo("MemFree"), after;
	int promoted = 0;
	size_t wrong = 0;
	char *span;

	device = device_open();
	span = giant_new(device);
	for (int i = 0; i < ROUNDS; i++) {
		promoted += promote_against_latecomer(span).stop == MEGA_PROMOTE_DONE;
		wrong += wrong_pages(span, GIANT, 0, 1);
	}
	tap_note("%ld references taken", taken());
	tap_ok(taken() > 0, "somebody took references to frames of the chunk");
	tap_equal(promoted, ROUNDS, "a span is promoted into it each time");
	tap_equal(wrong, 0, "and no word of it changed");
	munmap(span, GIANT);
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	after = meminfo("MemFree");
	tap_ok(before - after < (long)(GIANT / 1024 / 2), "and the memory is free again: %ld KiB before, %ld after", before, after);
	return tap_end();
}
