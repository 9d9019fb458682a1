// SPDX-License-Identifier: GPL-2.0
/*
 * What a promotion by copy, one in place and a split of the same span cost, as PROMOTE and
 * DEMOTE of /dev/mega say.
 *
 * Prints for each that was measured a line: copy, in-place or split, a tab, nanoseconds.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "device.h"
#include "span.h"
#include "tap.h"

#define ROUNDS 5
/* Splits and promotions in place for each promotion by copy, which takes that much longer. */
#define IN_PLACE_EACH 9
/* A page is busy for a moment when something else holds it; a promotion that met one moved less than all. */
#define PATIENCE 5

static int device, self;

static void report(const char *what, uint64_t nanoseconds)
{
	printf("%s\t%llu\n", what, (unsigned long long)nanoseconds);
	fflush(stdout);
}

/* A span that a giant page maps after all its pages were copied. */
static char *promoted_by_copy(void)
{
	for (int i = 0; i < PATIENCE; i++) {
		char *span = map_spans(1);
		struct mega_promote request;

		fill(span, GIANT, 1);
		request = promote(device, span, 0);
		if (request.stop == MEGA_PROMOTE_DONE && request.moved == SPAN_REGIONS) {
			report("copy", request.nanoseconds);
			return span;
		}
		tap_note("again: stop %u, moved %u, in place %u, error %d", request.stop, request.moved,
			 request.in_place, request.error);
		munmap(span, GIANT);
	}
	tap_bail("no promotion in which all pages were copied");
}

static void split(char *span)
{
	struct mega_demote request = demote_request(self, span);

	if (ioctl(device, MEGA_IOC_DEMOTE, &request))
		tap_bail("DEMOTE");
	if (request.stop != MEGA_DEMOTE_DONE)
		tap_bail("DEMOTE of a giant page stopped with %u", request.stop);
	report("split", request.nanoseconds);
}

static void promote_in_place(char *span)
{
	struct mega_promote request = promote(device, span, MEGA_PROMOTE_IN_PLACE);

	if (request.stop != MEGA_PROMOTE_DONE || request.in_place != SPAN_REGIONS)
		tap_bail("PROMOTE in place stopped with %u, %u in place", request.stop, request.in_place);
	report("in-place", request.nanoseconds);
}

int main(void)
{
	device = device_open();
	self = pidfd_of(getpid());
	if (!giant_available(device))
		tap_bail("this kernel has no giant pages");
	for (int round = 0; round < ROUNDS; round++) {
		char *span = promoted_by_copy();

		for (int i = 0; i < IN_PLACE_EACH; i++) {
			split(span);
			promote_in_place(span);
		}
		if (wrong_pages(span, GIANT, 0, 1))
			tap_bail("pages of the span lost their contents");
		munmap(span, GIANT);
	}
	return 0;
}
