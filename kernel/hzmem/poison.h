/* SPDX-License-Identifier: GPL-2.0 */
/* Errors of the memory itself. */
#ifndef HZMEM_POISON_H
#define HZMEM_POISON_H

#include <linux/memremap.h>
#include "pool.h"

extern const struct dev_pagemap_ops hz_map_operations;

int hz_copy_from_page(struct hz_page *page, unsigned long offset, void *to);

#endif
