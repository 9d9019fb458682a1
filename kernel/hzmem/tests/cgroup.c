// SPDX-License-Identifier: GPL-2.0
/* A memory cgroup is charged for what its processes' pages are compressed to, and its limit holds. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hz.h"

#define ALONE "watermark=100,period=3600"
#define GROUPS "/sys/fs/cgroup/"
#define GROUP GROUPS "hzmem-test/"

/* What the program itself may use beyond what it has when it enters the group: page tables, entries, stack. */
#define OWN (2L << 20)

static unsigned int total;

/* What a process in the group found. */
struct report {
	unsigned int filled;
	bool refused;
	char *volatile memory;	/* where a process has mapped the file */
};

struct work {
	struct mount mount;
	int file;
	unsigned int pages;
	long limit;
	struct report *report;
};

/* The value of a key in a flat keyed cgroup file. */
static long keyed(const char *path, const char *key)
{
	FILE *file = fopen(path, "re");
	long value = -1, number;
	char name[64];

	while (file && fscanf(file, "%63s %ld", name, &number) == 2)
		if (!strcmp(name, key))
			value = number;
	if (file)
		fclose(file);
	return value;
}

static bool make_group(void)
{
	write_file(GROUPS "cgroup.subtree_control", "+memory");
	if (mkdir(GROUP, 0755) && errno != EEXIST)
		return false;
	return !access(GROUP "memory.max", F_OK);
}

/* Into the group, with so many bytes to come that it may be charged for. Returns the way out. */
static int enter(long bytes)
{
	int out = open(GROUPS "cgroup.procs", O_WRONLY | O_CLOEXEC);
	char text[24];

	snprintf(text, sizeof(text), "%d", getpid());
	if (out < 0 || !write_file(GROUP "cgroup.procs", text))
		exit(1);
	snprintf(text, sizeof(text), "%ld", read_number(GROUP "memory.current", 0) + bytes);
	if (!write_file(GROUP "memory.max", text))
		exit(1);
	return out;
}

/* At the limit the OOM killer may run for whatever the kernel itself needs for what follows: opening a file, unmapping. */
static void leave(int out)
{
	if (write(out, "0", 1) != 1)
		exit(1);
	close(out);
}

/* Fills the file until it is refused a page. */
static void fill(void *argument)
{
	struct work *work = argument;
	char *memory = map_shared(work->file, work->pages);
	int out = enter(work->limit);
	unsigned int i;

	for (i = 0; i < work->pages && !write_faults(memory + i * HUGE); i++)
		text_fill(memory + i * HUGE, TEXT_LINES, i);
	leave(out);
	work->report->filled = i;
	work->report->refused = i < work->pages;
	unmap_pages(memory, work->pages);
}

static void charged(void)
{
	struct work work = {
		.mount = mount_new("hzmem", ALONE), .pages = total + total / 2, .limit = 1L << 30,
		.report = share(sizeof(*work.report)),
	};
	long bytes, charged;

	work.file = file_new(&work.mount);
	ended(start(fill, &work));
	bytes = count_of(&work.mount, "compressed_bytes");
	charged = keyed(GROUP "memory.stat", "vmalloc");
	tap_equal(work.report->filled, work.pages, "with room, a process in a cgroup has more pages than there are");
	tap_ok(bytes > 0 && charged >= bytes / 2 && charged <= 2 * bytes, "and the cgroup is charged for what they are compressed to");
	tap_note("%ld bytes compressed, %ld charged as vmalloc, %ld in all", bytes, charged, read_number(GROUP "memory.current", 0));
	tap_ok(read_number(GROUP "memory.current", 0) >= bytes, "all of it");
	close(work.file);
	tap_equal(count_of(&work.mount, "compressed_bytes"), 0, "when the file goes");
	tap_ok(wait_until(read_number(GROUP "memory.current", 0) < bytes), "so does the charge");
	mount_end(&work.mount);
}

/* Maps the file, in the group, and touches nothing of it. */
static void lie_still(void *argument)
{
	struct work *work = argument;

	enter(work->limit);
	work->report->memory = map_shared(work->file, work->pages);
	pause();
}

/* As a debugger does, from outside of the group. */
static bool write_to(pid_t process, char *page, char *buffer)
{
	struct iovec from = { .iov_base = buffer, .iov_len = HUGE }, to = { .iov_base = page, .iov_len = HUGE };

	return process_vm_writev(process, &from, 1, &to, 1, 0) == (ssize_t)HUGE;
}

static void written_from_outside(void)
{
	struct work work = {
		.mount = mount_new("hzmem", ALONE), .pages = total + total / 2, .limit = 1L << 30,
		.report = share(sizeof(*work.report)),
	};
	char *buffer = map_aligned(HUGE);
	long bytes, charged;
	unsigned int i;
	pid_t owner;

	work.file = file_new(&work.mount);
	owner = start(lie_still, &work);
	wait_until(work.report->memory);
	for (i = 0; i < work.pages; i++) {
		text_fill(buffer, TEXT_LINES, i);
		if (!write_to(owner, work.report->memory + i * HUGE, buffer))
			break;
	}
	tap_equal(i, work.pages, "who is not in the group writes to all the pages of a process that is, and that has touched none");
	bytes = count_of(&work.mount, "compressed_bytes");
	charged = keyed(GROUP "memory.stat", "vmalloc");
	tap_ok(bytes > 0 && charged >= bytes / 2 && charged <= 2 * bytes, "that one's group is charged for what they are compressed to");
	tap_note("%ld bytes compressed, %ld charged as vmalloc", bytes, charged);
	kill(owner, SIGKILL);
	ended(owner);
	close(work.file);
	mount_end(&work.mount);
	munmap(buffer, HUGE);
	tap_ok(wait_until(keyed(GROUP "memory.stat", "vmalloc") < bytes / 4), "and no more when the file has gone");
}

static void at_its_limit(void)
{
	struct work work = {
		.mount = mount_new("hzmem", ALONE), .pages = total + total / 2, .limit = OWN,
		.report = share(sizeof(*work.report)),
	};
	int file, log = log_open();
	unsigned int kept;
	char *own, *memory;

	/* A mount's user outside of the group, whose pages are compressed at nobody else's cost. */
	file = file_new(&work.mount);
	own = map_shared(file, 8);
	text_fill_all(own, 4, TEXT_LINES, 1000);
	work.file = file_new(&work.mount);
	ended(start(fill, &work));
	tap_ok(work.report->refused && work.report->filled >= total - 4, "at its limit it is refused, and not before all pages are in use");
	tap_ok(log_lines(log, "hzmem: SIGBUS") > 0, "with a line in the log");
	tap_ok(keyed(GROUP "memory.stat", "vmalloc") <= read_number(GROUP "memory.max", 0), "it was charged for no more than its limit");
	tap_equal(keyed(GROUP "memory.events", "oom_kill"), 0, "and nobody in it was killed for it");
	tap_note("%u pages filled of %u, %ld bytes compressed", work.report->filled, total, count_of(&work.mount, "compressed_bytes"));

	/* Two pages for eight: the group's cannot be compressed, but of those eight each can. */
	kept = work.report->filled - 2;
	ftruncate(work.file, kept * HUGE);
	text_fill_all(own + 4 * HUGE, 4, TEXT_LINES, 1004);
	tap_equal(text_wrong(own, 8, TEXT_LINES, 1000), 0, "who is not in it goes on, with pages of its own compressed");

	/* The group goes; what it was charged for is its parent's, which has room to read it all back. */
	tap_ok(wait_until(!rmdir(GROUP)), "the group can be removed while its pages are there");
	unmap_pages(own, 8);
	close(file);
	memory = map_shared(work.file, kept);
	tap_equal(text_wrong(memory, kept, TEXT_LINES, 0), 0, "every byte is right");
	unmap_pages(memory, kept);
	close(work.file);
	tap_equal(count_of(&work.mount, "compressed_bytes"), 0, "no base memory is left in use");
	mount_end(&work.mount);
}

/* Pages of which each is compressed to 4 KiB, until one is refused; then pages of zeros, for which only entries are charged. */
static void fill_to_the_last(void *argument)
{
	struct work *work = argument;
	char *memory = map_shared(work->file, work->pages);
	int out = enter(work->limit);
	unsigned int i;
	bool refused;

	for (i = 0; i < work->pages && !write_faults(memory + i * HUGE); i++)
		memory[i * HUGE] = 1;
	refused = fallocate(work->file, 0, work->pages * HUGE, work->pages * HUGE) && errno == ENOSPC;
	leave(out);
	work->report->filled = i;
	work->report->refused = refused;
	unmap_pages(memory, work->pages);
}

static void without_entries(void)
{
	struct work work = {
		.mount = mount_new("hzmem", ALONE ",size=4G"), .pages = 512, .limit = 16 << 10,
		.report = share(sizeof(*work.report)),
	};
	int file = file_new(&work.mount);
	char *own = map_shared(file, 4);

	if (!make_group())
		tap_bail("mkdir %s", GROUP);
	/* Pages of somebody else, in whose place those of zeros come. */
	text_fill_all(own, 4, TEXT_LINES, 1000);
	work.file = file_new(&work.mount);
	tap_equal(ended(start(fill_to_the_last, &work)), 0, "where there is no room for an entry, nobody is killed");
	tap_ok(work.report->refused, "but a page is refused");
	tap_note("%u pages filled, %ld of zeros", work.report->filled, count_of(&work.mount, "zero"));
	unmap_pages(own, 4);
	close(file);
	close(work.file);
	rmdir(GROUP);
	mount_end(&work.mount);
}

int main(void)
{
	total = node_count(-1, "free");
	if (!make_group()) {
		tap_skip("a memory cgroup", "there is no cgroup2 with a memory controller");
		return tap_end();
	}
	charged();
	written_from_outside();
	at_its_limit();
	without_entries();
	tap_equal(node_count(-1, "free"), total, "every page is given back");
	return tap_end();
}
