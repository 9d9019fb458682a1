// SPDX-License-Identifier: GPL-2.0
/*
 * A frame under a giant page goes bad: who reads it is told, all else is as it was. The two frames stay bad for as long as
 * the kernel runs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#include "kernel.h"
#include "span.h"
#include "tap.h"

#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE 101
#endif

#define BAD (40 * HUGE + 11 * PAGE)

/* Where to go on when a read is answered by SIGBUS; what the last SIGBUS was about. */
static sigjmp_buf out;
static volatile bool reading;
static void *volatile told;

/* It comes twice: to who has the page mapped as it goes bad, and to who reads it from then on. */
static void hear(int signal, siginfo_t *about, void *context)
{
	(void)context;
	told = about->si_addr;
	if (reading)
		siglongjmp(out, signal);
}

static bool reads(const char *page)
{
	if (sigsetjmp(out, 1)) {
		reading = false;
		return false;
	}
	reading = true;
	(void)*(const volatile char *)page;
	reading = false;
	return true;
}

static size_t others_wrong(const char *span)
{
	return wrong_pages(span, BAD, 0, 1) + wrong_pages(span + BAD + PAGE, GIANT - BAD - PAGE, BAD + PAGE, 1);
}

int main(void)
{
	struct sigaction hearing = { .sa_sigaction = hear, .sa_flags = SA_SIGINFO };
	int device = device_open();
	char *span = giant_new(device);
	uint64_t frame = frame_of(span + BAD);
	struct mega_promote request;

	sigaction(SIGBUS, &hearing, NULL);
	/* A soft one: the frame is still good, its contents are moved away from it. */
	if (madvise(span + BAD - HUGE, PAGE, MADV_SOFT_OFFLINE)) {
		tap_skip("frames that go bad", "this kernel cannot be told so");
		return tap_end();
	}
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "a frame taken out of use under it: no byte changed");
	tap_equal(giant_kib(span, GIANT), 0, "and it is not giant any more");
	request = promote(device, span, 0);
	promote_note(&request);
	if (madvise(span, GIANT, MADV_COLLAPSE))
		tap_bail("MADV_COLLAPSE");
	request = promote_surely(device, span);
	promote_note(&request);
	tap_ok(request.stop == MEGA_PROMOTE_DONE, "it can be giant again, in another chunk");
	tap_ok(request.frame != frame / MEGA_CHUNK_FRAMES * MEGA_CHUNK_FRAMES, "which has no bad frame in it");

	tap_equal(madvise(span + BAD, PAGE, MADV_HWPOISON), 0, "a frame under it goes bad");
	tap_ok(told == span + BAD, "its owner is told so, by SIGBUS with its address");
	told = NULL;
	tap_ok(!reads(span + BAD) && told == span + BAD, "and again when it is read");
	tap_equal(giant_kib(span, GIANT), 0, "it is not giant any more");
	tap_ok(regions_of(device, span, GIANT, 21) == SPAN_REGIONS - 1, "the others are 2 MiB pages");
	tap_equal(others_wrong(span), 0, "and no other byte changed");
	tap_ok(promote(device, span, 0).stop != MEGA_PROMOTE_DONE, "nor can it be giant with a hole in it");
	munmap(span, GIANT);
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
