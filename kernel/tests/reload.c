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

#define FIRST_CPU "/sys/devices/system/cpu/cpu0/online"

static bool first_cpu_online(void)
{
	char state = 0;
	int file = open(FIRST_CPU, O_RDONLY | O_CLOEXEC);

	if (file < 0 || read(file, &state, 1) != 1)
		tap_bail("read " FIRST_CPU);
	close(file);
	return state == '1';
}

/* Waiting for memory that goes offline uses a CPU, and it is no reason to bring one online. */
static void without_the_first_cpu(void)
{
	/* Before 6.5, and where the command line has cpu0_hotplug. */
	if (access(FIRST_CPU, F_OK)) {
		tap_note("the first CPU is always online on this kernel");
		return;
	}
	if (!tap_ok(write_file(FIRST_CPU, "0"), "the first CPU goes offline"))
		return;
	tap_ok(!module_unload() && !module_load(), "the module is loaded without it");
	tap_ok(!first_cpu_online(), "and it is offline still");
	tap_ok(write_file(FIRST_CPU, "1") && first_cpu_online(), "until it is wanted");
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
	without_the_first_cpu();
	return tap_end();
}
