/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel counts of each chunk of physical memory: anon_pud/chunks and chunks_walked in debugfs. */
#ifndef COUNTS_H
#define COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "device.h"

#define CHUNK_FRAMES (GIANT / PAGE)
#define MAX_CHUNKS 64

struct chunk {
	uint64_t frame;		/* the first */
	int node;
	unsigned int free, unmovable;
	bool mapped;
};

struct chunks {
	size_t count;
	struct chunk chunk[MAX_CHUNKS];
};

/* All chunks that have memory, in the order of their frames; bails out where the kernel does not say. */
struct chunks chunks_now(void);

/* The chunk that a frame lies in; bails out where there is none. */
const struct chunk *chunk_of(const struct chunks *chunks, uint64_t frame);

/* Prints them as remarks. */
void chunks_note(const struct chunks *chunks);

/*
 * Whether the counts are what a look at every frame finds, which can be seen when nothing is
 * going on for a moment; waited for. Prints the difference that was there to the end.
 */
bool counts_agree(void);

#endif /* COUNTS_H */
