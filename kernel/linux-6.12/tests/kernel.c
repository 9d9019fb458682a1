// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "device.h"
#include "kernel.h"
#include "tap.h"

/* The number after "name" and what separates it, in a file of such lines. */
static long named_number(const char *path, const char *name)
{
	FILE *file = fopen(path, "re");
	size_t length = strlen(name);
	long value = 0;
	bool found = false;
	char line[256];

	if (!file)
		tap_bail("open %s", path);
	while (!found && fgets(line, sizeof(line), file)) {
		found = !strncmp(line, name, length) && (line[length] == ' ' || line[length] == ':');
		if (found)
			value = atol(line + length + 1);
	}
	fclose(file);
	if (!found)
		tap_bail("%s has no line %s", path, name);
	return value;
}

long vmstat(const char *name)
{
	return named_number("/proc/vmstat", name);
}

long meminfo(const char *name)
{
	return named_number("/proc/meminfo", name);
}

long smaps(const char *memory, size_t length, const char *name)
{
	uintptr_t from = (uintptr_t)memory, to = from + length;
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long begin, end;
	bool inside = false, found = false;
	char line[512];
	long sum = 0;

	if (!file)
		tap_bail("open smaps");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) {
			inside = begin < to && end > from;
		} else if (inside && !strncmp(line, name, strlen(name)) && line[strlen(name)] == ':') {
			sum += atol(line + strlen(name) + 1);
			found = true;
		}
	}
	fclose(file);
	if (!found)
		tap_bail("smaps has no line %s at %p", name, memory);
	return sum;
}

void read_all(const char *path)
{
	static __thread char buffer[65536];
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (file < 0)
		tap_bail("open %s", path);
	do {
		got = read(file, buffer, sizeof(buffer));
	} while (got > 0);
	if (got < 0)
		tap_bail("read %s", path);
	close(file);
}

void set_file(const char *path, const char *value)
{
	if (!write_file(path, value))
		tap_bail("write %s to %s", value, path);
}

/* ---- Pages that nobody uses --------------------------------------------- */

#define IDLE_BITMAP "/sys/kernel/mm/page_idle/bitmap"

bool mark_idle(uint64_t frame, size_t frames)
{
	int file = open(IDLE_BITMAP, O_WRONLY | O_CLOEXEC);
	uint64_t word = ~0ULL;

	if (file < 0)
		return false;
	for (uint64_t at = frame; at < frame + frames; at += 64)
		if (pwrite(file, &word, sizeof(word), at / 8) != sizeof(word))
			tap_bail("write " IDLE_BITMAP);
	close(file);
	return true;
}

size_t idle_pages(uint64_t frame, size_t frames)
{
	int file = open(IDLE_BITMAP, O_RDONLY | O_CLOEXEC);
	uint64_t word;
	size_t idle = 0;

	for (uint64_t at = frame; at < frame + frames; at += 64) {
		if (pread(file, &word, sizeof(word), at / 8) != sizeof(word))
			tap_bail("read " IDLE_BITMAP);
		idle += __builtin_popcountll(word);
	}
	close(file);
	return idle;
}

/* ---- Nodes and children ------------------------------------------------- */

bool two_nodes(void)
{
	return !access("/sys/devices/system/node/node1", F_OK);
}

int node_of(const char *page)
{
	const void *pages[1] = { page };
	int status[1];

	if (syscall(SYS_move_pages, 0, 1, pages, NULL, status, 0))
		tap_bail("move_pages");
	return status[0];
}

static void run_on(const cpu_set_t *cpus, const char *where)
{
	if (sched_setaffinity(0, sizeof(*cpus), cpus))
		tap_bail("run on %s", where);
}

void run_on_node(int node)
{
	cpu_set_t cpus;
	char path[64];

	CPU_ZERO(&cpus);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpu%d", node, cpu);
		if (!access(path, F_OK))
			CPU_SET(cpu, &cpus);
	}
	run_on(&cpus, "a node");
}

void run_anywhere(void)
{
	cpu_set_t cpus;

	memset(&cpus, 0xff, sizeof(cpus));
	run_on(&cpus, "all CPUs");
}

bool ended_well(pid_t child)
{
	int status;

	return waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status);
}

/* ---- Swap -------------------------------------------------------------- */

#define DISK "/dev/zram0"
#define SWAP_BYTES (1UL << 30)

/* What mkswap writes: a page with a version, a last page and a signature. */
bool swap_on(void)
{
	static char header[PAGE];
	uint32_t numbers[2] = { 1, SWAP_BYTES / PAGE - 1 };
	int disk;

	if (access(DISK, F_OK))
		return false;
	set_file("/sys/block/zram0/disksize", "1G");
	memcpy(header + 1024, numbers, sizeof(numbers));
	memcpy(header + PAGE - 10, "SWAPSPACE2", 10);
	disk = open(DISK, O_RDWR | O_CLOEXEC);
	if (disk < 0 || pwrite(disk, header, PAGE, 0) != (ssize_t)PAGE || fsync(disk))
		tap_bail("write the swap header");
	close(disk);
	if (swapon(DISK, 0))
		tap_bail("swapon");
	return true;
}

void swap_off(void)
{
	if (swapoff(DISK))
		tap_bail("swapoff");
	set_file("/sys/block/zram0/reset", "1");
}

/* ---- A memory cgroup --------------------------------------------------- */

#define ROOT_GROUP "/sys/fs/cgroup"
#define GROUP ROOT_GROUP "/giant"

bool cgroup_enter(void)
{
	if (!write_file(ROOT_GROUP "/cgroup.subtree_control", "+memory"))
		return false;
	if (mkdir(GROUP, 0755))
		tap_bail("mkdir " GROUP);
	set_file(GROUP "/cgroup.procs", "0");
	return true;
}

bool cgroup_write(const char *file, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), GROUP "/%s", file);
	return write_file(path, value);
}

void cgroup_leave(void)
{
	set_file(ROOT_GROUP "/cgroup.procs", "0");
	if (rmdir(GROUP))
		tap_bail("rmdir " GROUP);
}
