// SPDX-License-Identifier: GPL-2.0
/* What several mounts may have together, whose options say nothing of it. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "hz.h"

/* Faults compress what they need, and nothing else does. */
#define ALONE "size=unlimited,watermark=100,period=3600"

struct tenant {
	struct mount mount;
	int file;
	char *memory;
	unsigned int filled;
};

static struct tenant tenant_new(unsigned int pages, const char *options)
{
	struct tenant tenant = { .mount = mount_new("hzmem", options) };

	tenant.file = file_new(&tenant.mount);
	tenant.memory = map_shared(tenant.file, pages);
	return tenant;
}

static void tenant_end(struct tenant *tenant, unsigned int pages)
{
	unmap_pages(tenant->memory, pages);
	close(tenant->file);
	mount_end(&tenant->mount);
}

/* Half of the page is compressed to nothing and half not at all, so that few pages take much. */
static void half_fill(char *page, unsigned int seed)
{
	text_fill(page, TEXT_RANDOM, seed);
	memset(page + HUGE / 2, 0, HUGE / 2);
}

/* Pages that are not as they were filled. */
static unsigned int wrong(const struct tenant *tenant)
{
	char *right = map_aligned(HUGE);
	unsigned int wrong = 0;

	for (unsigned int i = 0; i < tenant->filled; i++) {
		half_fill(right, i);
		wrong += memcmp(tenant->memory + i * HUGE, right, HUGE) != 0;
	}
	munmap(right, HUGE);
	return wrong;
}

/* Fills pages until one is refused, or there are so many. */
static void fill_until(struct tenant *tenant, unsigned int pages)
{
	while (tenant->filled < pages && !write_faults(tenant->memory + tenant->filled * HUGE)) {
		half_fill(tenant->memory + tenant->filled * HUGE, tenant->filled);
		tenant->filled++;
	}
}

static long compressed(const struct tenant *tenant)
{
	return count_of(&tenant->mount, "compressed_bytes");
}

int main(void)
{
	long total = node_count(-1, "free"), limit, each;
	struct tenant first, second, other;
	unsigned int pages, half;

	/* What a page is compressed to says how many the limit is. */
	first = tenant_new(2 * total, ALONE);
	fill_until(&first, 2 * total);
	each = compressed(&first) / count_of(&first.mount, "compressed");
	limit = count_of(&first.mount, "compressed_limit_bytes");
	tenant_end(&first, 2 * total);
	half = limit / each * 6 / 10;
	pages = 2 * half + total;
	tap_note("%ld bytes a page, %ld are the limit", each, limit);

	first = tenant_new(pages, ALONE);
	second = tenant_new(pages, ALONE);
	fill_until(&first, half);
	tap_equal(first.filled, half, "a mount has more than half of what there is for those without compressed=");
	fill_until(&second, pages);
	tap_ok(second.filled < pages, "another one does not have as much again");
	tap_ok(compressed(&first) + compressed(&second) <= limit, "together they have no more than one may have");
	tap_ok(compressed(&first) + compressed(&second) > limit - 4 * each, "and no less");
	other = tenant_new(4, ALONE ",compressed=64M");
	fill_until(&other, 4);
	tap_equal(other.filled, 0, "a third one has no page while nothing of them all can be compressed");
	tenant_end(&first, pages);
	fill_until(&other, 4);
	tap_equal(other.filled, 4, "when one of them goes there is room");
	tap_equal(wrong(&second), 0, "every byte of the other one is right");
	tenant_end(&other, 4);
	tenant_end(&second, pages);
	tap_equal(node_count(-1, "free"), total, "every page is given back");
	return tap_end();
}
