// SPDX-License-Identifier: GPL-2.0
/* Giant pages whose contents are searched for pages that are the same. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "kernel.h"
#include "span.h"
#include "tap.h"

#define KSM "/sys/kernel/mm/ksm/"
/* Pages with the same contents, which can be merged. */
#define SAME_FROM (300 * HUGE)
#define SAME_LENGTH (2 * HUGE)

static size_t not_same(const char *span)
{
	size_t wrong = 0;

	for (size_t at = 0; at < SAME_LENGTH; at += PAGE)
		wrong += span[SAME_FROM + at] != 5 || span[SAME_FROM + at + PAGE - 1] != 5;
	return wrong;
}

static size_t others_wrong(const char *span)
{
	size_t after = SAME_FROM + SAME_LENGTH;

	return wrong_pages(span, SAME_FROM, 0, 1) + wrong_pages(span + after, GIANT - after, after, 1);
}

/* Until it has merged something, for a minute at most. */
static bool merged(void)
{
	for (unsigned int i = 0; i < 600; i++) {
		if (read_number(KSM "pages_sharing", 0) > 0)
			return true;
		usleep(100000);
	}
	return false;
}

int main(void)
{
	int device = device_open();
	char *span;

	if (access(KSM "run", W_OK)) {
		tap_skip("KSM", "this kernel has none");
		return tap_end();
	}
	span = giant_new(device);
	memset(span + SAME_FROM, 5, SAME_LENGTH);
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "a giant page");
	set_file(KSM "pages_to_scan", "20000");
	set_file(KSM "sleep_millisecs", "1");
	/* A part of it alone, or a scan would take long. */
	tap_equal(madvise(span + SAME_FROM, SAME_LENGTH, MADV_MERGEABLE), 0, "four MiB of it may be merged");
	set_file(KSM "run", "1");
	tap_ok(merged(), "pages of it are merged");
	tap_equal(not_same(span) + others_wrong(span), 0, "and no byte changed");
	tap_equal(giant_kib(span, GIANT), 0, "and it is not giant any more");
	tap_ok(promote(device, span, 0).stop != MEGA_PROMOTE_DONE, "nor can it be with merged pages in it");
	set_file(KSM "run", "2");
	madvise(span + SAME_FROM, SAME_LENGTH, MADV_UNMERGEABLE);
	set_file(KSM "run", "0");
	tap_equal(not_same(span) + others_wrong(span), 0, "unmerged: no byte changed");
	/* A page that was unmerged is mapped read-only, and regions in which nothing is writable are not collapsed. */
	memset(span + SAME_FROM, 5, SAME_LENGTH);
	tap_equal(promote_surely(device, span).stop, MEGA_PROMOTE_DONE, "and it can be giant again");
	tap_equal(not_same(span) + others_wrong(span), 0, "and no byte changed");
	munmap(span, GIANT);
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
