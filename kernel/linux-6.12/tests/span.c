// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "kernel.h"
#include "random.h"
#include "span.h"
#include "tap.h"

/* At one promotion: pages are busy for a moment now and then. */
#define ATTEMPTS 20

static uint64_t word_of(size_t offset, uint64_t seed)
{
	return mix(offset / PAGE + (seed << 32));
}

char *room_for(size_t length)
{
	size_t whole = length + 3 * GIANT;
	char *room = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (room == MAP_FAILED)
		tap_bail("mmap of %zu bytes", whole);
	munmap(room, whole);
	return (char *)(((uintptr_t)room + 2 * GIANT - 1) & ~(GIANT - 1));
}

char *map_spans(unsigned int spans)
{
	size_t length = spans * GIANT;
	char *memory = mmap(room_for(length), length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (memory == MAP_FAILED)
		tap_bail("mmap of %u spans", spans);
	if (madvise(memory, length, MADV_HUGEPAGE))
		tap_bail("MADV_HUGEPAGE");
	return memory;
}

void fill_part(char *from, size_t length, size_t offset, uint64_t seed)
{
	for (size_t at = 0; at < length; at += PAGE)
		*(volatile uint64_t *)(from + at) = word_of(offset + at, seed);
}

void fill(char *memory, size_t length, uint64_t seed)
{
	size_t regions = length / HUGE;

	/* An odd step visits every region of a power of two of them once. */
	for (size_t i = 0; i < regions; i++) {
		size_t at = i * 37 % regions * HUGE;

		fill_part(memory + at, HUGE, at, seed);
	}
}

size_t wrong_pages(const char *from, size_t length, size_t offset, uint64_t seed)
{
	size_t wrong = 0;

	for (size_t at = 0; at < length; at += PAGE)
		wrong += *(const volatile uint64_t *)(from + at) != word_of(offset + at, seed);
	return wrong;
}

size_t nonzero_pages(const char *memory, size_t length)
{
	size_t nonzero = 0;

	for (size_t at = 0; at < length; at += PAGE)
		nonzero += *(const volatile uint64_t *)(memory + at) != 0;
	return nonzero;
}

struct mega_promote promote(int device, const char *span, uint32_t flags)
{
	int self = pidfd_of(getpid());
	struct mega_promote request = promote_request(self, span);

	request.flags = flags;
	if (ioctl(device, MEGA_IOC_PROMOTE, &request))
		tap_bail("PROMOTE of %p", span);
	close(self);
	return request;
}

uint32_t demote(int device, const char *span)
{
	int self = pidfd_of(getpid());
	struct mega_demote request = demote_request(self, span);

	if (ioctl(device, MEGA_IOC_DEMOTE, &request))
		tap_bail("DEMOTE of %p", span);
	close(self);
	return request.stop;
}

void promote_note(const struct mega_promote *request)
{
	static const char *const names[] = {
		"done", "already", "not eligible", "not huge", "busy", "no chunk", "signal", "would move",
	};

	tap_note("promotion: %s (error %d), frame 0x%llx, %u in place, %u moved (%u of them exchanged), %u attempts, %llu us",
		 request->stop < sizeof(names) / sizeof(*names) ? names[request->stop] : "?", request->error,
		 request->frame, request->in_place, request->moved, request->exchanged, request->attempts,
		 request->nanoseconds / 1000);
}

struct mega_promote promote_surely(int device, char *span)
{
	struct mega_promote request = promote(device, span, 0);

	for (unsigned int i = 0; i < ATTEMPTS; i++) {
		switch (request.stop) {
		case MEGA_PROMOTE_DONE:
		case MEGA_PROMOTE_ALREADY:
			return request;
		case MEGA_PROMOTE_NOT_HUGE:
			if (madvise(span, GIANT, MADV_COLLAPSE))
				tap_note("MADV_COLLAPSE did not come through");
			break;
		default:
			usleep(50000);
		}
		request = promote(device, span, 0);
	}
	promote_note(&request);
	tap_bail("a span is not promoted in %d attempts", ATTEMPTS);
}

struct mega_promote promote_quietly(int device, const char *span, uint64_t chunk)
{
	int self = pidfd_of(getpid());
	struct mega_promote request = promote_request(self, span);

	request.frame = chunk;
	if (ioctl(device, MEGA_IOC_PROMOTE, &request))
		tap_bail("PROMOTE into 0x%lx", chunk);
	close(self);
	return request;
}

struct mega_promote promote_into(int device, const char *span, uint64_t chunk)
{
	struct mega_promote request = promote_quietly(device, span, chunk);

	promote_note(&request);
	return request;
}

struct mega_promote promote_elsewhere(int device, const char *span)
{
	struct mega_promote request = { 0 };

	for (int i = 0; i < ATTEMPTS; i++, usleep(50000)) {
		uint64_t chunk = free_chunk(device);

		demote(device, span);
		request = promote_into(device, span, chunk);
		if (request.stop == MEGA_PROMOTE_DONE)
			break;
	}
	return request;
}

struct promotions promote_in_turn(int device, const char *span, int rounds)
{
	struct promotions all = { 0 };

	for (int i = 0; i < rounds; i++) {
		struct mega_promote request = promote_elsewhere(device, span);

		all.promoted += request.stop == MEGA_PROMOTE_DONE;
		all.moved += request.moved;
		all.exchanged += request.exchanged;
		all.nanoseconds += request.nanoseconds;
		all.wrong += wrong_pages(span, GIANT, 0, 1);
	}
	return all;
}

char *giant_new(int device)
{
	char *span = map_spans(1);

	fill(span, GIANT, 1);
	promote_surely(device, span);
	return span;
}

uint64_t free_chunk(int device)
{
	char *span = giant_new(device);
	uint64_t chunk = frame_of(span);

	munmap(span, GIANT);
	return chunk;
}

long giant_kib(const char *memory, size_t length)
{
	return smaps(memory, length, "AnonPudMapped");
}

size_t regions_of(int device, const char *memory, size_t length, unsigned int page_shift)
{
	size_t capacity = length / HUGE, found = 0;
	struct mega_region *regions = calloc(capacity, sizeof(*regions));
	int self = pidfd_of(getpid());
	struct mega_scan_task request = scan_task_request(self, memory, length, regions, capacity);

	if (!regions || ioctl(device, MEGA_IOC_SCAN_TASK, &request))
		tap_bail("SCAN_TASK");
	for (size_t i = 0; i < request.count; i++)
		found += regions[i].page_shift == page_shift;
	close(self);
	free(regions);
	return found;
}

size_t regions_on(const char *span, int node)
{
	size_t there = 0;

	for (size_t at = 0; at < GIANT; at += HUGE)
		there += node_of(span + at) == node;
	return there;
}
