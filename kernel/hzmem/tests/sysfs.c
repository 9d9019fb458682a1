// SPDX-License-Identifier: GPL-2.0
/* What sysfs counts is what the program knows it did; the tracepoints; who may read and write. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include "hz.h"

#define TRACING "/sys/kernel/tracing/"

static struct mount mount_;

static void is(const char *name, long should)
{
	tap_equal(count_of(&mount_, name), should, "%s is %ld", name, should);
}

/* Pages here, zero, compressed and corrupt are all the pages there are. */
static void adds_up(long pages)
{
	tap_equal(count_of(&mount_, "resident") + count_of(&mount_, "zero") + count_of(&mount_, "compressed") +
		  count_of(&mount_, "corrupt"), pages, "resident, zero, compressed and corrupt add up to %ld", pages);
	tap_equal(count_of(&mount_, "active") + count_of(&mount_, "inactive"), count_of(&mount_, "resident"),
		  "active and inactive to those resident");
	tap_equal(node_count(-1, "total") - node_count(-1, "free"), count_of(&mount_, "resident"),
		  "and those to what the nodes lack");
}

static bool touch_one(void *memory)
{
	return text_right(memory, TEXT_LINES, 1);
}

static bool write_one(void *memory)
{
	text_fill(memory, TEXT_LINES, 9);
	return true;
}

static void counted(void)
{
	int file;
	char *memory, *private;

	mount_ = mount_new("hzmem", "size=64M,watermark=100,period=3600");
	adds_up(0);
	is("size", 32);
	file = file_new(&mount_);
	memory = map_shared(file, 4);
	text_fill_all(memory, 4, TEXT_LINES, 1);
	is("faults_zero", 4);
	is("faults_resident", 0);
	is("faults_cow", 0);
	adds_up(4);
	tap_ok(in_child(touch_one, memory), "a child touches a page");
	is("faults_zero", 4);
	is("faults_resident", 1);
	private = map_private(file, 4);
	tap_ok(text_right(private, TEXT_LINES, 1), "a private mapping is read");
	is("faults_cow", 0);
	text_fill(private + HUGE, TEXT_LINES, 7);
	is("faults_cow", 1);
	adds_up(5);
	tap_ok(in_child(write_one, private + HUGE), "a child writes to a private page");
	is("faults_cow", 2);
	adds_up(5);
	unmap_pages(private, 4);
	adds_up(4);
	ftruncate(file, HUGE);
	adds_up(1);
	is("faults_decompress", 0);
	is("compressions", 0);
	is("direct_reclaims", 0);
	is("sigbus", 0);
	unmap_pages(memory, 4);
	close(file);
	adds_up(0);
	mount_end(&mount_);
}

static void compressed(void)
{
	int file;
	char *memory;
	long before;

	mount_ = mount_new("hzmem", "watermark=0,period=50ms");
	file = file_new(&mount_);
	memory = map_shared(file, 7);
	text_fill_all(memory, 3, TEXT_LINES, 1);
	text_fill_all(memory + 3 * HUGE, 2, TEXT_ZEROS, 0);
	text_fill_all(memory + 5 * HUGE, 2, TEXT_RANDOM, 1);
	/* A page is counted as compressed a moment before it is free. */
	tap_ok(wait_until(count_of(&mount_, "compressed") == 3 && count_of(&mount_, "zero") == 2 &&
			  count_of(&mount_, "incompressible") == 2 &&
			  node_count(-1, "total") - node_count(-1, "free") == 2),
	       "three compressed, two zero, two that cannot be");
	if (mount("none", mount_.path, "hzmem", MS_REMOUNT, "watermark=100,period=3600"))
		tap_bail("remount");
	adds_up(7);
	tap_ok(count_of(&mount_, "compressions") >= 3, "compressions counted");
	tap_ok(count_of(&mount_, "compressions_zero") >= 2, "and of zeros");
	tap_ok(wait_until(count_of(&mount_, "compressions_refused") >= 2), "and what was refused");
	tap_ok(count_of(&mount_, "scans") > 0 && count_of(&mount_, "pages_scanned") >= 7, "scans and pages scanned");
	before = count_of(&mount_, "faults_decompress");
	tap_equal(text_wrong(memory, 3, TEXT_LINES, 1), 0, "three pages are touched");
	is("faults_decompress", before + 3);
	is("compressed", 0);
	is("compressed_bytes", 0);
	adds_up(7);
	unmap_pages(memory, 7);
	close(file);
	mount_end(&mount_);
}

/* Two mounts are counted apart. */
static void apart(void)
{
	struct mount other = mount_new("hzmem", "watermark=100"), one = mount_new("hzmem", "watermark=100");
	int file = file_new(&one);
	char *memory = map_shared(file, 2);

	text_fill_all(memory, 2, TEXT_LINES, 1);
	tap_ok(count_of(&one, "resident") == 2 && count_of(&other, "resident") == 0 &&
	       count_of(&other, "faults_zero") == 0, "one mount's pages are not another's");
	unmap_pages(memory, 2);
	close(file);
	mount_end(&one);
	tap_equal(count_of(&other, "resident"), 0, "which stays when the one goes");
	mount_end(&other);
}

/* A file's mode, and that each of these is there. */
static void modes(void)
{
	static const char *const numbers[] = {
		"size", "watermark", "period_ms", "readahead", "compressed_limit_bytes", "resident", "zero", "compressed",
		"active", "inactive", "incompressible", "pinned", "corrupt", "compressed_bytes", "faults_zero",
		"faults_resident", "faults_decompress", "faults_cow", "compressions", "compressions_zero",
		"compressions_refused", "direct_reclaims", "readaheads", "sigbus", "scans", "pages_scanned",
	};
	unsigned int wrong = 0;
	struct stat status;
	struct range range;
	char path[128];
	unsigned long sum = 0;

	mount_ = mount_new("hzmem", NULL);
	for (unsigned int i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		snprintf(path, sizeof(path), "%s%s", mount_.sysfs, numbers[i]);
		if (stat(path, &status) || (status.st_mode & 0777) != 0444 || read_number(path, -1) < 0) {
			tap_note("%s", path);
			wrong++;
		}
	}
	tap_equal(wrong, 0, "every file of a mount is a number, and for reading");
	mount_end(&mount_);
	tap_ok(!stat(HZ_SYSFS "add", &status) && (status.st_mode & 0777) == 0200 && !stat(HZ_SYSFS "remove", &status) &&
	       (status.st_mode & 0777) == 0200, "add and remove are for writing, by root");
	for (unsigned int i = 0; range_read(i, &range); i++) {
		sum += range.free;
		if (strcmp(range.origin, "boot"))
			tap_note("range %u is from %s", i, range.origin);
	}
	tap_ok(!stat(HZ_SYSFS "ranges/0/start", &status) && (status.st_mode & 0777) == 0400,
	       "where a range lies is shown to root alone");
	tap_equal(sum, node_count(-1, "total"), "the ranges' free pages are all pages, with nothing in use");
}

/* ---- Tracepoints ------------------------------------------------------- */

static unsigned int traced(const char *name)
{
	FILE *file = fopen(TRACING "trace", "re");
	char line[512], text[32];
	unsigned int found = 0;

	snprintf(text, sizeof(text), " %s: ", name);
	while (file && fgets(line, sizeof(line), file))
		found += strstr(line, text) != NULL;
	if (file)
		fclose(file);
	return found;
}

static void tracepoints(void)
{
	static const char *const names[] = {
		"hzmem_fault", "hzmem_compress", "hzmem_decompress", "hzmem_scan", "hzmem_reclaim",
	};
	unsigned int pages;
	int file;
	char *memory;

	if (access(TRACING "events/hzmem", F_OK)) {
		tap_skip("tracepoints", "the kernel has no tracing");
		return;
	}
	write_file(TRACING "trace", "");
	write_file(TRACING "events/hzmem/enable", "1");
	mount_ = mount_new("hzmem", "watermark=0,period=50ms");
	file = file_new(&mount_);
	memory = map_shared(file, 2);
	text_fill_all(memory, 2, TEXT_LINES, 1);
	tap_ok(wait_until(count_of(&mount_, "compressed") == 2), "pages are compressed");
	tap_ok(text_right(memory, TEXT_LINES, 1), "and one comes back");
	unmap_pages(memory, 2);
	close(file);
	mount_end(&mount_);
	/* Reclaim in a fault. */
	mount_ = mount_new("hzmem", "watermark=100,period=3600");
	file = file_new(&mount_);
	pages = node_count(-1, "free") + 1;
	memory = map_shared(file, pages);
	for (unsigned int i = 0; i < pages; i++)
		memory[i * HUGE] = 1;
	unmap_pages(memory, pages);
	close(file);
	mount_end(&mount_);
	write_file(TRACING "events/hzmem/enable", "0");
	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++)
		tap_ok(traced(names[i]) > 0, "%s is traced", names[i]);
	write_file(TRACING "trace", "");
}

int main(void)
{
	counted();
	compressed();
	apart();
	modes();
	tracepoints();
	return tap_end();
}
