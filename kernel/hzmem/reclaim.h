/* SPDX-License-Identifier: GPL-2.0 */
/* A page for whoever needs one, at the cost of another if need be. */
#ifndef HZMEM_RECLAIM_H
#define HZMEM_RECLAIM_H

#include "pool.h"

struct hz_page *hz_alloc_page(struct hz_mount *mount, bool again);

#endif
