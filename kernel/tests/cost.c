// SPDX-License-Identifier: GPL-2.0
/*
 * What SCAN_TASK with CLEAR costs beside writing 1 to clear_refs, which clears the
 * same bits and reports none. Prints times, judges none: see the README.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "device.h"
#include "memory.h"
#include "tap.h"

#define LENGTH (128 * HUGE)
#define ROUNDS 9

static int device;
static struct mega_region regions[LENGTH / HUGE];

static double milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), by_value);
	return values[ROUNDS / 2];
}

static void touch_all(char *memory)
{
	forget_translations(memory, LENGTH);
	for (size_t at = 0; at < LENGTH; at += PAGE)
		*(volatile char *)(memory + at) = 1;
}

static unsigned long scan(char *memory, int self, double *time)
{
	struct mega_scan_task request =
		scan_task_request(self, memory, LENGTH, regions, LENGTH / HUGE);
	unsigned long accessed = 0;
	double begin;

	request.flags = MEGA_TASK_CLEAR;
	begin = milliseconds();
	if (ioctl(device, MEGA_IOC_SCAN_TASK, &request))
		tap_bail("SCAN_TASK");
	*time = milliseconds() - begin;
	for (unsigned int i = 0; i < request.count; i++)
		accessed += regions[i].accessed;
	return accessed;
}

static double clear_refs(int file)
{
	double begin = milliseconds();

	if (pwrite(file, "1", 1, 0) != 1)
		tap_bail("write to clear_refs");
	return milliseconds() - begin;
}

int main(void)
{
	int self = pidfd_of(getpid());
	int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	char *memory = map_aligned(LENGTH);
	double scans[ROUNDS], clears[ROUNDS];
	unsigned long missed = 0;

	device = device_open();
	for (int round = 0; round < ROUNDS; round++) {
		touch_all(memory);
		clears[round] = clear_refs(file);
	}
	for (int round = 0; round < ROUNDS; round++) {
		touch_all(memory);
		missed += LENGTH / PAGE - scan(memory, self, &scans[round]);
	}
	tap_equal(missed, 0, "every page touched since the last clearing is reported");
	tap_note("per GiB of base pages, all accessed: SCAN_TASK with CLEAR %.2f ms, clear_refs %.2f ms, ratio %.2f",
		 median(scans) * (1 << 30) / LENGTH, median(clears) * (1 << 30) / LENGTH,
		 median(scans) / median(clears));
	return tap_end();
}
