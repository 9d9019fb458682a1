// SPDX-License-Identifier: GPL-2.0
/*
 * Promotion by exchange with a host that is late, lies, writes over what it was asked for, and dies in the middle
 * (kernel/vm/suites/bad-host): it costs copies, and no word of the span changes. Usage: bad_host ROUNDS
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include "host.h"
#include "span.h"
#include "tap.h"

int main(int arguments, char **argument)
{
	int rounds = arguments == 2 ? atoi(argument[1]) : 0, device;
	struct promotions all;
	char *span;

	if (rounds < 1) {
		tap_skip("bad_host", "it wants rounds, and such a host: kernel/vm/suites/bad-host");
		return tap_end();
	}
	device = device_open();
	if (!tap_ok(wait_for_host_exchanger(), "there is an exchanger"))
		return tap_end();
	span = map_spans(1);
	fill(span, GIANT, 1);
	promote_surely(device, span);
	all = promote_in_turn(device, span, rounds);
	tap_note("%ld of %ld huge pages exchanged", all.exchanged, all.moved);
	tap_note("the driver: %ld requests, %ld pairs too late, %ld lies, %ld unsettled, %ld not asked for as it was busy",
		 host_count("requests"), host_count("cancelled"), host_count("lied"), host_count("unsettled"), host_count("busy"));
	tap_equal(all.promoted, rounds, "a span is promoted into another chunk each time");
	tap_equal(all.wrong, 0, "and no word of it changed");
	tap_ok(all.exchanged > 0 && all.exchanged < all.moved, "some of it was exchanged, and the rest copied");
	tap_ok(host_count("cancelled") > 0, "the host came too late");
	tap_ok(host_count("lied") > 0, "it lied");
	tap_ok(host_count("unsettled") > 0, "it died in the middle of a pair");
	tap_ok(host_count("busy") > 0, "and nothing is asked of it since");
	fill(span, GIANT, 2);
	tap_equal(wrong_pages(span, GIANT, 0, 2), 0, "all of the span can be written");
	munmap(span, GIANT);
	return tap_end();
}
