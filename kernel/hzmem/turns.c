// SPDX-License-Identifier: GPL-2.0
/*
 * Turns. Where several mounts could give a page, the one that is asked first gives it, as
 * long as it has one. So they are asked first in turns: as often as they have pages on the
 * node, compared with the others.
 */

#include "lru.h"
#include "turns.h"

/*
 * 2^32 by the golden ratio. Of the numbers that adding it again and again gives, any few
 * that follow each other lie evenly over all of 32 bits.
 */
#define STEP 0x9e3779b9U

static unsigned long pages_on(struct hz_mount *mount, const struct hz_node *node)
{
	const struct hz_lru *lru = &mount->lrus[node->id];

	if (mount->settings.algorithm == HZ_NO_ALGORITHM)
		return 0;
	return READ_ONCE(lru->counts[HZ_INACTIVE]) +
	       READ_ONCE(lru->counts[HZ_ACTIVE]);
}

static u64 all_pages_on(const struct hz_node *node)
{
	struct hz_mount *mount;
	u64 sum = 0;

	hz_for_each_mount(mount)
		sum += pages_on(mount, node);
	return sum;
}

unsigned long hz_share(struct hz_mount *mount, const struct hz_node *node,
		       unsigned long pages)
{
	u64 all = all_pages_on(node);

	return all ? max(1, pages * pages_on(mount, node) / all) : 1;
}

/* The mount that has the page of this number, of all of them together; 0 for none. */
static dev_t mount_at(const struct hz_node *node, u64 position)
{
	struct hz_mount *mount;
	unsigned long pages;
	dev_t device;

	hz_for_each_mount(mount) {
		pages = pages_on(mount, node);
		if (position < pages) {
			device = mount->device;
			hz_mount_put(mount);
			return device;
		}
		position -= pages;
	}
	return 0;
}

struct hz_round hz_round_begin(struct hz_node *node)
{
	u32 turn = atomic_add_return(STEP, &node->turn);
	u64 position = mul_u64_u32_shr(all_pages_on(node), turn, 32);

	return (struct hz_round){ .first = mount_at(node, position) };
}

/* As hz_mount_next(): better some mounts twice than others not at all. */
struct hz_mount *hz_round_next(struct hz_round *round, struct hz_mount *mount)
{
	while (!round->wrapped) {
		mount = hz_mount_next(mount);
		if (!mount)
			round->wrapped = true;
		else if (mount->device == round->first)
			round->met = true;
		if (mount && round->met)
			return mount;
	}
	mount = hz_mount_next(mount);
	if (mount && round->met && mount->device == round->first) {
		hz_mount_put(mount);
		return NULL;
	}
	return mount;
}
