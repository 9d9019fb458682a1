// SPDX-License-Identifier: GPL-2.0
/*
 * What a database does with huge pages: one shared segment, mapped by a parent and used by the processes it forks, with
 * locks in it, and pages written from it to a disk with O_DIRECT and read back into it. HZMEM_DATABASE_SECONDS, or 5.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "hz.h"
#include "random.h"

#define DISK "/dev/zram0"
#define BACKENDS 4
/* Buffers of 8 KiB, each with its place on the disk. */
#define BLOCK 8192UL
#define WORDS (BLOCK / sizeof(uint64_t))
#define SEGMENT 12
#define BUFFERS ((SEGMENT - 1) * HUGE / BLOCK)

/* At the segment's start, so that the locks are in huge pages too. */
struct segment {
	pthread_mutex_t locks[256];
	volatile bool stop;
	unsigned long reads, writes, wrong, failed;
	/* By buffer: the block that is in it, and its version. */
	uint32_t block[BUFFERS], version[BUFFERS];
};

static struct segment *segment;
static char *buffers;
static int disk;

static char *buffer_at(unsigned int buffer)
{
	return buffers + buffer * BLOCK;
}

static void write_block(unsigned int buffer)
{
	uint64_t *words = (uint64_t *)buffer_at(buffer);
	uint64_t first = mix(segment->block[buffer] * 1000003ULL + segment->version[buffer]);

	for (unsigned int i = 0; i < WORDS; i++)
		words[i] = i % 8 ? first : first + i;
}

static bool block_right(unsigned int buffer)
{
	uint64_t *words = (uint64_t *)buffer_at(buffer);
	uint64_t first = mix(segment->block[buffer] * 1000003ULL + segment->version[buffer]);

	for (unsigned int i = 0; i < WORDS; i++)
		if (words[i] != (i % 8 ? first : first + i))
			return false;
	return true;
}

static void add(unsigned long *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/*
 * A buffer is written with a new version, put on the disk, overwritten, and read back. Its place is its own, under its
 * lock, so the disk has what its last writer wrote.
 */
static void use_buffer(unsigned int buffer, uint64_t random)
{
	pthread_mutex_t *lock = &segment->locks[buffer % 256];
	off_t at = (off_t)buffer * BLOCK;

	pthread_mutex_lock(lock);
	if (!block_right(buffer))
		add(&segment->wrong);
	if (random & 1) {
		segment->version[buffer]++;
		write_block(buffer);
	}
	if (random & 2) {
		if (pwrite(disk, buffer_at(buffer), BLOCK, at) != (ssize_t)BLOCK)
			add(&segment->failed);
		memset(buffer_at(buffer), 0xee, BLOCK);
		if (pread(disk, buffer_at(buffer), BLOCK, at) != (ssize_t)BLOCK)
			add(&segment->failed);
		add(&segment->writes);
		if (!block_right(buffer))
			add(&segment->wrong);
	}
	add(&segment->reads);
	pthread_mutex_unlock(lock);
}

static void serve(void *argument)
{
	uint64_t state = (uintptr_t)argument + getpid();

	while (!segment->stop) {
		state = mix(state);
		/* Nearly all of the work is with a few buffers; the rest cools down. */
		use_buffer(state % (state >> 52 ? BUFFERS / 8 : BUFFERS), state >> 40);
	}
}

int main(void)
{
	long seconds = seconds_of("HZMEM_DATABASE_SECONDS", 5), before = node_count(-1, "free");
	struct mount mount = mount_new("hzmem", "watermark=0,period=200ms");
	int file = file_new(&mount), failed = 0;
	char *memory = map_shared(file, SEGMENT);
	pthread_mutexattr_t attributes;
	pid_t children[BACKENDS];
	unsigned int wrong = 0;
	time_t end;

	if (access(DISK, F_OK) || !write_file("/sys/block/zram0/disksize", "64M")) {
		tap_skip("a database", "there is no " DISK " to write to");
		return tap_end();
	}
	disk = open(DISK, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (disk < 0)
		tap_bail("open " DISK);
	_Static_assert(sizeof(struct segment) <= HUGE, "one huge page for what is not a buffer");
	segment = (struct segment *)memory;
	buffers = memory + HUGE;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	for (int i = 0; i < 256; i++)
		pthread_mutex_init(&segment->locks[i], &attributes);
	for (unsigned int i = 0; i < BUFFERS; i++) {
		segment->block[i] = i;
		write_block(i);
	}
	for (uintptr_t i = 0; i < BACKENDS; i++)
		children[i] = start(serve, (void *)i);
	end = time(NULL) + seconds;
	while (time(NULL) < end)
		sleep(1);
	/* The time may have been too short for either, on a machine that is busy with something else. */
	tap_ok(wait_until(segment->writes > 0 && count_of(&mount, "compressions") > 0),
	       "blocks are written, pages compressed meanwhile");
	segment->stop = true;
	for (unsigned int i = 0; i < BACKENDS; i++)
		failed += ended(children[i]) != 0;
	for (unsigned int i = 0; i < BUFFERS; i++)
		wrong += !block_right(i);
	tap_equal(failed, 0, "%d processes with one segment, and locks in it, end by themselves", BACKENDS);
	tap_equal(segment->failed, 0, "O_DIRECT to and from it never fails");
	tap_equal(segment->wrong, 0, "no block was another");
	tap_equal(wrong, 0, "and in the end every block is there");
	tap_note("%lu uses, %lu written and read back, %ld compressions", segment->reads, segment->writes,
		 count_of(&mount, "compressions"));
	close(disk);
	write_file("/sys/block/zram0/reset", "1");
	unmap_pages(memory, SEGMENT);
	close(file);
	mount_end(&mount);
	tap_equal(node_count(-1, "free"), before, "every page is given back");
	return tap_end();
}
