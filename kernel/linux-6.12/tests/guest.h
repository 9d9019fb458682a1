/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A virtual machine whose memory is a span, and whose program adds up what is in its pages, or counts in each. It has
 * one virtual CPU, so one thread at a time may use it.
 */
#ifndef GUEST_H
#define GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False where this machine cannot have one. */
bool guest_start(char *span);
void guest_end(void);

/* What the guest makes of the words of these pages; guest_sum_of() says what it has to be. */
uint32_t guest_sum(size_t first, size_t pages);
uint32_t guest_sum_of(const char *span, size_t first, size_t pages);

/* Has the guest count up each page's counter; says in how many it was not `expected` before. */
uint32_t guest_count(size_t first, size_t pages, uint32_t expected);
/* Sets the counters of pages that have lost them. */
void guest_set_counters(char *span, size_t first, size_t pages, uint32_t value);
/* A page's counter, as this process sees it. */
uint32_t guest_counter(const char *span, size_t page);
/* How many counters are not `expected`, as this process sees them. */
size_t guest_miscounted(const char *span, size_t first, size_t pages, uint32_t expected);

/* Whether KVM logs which pages of the span the guest makes dirty. */
void guest_log(bool on);
/* Fetches the log, which begins anew, and says how many of these pages the one that was fetched last has. */
void guest_fetch_log(void);
size_t guest_logged(size_t first, size_t pages);

/* Of the tables that map the guest's memory: how many entries there are of pages_1g, pages_2m or pages_4k. */
long guest_mapped(const char *name);

#endif /* GUEST_H */
