// SPDX-License-Identifier: GPL-2.0
#include <stddef.h>
#include "device.h"
#include "random.h"
#include "tap.h"
#include "text.h"

#define WORDS (HUGE / sizeof(uint64_t))

/* One word of a page. A line is 16 words, of which one says which line it is. */
static inline uint64_t word(enum text kind, uint64_t first, size_t i)
{
	switch (kind) {
	case TEXT_LINES:
		return i % 16 ? first ^ (i % 16) * 0x0101010101010101ULL : first + i;
	case TEXT_RANDOM:
		return mix(first + i);
	default:
		return 0;
	}
}

void text_fill(void *page, enum text kind, uint64_t seed)
{
	uint64_t first = mix(seed);
	uint64_t *words = page;

	for (size_t i = 0; i < WORDS; i++)
		words[i] = word(kind, first, i);
}

/* The first word that is wrong, or WORDS. */
static size_t first_wrong(const void *page, enum text kind, uint64_t seed)
{
	uint64_t first = mix(seed);
	const uint64_t *words = page;

	for (size_t i = 0; i < WORDS; i++)
		if (words[i] != word(kind, first, i))
			return i;
	return WORDS;
}

bool text_is(const void *page, enum text kind, uint64_t seed)
{
	return first_wrong(page, kind, seed) == WORDS;
}

bool text_right(const void *page, enum text kind, uint64_t seed)
{
	size_t i = first_wrong(page, kind, seed);

	if (i == WORDS)
		return true;
	tap_note("%p: word %zu is 0x%lx, should be 0x%lx (kind %d, seed %lu)", page, i,
		 ((const uint64_t *)page)[i], word(kind, mix(seed), i), kind, seed);
	return false;
}

void text_fill_all(char *memory, unsigned int pages, enum text kind, uint64_t seed)
{
	for (unsigned int i = 0; i < pages; i++)
		text_fill(memory + i * HUGE, kind, seed + i);
}

unsigned int text_wrong(const char *memory, unsigned int pages, enum text kind, uint64_t seed)
{
	unsigned int wrong = 0;

	for (unsigned int i = 0; i < pages; i++)
		wrong += !text_right(memory + i * HUGE, kind, seed + i);
	return wrong;
}
