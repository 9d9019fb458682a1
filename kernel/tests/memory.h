/* SPDX-License-Identifier: GPL-2.0 */
/* Memory whose every byte is known, and where it lies physically. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fills a page with what follows from its address and seed. */
void page_fill(char *page, uint64_t seed);
/* Whether the page still holds just that. */
bool page_right(const char *page, uint64_t seed);

/*
 * Drops what TLBs hold of length bytes, so that the next touch walks the page
 * tables and sets the Accessed bits.
 */
void forget_translations(char *memory, size_t length);

/* A program that uses little of a lot: one page of every `every` is kept. */
struct sparse {
	char *memory;
	size_t length;
	unsigned int every;
	uint64_t seed;
};

/*
 * Fills length bytes of base pages and gives back all but one of every, so that
 * the physical blocks under them are mostly free. Bails out without memory.
 */
struct sparse sparse_make(size_t length, unsigned int every, uint64_t seed);
/* Pages of it that are not what was written, counted by reading them all. */
size_t sparse_wrong(const struct sparse *sparse);
void sparse_free(struct sparse *sparse);

/* How many pages are kept, and the frame of each, 0 for none, for the caller to free. */
size_t sparse_pages(const struct sparse *sparse);
uint64_t *sparse_frames(const struct sparse *sparse);

/*
 * The first frame of a block that, with `pages` of the sparse program or more
 * in it, a dry run says could be emptied. 0 when there is none. Each call goes on
 * after the block that the last one returned; *from starts at 0.
 */
uint64_t sparse_block(const struct sparse *sparse, int device, unsigned int pages, size_t *from);

/* A kept page of the program that lies in the block at frame, or NULL. */
char *sparse_page_in(const struct sparse *sparse, uint64_t frame);

#endif /* MEMORY_H */
