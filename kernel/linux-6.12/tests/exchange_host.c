// SPDX-License-Identifier: GPL-2.0
/*
 * Promotion by exchange with a host that carries it out (kernel/vm/suites/giant-exchange and two-levels): a span goes from one
 * chunk into another again and again, nothing is copied, and no word of it changes; then the driver loses the device in the middle
 * of that and finds it again. At last the device goes for good, the host saves the machine, and promotion goes on by copying.
 * Usage: exchange_host ROUNDS [CONTROL]
 * CONTROL is a serial line to the host: it hears "exchanging", "checked", "saving" and "gone", and says a line after each but the
 * first. Without one it ends before the device goes or anything is copied.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>
#include "host.h"
#include "kernel.h"
#include "span.h"
#include "tap.h"

static int device, control = -1;

static void open_control(const char *path)
{
	struct termios raw;

	control = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (control < 0 || tcgetattr(control, &raw))
		tap_bail("%s cannot be opened", path);
	cfmakeraw(&raw);
	tcsetattr(control, TCSANOW, &raw);
}

static void tell(const char *word)
{
	if (control >= 0 && write(control, word, strlen(word)) < 0)
		tap_bail("the host is not told");
}

static void wait_for_host(void)
{
	char byte = 0;

	while (control >= 0 && byte != '\n')
		if (read(control, &byte, 1) != 1)
			tap_bail("the host does not answer");
}

static void exchanges(char *span, int rounds)
{
	struct promotions all;
	long busy;

	tell("exchanging\n");
	all = promote_in_turn(device, span, rounds);
	tell("checked\n");
	tap_note("%d promotions of %llu ms in the mean: %ld huge pages moved, %ld of them exchanged", all.promoted,
		 all.nanoseconds / rounds / 1000000, all.moved, all.exchanged);
	busy = host_count("refused_busy") + host_count("refused_paused");
	tap_note("the driver: %ld requests, %ld pairs exchanged, %ld too late, %ld busy", host_count("requests"),
		 host_count("exchanged"), host_count("cancelled"), busy);
	tap_equal(all.promoted, rounds, "a span is promoted into another chunk each time");
	tap_equal(all.wrong, 0, "and no word of it changed");
	/* A host that is late by a second is given up, and a page may be in use there for a moment; then it is copied. */
	tap_ok(all.exchanged > 0 && all.exchanged + host_count("cancelled") + busy >= all.moved,
	       "what the host was not too late or too busy for is exchanged, so nothing is copied");
	tap_equal(host_count("refused") - busy, 0, "the host refuses nothing for another reason");
	tap_equal(host_count("lied"), 0, "it does what it says");
	tap_equal(host_count("unsettled"), 0, "and leaves nothing in the middle");
	tap_equal(host_count("not_asked"), 0, "it was asked each time");
	wait_for_host();
}

static volatile bool over;

/* The driver loses the device, and finds it again. */
static void *take_away_and_bring_back(void *nothing)
{
	(void)nothing;
	while (!over) {
		usleep(rand() % 2000000);
		remove_host_exchanger();
		usleep(rand() % 500000);
		find_host_exchanger();
	}
	return NULL;
}

/* The device goes and comes in the middle of promotions. */
static void comes_and_goes(char *span, int rounds)
{
	struct promotions all;
	pthread_t other;

	pthread_create(&other, NULL, take_away_and_bring_back, NULL);
	all = promote_in_turn(device, span, rounds);
	over = true;
	pthread_join(other, NULL);
	tap_note("%d promotions, %ld huge pages exchanged", all.promoted, all.exchanged);
	tap_equal(all.promoted, rounds, "a device that comes and goes: a span is promoted each time");
	tap_equal(all.wrong, 0, "and no word of it changed");
}

/* The device goes for good, as the host can save the machine only without it. */
static void saved(char *span)
{
	tell("saving\n");
	wait_for_host();
	remove_host_exchanger();
	power_host_slot(false);
	tell("gone\n");
	wait_for_host();
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "the device goes and the machine is saved: no word changed");
}

/* Without a device. */
static void copies(char *span)
{
	struct mega_promote request;

	request = promote_elsewhere(device, span);
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "without it a span is promoted");
	tap_equal(request.exchanged, 0, "by copying");
	tap_note("which took %llu ms", (unsigned long long)request.nanoseconds / 1000000);
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "and no word changed");
	fill(span, GIANT, 2);
	tap_equal(wrong_pages(span, GIANT, 0, 2), 0, "it can be written");
}

int main(int arguments, char **argument)
{
	int rounds = arguments > 1 ? atoi(argument[1]) : 0;
	char *span;

	if (rounds < 1) {
		tap_skip("exchange_host", "it wants a host that exchanges: kernel/vm/suites/giant-exchange, two-levels");
		return tap_end();
	}
	if (arguments > 2)
		open_control(argument[2]);
	device = device_open();
	power_host_slot(true);
	if (!tap_ok(wait_for_host_exchanger(), "there is an exchanger"))
		return tap_end();
	span = map_spans(1);
	fill(span, GIANT, 1);
	promote_surely(device, span);
	exchanges(span, rounds);
	if (control >= 0) {
		comes_and_goes(span, rounds);
		saved(span);
		copies(span);
	}
	munmap(span, GIANT);
	return tap_end();
}
