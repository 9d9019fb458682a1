/* SPDX-License-Identifier: GPL-2.0 */
/* Faults to order, in builds for tests (make HZMEM_INJECT=1). */
#ifndef HZMEM_INJECT_H
#define HZMEM_INJECT_H

#include <linux/types.h>

#ifdef HZMEM_INJECT
bool hz_inject_failure(void);
bool hz_inject_memory_error(void);
void hz_inject_corruption(void *data, size_t length);
void hz_inject_init(void);
void hz_inject_exit(void);
#else
static inline bool hz_inject_failure(void)
{
	return false;
}

static inline bool hz_inject_memory_error(void)
{
	return false;
}

static inline void hz_inject_corruption(void *data, size_t length)
{
}

static inline void hz_inject_init(void)
{
}

static inline void hz_inject_exit(void)
{
}
#endif

#endif
