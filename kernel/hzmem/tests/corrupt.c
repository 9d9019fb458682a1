// SPDX-License-Identifier: GPL-2.0
/* Compressed data that is damaged, and no memory to put compressed data into. Needs a module built with HZMEM_INJECT=1. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>
#include "hz.h"

#define PAGES 6

static void inject(const char *what, const char *count)
{
	char path[64];

	snprintf(path, sizeof(path), HZ_DEBUGFS "%s", what);
	if (!write_file(path, count))
		tap_bail("write %s to %s", count, path);
}

static void remount(const struct mount *mount_, const char *options)
{
	if (mount("none", mount_->path, "hzmem", MS_REMOUNT, options))
		tap_bail("remount with %s", options);
}

/* Nothing is compressed; everything that is cold is. */
#define NEVER "watermark=100,period=3600"
#define EAGER "watermark=0,period=50ms"

static bool others_are_right(void *argument)
{
	char *memory = argument;
	unsigned int signals = 0;

	for (unsigned int i = 0; i < PAGES; i++) {
		if (read_faults(memory + i * HUGE))
			signals++;
		else if (!text_right(memory + i * HUGE, TEXT_LINES, 1 + i))
			return false;
	}
	return signals == 1;
}

static void damaged(void)
{
	struct mount mount = mount_new("hzmem", NEVER);
	int file = file_new(&mount), log = log_open();
	char *memory = map_shared(file, PAGES);
	unsigned int bad = PAGES, signals = 0, wrong = 0;
	long free;

	/* Filled first: a page that is compressed, and damaged, while it is being filled is a signal for who fills it. */
	text_fill_all(memory, PAGES, TEXT_LINES, 1);
	inject("corrupt", "1");
	remount(&mount, EAGER);
	tap_ok(wait_until(count_of(&mount, "compressed") == PAGES), "six pages are compressed, one of them damaged");
	remount(&mount, NEVER);
	log_lines(log, "hzmem");
	for (unsigned int i = 0; i < PAGES; i++) {
		if (read_faults(memory + i * HUGE)) {
			signals++;
			bad = i;
		} else {
			wrong += !text_right(memory + i * HUGE, TEXT_LINES, 1 + i);
		}
	}
	tap_equal(signals, 1, "who touches it gets a signal");
	tap_equal(wrong, 0, "and nobody gets wrong bytes");
	tap_equal(count_of(&mount, "corrupt"), 1, "sysfs counts it");
	tap_equal(log_lines(log, "hzmem"), 1, "the log has one line about it");
	tap_ok(read_faults(memory + bad * HUGE) && write_faults(memory + bad * HUGE), "it stays so");
	tap_equal(log_lines(log, "hzmem"), 0, "without more lines");
	tap_ok(in_child(others_are_right, memory), "another process has the same signal and all else");
	tap_ok(pread(file, &(char){ 0 }, 1, bad * HUGE) < 0, "read() of it fails");
	free = node_count(-1, "free");
	tap_equal(free, node_count(-1, "total") - (PAGES - 1), "the damaged one has no huge page");
	fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, bad * HUGE, HUGE);
	tap_ok(text_right(memory + bad * HUGE, TEXT_ZEROS, 0), "a hole in its place makes it usable");
	tap_equal(count_of(&mount, "corrupt"), 0, "and it is no more counted");
	unmap_pages(memory, PAGES);
	close(file);
	mount_end(&mount);
}

/* Shared by a process and its child, which meet the same damage. */
static bool child_meets_it(void *argument)
{
	return read_faults(argument) && write_faults(argument);
}

static void damaged_private(void)
{
	struct mount mount = mount_new("hzmem", EAGER);
	int file = file_new(&mount);
	char *memory = map_private(file, 2);

	text_fill(memory + HUGE, TEXT_LINES, 10);
	tap_ok(wait_until(count_of(&mount, "compressed") == 1), "a private page is compressed");
	/* As above. */
	remount(&mount, NEVER);
	text_fill(memory, TEXT_LINES, 11);
	inject("corrupt", "1");
	remount(&mount, EAGER);
	tap_ok(wait_until(count_of(&mount, "compressed") == 2), "another is, and damaged");
	tap_ok(in_child(child_meets_it, memory), "a child that shares it gets a signal");
	tap_ok(read_faults(memory), "so does its parent");
	tap_ok(text_right(memory + HUGE, TEXT_LINES, 10), "not for the other page");
	unmap_pages(memory, 2);
	close(file);
	mount_end(&mount);
}

static void no_base_memory(void)
{
	struct mount mount = mount_new("hzmem", "watermark=0,period=20ms");
	int file = file_new(&mount);
	char *memory = map_shared(file, PAGES);
	long scans;

	inject("fail_alloc", "1000000");
	text_fill_all(memory, PAGES, TEXT_LINES, 20);
	scans = count_of(&mount, "scans");
	tap_ok(wait_until(count_of(&mount, "scans") >= scans + 20), "no memory for compressed data in twenty scans");
	tap_equal(count_of(&mount, "compressed"), 0, "nothing is compressed");
	tap_equal(count_of(&mount, "compressed_bytes"), 0, "nor counted as if");
	tap_equal(text_wrong(memory, PAGES, TEXT_LINES, 20), 0, "every byte is where it was");
	inject("fail_alloc", "0");
	tap_ok(wait_until(count_of(&mount, "compressed") == PAGES), "with memory again, all is compressed");
	tap_equal(text_wrong(memory, PAGES, TEXT_LINES, 20), 0, "and comes back");
	unmap_pages(memory, PAGES);
	close(file);
	mount_end(&mount);
}

/* A fault that needs a page, and compression that has no memory: a signal, no hang; then, with memory, no signal. */
static void no_base_memory_in_fault(void)
{
	struct mount mount = mount_new("hzmem", "watermark=100,period=3600");
	unsigned int total = node_count(-1, "free"), pages = total + 4;
	int file = file_new(&mount);
	char *memory = map_shared(file, pages);

	alarm(1200);
	text_fill_all(memory, total, TEXT_LINES, 30);
	inject("fail_alloc", "1000000");
	tap_ok(write_faults(memory + total * HUGE), "no page and no memory for compressed data: a signal");
	/* What compression found to fail is not tried at every touch, so that the next ones are as quick. */
	tap_ok(write_faults(memory + (total + 1) * HUGE), "and again");
	inject("fail_alloc", "0");
	tap_ok(wait_until(!write_faults(memory + total * HUGE)), "with memory again it is served");
	inject("fail_alloc", "1");
	tap_ok(!write_faults(memory + (total + 1) * HUGE), "when one allocation fails, another victim's does not");
	inject("fail_alloc", "0");
	tap_equal(text_wrong(memory, total, TEXT_LINES, 30), 0, "every byte is right");
	alarm(0);
	unmap_pages(memory, pages);
	close(file);
	mount_end(&mount);
}

int main(void)
{
	long before = node_count(-1, "free");

	if (access(HZ_DEBUGFS "corrupt", F_OK)) {
		tap_skip("damage and failing allocations", "the module was built without HZMEM_INJECT=1");
		return tap_end();
	}
	damaged();
	damaged_private();
	no_base_memory();
	no_base_memory_in_fault();
	tap_equal(node_count(-1, "free"), before, "every page is given back");
	return tap_end();
}
