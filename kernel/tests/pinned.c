// SPDX-License-Identifier: GPL-2.0
/* COMPACT of blocks with pages that somebody holds: left alone, every byte in place. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "device.h"
#include "memory.h"
#include "tap.h"

static int device;

/* A block that can be emptied, and one page in it. */
struct target {
	struct sparse sparse;
	uint64_t block;
	char *page;
	uint64_t frame;
};

static struct target target_make(uint64_t seed)
{
	struct target target = { .sparse = sparse_make(64 * HUGE, 8, seed) };
	size_t from = 0;

	target.block = sparse_block(&target.sparse, device, 30, &from);
	target.page = sparse_page_in(&target.sparse, target.block);
	if (!target.page)
		tap_bail("no block of a sparse program could be emptied");
	target.frame = frame_of(target.page);
	return target;
}

/* While its page is held, the block is refused and nothing in it has moved. */
static void is_refused(const struct target *target, const char *holder)
{
	struct mega_compact request;
	bool named, moved = false;

	/*
	 * A page of the block that somebody else allocates or holds just then may be
	 * named in its place; but at no time is anything moved.
	 */
	for (unsigned int i = 0; i < 100; i++) {
		request = compact(device, target->block, 9, 0);
		named = request.stop == MEGA_STOP_PINNED && request.blocker == target->frame;
		moved |= request.attempts || request.migrated;
		if (named)
			break;
		usleep(10000);
	}
	tap_equal(request.stop, MEGA_STOP_PINNED, "a page held by %s is refused", holder);
	tap_ok(named, "and named");
	tap_ok(!moved, "and nothing is moved");
	tap_ok(frame_of(target->page) == target->frame, "nor is the page");
	if (request.stop != MEGA_STOP_PINNED)
		compact_note(&request);
}

static void is_emptied(struct target *target)
{
	struct mega_compact request = compact_until(device, target->block, 9, 0, MEGA_STOP_DONE);

	tap_equal(request.stop, MEGA_STOP_DONE, "once it is let go the block is emptied");
	tap_ok(frame_of(target->page) != target->frame, "and the page has moved");
	tap_equal(sparse_wrong(&target->sparse), 0, "no byte changed");
	if (request.stop != MEGA_STOP_DONE)
		compact_note(&request);
	sparse_free(&target->sparse);
}

static void pipe_holds(void)
{
	struct target target = target_make(11);
	struct iovec vector = { .iov_base = target.page, .iov_len = PAGE };
	char copy[PAGE];
	int ends[2];

	if (pipe(ends) || vmsplice(ends[1], &vector, 1, 0) != PAGE)
		tap_bail("vmsplice");
	is_refused(&target, "a pipe");
	tap_ok(read(ends[0], copy, PAGE) == PAGE && !memcmp(copy, target.page, PAGE),
	       "the pipe has its bytes");
	close(ends[0]);
	close(ends[1]);
	is_emptied(&target);
}

static void io_uring_hold(int ring, char *page)
{
	struct iovec vector = { .iov_base = page, .iov_len = PAGE };

	if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &vector, 1))
		tap_bail("IORING_REGISTER_BUFFERS");
}

static void io_uring_let_go(int ring)
{
	if (syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_BUFFERS, NULL, 0))
		tap_bail("IORING_UNREGISTER_BUFFERS");
}

/*
 * What is pinned for long is moved first where memory may go offline, once: to where the kernel
 * has what it cannot move, as long as pages are free there, be they hundreds. So one page after
 * the other is tried, until one comes to lie in a block that can be emptied.
 */
static struct target target_for_long(int ring, uint64_t seed)
{
	struct target target = { .sparse = sparse_make(64 * HUGE, 8, seed) };

	for (size_t i = 0; i < sparse_pages(&target.sparse); i++) {
		target.page = target.sparse.memory + i * target.sparse.every * PAGE;
		io_uring_hold(ring, target.page);
		io_uring_let_go(ring);
		target.frame = frame_of(target.page);
		target.block = target.frame / 512 * 512;
		if (compact(device, target.block, 9, MEGA_COMPACT_DRY_RUN).stop == MEGA_STOP_WOULD)
			return target;
	}
	tap_bail("no page of a sparse program, where it may be pinned for long, is in a block that could be emptied");
}

static void io_uring_holds(void)
{
	struct io_uring_params parameters = { 0 };
	int ring = syscall(SYS_io_uring_setup, 4, &parameters);
	struct target target;

	if (ring < 0) {
		tap_skip("io_uring buffers", "this kernel has no io_uring");
		return;
	}
	target = target_for_long(ring, 12);
	io_uring_hold(ring, target.page);
	target.frame = frame_of(target.page);
	target.block = target.frame / 512 * 512;
	is_refused(&target, "io_uring");
	io_uring_let_go(ring);
	close(ring);
	is_emptied(&target);
}

/* ---- O_DIRECT in flight ------------------------------------------------ */

#define DISK "/dev/zram0"
#define PAGES 64

struct writer {
	int disk;
	char *memory;
	volatile bool stop;
	volatile unsigned long rounds;
	volatile unsigned long wrong;
};

/* Writes known pages with O_DIRECT and reads them back, over and over. */
static void *write_and_read(void *argument)
{
	struct writer *writer = argument;
	char *back = map_aligned(PAGE * PAGES);

	for (; !writer->stop; writer->rounds++) {
		uint64_t seed = writer->rounds;

		for (int i = 0; i < PAGES; i++)
			page_fill(writer->memory + i * PAGE, seed);
		if (pwrite(writer->disk, writer->memory, PAGE * PAGES, 0) != (ssize_t)PAGE * PAGES ||
		    pread(writer->disk, back, PAGE * PAGES, 0) != (ssize_t)PAGE * PAGES) {
			writer->wrong += PAGES;
			break;
		}
		for (int i = 0; i < PAGES; i++)
			writer->wrong += !page_right(writer->memory + i * PAGE, seed) ||
					 memcmp(writer->memory + i * PAGE, back + i * PAGE, PAGE);
	}
	munmap(back, PAGE * PAGES);
	return NULL;
}

static void direct_io(void)
{
	struct writer writer = { 0 };
	unsigned int done = 0, pinned = 0, other = 0;
	pthread_t thread;

	if (access(DISK, F_OK) || !write_file("/sys/block/zram0/disksize", "16M")) {
		tap_skip("O_DIRECT in flight", "there is no " DISK " to write to");
		return;
	}
	writer.disk = open(DISK, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (writer.disk < 0)
		tap_bail("open " DISK);
	writer.memory = map_aligned(PAGE * PAGES);
	memset(writer.memory, 1, PAGE * PAGES);
	pthread_create(&thread, NULL, write_and_read, &writer);
	/* Until some rounds were made meanwhile, however slow the writer's CPU is. */
	for (unsigned int i = 0; i < 200 || (writer.rounds < 2 && !writer.wrong); i++) {
		uint64_t frame = frame_of(writer.memory + i % PAGES * PAGE);
		struct mega_compact request = compact(device, frame / 512 * 512, 9, 0);

		done += request.stop == MEGA_STOP_DONE;
		pinned += request.stop == MEGA_STOP_PINNED;
		other += request.stop != MEGA_STOP_DONE && request.stop != MEGA_STOP_PINNED;
	}
	writer.stop = true;
	pthread_join(thread, NULL);
	tap_ok(!writer.wrong && writer.rounds, "O_DIRECT in flight: every byte is as written");
	tap_note("%lu rounds; %u blocks emptied, %u pinned, %u otherwise", writer.rounds, done, pinned,
		 other);
	munmap(writer.memory, PAGE * PAGES);
	close(writer.disk);
	write_file("/sys/block/zram0/reset", "1");
}

int main(void)
{
	device = device_open();
	pipe_holds();
	io_uring_holds();
	direct_io();
	return tap_end();
}
