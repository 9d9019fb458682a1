// SPDX-License-Identifier: GPL-2.0
/*
 * Memory added at run time, from a range that mega.ko's COMPACT has emptied, and given back to the kernel. Needs mega.ko
 * and a block of memory that holds nothing of the kernel itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "hz.h"
#include "memory.h"

#define MEMORY "/sys/devices/system/memory/"

static unsigned long block;	/* bytes that memory comes and goes in */

static long memory_total(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	long total = 0;

	if (!file || fscanf(file, "MemTotal: %ld kB", &total) != 1)
		tap_bail("read /proc/meminfo");
	fclose(file);
	return total;
}

/* Whether the kernel has this much memory, but for what it keeps to describe a block. */
static bool has_about(long total)
{
	long is = memory_total(), off = is > total ? is - total : total - is;

	if (off <= (long)(block >> 10) / 32)
		return true;
	tap_note("the kernel has %ld kB, should have %ld", is, total);
	return false;
}

/* Writes the text to add or remove: 0 or the errno. */
static int ask(const char *file, const char *text)
{
	char path[64];
	int opened, error = 0;

	snprintf(path, sizeof(path), HZ_SYSFS "%s", file);
	opened = open(path, O_WRONLY | O_CLOEXEC);
	if (opened < 0)
		tap_bail("open %s", path);
	if (write(opened, text, strlen(text)) < 0)
		error = errno;
	close(opened);
	return error;
}

static int add(unsigned long start, unsigned long size)
{
	char text[64];

	snprintf(text, sizeof(text), "0x%lx %lu", start, size);
	return ask("add", text);
}

static int give_back(unsigned long start)
{
	char text[64];

	snprintf(text, sizeof(text), "0x%lx", start);
	return ask("remove", text);
}

/* Whether the ranges in sysfs have one that starts there, of that kind. */
static bool has_range(unsigned long start, const char *kind)
{
	struct range range;
	bool found = false;

	/* Numbers are not used again. */
	for (unsigned int i = 0; i < 64; i++)
		found |= range_read(i, &range) && range.start == start && !strcmp(range.origin, kind);
	return found;
}

static bool is_online(unsigned long start)
{
	return memory_state_is(start / block, "online");
}

/* Puts the block online, which it may be by itself, as the kernel is set up. */
static bool online(unsigned long start)
{
	char path[96];

	snprintf(path, sizeof(path), MEMORY "memory%lu/state", start / block);
	return is_online(start) || write_file(path, "online_movable") || write_file(path, "online");
}

/* Empties a block of memory after the other, from the last on, until one is empty: its address, or 0. */
static unsigned long emptied(int device, unsigned long from)
{
	unsigned int order = __builtin_ctzl(block / PAGE);

	for (unsigned long start = from / block * block; start; start -= block) {
		struct mega_compact request = compact_request(start / PAGE, order);

		request.flags = MEGA_COMPACT_MOVE_HUGE;
		if (ioctl(device, MEGA_IOC_COMPACT, &request))
			continue;
		if (request.stop == MEGA_STOP_DONE || request.stop == MEGA_STOP_ALREADY_FREE)
			return start;
		compact_note(&request);
	}
	return 0;
}

/*
 * The same until one that is emptied is added too: its address, or 0. Which blocks lie below the kernel, so that Linux
 * cannot cut them out, is as its image was placed this time; and the kernel may take memory in a block again before it is
 * offline (EBUSY).
 */
static unsigned long emptied_and_added(int device)
{
	unsigned long start = end_frame(device) * PAGE;
	int error = EOPNOTSUPP;

	while (error == EOPNOTSUPP || error == EBUSY) {
		start = emptied(device, start - block);
		if (!start)
			return 0;
		error = add(start, block);
		tap_note("0x%lx is emptied, and added: %s", start, strerror(error));
	}
	return error ? 0 : start;
}

static void wrong_requests(void)
{
	static const char *const wrong[] = {
		"", "x", "0x10000000", "0x10000000 0", "0x10000000 4096", "4096 134217728", "-1 134217728",
		"0xfffffffff8000000 134217728", "0 99999999999999999999", "0x10000000 134217728 1", "1099511627776 134217728",
	};

	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		int error = ask("add", wrong[i]);

		/* An empty text is no write at all. */
		tap_ok(error || !*wrong[i], "add \"%s\" is refused", wrong[i]);
		if (error)
			tap_note("%s", strerror(error));
	}
	tap_ok(ask("remove", "12345"), "remove of what is not there is refused");
	tap_ok(ask("remove", "x"), "and of what is no number");
	tap_ok(add(0, block), "and to add the memory that the kernel itself lies in");
}

int main(void)
{
	long total = node_count(-1, "total"), memory = memory_total();
	unsigned long start, pages;
	struct sparse sparse;
	struct mount mount;
	int device, file;
	char *mapped;

	block = memory_block_bytes();
	if (!block) {
		tap_skip("memory added at run time", "the kernel has no memory hotplug");
		return tap_end();
	}
	pages = block / HUGE;
	device = device_open();
	wrong_requests();
	tap_equal(node_count(-1, "total"), total, "none of it changed the pool");
	tap_ok(has_about(memory), "nor the kernel's memory");

	/* Somebody is in the way. */
	sparse = sparse_make(64 * HUGE, 4, 7);
	start = emptied_and_added(device);
	tap_ok(start, "a block of %lu MiB that mega.ko has emptied is added", block >> 20);
	if (!start)
		return tap_end();
	tap_equal(node_count(-1, "total"), total + pages, "the pool has its pages");
	tap_equal(node_count(-1, "free"), total + pages, "all free");
	tap_ok(has_about(memory - (long)(block >> 10)), "the kernel has that much less");
	tap_ok(has_range(start, "added"), "ranges has it, as added");
	tap_ok(add(start, block), "it cannot be added twice");
	tap_equal(sparse_wrong(&sparse), 0, "no byte of a program in its way changed");

	mount = mount_new("hzmem", "watermark=100,period=3600");
	file = file_new(&mount);
	mapped = map_shared(file, total + pages);
	text_fill_all(mapped, total + pages, TEXT_RANDOM, 1);
	tap_equal(text_wrong(mapped, total + pages, TEXT_RANDOM, 1), 0, "all pages, old and new, hold data");
	tap_equal(give_back(start), EBUSY, "in use it is not given back: EBUSY");
	tap_equal(text_wrong(mapped, total + pages, TEXT_RANDOM, 1), 0, "and every byte is there");
	unmap_pages(mapped, total + pages);
	close(file);
	mount_end(&mount);
	tap_equal(give_back(start), 0, "with all its pages free it is");
	tap_equal(node_count(-1, "total"), total, "the pool is as it was");
	tap_ok(!has_range(start, "added"), "ranges has it no more");
	tap_ok(online(start) && wait_until(is_online(start)), "the kernel can have it online");
	tap_ok(has_about(memory), "and has as much as before");
	tap_equal(give_back(start), ENOENT, "it cannot be given back twice: ENOENT");

	/* The same again: nothing of the first time is in its way. */
	start = emptied_and_added(device);
	tap_ok(start, "emptied and added once more");
	tap_ok(start && !give_back(start) && online(start), "and given back at once");
	tap_ok(has_about(memory), "the kernel has it");
	tap_equal(sparse_wrong(&sparse), 0, "no byte of the program changed in all that");
	sparse_free(&sparse);
	close(device);
	return tap_end();
}
