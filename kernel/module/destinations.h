/* SPDX-License-Identifier: GPL-2.0 */
#ifndef MEGA_DESTINATIONS_H
#define MEGA_DESTINATIONS_H

#include <linux/types.h>

/* Ranges that nothing is moved into: see struct mega_avoid. */
struct mega_destinations {
	u64 *avoid;		/* their first frames, ascending; NULL for none */
	size_t count;
	unsigned int order;	/* each is of 1 << order frames */
};

/* Whether this kernel lets a module say where pages are moved to. */
bool mega_avoid_available(void);

/*
 * Reads the struct mega_avoid at the address in user space, which may be 0. Returns 0
 * or -errno; mega_destinations_free() is due where it returns 0.
 */
int mega_destinations_read(struct mega_destinations *to, u64 address,
			   unsigned int order);
void mega_destinations_free(struct mega_destinations *to);

/* As alloc_contig_range(), moving what is there to where it may go. */
int mega_alloc_contig_range_to(const struct mega_destinations *to,
			       unsigned long start, unsigned long end, gfp_t gfp);

#endif /* MEGA_DESTINATIONS_H */
