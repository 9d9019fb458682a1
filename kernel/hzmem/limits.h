/* SPDX-License-Identifier: GPL-2.0 */
/* How much a mount may have. */
#ifndef HZMEM_LIMITS_H
#define HZMEM_LIMITS_H

#include "hzmem.h"

unsigned long hz_limit_pages(const struct hz_mount *mount);
u64 hz_limit_compressed(const struct hz_mount *mount);

#endif
