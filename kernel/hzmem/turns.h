/* SPDX-License-Identifier: GPL-2.0 */
/* Which mount is asked first for pages to compress, so that it is not always the same. */
#ifndef HZMEM_TURNS_H
#define HZMEM_TURNS_H

#include "hzmem.h"
#include "pool.h"

/* All mounts once, beginning with one whose turn it is. */
struct hz_round {
	dev_t first;
	bool met;	/* the first one */
	bool wrapped;	/* those before it are what is left */
};

/* Of so many pages of the node, as many as are the mount's part of them; at least 1. */
unsigned long hz_share(struct hz_mount *mount, const struct hz_node *node,
		       unsigned long pages);

struct hz_round hz_round_begin(struct hz_node *node);
struct hz_mount *hz_round_next(struct hz_round *round, struct hz_mount *mount);

/* With a reference on the current one; put it when leaving early. */
#define hz_for_each_in_round(mount, round)                            \
	for (mount = hz_round_next(round, NULL); mount;               \
	     mount = hz_round_next(round, mount))

#endif
