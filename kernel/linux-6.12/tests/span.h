/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Spans of anonymous memory in huge or giant pages, whose every base page holds a word
 * that is known. One word, not every byte: the programs also run where each access is
 * checked, and a page that went astray shows by its word.
 */
#ifndef SPAN_H
#define SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "device.h"

#define SPAN_PAGES (GIANT / PAGE)
#define SPAN_REGIONS (GIANT / HUGE)

/* Addresses with nothing mapped, a multiple of 1 GiB, with a free GiB on either side; length bytes of them. */
char *room_for(size_t length);

/* Anonymous private memory at a multiple of 1 GiB that asks for huge pages; nothing touched. */
char *map_spans(unsigned int spans);

/*
 * Fills pages that belong to a span with their words: what follows from the page's place
 * in the span (counted from `origin`) and the seed. 2 MiB at a time, in an order in which
 * neighbours do not get neighbouring blocks.
 */
void fill(char *memory, size_t length, uint64_t seed);

/* Writes the word of the pages from `from` on of a span whose first byte was at origin when it was filled. */
void fill_part(char *from, size_t length, size_t offset, uint64_t seed);

/* How many pages do not hold their words; offset is that of the first in what fill() filled. */
size_t wrong_pages(const char *from, size_t length, size_t offset, uint64_t seed);

/* How many pages do not begin with eight zero bytes. */
size_t nonzero_pages(const char *memory, size_t length);

/* PROMOTE of this process's span; bails out when the request is refused. */
struct mega_promote promote(int device, const char *span, uint32_t flags);
/* DEMOTE likewise; returns stop. */
uint32_t demote(int device, const char *span);
/* Prints what came of it as a remark. */
void promote_note(const struct mega_promote *request);

/*
 * PROMOTE that has to succeed, again while pages are busy for a moment, where base pages
 * are collapsed first. Bails out where it does not.
 */
struct mega_promote promote_surely(int device, char *span);

/* PROMOTE into a chunk that the span does not lie in, once; and with what came of it as a remark. */
struct mega_promote promote_quietly(int device, const char *span, uint64_t chunk);
struct mega_promote promote_into(int device, const char *span, uint64_t chunk);

/* Has the span promoted into another chunk than it is in, again while pages are busy for a moment. */
struct mega_promote promote_elsewhere(int device, const char *span);

/* Promotions of a span one after the other, each into another chunk than it is in, and what came of them. */
struct promotions {
	int promoted;
	long moved, exchanged;
	unsigned long long nanoseconds;
	/* Pages of all of them together that are not what fill(span, GIANT, 1) wrote. */
	size_t wrong;
};
struct promotions promote_in_turn(int device, const char *span, int rounds);

/* Maps a span, fills it with seed 1 and has it promoted. */
char *giant_new(int device);

/* The first frame of a free chunk: one that a giant page was in. */
uint64_t free_chunk(int device);

/* KiB of the length bytes from memory that giant pages map, as smaps says. */
long giant_kib(const char *memory, size_t length);

/* Of the regions from memory on: how many are mapped by pages of 1 << page_shift bytes. */
size_t regions_of(int device, const char *memory, size_t length, unsigned int page_shift);

/* How many of the span's regions begin on the NUMA node. */
size_t regions_on(const char *span, int node);

#endif /* SPAN_H */
