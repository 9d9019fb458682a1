// SPDX-License-Identifier: GPL-2.0
/*
 * A frame under a giant page goes bad: who reads it is told, all else is as it was. And a huge page that has a bad frame and
 * could not be taken apart is not exchanged. The three frames stay bad for as long as the kernel runs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
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

/* What EXCHANGE says of two huge pages; again while the kernel holds one for a moment. */
static uint32_t exchange(int device, const char *first, const char *second)
{
	struct mega_pair pair = { .first = (uintptr_t)first, .second = (uintptr_t)second };
	int self = pidfd_of(getpid());

	for (unsigned int i = 0; i < 20; i++) {
		struct mega_exchange request = exchange_request(self, &pair, 1);

		if (ioctl(device, MEGA_IOC_EXCHANGE, &request))
			tap_bail("EXCHANGE");
		if (pair.result != MEGA_PAIR_BUSY && pair.result != MEGA_PAIR_HELD)
			break;
		usleep(20000);
	}
	close(self);
	return pair.result;
}

/* The kernel takes a huge page apart as a frame of it goes bad, if nobody but those who map it has a reference to it. */
static void exchange_with_a_bad_frame(int device)
{
	char *span = map_spans(1), *other = span + HUGE, words[PAGE];
	struct iovec page = { other + 9 * PAGE, PAGE };
	int end[2];

	fill_part(span, 2 * HUGE, 0, 1);
	tap_equal(exchange(device, span, other), MEGA_PAIR_EXCHANGED, "two good huge pages are exchanged");
	tap_equal(exchange(device, span, other), MEGA_PAIR_EXCHANGED, "and back");
	if (pipe(end) || vmsplice(end[1], &page, 1, 0) != PAGE)
		tap_bail("vmsplice");
	told = NULL;
	tap_ok(madvise(other + 11 * PAGE, PAGE, MADV_HWPOISON) == -1 && errno == EHWPOISON,
	       "a frame goes bad of a huge page that a pipe holds");
	tap_ok(told == other + 11 * PAGE, "its owner is told so");
	if (read(end[0], words, PAGE) != PAGE)
		tap_bail("read from the pipe");
	tap_equal(regions_of(device, span, 2 * HUGE, 21), 2, "it is huge still");
	tap_equal(exchange(device, span, other), MEGA_PAIR_POISONED, "it is not exchanged, even when nobody holds it any more");
	tap_equal(exchange(device, other, span), MEGA_PAIR_POISONED, "nor the other way round");
	tap_equal(wrong_pages(span, 2 * HUGE, 0, 1), 0, "and all is where it was");
	close(end[0]);
	close(end[1]);
	munmap(span, GIANT);
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
	if (exchange_available(device))
		exchange_with_a_bad_frame(device);
	else
		tap_skip("exchange of bad frames", "this kernel has none");
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
