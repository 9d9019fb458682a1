// SPDX-License-Identifier: GPL-2.0
/* COMPACT where there is no room: a cgroup at its limit, memory or a node full. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "device.h"
#include "memory.h"
#include "tap.h"

static int device;

/*
 * The kernel keeps free pages for each CPU, and what is charged in advance to a cgroup:
 * since 6.7 that can be thousands of pages. They are not free any more, and whoever is
 * moved to another CPU does not get them: then it is killed where there is still memory.
 */
static void stay_on_this_cpu(void)
{
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	if (sched_setaffinity(0, sizeof(here), &here))
		tap_bail("sched_setaffinity");
}

/* ---- A memory cgroup at its limit -------------------------------------- */

#define GROUPS "/sys/fs/cgroup/"
#define GROUP GROUPS "mega-test/"

/* The value of a key in a flat keyed cgroup file. */
static long keyed(const char *path, const char *key)
{
	FILE *file = fopen(path, "re");
	long value = -1;
	char name[64];
	long number;

	while (file && fscanf(file, "%63s %ld", name, &number) == 2)
		if (!strcmp(name, key))
			value = number;
	if (file)
		fclose(file);
	return value;
}

/* In a child of the group, which has used up its limit: blocks emptied. */
static int compact_in_group(void)
{
	struct sparse sparse;
	unsigned int done = 0;
	uint64_t frames[4];
	size_t from = 0;
	char text[24];

	snprintf(text, sizeof(text), "%d", getpid());
	if (!write_file(GROUP "cgroup.procs", text))
		return 255;
	sparse = sparse_make(40 * HUGE, 8, 31);
	for (int i = 0; i < 4; i++)
		frames[i] = sparse_block(&sparse, device, 16, &from);
	/*
	 * From here on next to nothing more can be charged to the group: as much as
	 * the kernel may need to set the limit.
	 */
	snprintf(text, sizeof(text), "%ld",
		 read_number(GROUP "memory.current", 0) + 8 * (long)PAGE);
	if (!write_file(GROUP "memory.max", text))
		return 254;
	for (int i = 0; i < 4; i++)
		done += compact(device, frames[i], 9, 0).stop == MEGA_STOP_DONE;
	return sparse_wrong(&sparse) ? 253 : (int)done;
}

static void group_at_its_limit(void)
{
	pid_t child;
	int status;

	write_file(GROUPS "cgroup.subtree_control", "+memory");
	if (mkdir(GROUP, 0755) && errno != EEXIST) {
		tap_skip("a memory cgroup at its limit", "there is no cgroup2");
		return;
	}
	if (!write_file(GROUP "memory.max", "100663296")) {
		rmdir(GROUP);
		tap_skip("a memory cgroup at its limit", "there is no memory controller");
		return;
	}
	child = fork();
	if (!child)
		_exit(compact_in_group());
	waitpid(child, &status, 0);
	tap_ok(WIFEXITED(status) && WEXITSTATUS(status) >= 3 &&
	       WEXITSTATUS(status) <= 4,
	       "blocks of a cgroup at its limit are emptied, every byte in place");
	tap_equal(keyed(GROUP "memory.events", "oom_kill"), 0, "and nobody in it is killed");
	tap_note("exit status %d", WEXITSTATUS(status));
	rmdir(GROUP);
}

/* ---- No free memory ---------------------------------------------------- */

static bool has_second_node(void)
{
	return !access("/sys/devices/system/node/node1/meminfo", F_OK);
}

/*
 * Bytes that an allocation may take from a node before reclaim starts: what is
 * free above the low watermarks, ZONE_DMA aside.
 */
static size_t room(int node)
{
	FILE *file = fopen("/proc/zoneinfo", "re");
	long pages = 0, free = 0, value;
	bool counts = false;
	char line[128], zone[16];
	int of;

	if (!file)
		tap_bail("open /proc/zoneinfo");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Node %d, zone %15s", &of, zone) == 2)
			counts = of == node && strcmp(zone, "DMA");
		else if (sscanf(line, " pages free %ld", &value) == 1)
			free = value;
		else if (counts && sscanf(line, " low %ld", &value) == 1)
			pages += free > value ? free - value : 0;
	}
	fclose(file);
	return pages * PAGE;
}

static void bind_to(int node)
{
	unsigned long mask = 1UL << node;

	if (syscall(SYS_set_mempolicy, MPOL_BIND, &mask, 64))
		tap_bail("set_mempolicy");
}

/* Takes a node's memory until room is `left` bytes, and keeps it. */
static void take(int node, size_t left)
{
	char *memory = map_aligned(1UL << 32);

	bind_to(node);
	/* In huge pages while there is much: a fault takes its time under KASAN. */
	madvise(memory, 1UL << 32, MADV_HUGEPAGE);
	for (size_t at = 0, more; (more = room(node)) > left && at < 1UL << 32;) {
		if (more < 32 * HUGE)
			madvise(memory, 1UL << 32, MADV_NOHUGEPAGE);
		for (more = (more - left) / 2 + PAGE; more >= PAGE; more -= PAGE, at += PAGE)
			memory[at] = 1;
	}
}

/*
 * A child that does so. It says that it is ready by stopping, for which the kernel needs no memory: a page for a pipe
 * would have to come from the full node, too, and who does not get one is killed.
 */
static pid_t fill(int node, size_t left)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		tap_bail("fork");
	if (!child) {
		write_file("/proc/self/oom_score_adj", "1000");
		take(node, left);
		raise(SIGSTOP);
		_exit(0);
	}
	if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
		tap_note("the child that fills node %d was killed", node);
	return child;
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/*
 * A program whose blocks have no free page: where memory runs out the kernel puts
 * pages of its own wherever one is left, and a block with one of those is
 * unmovable, whatever room there is.
 */
static struct sparse make_dense(uint64_t seed)
{
	return sparse_make(16 * HUGE, 1, seed);
}

/* Compacts the block of every 512th page of a program and counts the stops. */
static void compact_while_full(const struct sparse *sparse, unsigned int stops[16])
{
	memset(stops, 0, 16 * sizeof(*stops));
	for (size_t at = 0; at < sparse->length; at += HUGE) {
		uint64_t block = frame_of(sparse->memory + at) / MEGA_BLOCK_FRAMES;

		stops[compact(device, block * MEGA_BLOCK_FRAMES, 9, 0).stop & 15]++;
	}
}

static void note_stops(const unsigned int stops[16])
{
	tap_note("%u no memory, %u done, %u busy, %u pinned, %u unmovable",
		 stops[MEGA_STOP_NO_MEMORY], stops[MEGA_STOP_DONE], stops[MEGA_STOP_BUSY],
		 stops[MEGA_STOP_PINNED], stops[MEGA_STOP_UNMOVABLE]);
}

/* One node: there is no room anywhere. */
static void memory_full(void)
{
	struct sparse sparse = make_dense(33);
	unsigned int stops[16], fills = 0;
	pid_t children[16];

	/* The kernel may find more of its own to give: then that is taken too. */
	do {
		children[fills++] = fill(0, 64 * PAGE);
		compact_while_full(&sparse, stops);
	} while (!stops[MEGA_STOP_NO_MEMORY] && fills < 16);
	tap_ok(stops[MEGA_STOP_NO_MEMORY] > 0, "without free memory COMPACT stops for that");
	tap_equal(sparse_wrong(&sparse), 0, "no byte changed");
	note_stops(stops);
	while (fills)
		end(children[--fills]);
	sparse_free(&sparse);
}

/* Two nodes: pages of the full one are moved to the other. */
static void node_full(void)
{
	unsigned int stops[16];
	struct sparse sparse;
	pid_t child;

	bind_to(1);
	sparse = make_dense(34);
	syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
	child = fill(1, 64 * PAGE);
	compact_while_full(&sparse, stops);
	tap_ok(stops[MEGA_STOP_DONE] > 0, "blocks of a node without free memory are emptied");
	tap_equal(sparse_wrong(&sparse), 0, "no byte changed");
	note_stops(stops);
	end(child);
	sparse_free(&sparse);
}

int main(void)
{
	stay_on_this_cpu();
	device = device_open();
	group_at_its_limit();
	if (has_second_node())
		node_full();
	else
		memory_full();
	return tap_end();
}
