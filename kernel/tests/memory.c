// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "device.h"
#include "memory.h"
#include "random.h"
#include "tap.h"

static uint64_t first_word(const char *page, uint64_t seed)
{
	return mix((uintptr_t)page ^ mix(seed));
}

void page_fill(char *page, uint64_t seed)
{
	uint64_t *words = (uint64_t *)page;
	uint64_t word = first_word(page, seed);

	for (size_t i = 0; i < PAGE / sizeof(*words); i++)
		words[i] = word + i;
}

bool page_right(const char *page, uint64_t seed)
{
	const uint64_t *words = (const uint64_t *)page;
	uint64_t word = first_word(page, seed);

	for (size_t i = 0; i < PAGE / sizeof(*words); i++)
		if (words[i] != word + i)
			return false;
	return true;
}

void forget_translations(char *memory, size_t length)
{
	if (mprotect(memory, length, PROT_NONE) ||
	    mprotect(memory, length, PROT_READ | PROT_WRITE))
		tap_bail("mprotect");
}

struct sparse sparse_make(size_t length, unsigned int every, uint64_t seed)
{
	struct sparse sparse = {
		.memory = map_aligned(length),
		.length = length,
		.every = every,
		.seed = seed,
	};

	/* All first, so that the kept pages are far apart physically too. */
	for (size_t at = 0; at < length; at += PAGE)
		page_fill(sparse.memory + at, seed);
	for (size_t at = 0; at < length; at += PAGE)
		if (at / PAGE % every && madvise(sparse.memory + at, PAGE, MADV_DONTNEED))
			tap_bail("MADV_DONTNEED");
	return sparse;
}

size_t sparse_wrong(const struct sparse *sparse)
{
	size_t wrong = 0;

	for (size_t at = 0; at < sparse->length; at += PAGE * sparse->every)
		wrong += !page_right(sparse->memory + at, sparse->seed);
	return wrong;
}

void sparse_free(struct sparse *sparse)
{
	munmap(sparse->memory, sparse->length);
	sparse->memory = NULL;
}

size_t sparse_pages(const struct sparse *sparse)
{
	return (sparse->length / PAGE + sparse->every - 1) / sparse->every;
}

uint64_t *sparse_frames(const struct sparse *sparse)
{
	uint64_t *frames = calloc(sparse->length / PAGE, sizeof(*frames));

	if (!frames)
		tap_bail("calloc");
	frames_of(sparse->memory, frames, sparse->length / PAGE);
	for (size_t i = 0; i < sparse_pages(sparse); i++)
		frames[i] = frames[i * sparse->every];
	return frames;
}

static bool could_be_emptied(int device, uint64_t frame)
{
	struct mega_compact request = compact_request(frame, 9);

	request.flags = MEGA_COMPACT_DRY_RUN;
	if (ioctl(device, MEGA_IOC_COMPACT, &request))
		return false;
	return request.stop == MEGA_STOP_WOULD;
}

uint64_t sparse_block(const struct sparse *sparse, int device, unsigned int pages, size_t *from)
{
	size_t blocks = end_frame(device) / MEGA_BLOCK_FRAMES + 1;
	uint16_t *count = calloc(blocks, sizeof(*count));
	uint64_t *frames = sparse_frames(sparse);
	uint64_t found = 0;

	if (!count)
		tap_bail("calloc");
	for (size_t i = 0; i < sparse_pages(sparse); i++)
		count[frames[i] / MEGA_BLOCK_FRAMES]++;
	for (size_t block = *from + 1; block < blocks && !found; block++) {
		if (count[block] < pages || !could_be_emptied(device, block * MEGA_BLOCK_FRAMES))
			continue;
		found = block * MEGA_BLOCK_FRAMES;
		*from = block;
	}
	free(frames);
	free(count);
	return found;
}

char *sparse_page_in(const struct sparse *sparse, uint64_t frame)
{
	for (size_t at = 0; at < sparse->length; at += PAGE * sparse->every)
		if (frame_of(sparse->memory + at) / MEGA_BLOCK_FRAMES == frame / MEGA_BLOCK_FRAMES)
			return sparse->memory + at;
	return NULL;
}
