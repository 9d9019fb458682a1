// SPDX-License-Identifier: GPL-2.0
/*
 * A buffer that is registered with io_uring is pinned for as long as it is: whatever becomes of the mapping over it, a device
 * that reads into it and writes from it uses the memory that the process sees.
 */
#define _GNU_SOURCE
#include <linux/io_uring.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "kernel.h"
#include "span.h"
#include "tap.h"

/* Across the border of two regions. */
#define BUFFER (100 * HUGE - 4 * PAGE)
#define LENGTH (8 * PAGE)

static int device;
static char *span;

/* ---- A ring of one request --------------------------------------------- */

static struct {
	int file;
	struct io_uring_params params;
	char *queues;
	struct io_uring_sqe *request;
} ring;

static bool ring_open(void)
{
	size_t requests, results;

	ring.file = syscall(SYS_io_uring_setup, 1, &ring.params);
	if (ring.file < 0)
		return false;
	requests = ring.params.sq_off.array + ring.params.sq_entries * sizeof(unsigned int);
	results = ring.params.cq_off.cqes + ring.params.cq_entries * sizeof(struct io_uring_cqe);
	ring.queues = mmap(NULL, requests > results ? requests : results, PROT_READ | PROT_WRITE, MAP_SHARED, ring.file, IORING_OFF_SQ_RING);
	ring.request = mmap(NULL, sizeof(*ring.request), PROT_READ | PROT_WRITE, MAP_SHARED, ring.file, IORING_OFF_SQES);
	if (ring.queues == MAP_FAILED || ring.request == MAP_FAILED || !(ring.params.features & IORING_FEAT_SINGLE_MMAP))
		tap_bail("mmap of the ring");
	return true;
}

static unsigned int *at(unsigned int offset)
{
	return (unsigned int *)(ring.queues + offset);
}

/* Carries out one request on the buffer; returns what came of it. */
static int transfer(uint8_t opcode, int file)
{
	struct io_uring_cqe *results = (struct io_uring_cqe *)(ring.queues + ring.params.cq_off.cqes);
	unsigned int tail = *at(ring.params.sq_off.tail), head = *at(ring.params.cq_off.head);
	int result;

	*ring.request = (struct io_uring_sqe) {
		.opcode = opcode, .fd = file, .addr = (uintptr_t)span + BUFFER, .len = LENGTH,
	};
	at(ring.params.sq_off.array)[tail & *at(ring.params.sq_off.ring_mask)] = 0;
	__atomic_store_n(at(ring.params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring.file, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		tap_bail("io_uring_enter");
	result = results[head & *at(ring.params.cq_off.ring_mask)].res;
	__atomic_store_n(at(ring.params.cq_off.head), head + 1, __ATOMIC_RELEASE);
	return result;
}

static void pin(void)
{
	struct iovec buffer = { span + BUFFER, LENGTH };

	if (syscall(SYS_io_uring_register, ring.file, IORING_REGISTER_BUFFERS, &buffer, 1))
		tap_bail("IORING_REGISTER_BUFFERS");
}

static void unpin(void)
{
	if (syscall(SYS_io_uring_register, ring.file, IORING_UNREGISTER_BUFFERS, NULL, 0))
		tap_bail("IORING_UNREGISTER_BUFFERS");
}

/* ---- What has to hold --------------------------------------------------- */

/* A file reads into the buffer and writes from it. Afterwards the span has seed 1's words. */
static void reaches(const char *when)
{
	static char words[LENGTH] __attribute__((aligned(4096)));
	int file = memfd_create("words", MFD_CLOEXEC);

	fill_part(words, LENGTH, BUFFER, 2);
	if (file < 0 || pwrite(file, words, LENGTH, 0) != LENGTH)
		tap_bail("a file");
	tap_equal(transfer(IORING_OP_READ_FIXED, file), LENGTH, "%s: a file is read into the buffer", when);
	tap_equal(wrong_pages(span + BUFFER, LENGTH, BUFFER, 2), 0, "%s: the process sees it", when);
	fill_part(span + BUFFER, LENGTH, BUFFER, 1);
	tap_equal(transfer(IORING_OP_WRITE_FIXED, file), LENGTH, "%s: the buffer is written to a file", when);
	if (pread(file, words, LENGTH, 0) != LENGTH)
		tap_bail("a file");
	tap_equal(wrong_pages(words, LENGTH, BUFFER, 1), 0, "%s: with what the process wrote", when);
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "%s: no word of the span is wrong", when);
	close(file);
}

static void promoted_and_demoted(void)
{
	uint64_t frame = frame_of(span), other = free_chunk(device);
	struct mega_promote request;

	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "pinned, it is giant still");
	reaches("pinned");
	tap_equal(demote(device, span), MEGA_DEMOTE_DONE, "it can be demoted");
	reaches("demoted");
	request = promote_into(device, span, other);
	tap_equal(request.stop, MEGA_PROMOTE_BUSY, "what is pinned is not moved to another chunk");
	reaches("not moved");
	request = promote_into(device, span, frame);
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "where it is, it is promoted");
	reaches("promoted");
}

static uint32_t free_zero(void)
{
	int self = pidfd_of(getpid());
	struct mega_free_zero request = free_zero_request(self, span);

	if (ioctl(device, MEGA_IOC_FREE_ZERO, &request))
		tap_bail("FREE_ZERO");
	close(self);
	tap_equal(request.busy, request.zero, "FREE_ZERO keeps %u zero-filled huge pages", request.zero);
	return request.zero;
}

/* Both regions of the buffer hold nothing but zeroes. */
static void zero_filled(void)
{
	size_t first = BUFFER / HUGE;

	memset(span + first * HUGE, 0, 2 * HUGE);
	tap_equal(free_zero(), 2, "the two that are pinned");
	fill_part(span + first * HUGE, 2 * HUGE, first * HUGE, 1);
	reaches("zero-filled");
}

/* What is pinned is copied for the child at once, so that the pin stays with its owner. */
static void forked(void)
{
	struct mega_promote request;
	int go[2];
	char byte = 0;
	pid_t child;

	promote_surely(device, span);
	if (pipe(go))
		tap_bail("pipe");
	child = fork();
	if (child < 0)
		tap_bail("fork");
	if (!child)
		_exit(read(go[0], &byte, 1) != 1 || wrong_pages(span, GIANT, 0, 1));
	reaches("shared with a child");
	request = promote(device, span, 0);
	tap_ok(request.stop != MEGA_PROMOTE_DONE, "while it is shared it is not promoted");
	free_zero();
	reaches("shared, and not promoted");
	fill_part(span + BUFFER, LENGTH, BUFFER, 3);
	if (write(go[1], &byte, 1) != 1)
		tap_bail("write");
	tap_ok(ended_well(child), "the child has what was there at the fork");
	fill_part(span + BUFFER, LENGTH, BUFFER, 1);
	reaches("when the child is gone");
	close(go[0]);
	close(go[1]);
}

int main(void)
{
	device = device_open();
	if (!ring_open()) {
		tap_skip("io_uring", "this kernel has none");
		return tap_end();
	}
	span = giant_new(device);
	pin();
	promoted_and_demoted();
	zero_filled();
	forked();
	/* The pinned regions are base pages since the fork, which nothing collapses. */
	tap_ok(promote(device, span, 0).stop != MEGA_PROMOTE_DONE, "what was pinned at a fork is not promoted");
	unpin();
	fill_part(span, GIANT, 0, 1);
	tap_equal(promote_surely(device, span).stop, MEGA_PROMOTE_DONE, "when the pin is gone it is");
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "and no word is wrong");
	munmap(span, GIANT);
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
