/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The patched kernel's giant pages (kernel/linux-6.12, CONFIG_ANON_PUD). On any
 * other kernel the same functions, which say that there are none.
 */
#ifndef MEGA_GIANT_H
#define MEGA_GIANT_H

#include <linux/kconfig.h>

#if IS_ENABLED(CONFIG_ANON_PUD)
#include <linux/anon_pud.h>
#else
#include <linux/errno.h>

struct mm_struct;

struct anon_pud_promotion {
	unsigned int in_place;
	unsigned int moved;
	unsigned int attempts;
	unsigned long pfn;
};

#define ANON_PUD_IN_PLACE 0x1

static inline int anon_pud_promote(struct mm_struct *mm, unsigned long address,
				   unsigned int flags, unsigned long pfn,
				   struct anon_pud_promotion *did)
{
	return -EOPNOTSUPP;
}

static inline int anon_pud_demote(struct mm_struct *mm, unsigned long address)
{
	return -EOPNOTSUPP;
}

struct anon_pud_zeroes {
	unsigned int looked;
	unsigned int zero;
	unsigned int freed;
	unsigned int busy;
};

static inline int anon_pud_free_zero(struct mm_struct *mm,
				     unsigned long address,
				     struct anon_pud_zeroes *did)
{
	return -EOPNOTSUPP;
}
#endif /* CONFIG_ANON_PUD */

/* Not in every version of the series. */
#ifndef ANON_PUD_COLLAPSE
#define ANON_PUD_COLLAPSE 0
#endif

/* A kernel whose series moves memory by exchange counts that. */
static inline unsigned int
mega_giant_exchanged(const struct anon_pud_promotion *did)
{
#ifdef ANON_PUD_EXCHANGER
	return did->exchanged;
#else
	return 0;
#endif
}

#endif /* MEGA_GIANT_H */
