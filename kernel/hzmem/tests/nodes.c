// SPDX-License-Identifier: GPL-2.0
/* Pages come from the node of who touches them first, then from the others; node= restricts a mount to one. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "hz.h"

static int count;

/* Runs this process on the CPUs of a node only. */
static void run_on(int node)
{
	char path[64], list[128] = "";
	cpu_set_t set;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
	file = fopen(path, "re");
	if (!file || !fgets(list, sizeof(list), file))
		tap_bail("read %s", path);
	fclose(file);
	CPU_ZERO(&set);
	for (char *at, *part = strtok_r(list, ",\n", &at); part; part = strtok_r(NULL, ",\n", &at)) {
		int first, last;
		int read = sscanf(part, "%d-%d", &first, &last);

		for (int cpu = first; cpu <= (read == 2 ? last : first); cpu++)
			CPU_SET(cpu, &set);
	}
	if (sched_setaffinity(0, sizeof(set), &set))
		tap_bail("sched_setaffinity to node %d", node);
}

static void totals(void)
{
	long total = 0;

	for (int node = 0; node < count; node++) {
		long pages = node_count(node, "total");

		tap_ok(pages > 0, "node %d has pages", node);
		tap_equal(node_count(node, "free"), pages, "all of them free");
		tap_equal(node_count(node, "pinned"), 0, "none of them pinned");
		tap_ok(node_count(node, "sections") > 0, "in sections");
		total += pages;
	}
	tap_equal(node_count(-1, "total"), total, "%d node(s), %ld pages in all", count, total);
}

static void own_first(int node)
{
	struct mount mount = mount_new("hzmem", "watermark=100,period=3600");
	int file = file_new(&mount);
	char *memory = map_shared(file, 5);
	long before = node_count(node, "free"), all = node_count(-1, "free");

	run_on(node);
	text_fill_all(memory, 5, TEXT_LINES, 1);
	tap_equal(before - node_count(node, "free"), 5, "who runs on node %d gets pages of node %d", node, node);
	tap_equal(all - node_count(-1, "free"), 5, "and of no other");
	unmap_pages(memory, 5);
	close(file);
	mount_end(&mount);
	tap_equal(node_count(node, "free"), before, "and they go back to it");
}

static void then_others(int node)
{
	struct mount mount = mount_new("hzmem", "watermark=100,period=3600");
	int file = file_new(&mount);
	unsigned int own = node_count(node, "free"), all = node_count(-1, "free");
	char *memory = map_shared(file, all);

	run_on(node);
	for (unsigned int i = 0; i < own; i++)
		text_fill(memory + i * HUGE, TEXT_RANDOM, i);
	tap_equal(node_count(node, "free"), 0, "all of node %d's pages in use", node);
	for (unsigned int i = own; i < all; i++)
		text_fill(memory + i * HUGE, TEXT_RANDOM, i);
	tap_equal(node_count(-1, "free"), 0, "the next ones are of other nodes");
	tap_equal(text_wrong(memory, all, TEXT_RANDOM, 0), 0, "every byte is right");
	unmap_pages(memory, all);
	close(file);
	mount_end(&mount);
}

/* Free pages of all nodes but this one. */
static long free_of_others(int node)
{
	long sum = 0;

	for (int other = 0; other < count; other++)
		sum += other == node ? 0 : node_count(other, "free");
	return sum;
}

static void restricted(int node)
{
	char options[64];
	struct mount mount;
	unsigned int own = node_count(node, "free"), all = node_count(-1, "free");
	char *memory;
	int file;

	snprintf(options, sizeof(options), "node=%d,watermark=100,period=50ms", node);
	mount = mount_new("hzmem", options);
	file = file_new(&mount);
	memory = map_shared(file, own + 1);
	run_on((node + 1) % count);
	for (unsigned int i = 0; i < own; i++)
		text_fill(memory + i * HUGE, TEXT_RANDOM, i);
	tap_equal(node_count(node, "free"), 0, "node=%d: pages of that node, whoever asks", node);
	tap_equal(node_count(-1, "free"), all - own, "and of no other");
	tap_ok(write_faults(memory + own * HUGE), "when they are in use a touch is a signal");
	tap_equal(text_wrong(memory, own, TEXT_RANDOM, 0), 0, "every byte is right");
	text_fill_all(memory, own, TEXT_LINES, 5);
	tap_ok(wait_until(!write_faults(memory + own * HUGE)), "what compresses makes room on it");
	tap_equal(free_of_others(node), all - own, "still of no other");
	unmap_pages(memory, own + 1);
	close(file);
	mount_end(&mount);
	tap_equal(node_count(-1, "free"), all, "every page is given back");
}

/* Each node's daemon looks after its own pages, and says what it took. */
static void daemons(void)
{
	struct mount mount = mount_new("hzmem", "watermark=0,period=20ms");
	int file = file_new(&mount);
	char *memory = map_shared(file, 4 * count);

	for (int node = 0; node < count; node++) {
		run_on(node);
		text_fill_all(memory + 4 * node * HUGE, 4, TEXT_LINES, 4 * node);
	}
	tap_ok(wait_until(count_of(&mount, "compressed") == 4 * count), "pages of every node are compressed");
	for (int node = 0; node < count; node++)
		tap_ok(node_count(node, "daemon_cpu_ns") > 0, "the daemon of node %d says what it took", node);
	tap_equal(text_wrong(memory, 4 * count, TEXT_LINES, 0), 0, "every byte is right");
	unmap_pages(memory, 4 * count);
	close(file);
	mount_end(&mount);
}

int main(void)
{
	count = nodes();
	totals();
	for (int node = 0; node < count; node++) {
		own_first(node);
		then_others(node);
		restricted(node);
	}
	daemons();
	return tap_end();
}
