// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "device.h"
#include "tap.h"

#define MEMORY "/sys/devices/system/memory/"

int device_open(void)
{
	int device = open(MEGA_DEVICE, O_RDWR | O_CLOEXEC);

	if (device < 0)
		tap_bail("open " MEGA_DEVICE);
	return device;
}

int pidfd_of(pid_t pid)
{
	return syscall(SYS_pidfd_open, pid, 0);
}

struct mega_info info_request(void)
{
	return (struct mega_info){ .size = sizeof(struct mega_info) };
}

struct mega_scan_task scan_task_request(int pidfd, const void *start, size_t length,
					struct mega_region *regions, uint32_t capacity)
{
	return (struct mega_scan_task){
		.size = sizeof(struct mega_scan_task),
		.pidfd = pidfd,
		.start = (uintptr_t)start,
		.length = length,
		.regions = (uintptr_t)regions,
		.capacity = capacity,
	};
}

struct mega_scan_blocks scan_blocks_request(uint64_t start_frame, struct mega_block *blocks,
					    uint32_t count)
{
	return (struct mega_scan_blocks){
		.size = sizeof(struct mega_scan_blocks),
		.start_frame = start_frame,
		.blocks = (uintptr_t)blocks,
		.count = count,
	};
}

struct mega_compact compact_request(uint64_t frame, uint32_t order)
{
	return (struct mega_compact){
		.size = sizeof(struct mega_compact),
		.frame = frame,
		.order = order,
	};
}

struct mega_promote promote_request(int pidfd, const void *start)
{
	return (struct mega_promote){
		.size = sizeof(struct mega_promote),
		.pidfd = pidfd,
		.start = (uintptr_t)start,
		.frame = MEGA_ANY_FRAME,
	};
}

struct mega_demote demote_request(int pidfd, const void *start)
{
	return (struct mega_demote){
		.size = sizeof(struct mega_demote),
		.pidfd = pidfd,
		.start = (uintptr_t)start,
	};
}

struct mega_free_zero free_zero_request(int pidfd, const void *start)
{
	return (struct mega_free_zero){
		.size = sizeof(struct mega_free_zero),
		.pidfd = pidfd,
		.start = (uintptr_t)start,
	};
}

struct mega_exchange exchange_request(int pidfd, struct mega_pair *pairs, uint32_t count)
{
	return (struct mega_exchange){
		.size = sizeof(struct mega_exchange),
		.pidfd = pidfd,
		.count = count,
		.pairs = (uintptr_t)pairs,
	};
}

struct mega_compact compact(int device, uint64_t frame, uint32_t order, uint32_t flags)
{
	struct mega_compact request = compact_request(frame, order);

	request.flags = flags;
	if (ioctl(device, MEGA_IOC_COMPACT, &request))
		tap_bail("COMPACT of frame 0x%lx", frame);
	return request;
}

struct mega_compact compact_until(int device, uint64_t frame, uint32_t order, uint32_t flags,
				  uint32_t stop)
{
	struct mega_compact request = compact(device, frame, order, flags);

	for (unsigned int i = 0; i < 100 && request.stop != stop; i++) {
		usleep(10000);
		request = compact(device, frame, order, flags);
		/* What was busy at the time before may have been freed by its owner since: so it is empty. */
		if (stop == MEGA_STOP_DONE && request.stop == MEGA_STOP_ALREADY_FREE)
			request.stop = stop;
	}
	return request;
}

void compact_note(const struct mega_compact *request)
{
	tap_note("frame 0x%llx order %u: %s (error %d, blocker 0x%llx), occupied %llu, scanned %llu, isolated %llu, migrated %llu, failed %llu, %u attempts, %llu us",
		 request->frame, request->order, stop_name(request->stop), request->error,
		 request->blocker, request->occupied, request->scanned, request->isolated,
		 request->migrated, request->failed, request->attempts,
		 request->nanoseconds / 1000);
}

const char *stop_name(uint32_t stop)
{
	static const char *const names[] = {
		"done", "already free", "unmovable", "pinned", "busy", "no memory",
		"huge", "signal", "would",
	};

	return stop < sizeof(names) / sizeof(*names) ? names[stop] : "?";
}

/* Opens the file again after a fork: /proc/self is then another. */
struct words {
	const char *path;
	pid_t reader;
	int file;
};

static void read_words(struct words *words, uint64_t index, uint64_t *values, size_t count)
{
	memset(values, 0, count * sizeof(*values));
	if (words->reader != getpid()) {
		words->file = open(words->path, O_RDONLY | O_CLOEXEC);
		words->reader = getpid();
	}
	if (pread(words->file, values, count * sizeof(*values), index * sizeof(*values)) < 0)
		tap_bail("read %s", words->path);
}

void frames_of(const void *address, uint64_t *frames, size_t pages)
{
	static __thread struct words pagemap = { .path = "/proc/self/pagemap" };

	read_words(&pagemap, (uintptr_t)address / PAGE, frames, pages);
	for (size_t i = 0; i < pages; i++)
		frames[i] = frames[i] >> 63 ? frames[i] & ((1ULL << 55) - 1) : 0;
}

uint64_t frame_of(const void *address)
{
	uint64_t frame;

	frames_of(address, &frame, 1);
	return frame;
}

uint64_t flags_of(uint64_t frame)
{
	static __thread struct words kpageflags = { .path = "/proc/kpageflags" };
	uint64_t flags;

	read_words(&kpageflags, frame, &flags, 1);
	return flags;
}

static struct mega_info info_of(int device)
{
	struct mega_info info = info_request();

	if (ioctl(device, MEGA_IOC_INFO, &info))
		tap_bail("INFO");
	return info;
}

bool giant_available(int device)
{
	return info_of(device).features & MEGA_FEATURE_GIANT;
}

bool free_zero_available(int device)
{
	return info_of(device).features & MEGA_FEATURE_FREE_ZERO;
}

bool avoid_available(int device)
{
	return info_of(device).features & MEGA_FEATURE_AVOID;
}

bool exchange_available(int device)
{
	return info_of(device).features & MEGA_FEATURE_EXCHANGE_PAIRS;
}

bool keeps_young(int device)
{
	return info_of(device).features & MEGA_FEATURE_KEEPS_YOUNG;
}

uint64_t end_frame(int device)
{
	return info_of(device).end_frame;
}

char *map_aligned(size_t length)
{
	char *memory = mmap(NULL, length + HUGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *aligned;

	if (memory == MAP_FAILED)
		tap_bail("mmap of %zu bytes", length + HUGE);
	aligned = (char *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1));
	if (aligned > memory)
		munmap(memory, aligned - memory);
	if (aligned < memory + HUGE)
		munmap(aligned + length, memory + HUGE - aligned);
	if (madvise(aligned, length, MADV_NOHUGEPAGE))
		tap_bail("MADV_NOHUGEPAGE");
	return aligned;
}

bool write_file(const char *path, const char *value)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);
	bool done;

	if (file < 0)
		return false;
	done = dprintf(file, "%s\n", value) > 0;
	return !close(file) && done;
}

long read_number(const char *path, long fallback)
{
	FILE *file = fopen(path, "re");
	long value;

	if (!file)
		return fallback;
	if (fscanf(file, "%ld", &value) != 1)
		value = fallback;
	fclose(file);
	return value;
}

long seconds_of(const char *variable, long fallback)
{
	const char *wanted = getenv(variable);

	return wanted ? atol(wanted) : fallback;
}

unsigned long memory_block_bytes(void)
{
	unsigned long bytes = 0;
	FILE *file = fopen(MEMORY "block_size_bytes", "re");

	if (file && fscanf(file, "%lx", &bytes) != 1)
		bytes = 0;
	if (file)
		fclose(file);
	return bytes;
}

bool set_memory_state(unsigned long block, const char *state)
{
	char path[128];

	snprintf(path, sizeof(path), MEMORY "memory%lu/state", block);
	return write_file(path, state);
}

bool memory_state_is(unsigned long block, const char *state)
{
	char path[128], now[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), MEMORY "memory%lu/state", block);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(now, sizeof(now), file))
		now[0] = 0;
	fclose(file);
	return !strncmp(now, state, strlen(state));
}
