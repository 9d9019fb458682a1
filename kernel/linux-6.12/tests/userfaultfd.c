// SPDX-License-Identifier: GPL-2.0
/* Giant pages whose faults another thread of the process is to handle. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "kernel.h"
#include "span.h"
#include "tap.h"

/* UFFD_FEATURE_MOVE, as UFFDIO_MOVE below. */
#define FEATURE_MOVE (1ULL << 16)

static int device;
static int faults;	/* the userfaultfd */

/* What the handler is to do with a fault, and how many it had. */
static char *span;
static unsigned long missing, written;

static void *handle(void *unused)
{
	static char page[PAGE] __attribute__((aligned(4096)));
	struct pollfd ready = { .fd = faults, .events = POLLIN };
	struct uffd_msg message;

	/* Until the thread is cancelled. */
	while (poll(&ready, 1, -1) == 1) {
		uint64_t at;

		if (read(faults, &message, sizeof(message)) != sizeof(message))
			continue;
		at = message.arg.pagefault.address & ~(PAGE - 1);
		if (message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) {
			struct uffdio_writeprotect allow = { .range = { at, PAGE } };

			written++;
			if (ioctl(faults, UFFDIO_WRITEPROTECT, &allow))
				tap_bail("UFFDIO_WRITEPROTECT");
		} else {
			struct uffdio_copy copy = { .dst = at, .src = (uintptr_t)page, .len = PAGE };

			missing++;
			fill_part(page, PAGE, at - (uintptr_t)span, 1);
			if (ioctl(faults, UFFDIO_COPY, &copy) && errno != EEXIST)
				tap_bail("UFFDIO_COPY");
		}
	}
	return unused;
}

static bool open_faults(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | FEATURE_MOVE };

	faults = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (faults < 0)
		return false;
	if (ioctl(faults, UFFDIO_API, &api))
		tap_bail("UFFDIO_API");
	return true;
}

static void watch(char *from, size_t length, uint64_t mode)
{
	struct uffdio_register request = { .range = { (uintptr_t)from, length }, .mode = mode };

	if (ioctl(faults, UFFDIO_REGISTER, &request))
		tap_bail("UFFDIO_REGISTER");
}

static void unwatch(char *from, size_t length)
{
	struct uffdio_range range = { (uintptr_t)from, length };

	if (ioctl(faults, UFFDIO_UNREGISTER, &range))
		tap_bail("UFFDIO_UNREGISTER");
}

static void protect(char *from, size_t length)
{
	struct uffdio_writeprotect request = {
		.range = { (uintptr_t)from, length }, .mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};

	if (ioctl(faults, UFFDIO_WRITEPROTECT, &request))
		tap_bail("UFFDIO_WRITEPROTECT");
}

static void filling_in(void)
{
	watch(span, GIANT, UFFDIO_REGISTER_MODE_MISSING);
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "registered for missing pages: no byte changed");
	tap_equal(giant_kib(span, GIANT), 0, "and it is not giant any more");
	tap_ok(promote(device, span, 0).stop != MEGA_PROMOTE_DONE, "nor can it be while it is registered");
	madvise(span + 60 * HUGE, 4 * PAGE, MADV_DONTNEED);
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "what is missing is filled in by the handler");
	tap_equal(missing, 4, "once for each page");
	unwatch(span, GIANT);
	promote_surely(device, span);
}

static void write_protecting(void)
{
	watch(span, GIANT, UFFDIO_REGISTER_MODE_WP);
	protect(span + 70 * HUGE, HUGE);
	for (size_t page = 0; page < 3; page++) {
		char *at = span + 70 * HUGE + page * 100 * PAGE;

		fill_part(at, PAGE, at - span, 1);
	}
	tap_ok(written >= 3, "writes to what is protected are handled");
	fill_part(span + 71 * HUGE, HUGE, 71 * HUGE, 1);
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "and no byte changed");
	protect(span, GIANT);
	written = 0;
	for (size_t at = 0; at < GIANT; at += 64 * HUGE)
		fill_part(span + at, PAGE, at, 1);
	tap_equal(written, GIANT / (64 * HUGE), "also where the whole span is protected");
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "and no byte changed");
	unwatch(span, GIANT);
	fill_part(span, GIANT, 0, 1);
	promote_surely(device, span);
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "promoted again: no byte changed");
}

/* ---- Memory that is moved out of it, and into where it was --------------- */

/* Younger than the headers of the machine that this is built on, perhaps. */
#ifndef UFFDIO_MOVE
struct uffdio_move {
	__u64 dst;
	__u64 src;
	__u64 len;
	__u64 mode;
	__s64 move;
};
#define UFFDIO_MOVE _IOWR(UFFDIO, 0x05, struct uffdio_move)
#endif

static long move(char *to, char *from, size_t length)
{
	struct uffdio_move request = { .dst = (uintptr_t)to, .src = (uintptr_t)from, .len = length };

	return ioctl(faults, UFFDIO_MOVE, &request) ? -1 : request.move;
}

/* From a giant page to a place of its own, and back to the hole that it left. */
static void moved_out_and_in(size_t length, const char *what)
{
	size_t offset = 80 * HUGE + (length < HUGE ? 5 * PAGE : 0);
	char *other = map_aligned(HUGE);

	watch(other, HUGE, UFFDIO_REGISTER_MODE_MISSING);
	tap_equal(move(other, span + offset, length), length, "%s is moved out of it", what);
	tap_equal(giant_kib(span, GIANT), 0, "%s: and it is not giant any more", what);
	tap_equal(wrong_pages(other, length, offset, 1), 0, "%s: it has its words elsewhere", what);
	tap_equal(wrong_pages(span, offset, 0, 1) +
		  wrong_pages(span + offset + length, GIANT - offset - length, offset + length, 1), 0,
		  "%s: and the rest has them here", what);
	tap_ok(promote(device, span, 0).stop != MEGA_PROMOTE_DONE, "%s: with a hole it is not promoted", what);
	watch(span, GIANT, UFFDIO_REGISTER_MODE_MISSING);
	tap_equal(move(span + offset, other, length), length, "%s is moved back", what);
	unwatch(span, GIANT);
	unwatch(other, HUGE);
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "%s: all words are there", what);
	promote_surely(device, span);
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "%s: promoted, too", what);
	munmap(other, HUGE);
}

static void moving(void)
{
	char *other = map_aligned(HUGE);

	fill_part(other, HUGE, 0, 1);
	tap_fails(move(span + 80 * HUGE, other, HUGE), EINVAL, "a giant page is no place to move something to");
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "and stays giant");
	tap_equal(wrong_pages(span, GIANT, 0, 1) + wrong_pages(other, HUGE, 0, 1), 0, "and no word changed");
	munmap(other, HUGE);
	moved_out_and_in(HUGE, "a region");
	moved_out_and_in(PAGE, "a page");
}

int main(void)
{
	pthread_t handler;

	device = device_open();
	if (!open_faults()) {
		tap_skip("userfaultfd", "this kernel has none");
		return tap_end();
	}
	span = giant_new(device);
	pthread_create(&handler, NULL, handle, NULL);
	filling_in();
	write_protecting();
	moving();
	pthread_cancel(handler);
	pthread_join(handler, NULL);
	close(faults);
	munmap(span, GIANT);
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
