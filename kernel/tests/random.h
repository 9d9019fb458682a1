/* SPDX-License-Identifier: GPL-2.0 */
/* Random numbers for fuzzers: xorshift, repeated from the seed that the test printed. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

/* Not 0. Set to the seed first; a child mixes in what sets it apart. */
extern uint64_t random_state;

uint64_t any(void);
unsigned int below(unsigned int limit);

#endif /* RANDOM_H */
