// SPDX-License-Identifier: GPL-2.0
/* The counts that the kernel keeps of each chunk: whatever has been done to memory, they are what is there. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/mman.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "counts.h"
#include "kernel.h"
#include "span.h"
#include "tap.h"

#define HUGE_POOL "/proc/sys/vm/nr_hugepages"

static void agree(const char *when)
{
	tap_ok(counts_agree(), "%s the counts are what is seen", when);
}

static unsigned long all_free(void)
{
	struct chunks chunks = chunks_now();
	unsigned long free = 0;

	for (size_t i = 0; i < chunks.count; i++)
		free += chunks.chunk[i].free;
	return free;
}

static unsigned long all_unmovable(void)
{
	struct chunks chunks = chunks_now();
	unsigned long unmovable = 0;

	for (size_t i = 0; i < chunks.count; i++)
		unmovable += chunks.chunk[i].unmovable;
	return unmovable;
}

static void touch(char *memory, size_t length)
{
	for (size_t at = 0; at < length; at += PAGE)
		memory[at] = 1;
}

/* ---- A program's memory ------------------------------------------------ */

static void base_pages(void)
{
	size_t length = 256 * HUGE;
	char *memory = map_aligned(length);
	unsigned long before = all_free();
	long more;

	touch(memory, length);
	more = (long)before - (long)all_free();
	tap_ok(more > (long)(length / PAGE) * 9 / 10, "base pages are seen to be in use (%ld frames more)", more);
	agree("with base pages in use");
	/* Every other one, so that what is free is small. */
	for (size_t at = 0; at < length; at += 2 * PAGE)
		madvise(memory + at, PAGE, MADV_DONTNEED);
	agree("with every other page given back");
	munmap(memory, length);
	agree("with all of them given back");
}

static void huge_pages(void)
{
	size_t length = 256 * HUGE;
	char *memory = map_aligned(length);

	if (madvise(memory, length, MADV_HUGEPAGE))
		tap_bail("MADV_HUGEPAGE");
	touch(memory, length);
	agree("with huge pages in use");
	for (size_t at = 0; at < length; at += HUGE)
		madvise(memory + at + 5 * PAGE, PAGE, MADV_DONTNEED);
	agree("with a page given back of each");
	munmap(memory, length);
	agree("with huge pages given back");
}

/* Copies on write, tables of many processes, stacks. */
static void processes(void)
{
	size_t length = 32 * HUGE;
	char *memory = map_aligned(length);
	pid_t child[8];
	int go[2], ready[2];
	char word;

	touch(memory, length);
	if (pipe(go) || pipe(ready))
		tap_bail("pipe");
	for (unsigned int i = 0; i < 8; i++) {
		child[i] = fork();
		if (!child[i]) {
			close(go[1]);
			touch(memory, length);
			_exit(write(ready[1], "", 1) != 1 || read(go[0], &word, 1) != 0);
		}
	}
	for (unsigned int i = 0; i < 8; i++)
		if (read(ready[0], &word, 1) != 1)
			tap_bail("wait for a child");
	agree("with children that copy");
	close(go[1]);
	for (unsigned int i = 0; i < 8; i++)
		tap_ok(ended_well(child[i]), "a child ends well");
	close(go[0]);
	close(ready[0]);
	close(ready[1]);
	munmap(memory, length);
	agree("with all of them gone");
}

/* Pages for I/O are allocated unmovable when they are registered before they are touched. */
static void long_term_pins(void)
{
	struct io_uring_params params = { 0 };
	size_t length = 8 * HUGE;
	char *memory = map_aligned(length);
	struct iovec whole = { memory, length };
	int ring = syscall(SYS_io_uring_setup, 8, &params);

	if (ring < 0 || syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &whole, 1))
		tap_bail("register a buffer for I/O");
	agree("with memory pinned for long");
	close(ring);
	touch(memory, length);
	agree("with it pinned no more");
	munmap(memory, length);
	agree("with it given back");
}

static void swapped(void)
{
	size_t length = 64 * HUGE;
	char *memory;

	if (!swap_on()) {
		tap_skip("swap", "no zram");
		return;
	}
	memory = map_aligned(length);
	touch(memory, length);
	if (madvise(memory, length, MADV_PAGEOUT))
		tap_bail("MADV_PAGEOUT");
	tap_ok(vmstat("pswpout") > 0, "memory is swapped out");
	agree("with memory swapped out");
	touch(memory, length / 2);
	agree("with half of it back");
	swap_off();
	agree("with swap taken away");
	munmap(memory, length);
	agree("with that memory given back");
}

/* ---- The kernel's ------------------------------------------------------ */

/* Inodes and directory entries, without number; a file's pages; pages in pipes. */
static void kernel_memory(void)
{
	static char data[1 << 20];
	unsigned long before = all_unmovable();
	int pipes[64][2], file = open("/tmp/file", O_RDWR | O_CREAT | O_TRUNC, 0600);
	char name[64];
	long more;

	for (unsigned int i = 0; i < 64; i++)
		if (write(file, data, sizeof(data)) != sizeof(data))
			tap_bail("write a file");
	if (mkdir("/tmp/many", 0700))
		tap_bail("mkdir");
	for (unsigned int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "/tmp/many/%u", i);
		close(open(name, O_RDWR | O_CREAT, 0600));
	}
	for (unsigned int i = 0; i < 64; i++)
		if (pipe2(pipes[i], O_NONBLOCK) || write(pipes[i][1], data, 65536) != 65536)
			tap_bail("fill a pipe");
	more = (long)all_unmovable() - (long)before;
	tap_ok(more >= 64 * 16, "what the kernel allocates for itself is unmovable (%ld frames more)", more);
	agree("with files and pipes");
	for (unsigned int i = 0; i < 64; i++) {
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
	for (unsigned int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "/tmp/many/%u", i);
		unlink(name);
	}
	rmdir("/tmp/many");
	close(file);
	unlink("/tmp/file");
	set_file("/proc/sys/vm/drop_caches", "3");
	agree("without them");
}

/* hugetlb's pool is not to be taken for anything else. */
static void pool(void)
{
	unsigned long before = all_unmovable();
	size_t length = 16 * HUGE;
	char *memory;
	long more;

	set_file(HUGE_POOL, "64");
	more = (long)all_unmovable() - (long)before;
	tap_equal(read_number(HUGE_POOL, 0), 64, "there is a pool of huge pages");
	tap_ok(more >= 63 * (long)(HUGE / PAGE), "all of it is unmovable (%ld frames more)", more);
	agree("with hugetlb's pool");
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
	if (memory == MAP_FAILED)
		tap_bail("mmap of huge pages");
	touch(memory, length);
	agree("with the pool in use");
	munmap(memory, length);
	set_file(HUGE_POOL, "0");
	agree("without the pool");
	tap_ok(all_unmovable() < before + 64 * (HUGE / PAGE) / 2, "and its frames are free to move again");
}

/* ---- Memory that goes and comes ---------------------------------------- */

/* Takes some piece of memory offline, from the last on; returns its number, or 0. */
static unsigned long take_offline(unsigned long frames)
{
	struct chunks chunks = chunks_now();
	unsigned long last = (chunks.chunk[chunks.count - 1].frame + CHUNK_FRAMES) / frames;

	for (unsigned long piece = last - 1; piece && piece + 64 > last; piece--)
		if (set_memory_state(piece, "offline"))
			return piece;
	return 0;
}

static void offline(void)
{
	unsigned long frames = memory_block_bytes() / PAGE, piece;
	struct chunks before, after;

	if (!frames) {
		tap_skip("memory goes offline", "the kernel has no memory hotplug");
		return;
	}
	before = chunks_now();
	piece = take_offline(frames);
	if (!tap_ok(piece, "memory goes offline"))
		return;
	after = chunks_now();
	tap_ok(chunk_of(&after, piece * frames)->unmovable >= frames,
	       "what is offline counts as unmovable (%u frames, before %u)",
	       chunk_of(&after, piece * frames)->unmovable, chunk_of(&before, piece * frames)->unmovable);
	agree("with memory offline");
	tap_ok(set_memory_state(piece, "online"), "it comes back");
	after = chunks_now();
	/* But for what somebody else has allocated meanwhile. */
	tap_ok(chunk_of(&after, piece * frames)->unmovable <
		       chunk_of(&before, piece * frames)->unmovable + frames / 8,
	       "and can be moved again");
	agree("with it back");
}

/* ---- Giant pages ------------------------------------------------------- */

static void giant(int device)
{
	char *span = giant_new(device);
	uint64_t frame = frame_of(span);
	struct chunks chunks = chunks_now();

	tap_ok(chunk_of(&chunks, frame)->mapped, "a giant page's chunk is said to be mapped");
	tap_equal(chunk_of(&chunks, frame)->free, 0, "and to have no free frame");
	tap_equal(chunk_of(&chunks, frame)->unmovable, 0, "and none that could not be moved");
	agree("with a giant page");
	munmap(span, GIANT);
	chunks = chunks_now();
	tap_ok(!chunk_of(&chunks, frame)->mapped, "unmapped it is not any more");
	agree("with the giant page given back");
}

/* What allocates and frees, at the same time and on all processors. */
static void load(void)
{
	pid_t child[4];

	for (unsigned int i = 0; i < 4; i++) {
		child[i] = fork();
		if (child[i])
			continue;
		for (unsigned int round = 0; round < 20; round++) {
			size_t length = (i + 1) * 8 * HUGE;
			char *memory = map_aligned(length);
			pid_t own;

			if (i % 2)
				madvise(memory, length, MADV_HUGEPAGE);
			touch(memory, length);
			own = fork();
			if (!own) {
				touch(memory, length / 2);
				_exit(0);
			}
			waitpid(own, NULL, 0);
			munmap(memory, length);
		}
		_exit(0);
	}
	for (unsigned int i = 0; i < 4; i++)
		tap_ok(ended_well(child[i]), "who allocates and frees ends well");
	agree("after much of that at the same time");
}

int main(void)
{
	int device = device_open();
	struct chunks chunks = chunks_now();

	chunks_note(&chunks);
	agree("at first");
	base_pages();
	huge_pages();
	processes();
	long_term_pins();
	swapped();
	kernel_memory();
	pool();
	offline();
	giant(device);
	load();
	close(device);
	return tap_end();
}
