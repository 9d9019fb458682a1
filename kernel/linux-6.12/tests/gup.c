// SPDX-License-Identifier: GPL-2.0
/* The kernel and devices at work on a giant page's memory: its pages are looked up, held and pinned. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "kernel.h"
#include "span.h"
#include "tap.h"

/* Across a border of two regions, neither end at one of a page. */
#define FROM (100 * HUGE - 3 * PAGE)
#define LENGTH (4 * HUGE)

static int device;

static void still_giant(const char *span, const char *what)
{
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "%s leaves it giant", what);
}

static void by_another_process(char *span)
{
	char *buffer = map_aligned(LENGTH);
	struct iovec own = { buffer, LENGTH }, its = { span + FROM, LENGTH };

	tap_equal(process_vm_readv(getpid(), &own, 1, &its, 1, 0), LENGTH, "process_vm_readv reads it");
	tap_equal(wrong_pages(buffer, LENGTH, FROM, 1), 0, "as it is");
	still_giant(span, "process_vm_readv");
	fill_part(buffer, LENGTH, FROM, 2);
	tap_equal(process_vm_writev(getpid(), &own, 1, &its, 1, 0), LENGTH, "process_vm_writev writes it");
	tap_equal(wrong_pages(span + FROM, LENGTH, FROM, 2), 0, "as it should be");
	still_giant(span, "process_vm_writev");
	fill_part(span + FROM, LENGTH, FROM, 1);
	munmap(buffer, LENGTH);
}

/* /proc/PID/mem, which a debugger uses; also where the process itself may not write. */
static void by_a_debugger(char *span)
{
	int file = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	uint64_t word = 0;

	tap_equal(pread(file, &word, 8, (uintptr_t)span + FROM), 8, "/proc/self/mem reads it");
	tap_equal(word, *(uint64_t *)(span + FROM), "as it is");
	tap_equal(pwrite(file, &word, 8, (uintptr_t)span + FROM + 64), 8, "and writes it");
	tap_equal(*(uint64_t *)(span + FROM + 64), word, "as it should be");
	still_giant(span, "/proc/self/mem");

	mprotect(span, GIANT, PROT_READ);
	promote_surely(device, span);
	tap_equal(pwrite(file, &word, 8, (uintptr_t)span + FROM + 128), 8, "it writes where the process may not");
	tap_equal(*(uint64_t *)(span + FROM + 128), word, "as it should be");
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "and nothing else");
	mprotect(span, GIANT, PROT_READ | PROT_WRITE);
	promote_surely(device, span);
	close(file);
}

/* A futex is named by its page. */
static void by_futex(char *span)
{
	uint32_t *word = (uint32_t *)(span + FROM + 256);

	*word = 1;
	tap_equal(syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0), 0, "a futex can be in it");
	still_giant(span, "futex");
	*word = 0;
}

/* Reads of a disk into it and writes from it, without the page cache. */
static void by_a_disk(char *span)
{
	int disk = open("/dev/ram0", O_RDWR | O_DIRECT | O_CLOEXEC);

	if (disk < 0) {
		tap_skip("O_DIRECT", "this kernel has no RAM disk");
		return;
	}
	tap_equal(pwrite(disk, span + FROM, HUGE, 0), HUGE, "O_DIRECT writes from it");
	memset(span + FROM, 0, HUGE);
	tap_equal(pread(disk, span + FROM, HUGE, 0), HUGE, "and reads into it");
	tap_equal(wrong_pages(span + FROM, HUGE, FROM, 1), 0, "what was written");
	still_giant(span, "O_DIRECT");
	close(disk);
}

/* Puts eight pages from `from` on into a pipe, by reference. */
static void hold(int pipe, char *from)
{
	struct iovec pages = { from, 8 * PAGE };

	if (vmsplice(pipe, &pages, 1, 0) != 8 * (ssize_t)PAGE)
		tap_bail("vmsplice");
}

/* What was put into the pipe when the span had seed 1's words. */
static size_t wrong_in_pipe(int pipe, size_t offset)
{
	static char pages[8 * PAGE];
	size_t got = 0;

	while (got < sizeof(pages)) {
		ssize_t more = read(pipe, pages + got, sizeof(pages) - got);

		if (more <= 0)
			tap_bail("read from the pipe");
		got += more;
	}
	return wrong_pages(pages, sizeof(pages), offset, 1);
}

/* References that a pipe holds on pages of it, over what becomes of the mapping. */
static void by_a_pipe(char *span)
{
	size_t border = 100 * HUGE - 4 * PAGE;
	struct mega_promote request;
	int end[2];

	if (pipe(end))
		tap_bail("pipe");
	for (size_t at = border - 8 * PAGE; at <= border + 8 * PAGE; at += 8 * PAGE) {
		hold(end[1], span + at);
		tap_equal(wrong_in_pipe(end[0], at), 0, "vmsplice reads it as it is");
	}
	still_giant(span, "vmsplice");

	hold(end[1], span + border);
	tap_equal(demote(device, span), MEGA_DEMOTE_DONE, "it is demoted while a pipe holds pages");
	request = promote(device, span, MEGA_PROMOTE_IN_PLACE);
	promote_note(&request);
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "and promoted in place");
	tap_equal(wrong_in_pipe(end[0], border), 0, "and the pipe has what it should");

	hold(end[1], span + border);
	munmap(span, GIANT);
	tap_equal(wrong_in_pipe(end[0], border), 0, "a pipe has the pages when the mapping is gone");
	close(end[0]);
	close(end[1]);
}

/* A page that is held cannot be moved. */
static void held(void)
{
	char *span = map_spans(1);
	struct mega_promote request;
	int end[2];

	if (pipe(end))
		tap_bail("pipe");
	fill(span, GIANT, 1);
	hold(end[1], span + FROM);
	request = promote(device, span, 0);
	promote_note(&request);
	/* Unless the two regions that hold it lie at their place already. */
	tap_ok(request.stop == MEGA_PROMOTE_BUSY || request.in_place >= 1, "huge pages that are held are not moved");
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "and no byte changed");
	tap_equal(wrong_in_pipe(end[0], FROM), 0, "nor in the pipe");
	request = promote_surely(device, span);
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "when they are let go the span is promoted");
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "and no byte changed");
	munmap(span, GIANT);
	close(end[0]);
	close(end[1]);
}

int main(void)
{
	char *span;

	device = device_open();
	span = giant_new(device);
	by_another_process(span);
	by_a_debugger(span);
	by_futex(span);
	by_a_disk(span);
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "no other byte changed");
	by_a_pipe(span);
	held();
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
