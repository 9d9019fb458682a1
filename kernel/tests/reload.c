// SPDX-License-Identifier: GPL-2.0
/* Unloading: refused while in use, clean otherwise, again and again. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "device.h"
#include "memory.h"
#include "module.h"
#include "tap.h"

static void in_use(void)
{
	int device = device_open();
	struct mega_info info = info_request();

	tap_fails(module_unload(), EAGAIN, "an open device refuses the unloading");
	tap_equal(ioctl(device, MEGA_IOC_INFO, &info), 0, "and goes on working");
	close(device);
}

/* One scan of a process, one of all blocks and one compaction: all have state. */
static bool use(void)
{
	static struct mega_region regions[64];
	static struct mega_block blocks[4096];
	int device = open(MEGA_DEVICE, O_RDWR | O_CLOEXEC);
	int self = pidfd_of(getpid());
	struct mega_scan_task task = scan_task_request(self, NULL, 1UL << 47, regions, 64);
	struct mega_scan_blocks scan = scan_blocks_request(0, blocks, 4096);
	struct mega_compact request = compact_request(1 << 17, 9);
	bool done;

	task.flags = MEGA_TASK_CLEAR;
	scan.flags = MEGA_BLOCKS_RESET;
	done = device >= 0 && !ioctl(device, MEGA_IOC_SCAN_BLOCKS, &scan) &&
	       !ioctl(device, MEGA_IOC_SCAN_TASK, &task) &&
	       !ioctl(device, MEGA_IOC_COMPACT, &request);
	close(self);
	close(device);
	return done;
}

static void in_a_loop(void)
{
	unsigned int failed = 0;

	for (unsigned int round = 0; round < 20; round++) {
		if (module_unload() || module_load() || !use())
			failed++;
	}
	tap_equal(failed, 0, "20 times unloaded, loaded and used");
	tap_equal(module_load() ? errno : 0, EEXIST, "it is loaded once");
}

/* A process that opens and closes all the time: unloading waits for neither. */
static void while_opened(void)
{
	unsigned int unloaded = 0, strange = 0;
	pid_t child = fork();

	if (!child)
		for (;;)
			use();
	for (unsigned int round = 0; round < 2000 && unloaded < 20; round++) {
		if (!module_unload()) {
			unloaded++;
			strange += module_load() != 0;
		} else {
			strange += errno != EAGAIN;
			usleep(1000);
		}
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	tap_equal(strange, 0, "while a process opens and closes it, it is unloaded or refuses");
	tap_note("unloaded %u times", unloaded);
}

int main(void)
{
	if (!module_is_there()) {
		tap_skip("unloading", "there is no " MODULE_FILE " to load again");
		return tap_end();
	}
	in_use();
	in_a_loop();
	while_opened();
	return tap_end();
}
