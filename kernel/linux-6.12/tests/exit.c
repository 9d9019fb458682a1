// SPDX-License-Identifier: GPL-2.0
/* Processes that end at any moment of a promotion; their memory is free afterwards. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kernel.h"
#include "span.h"
#include "tap.h"

#define ROUNDS 6

static int device;

/* A child with a span of huge pages, or a giant one; it tells when it is ready. */
static pid_t child_with(char *span, bool giant)
{
	int ready[2];
	char byte = 0;
	pid_t child;

	if (pipe(ready))
		tap_bail("pipe");
	child = fork();
	if (child < 0)
		tap_bail("fork");
	if (!child) {
		fill(span, GIANT, 1);
		if (giant)
			promote_surely(device, span);
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		pause();
	}
	if (read(ready[0], &byte, 1) != 1)
		tap_bail("read");
	close(ready[0]);
	close(ready[1]);
	return child;
}

/* Promotes the child's span in yet another process, and kills the child meanwhile, or the promoter. */
static void in_the_middle(char *span, unsigned int round)
{
	pid_t child = child_with(span, false), promoter;
	int pidfd = pidfd_of(child), status;

	promoter = fork();
	if (promoter < 0)
		tap_bail("fork");
	if (!promoter) {
		struct mega_promote request = promote_request(pidfd, span);

		_exit(ioctl(device, MEGA_IOC_PROMOTE, &request) ? 1 : 0);
	}
	usleep(round * round * 20000);
	kill(round % 2 ? child : promoter, SIGKILL);
	waitpid(promoter, &status, 0);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	close(pidfd);
}

/* Splits and promotes the child's giant page, in place, again and again, and kills the child at some moment of it. */
static void in_the_middle_of_many(char *span, unsigned int round)
{
	pid_t child = child_with(span, true), other;
	int pidfd = pidfd_of(child), status;

	other = fork();
	if (other < 0)
		tap_bail("fork");
	if (!other) {
		struct mega_demote split = demote_request(pidfd, span);
		struct mega_promote request = promote_request(pidfd, span);

		while (!ioctl(device, MEGA_IOC_DEMOTE, &split) && !ioctl(device, MEGA_IOC_PROMOTE, &request))
			;
		_exit(0);
	}
	usleep(100000 + round * 777);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	tap_ok(ended_well(other), "who splits and promotes it comes to an end with it");
	close(pidfd);
}

/* KiB; what is freed by a process that ended comes back within a moment. */
static bool comes_back(long free_before)
{
	for (unsigned int i = 0; i < 100; i++) {
		if (free_before - meminfo("MemFree") < (long)(GIANT / 1024 / 8) && !meminfo("AnonPudMapped"))
			return true;
		usleep(100000);
	}
	tap_note("free before %ld, now %ld KiB; AnonPudMapped %ld", free_before, meminfo("MemFree"),
		 meminfo("AnonPudMapped"));
	return false;
}

int main(void)
{
	char *span = map_spans(1);
	long free_before, tables;

	device = device_open();
	free_before = meminfo("MemFree");
	tables = meminfo("PageTables");
	for (unsigned int round = 0; round < ROUNDS; round++) {
		in_the_middle(span, round);
		tap_ok(comes_back(free_before), "%s is killed while its span is promoted: all memory comes back",
		       round % 2 ? "a process" : "who promotes a process");
	}
	for (unsigned int round = 0; round < ROUNDS / 2; round++) {
		in_the_middle_of_many(span, round);
		tap_ok(comes_back(free_before), "killed while its giant page is split and made again: all memory comes back");
	}
	tap_ok(meminfo("PageTables") - tables < 1024, "and no page tables are left");
	munmap(span, GIANT);
	return tap_end();
}
