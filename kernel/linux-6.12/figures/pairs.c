// SPDX-License-Identifier: GPL-2.0
/*
 * What it costs to have two huge pages change places by EXCHANGE: 512 pairs in one request, the same one request each, and one
 * exchange by copying, through a third huge page. In a guest whose clock counts instructions that is what it counts
 * (kernel/vm/figures/exchange-pairs).
 *
 * Prints for each that was measured a line: batch, single or copy, a tab, and nanoseconds for a pair.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "device.h"
#include "kernel.h"
#include "span.h"
#include "tap.h"

#define ROUNDS 5
#define COPIES 4

static int device, self;
static char *spans;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static void report(const char *what, double nanoseconds)
{
	printf("%s\t%.1f\n", what, nanoseconds);
	fflush(stdout);
}

/* One side lies in a row, as what becomes a giant page does, and the other anywhere. */
static void name_pairs(struct mega_pair *pairs)
{
	for (size_t i = 0; i < SPAN_REGIONS; i++)
		pairs[i] = (struct mega_pair) {
			.first = (uintptr_t)spans + i * HUGE,
			.second = (uintptr_t)spans + GIANT + i * 37 % SPAN_REGIONS * HUGE,
		};
}

/* Returns the nanoseconds that the request took, for each of `count` pairs, which all have to be exchanged. */
static double exchange(struct mega_pair *pairs, uint32_t count)
{
	struct mega_exchange request = exchange_request(self, pairs, count);

	if (ioctl(device, MEGA_IOC_EXCHANGE, &request))
		tap_bail("EXCHANGE");
	if (request.exchanged != count)
		tap_bail("%u of %u pairs were exchanged", request.exchanged, count);
	return (double)request.nanoseconds / count;
}

static double exchange_each(struct mega_pair *pairs)
{
	double sum = 0;

	for (size_t i = 0; i < SPAN_REGIONS; i++)
		sum += exchange(&pairs[i], 1);
	return sum / SPAN_REGIONS;
}

static double copy(const struct mega_pair *pairs)
{
	static char third[HUGE] __attribute__((aligned(4096)));
	uint64_t begin;

	memset(third, 1, HUGE);
	begin = now();
	for (size_t i = 0; i < COPIES; i++) {
		memcpy(third, (void *)pairs[i].first, HUGE);
		memcpy((void *)pairs[i].first, (void *)pairs[i].second, HUGE);
		memcpy((void *)pairs[i].second, third, HUGE);
	}
	return (double)(now() - begin) / COPIES;
}

int main(void)
{
	struct mega_pair pairs[SPAN_REGIONS];

	device = device_open();
	if (!exchange_available(device))
		tap_bail("this kernel has no EXCHANGE");
	self = pidfd_of(getpid());
	spans = map_spans(2);
	fill(spans, 2 * GIANT, 1);
	name_pairs(pairs);
	for (int round = 0; round < ROUNDS; round++) {
		report("batch", exchange(pairs, SPAN_REGIONS));
		report("single", exchange_each(pairs));
		if (wrong_pages(spans, 2 * GIANT, 0, 1))
			tap_bail("pages lost their contents");
	}
	report("copy", copy(pairs));
	return 0;
}
