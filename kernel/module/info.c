// SPDX-License-Identifier: GPL-2.0
/* INFO: what this module, on this kernel, can do. */

#include <linux/mmzone.h>
#include <linux/pgtable.h>
#include <linux/string.h>
#include "compact_counts.h"
#include "destinations.h"
#include "exchange.h"
#include "mega.h"

static u64 features(void)
{
	u64 features = MEGA_FEATURE_SCAN_TASK | MEGA_FEATURE_SCAN_BLOCKS;

	if (mega_compact_available())
		features |= MEGA_FEATURE_COMPACT;
	if (mega_compact_available() && mega_counts_available())
		features |= MEGA_FEATURE_COMPACT_COUNTS;
	if (mega_compact_available() && mega_avoid_available())
		features |= MEGA_FEATURE_AVOID;
	if (IS_ENABLED(CONFIG_PAGE_IDLE_FLAG))
		features |= MEGA_FEATURE_KEEPS_YOUNG;
	if (mega_giant_available())
		features |= MEGA_FEATURE_GIANT;
	if (mega_free_zero_available())
		features |= MEGA_FEATURE_FREE_ZERO;
	if (mega_collapse_available())
		features |= MEGA_FEATURE_COLLAPSE;
	if (mega_exchange_pairs_available())
		features |= MEGA_FEATURE_EXCHANGE_PAIRS;
	if (mega_exchange_available())
		features |= MEGA_FEATURE_EXCHANGE;
	return features;
}

/* By zones with memory: a node's own span may go on where there is none. */
static u64 end_frame(void)
{
	u64 end = 0;
	int node;

	for_each_online_node(node) {
		struct zone *zone = NODE_DATA(node)->node_zones;
		struct zone *last = zone + MAX_NR_ZONES;

		for (; zone < last; zone++)
			if (populated_zone(zone))
				end = max_t(u64, end, zone_end_pfn(zone));
	}
	return end;
}

static int check(const void *argument)
{
	const struct mega_info *info = argument;

	return info->reserved || memchr_inv(info->reserved2, 0,
					    sizeof(info->reserved2)) ?
		       -EINVAL : 0;
}

static int run(void *argument)
{
	struct mega_info *info = argument;

	info->version = MEGA_INTERFACE_VERSION;
	info->features = features();
	info->end_frame = end_frame();
	info->max_regions = MEGA_MAX_REGIONS;
	info->max_blocks = MEGA_MAX_BLOCKS;
	info->min_order = MEGA_MIN_ORDER;
	info->max_order = MEGA_MAX_ORDER;
	info->page_table_levels = pgtable_l5_enabled() ? 5 : 4;
	return 0;
}

const struct mega_request mega_request_info = {
	.command = MEGA_IOC_INFO,
	.check = check,
	.run = run,
};
