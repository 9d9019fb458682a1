// SPDX-License-Identifier: GPL-2.0
/*
 * Promotion by exchange with a host that carries it out (kernel/vm/suites/giant-exchange and two-levels): a span goes from one
 * chunk into another again and again, nothing is copied, and no byte of it changes; then the driver loses the device in the middle
 * of that and finds it again. At last the device goes for good, the host saves the machine, lets it go on for a while and brings
 * it back to what it saved, and promotion goes on by copying.
 * Usage: exchange_host ROUNDS [CONTROL]
 * CONTROL is a serial line to the host: it hears "exchanging", "round N" at times, "checked", "saving", "gone" and "changed". It
 * says a line after "checked", "saving" and "gone": after the last "change" first, and "check" to the machine that it brought back.
 * Without one it ends before the device goes or anything is copied.
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

/* The line that the host says. */
static const char *answer(void)
{
	static char line[32];
	size_t length = 0;

	for (;;) {
		char byte;

		if (read(control, &byte, 1) != 1)
			tap_bail("the host does not answer");
		if (byte == '\n')
			break;
		if (length < sizeof(line) - 1)
			line[length++] = byte;
	}
	line[length] = '\0';
	return line;
}

static void wait_for_host(void)
{
	if (control >= 0)
		answer();
}

/* ---- All of a span's bytes --------------------------------------------- */

/* An odd number: no two words of a span are the same. */
#define STEP 0x9e3779b97f4a7c15ULL
#define REGION_WORDS (HUGE / 8)

static void write_all(char *span, uint64_t seed)
{
	volatile uint64_t *words = (uint64_t *)span;

	for (size_t i = 0; i < GIANT / 8; i++, seed += STEP)
		words[i] = seed;
}

/* How many regions have something else in any of their bytes. */
static size_t wrong_regions(const char *span, uint64_t seed)
{
	const uint64_t *words = (const uint64_t *)span;
	size_t wrong = 0;

	for (size_t region = 0; region < SPAN_REGIONS; region++) {
		uint64_t differ = 0;

		for (size_t i = 0; i < REGION_WORDS; i++, seed += STEP)
			differ |= *words++ ^ seed;
		wrong += differ != 0;
	}
	return wrong;
}

/* ---- What is done to it ------------------------------------------------ */

/* So often the host hears how far it is. */
#define ROUNDS_TOLD 50

/* As promote_in_turn(), but between two chunks, and with a look at all bytes each time: wrong counts regions. */
static struct promotions back_and_forth(char *span, int rounds)
{
	struct promotions all = { 0 };
	uint64_t free = free_chunk(device), own = frame_of(span);
	char line[32];

	for (int i = 1; i <= rounds; i++) {
		struct mega_promote request;

		/* It went back to where it had come from. */
		if (free == own)
			free = free_chunk(device);
		demote(device, span);
		request = promote_quietly(device, span, free);
		/* The kernel has put something into it, or holds a page. */
		if (request.stop != MEGA_PROMOTE_DONE)
			request = promote_elsewhere(device, span);
		all.promoted += request.stop == MEGA_PROMOTE_DONE;
		all.moved += request.moved;
		all.exchanged += request.exchanged;
		all.nanoseconds += request.nanoseconds;
		all.wrong += wrong_regions(span, 1);
		free = own;
		own = frame_of(span);
		if (i % ROUNDS_TOLD == 0) {
			snprintf(line, sizeof(line), "round %d\n", i);
			tell(line);
		}
	}
	return all;
}

static void exchanges(char *span, int rounds)
{
	struct promotions all;
	long busy;

	tell("exchanging\n");
	all = back_and_forth(span, rounds);
	tell("checked\n");
	tap_note("%d promotions of %llu ms in the mean: %ld huge pages moved, %ld of them exchanged", all.promoted,
		 all.nanoseconds / rounds / 1000000, all.moved, all.exchanged);
	busy = host_count("refused_busy") + host_count("refused_paused");
	tap_note("the driver: %ld requests, %ld pairs exchanged, %ld too late, %ld busy", host_count("requests"),
		 host_count("exchanged"), host_count("cancelled"), busy);
	tap_equal(all.promoted, rounds, "a span is promoted each time");
	tap_ok(all.moved >= (long)SPAN_REGIONS * rounds * 9 / 10, "and goes into another chunk for that, but for a few times");
	tap_equal(all.wrong, 0, "and no byte of it changed");
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

/* Some of these promotions copy, which takes long. */
#define FEW_ROUNDS 10

/* The device goes and comes in the middle of promotions. */
static void comes_and_goes(char *span, int rounds)
{
	struct promotions all;
	pthread_t other;

	if (rounds > FEW_ROUNDS)
		rounds = FEW_ROUNDS;
	pthread_create(&other, NULL, take_away_and_bring_back, NULL);
	all = back_and_forth(span, rounds);
	over = true;
	pthread_join(other, NULL);
	tap_note("%d promotions, %ld huge pages exchanged", all.promoted, all.exchanged);
	tap_equal(all.promoted, rounds, "a device that comes and goes: a span is promoted each time");
	tap_equal(all.wrong, 0, "and no byte of it changed");
}

/* Something else in all of the memory, and elsewhere: nothing of it may be left in the machine that is brought back. */
static void change_all(char *span)
{
	write_all(span, 2);
	promote_elsewhere(device, span);
	tell("changed\n");
	/* The host puts an end to this one. */
	for (;;)
		pause();
}

/*
 * The device goes for good, as the host can save the machine only without it. The machine that went on from there says nothing
 * of what it finds: who reads it would have that twice.
 */
static void saved(char *span)
{
	uint64_t frame;

	tell("saving\n");
	wait_for_host();
	remove_host_exchanger();
	power_host_slot(false);
	frame = frame_of(span);
	tell("gone\n");
	if (!strcmp(answer(), "change"))
		change_all(span);
	tap_equal(wrong_regions(span, 1), 0, "the device goes, the machine is saved and brought back: it has what it had, in each byte");
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "by a giant page");
	tap_ok(frame_of(span) == frame, "in the same place");
}

/* Without a device. */
static void copies(char *span)
{
	struct mega_promote request;

	request = promote_elsewhere(device, span);
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "without it a span is promoted");
	tap_equal(request.exchanged, 0, "by copying");
	tap_note("which took %llu ms", (unsigned long long)request.nanoseconds / 1000000);
	tap_equal(wrong_regions(span, 1), 0, "and no byte changed");
	write_all(span, 3);
	tap_equal(wrong_regions(span, 3), 0, "it can be written");
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
	write_all(span, 1);
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
