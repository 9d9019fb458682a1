/* SPDX-License-Identifier: GPL-2.0 */
/* The content of huge pages: whatever is written is known by a seed, and checked word by word. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stdint.h>

enum text {
	TEXT_LINES,	/* compresses well: lines that differ a little */
	TEXT_ZEROS,	/* nothing but zeros, whatever the seed */
	TEXT_RANDOM,	/* does not compress */
	TEXT_KINDS,
};

/* Fills 2 MiB at page. */
void text_fill(void *page, enum text kind, uint64_t seed);
/* Whether the 2 MiB at page are just that. Says in a remark where the first wrong word is. */
bool text_right(const void *page, enum text kind, uint64_t seed);
/* As text_right(), without a remark: for callers to whom a difference is no fault. */
bool text_is(const void *page, enum text kind, uint64_t seed);

/* `pages` huge pages one after the other, the page at i with seed + i. */
void text_fill_all(char *memory, unsigned int pages, enum text kind, uint64_t seed);
/* How many of them are not as they were filled. */
unsigned int text_wrong(const char *memory, unsigned int pages, enum text kind, uint64_t seed);

#endif /* TEXT_H */
