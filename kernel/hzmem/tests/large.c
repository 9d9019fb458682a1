// SPDX-License-Identifier: GPL-2.0
/* A pool of several sections and more pages than a search tries at first, all of them incompressible but one. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>
#include "hz.h"

/* The daemon has no part in this. */
#define ALONE "watermark=100,period=3600"
/* What a search tries before it tries all there is (reclaim.c). */
#define TRIES 512

static unsigned int total;

static unsigned int fill_until_refused(char *memory, unsigned int pages)
{
	unsigned int filled = 0;

	for (; filled < pages && !write_faults(memory + filled * HUGE); filled++)
		text_fill(memory + filled * HUGE, TEXT_RANDOM, filled);
	return filled;
}

static void one_of_many(void)
{
	struct mount mount = mount_new("hzmem", ALONE);
	unsigned int one = total - 7, wrong = 0, refused;
	int file = file_new(&mount);
	char *memory = map_shared(file, total + 2);

	tap_equal(fill_until_refused(memory, total + 1), total, "random data fills the pages of all sections, and no more");
	tap_equal(count_of(&mount, "incompressible"), total, "each is known to be incompressible");
	refused = count_of(&mount, "sigbus");
	text_fill(memory + one * HUGE, TEXT_LINES, 1);
	tap_ok(!write_faults(memory + total * HUGE), "the one whose data compresses now is found among %u", total);
	tap_equal(count_of(&mount, "compressions"), 1, "and no other is compressed");
	tap_equal(count_of(&mount, "sigbus"), refused, "nobody is refused meanwhile");
	ftruncate(file, total * HUGE);
	for (unsigned int page = 0; page < total; page++)
		wrong += !(page == one ? text_right(memory + page * HUGE, TEXT_LINES, 1) :
					 text_right(memory + page * HUGE, TEXT_RANDOM, page));
	tap_equal(wrong, 0, "every byte is right");
	unmap_pages(memory, total + 2);
	close(file);
	mount_end(&mount);
}

int main(void)
{
	total = node_count(-1, "total");
	if (total <= TRIES) {
		tap_skip("a large pool", "this guest's has 512 pages at most: see the suite hzmem-large");
		return tap_end();
	}
	tap_ok(node_count(0, "sections") > 1, "there are several sections");
	tap_note("%u pages in %ld sections", total, node_count(0, "sections"));
	one_of_many();
	tap_equal(node_count(-1, "free"), total, "every page is given back");
	return tap_end();
}
