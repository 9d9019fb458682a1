// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that is taken offline and brought back while it is scanned and emptied; and memory that takes long to go offline,
 * because somebody holds a page of it, while requests are made and the module is loaded.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "device.h"
#include "memory.h"
#include "module.h"
#include "tap.h"

/* Pieces of memory that are taken offline, and how many are tried for that. */
#define WANTED 4
#define TRIED 24

static int device;

/* What the children count, shared with them. */
struct board {
	volatile bool stop;
	unsigned long calls;
	unsigned long busy;	/* refused because memory was going offline */
	unsigned long strange;	/* any other error that is not documented */
	volatile bool loaded;	/* the module, again */
	volatile bool missed;	/* and it does not know that memory goes offline */
};

static struct board *board;

static void count(unsigned long *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static void count_result(int result, int allowed)
{
	count(&board->calls);
	if (!result)
		return;
	if (errno == EBUSY)
		count(&board->busy);
	else if (errno != allowed)
		count(&board->strange);
}

static void scan_again_and_again(void)
{
	uint64_t end = end_frame(device);
	uint32_t blocks = (end + 511) / 512;
	struct mega_block *counts = calloc(blocks, sizeof(*counts));

	while (counts && !board->stop) {
		struct mega_scan_blocks request = scan_blocks_request(0, counts, blocks);

		count_result(ioctl(device, MEGA_IOC_SCAN_BLOCKS, &request), 0);
	}
}

static void empty_again_and_again(void)
{
	uint64_t end = end_frame(device);

	for (uint64_t frame = 0; !board->stop; frame = (frame + 512 * 7) % end) {
		struct mega_compact request = compact_request(frame & ~511ULL, 9);

		/* What is offline, or a hole, is ENXIO. */
		count_result(ioctl(device, MEGA_IOC_COMPACT, &request), ENXIO);
	}
}

static pid_t start(void (*work)(void))
{
	pid_t child = fork();

	if (!child) {
		work();
		_exit(0);
	}
	if (child < 0)
		tap_bail("fork");
	return child;
}

/* Whether the module sees all blocks from frame on as absent. */
static bool absent(uint64_t frame, uint32_t blocks)
{
	struct mega_block *counts = calloc(blocks, sizeof(*counts));
	struct mega_scan_blocks request = scan_blocks_request(frame, counts, blocks);
	bool all = counts && !ioctl(device, MEGA_IOC_SCAN_BLOCKS, &request);

	for (uint32_t i = 0; all && i < blocks; i++)
		all = counts[i].flags & MEGA_BLOCK_ABSENT;
	free(counts);
	return all;
}

/* Takes pieces offline, one after the other, from the last on; returns how many. */
static int take_away(unsigned long bytes, int *seen, int *back)
{
	unsigned long frames = bytes / PAGE;
	unsigned long last = end_frame(device) / frames;
	int taken = 0;

	for (unsigned long i = 0; i < TRIED && i < last && taken < WANTED; i++) {
		unsigned long piece = last - 1 - i;
		struct mega_compact request = compact_request(piece * frames, 9);

		if (!set_memory_state(piece, "offline"))
			continue;
		taken++;
		*seen += absent(piece * frames, frames / 512) &&
			 ioctl(device, MEGA_IOC_COMPACT, &request) && errno == ENXIO;
		*back += set_memory_state(piece, "online");
	}
	return taken;
}

/* ---- Memory that does not get offline ----------------------------------- */

/*
 * Memory that lies in several pieces. Of some all pages can be moved, so they can go offline but for a page that is held; where
 * none can, because of what the kernel has put there, more memory is asked for, as long as so much is free besides.
 */
#define PART_BYTES (320UL << 20)
#define PARTS 4
#define LEFT_FREE (320UL << 20)
/* Every so manieth page is asked where it lies. */
#define STEP (32 * PAGE)
#define MAX_PIECES 1024

/* Whether the module refuses to empty what is to be found at frame because memory goes offline. */
static bool refuses(int device, uint64_t frame)
{
	struct mega_compact request = compact_request(frame, 9);

	request.flags = MEGA_COMPACT_DRY_RUN;
	return ioctl(device, MEGA_IOC_COMPACT, &request) && errno == EBUSY;
}

/* The page lies in a pipe, so it cannot be moved, and the piece it is in cannot go offline. */
static void hold(char *page, int pipes[2])
{
	struct iovec vector = { page, PAGE };

	if (pipe(pipes) || vmsplice(pipes[1], &vector, 1, 0) != (ssize_t)PAGE)
		tap_bail("vmsplice");
}

static void release(int pipes[2])
{
	close(pipes[0]);
	close(pipes[1]);
}

static pid_t start_offlining(unsigned long piece)
{
	pid_t child = fork();

	if (!child) {
		/* Open, it would keep the module loaded. */
		close(device);
		_exit(set_memory_state(piece, "offline"));
	}
	if (child < 0)
		tap_bail("fork");
	return child;
}

/* Whether it has gone so far that the module knows; false when it has ended before. */
static bool under_way(pid_t child, uint64_t frame)
{
	int status;

	while (!refuses(device, frame)) {
		if (waitpid(child, &status, WNOHANG) == child)
			return false;
		usleep(1000);
	}
	return true;
}

/*
 * A piece with a page of the memory up to end, held, that tries to go offline from now on; the child that has asked for it.
 * 0: there is none.
 */
static pid_t stuck_piece(char *memory, char *end, unsigned long bytes, unsigned long *piece, int pipes[2])
{
	char *page_in[MAX_PIECES] = { NULL };
	pid_t child;

	for (char *page = memory; page < end; page += STEP) {
		*piece = frame_of(page) * PAGE / bytes;
		if (*piece < MAX_PIECES)
			page_in[*piece] = page;
	}
	for (*piece = MAX_PIECES - 1; *piece > 0; --*piece) {
		if (!page_in[*piece])
			continue;
		hold(page_in[*piece], pipes);
		child = start_offlining(*piece);
		if (under_way(child, *piece * (bytes / PAGE)))
			return child;
		release(pipes);
		/* Not for this page: there is something in it that cannot be moved at all, or the page had moved before. */
		set_memory_state(*piece, "online");
	}
	return 0;
}

static bool is_free(unsigned long bytes)
{
	struct sysinfo info;

	return !sysinfo(&info) && info.freeram * info.mem_unit >= bytes;
}

/* The same, with as little memory of ours as it takes. */
static pid_t find_stuck_piece(char *memory, unsigned long bytes, unsigned long *piece, int pipes[2])
{
	pid_t offliner = 0;

	for (int i = 0; i < PARTS && !offliner && is_free(PART_BYTES + LEFT_FREE); i++) {
		char *part = memory + i * PART_BYTES;

		memset(part, 1, PART_BYTES);
		offliner = stuck_piece(memory, part + PART_BYTES, bytes, piece, pipes);
	}
	return offliner;
}

static void load_meanwhile(unsigned long piece, uint64_t frame)
{
	int device;

	if (module_load())
		_exit(1);
	device = device_open();
	/* In this order: it may end meanwhile, but not begin. */
	board->missed = !refuses(device, frame) && memory_state_is(piece, "going-offline");
	board->loaded = true;
	_exit(0);
}

static void while_it_is_stuck(unsigned long bytes)
{
	char *memory = map_aligned(PARTS * PART_BYTES);
	unsigned long piece;
	pid_t offliner, loader;
	int pipes[2], status = -1;
	uint64_t frame;

	offliner = find_stuck_piece(memory, bytes, &piece, pipes);
	tap_ok(offliner > 0, "a page that is held keeps memory from going offline, and requests are refused meanwhile");
	if (!offliner)
		return;
	frame = piece * (bytes / PAGE);
	close(device);
	if (module_unload())
		tap_bail("unload the module");
	loader = fork();
	if (!loader)
		load_meanwhile(piece, frame);
	/* Long enough for a module that does not wait. */
	for (int i = 0; i < 200 && !board->loaded; i++)
		usleep(10000);
	kill(offliner, SIGKILL);
	waitpid(offliner, NULL, 0);
	waitpid(loader, &status, 0);
	tap_equal(status, 0, "the module can be loaded while memory goes offline");
	tap_ok(board->loaded && !board->missed, "and is not there before it has, or knows of it");
	device = device_open();
	tap_ok(!refuses(device, frame), "and afterwards requests are served");
	release(pipes);
	munmap(memory, PARTS * PART_BYTES);
}

int main(void)
{
	unsigned long bytes = memory_block_bytes();
	struct sparse sparse;
	int taken, seen = 0, back = 0;
	pid_t children[2];

	if (!bytes) {
		tap_skip("memory goes offline", "the kernel has no memory hotplug");
		return tap_end();
	}
	/* Where little else is free, a page that is to go has no place for a while. The kernel says so, and tries again. */
	tap_expect("failed allocations");
	device = device_open();
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		tap_bail("mmap");
	sparse = sparse_make(96 * HUGE, 4, 77);
	children[0] = start(scan_again_and_again);
	children[1] = start(empty_again_and_again);

	taken = take_away(bytes, &seen, &back);

	board->stop = true;
	for (int i = 0; i < 2; i++) {
		int status = -1;

		waitpid(children[i], &status, 0);
		tap_equal(status, 0, "who %s meanwhile ends by itself",
			  i ? "empties blocks" : "scans");
	}
	tap_ok(taken > 0, "memory goes offline while it is scanned and emptied");
	tap_equal(seen, taken, "what is offline is absent, and is not emptied: ENXIO");
	tap_equal(back, taken, "and it comes back");
	tap_equal(board->strange, 0, "no error but those documented");
	tap_equal(sparse_wrong(&sparse), 0, "no byte of a program in its way changed");
	tap_note("%d pieces of %lu MiB; %lu requests, %lu of them refused meanwhile", taken,
		 bytes >> 20, board->calls, board->busy);
	sparse_free(&sparse);
	if (module_is_there())
		while_it_is_stuck(bytes);
	else
		tap_skip("the module is loaded while memory goes offline", "there is no " MODULE_FILE);
	return tap_end();
}
