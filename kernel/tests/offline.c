// SPDX-License-Identifier: GPL-2.0
/* Memory that is taken offline and brought back while it is scanned and emptied. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "device.h"
#include "memory.h"
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
	return tap_end();
}
