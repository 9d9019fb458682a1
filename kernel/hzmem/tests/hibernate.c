// SPDX-License-Identifier: GPL-2.0
/* Hibernation, which saves no huge page, is refused while one is in use. The machine is never really put to sleep. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/suspend_ioctls.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "hz.h"

/* Opened for reading it orders hibernation, as far as the kernel asks whoever is against it. */
#define SNAPSHOT "/dev/snapshot"

static bool order(void)
{
	int device = open(SNAPSHOT, O_RDONLY | O_CLOEXEC);

	if (device < 0)
		return false;
	close(device);
	return true;
}

static void while_in_use(void)
{
	struct mount mount = mount_new("hzmem", "watermark=100,period=3600");
	int file = file_new(&mount), log;
	char *memory = map_shared(file, 1);

	tap_ok(order(), "with no page in use nothing is said against hibernation");
	text_fill(memory, TEXT_LINES, 1);
	log = log_open();
	tap_ok(!order(), "with one it is refused");
	tap_equal(log_lines(log, "hzmem: hibernation is refused"), 1, "with a line in the log");
	tap_ok(!write_file("/sys/power/state", "disk"), "ordered by sysfs too");
	tap_ok(text_right(memory, TEXT_LINES, 1), "and the page is as it was");
	unmap_pages(memory, 1);
	close(file);
	tap_ok(order(), "when the page is gone it is not");
	mount_end(&mount);
}

static void while_compressed(void)
{
	struct mount mount = mount_new("hzmem", "watermark=0,period=50ms");
	int file = file_new(&mount);
	char *memory = map_shared(file, 3);

	text_fill_all(memory, 3, TEXT_LINES, 1);
	tap_ok(wait_until(count_of(&mount, "compressed") == 3) && wait_until(order()),
	       "nor when all is compressed, and so saved");
	tap_equal(text_wrong(memory, 3, TEXT_LINES, 1), 0, "every byte is right");
	unmap_pages(memory, 3);
	close(file);
	mount_end(&mount);
}

/* A page is taken after hibernation was ordered: all tasks are frozen, the image is about to be made, and is not. */
static void taken_afterwards(void)
{
	struct mount mount = mount_new("hzmem", "watermark=100,period=3600");
	int file = file_new(&mount), device = open(SNAPSHOT, O_RDONLY | O_CLOEXEC), made = 0, result;
	char *memory = map_shared(file, 1);

	if (device < 0)
		tap_bail("open " SNAPSHOT);
	text_fill(memory, TEXT_LINES, 2);
	if (ioctl(device, SNAPSHOT_FREEZE, 0))
		tap_bail("freeze all tasks");
	result = ioctl(device, SNAPSHOT_CREATE_IMAGE, &made);
	tap_fails(result, EBUSY, "a page taken once it was ordered has it refused");
	ioctl(device, SNAPSHOT_FREE, 0);
	ioctl(device, SNAPSHOT_UNFREEZE, 0);
	close(device);
	tap_ok(text_right(memory, TEXT_LINES, 2), "and is as it was");
	unmap_pages(memory, 1);
	close(file);
	mount_end(&mount);
}

int main(void)
{
	if (access(SNAPSHOT, F_OK)) {
		tap_skip("hibernation", "this kernel has none: there is no " SNAPSHOT);
		return tap_end();
	}
	while_in_use();
	while_compressed();
	taken_afterwards();
	return tap_end();
}
