// SPDX-License-Identifier: GPL-2.0
/* INFO, and the device itself. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "device.h"
#include "tap.h"

static bool kernel_counts_giant_pages(void)
{
	FILE *meminfo = fopen("/proc/meminfo", "re");
	char line[256];
	bool found = false;

	while (meminfo && !found && fgets(line, sizeof(line), meminfo))
		found = !strncmp(line, "AnonPudMapped:", 14);
	if (meminfo)
		fclose(meminfo);
	return found;
}

int main(void)
{
	int device = device_open();
	struct mega_info info = info_request();
	struct stat state;

	tap_ok(!stat(MEGA_DEVICE, &state) && (state.st_mode & 07777) == 0600 && state.st_uid == 0,
	       "the device is root's alone");
	tap_equal(ioctl(device, MEGA_IOC_INFO, &info), 0, "INFO succeeds");
	tap_equal(info.version, MEGA_INTERFACE_VERSION, "the version is the header's");
	tap_ok(info.features & MEGA_FEATURE_SCAN_TASK && info.features & MEGA_FEATURE_SCAN_BLOCKS &&
	       info.features & MEGA_FEATURE_COMPACT, "all three requests are there");
	tap_ok(info.features & MEGA_FEATURE_COMPACT_COUNTS, "the kernel counts for COMPACT");
	tap_ok(!(info.features & (MEGA_FEATURE_FLUSH | MEGA_FEATURE_SECONDARY)),
	       "it promises neither a TLB flush nor secondary MMUs");
	tap_ok(info.end_frame > (uint64_t)sysconf(_SC_PHYS_PAGES) / 2, "the end of memory is plausible");
	tap_equal(info.min_order, 9, "the smallest order is a block");
	tap_equal(info.max_order, 18, "the largest order is a chunk");
	tap_equal(info.page_table_levels == 4 || info.page_table_levels == 5, 1, "4 or 5 levels");
	tap_note("features 0x%llx, end frame 0x%llx, %u levels", (unsigned long long)info.features,
		 (unsigned long long)info.end_frame, info.page_table_levels);
	tap_equal(sizeof(struct mega_region), 16, "a region record has 16 bytes");
	tap_equal(sizeof(struct mega_block), 16, "a block record has 16 bytes");
	tap_equal(sizeof(struct mega_promote), 64, "PROMOTE's structure has 64 bytes");
	tap_equal(sizeof(struct mega_demote), 40, "DEMOTE's has 40");
	tap_equal(sizeof(struct mega_free_zero), 56, "FREE_ZERO's has 56");
	tap_equal(sizeof(struct mega_exchange), 40, "EXCHANGE's has 40");
	tap_equal(sizeof(struct mega_pair), 24, "a pair's has 24");
	tap_equal(!!(info.features & MEGA_FEATURE_GIANT), kernel_counts_giant_pages(),
		  "giant pages are promised where the kernel counts them, and only there");
	tap_equal(!!(info.features & MEGA_FEATURE_FREE_ZERO), kernel_counts_giant_pages(),
		  "and so is giving back what is zero-filled");
	tap_equal(!!(info.features & MEGA_FEATURE_AVOID), kernel_counts_giant_pages(),
		  "and so is emptying blocks into none that is next");
	tap_equal(!!(info.features & MEGA_FEATURE_EXCHANGE_PAIRS), kernel_counts_giant_pages(),
		  "and so is exchanging pairs of huge pages");
	return tap_end();
}
