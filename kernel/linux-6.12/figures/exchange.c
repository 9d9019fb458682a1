// SPDX-License-Identifier: GPL-2.0
/*
 * What the promotion of a span costs whose huge pages all have to be moved into another chunk, and what it takes to empty a
 * chunk that is full of huge pages: by copy, or by exchange with the host (kernel/vm/figures/trident-pv).
 * Usage: exchange copy|exchange ROUNDS
 *
 * Prints for each a line: promotion or emptying, and behind tabs the nanoseconds, the huge pages that were moved, those of
 * them that were exchanged, and the requests to the host for it. The time of an emptying is that of the promotion into the
 * chunk, too.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "device.h"
#include "host.h"
#include "kernel.h"
#include "span.h"
#include "tap.h"

/* A page is busy for a moment when something else holds it; what was moved without it is not all. */
#define PATIENCE 5

static int device;

/* Without a host that exchanges there are none. */
static long requests(void)
{
	long count = host_count("requests");

	return count < 0 ? 0 : count;
}

static void report(const char *what, uint64_t nanoseconds, long moved, long exchanged, long asked)
{
	printf("%s\t%llu\t%ld\t%ld\t%ld\n", what, (unsigned long long)nanoseconds, moved, exchanged, asked);
	fflush(stdout);
}

/* A promotion for which all huge pages were moved. */
static void promote_whole(char *span)
{
	for (int i = 0; i < PATIENCE; i++) {
		uint64_t chunk = free_chunk(device);
		struct mega_promote request;
		long asked;

		demote(device, span);
		asked = requests();
		request = promote_into(device, span, chunk);
		if (request.stop == MEGA_PROMOTE_DONE && request.moved == SPAN_REGIONS) {
			report("promotion", request.nanoseconds, request.moved, request.exchanged, requests() - asked);
			return;
		}
		promote_surely(device, span);
	}
	tap_bail("no promotion for which all huge pages were moved");
}

/* Promotes the span into the chunk that the other one's huge pages lie in. */
static void empty_chunk(char *span, char *other)
{
	for (int i = 0; i < PATIENCE; i++) {
		struct mega_promote request;
		long moved, exchanged, asked;
		uint64_t chunk;

		promote_surely(device, other);
		promote_surely(device, span);
		chunk = frame_of(other);
		demote(device, other);
		demote(device, span);
		moved = vmstat("anon_pud_compact_moved");
		exchanged = vmstat("anon_pud_compact_exchanged");
		asked = requests();
		request = promote_into(device, span, chunk);
		moved = (vmstat("anon_pud_compact_moved") - moved) / (HUGE / PAGE);
		exchanged = (vmstat("anon_pud_compact_exchanged") - exchanged) / (HUGE / PAGE);
		if (request.stop == MEGA_PROMOTE_DONE && moved == SPAN_REGIONS) {
			report("emptying", request.nanoseconds, moved, exchanged, requests() - asked);
			return;
		}
	}
	tap_bail("no chunk that was full was emptied");
}

static void check(const char *span)
{
	if (wrong_pages(span, GIANT, 0, 1))
		tap_bail("pages of the span lost their contents");
}

int main(int arguments, char **argument)
{
	int rounds = arguments == 3 ? atoi(argument[2]) : 0;
	char *span, *other;

	if (rounds < 1 || (strcmp(argument[1], "copy") && strcmp(argument[1], "exchange")))
		tap_bail("usage: exchange copy|exchange ROUNDS");
	device = device_open();
	if (!giant_available(device))
		tap_bail("this kernel has no giant pages");
	if (!strcmp(argument[1], "exchange") && !wait_for_host_exchanger())
		tap_bail("the host exchanges no memory");
	span = giant_new(device);
	for (int round = 0; round < rounds; round++) {
		promote_whole(span);
		check(span);
	}
	other = giant_new(device);
	empty_chunk(span, other);
	check(span);
	check(other);
	return 0;
}
