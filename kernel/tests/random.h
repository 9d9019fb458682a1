/* SPDX-License-Identifier: GPL-2.0 */
/* Random numbers that can be had again: by a seed that the test printed, or by what they stand for. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

/* xorshift: the number after *state, which is not 0. For threads, each with a state of its own. */
static inline uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* splitmix64: a number that follows from x, and is never that of another x. */
static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/* The fuzzers' own state. Not 0. Set to the seed first; a child mixes in what sets it apart. */
extern uint64_t random_state;

uint64_t any(void);
unsigned int below(unsigned int limit);

#endif /* RANDOM_H */
