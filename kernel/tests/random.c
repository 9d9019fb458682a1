// SPDX-License-Identifier: GPL-2.0
/* Random numbers from a seed. */
#include "random.h"

uint64_t random_state;

uint64_t any(void)
{
	return next(&random_state);
}

unsigned int below(unsigned int limit)
{
	return any() % limit;
}
