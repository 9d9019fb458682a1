// SPDX-License-Identifier: GPL-2.0
/* The kernel's tracepoints are hooked for COMPACT's counts while somebody compacts and shortly after, and at no other time. */
#define _GNU_SOURCE
#include <unistd.h>
#include "device.h"
#include "memory.h"
#include "module.h"
#include "tap.h"

#define HOOKED "/sys/module/mega/parameters/hooked"

static bool hooked(void)
{
	return read_number(HOOKED, -1) == 1;
}

/* A minute, which is far more than the module takes. */
static bool unhooked_at_last(void)
{
	for (int i = 0; i < 6000 && hooked(); i++)
		usleep(10000);
	return read_number(HOOKED, -1) == 0;
}

/* One block of the program emptied, and whether it was counted. */
static bool counts(int device, struct sparse *sparse, size_t *from)
{
	uint64_t frame = sparse_block(sparse, device, 30, from);
	struct mega_compact request = compact_until(device, frame, 9, 0, MEGA_STOP_DONE);

	return request.stop == MEGA_STOP_DONE && request.scanned && request.migrated;
}

static void reload(void)
{
	if (module_unload() || module_load())
		tap_bail("load the module again");
}

int main(void)
{
	struct sparse sparse = sparse_make(64 * HUGE, 8, 3);
	size_t from = 0, look = 0;
	int device;

	if (!module_is_there()) {
		tap_skip("hooks", "there is no " MODULE_FILE " to load again");
		return tap_end();
	}
	reload();
	device = device_open();
	tap_equal(read_number(HOOKED, -1), 0, "a module that was just loaded has hooked nothing");
	compact(device, sparse_block(&sparse, device, 30, &look), 9, MEGA_COMPACT_DRY_RUN);
	tap_ok(!hooked(), "nor after a dry run");
	tap_ok(counts(device, &sparse, &from), "a compaction is counted");
	tap_ok(unhooked_at_last(), "what was hooked for it is let go");
	tap_ok(counts(device, &sparse, &from), "and hooked again for the next");
	close(device);
	/* Most likely hooked still. */
	reload();
	tap_equal(read_number(HOOKED, -1), 0, "unloading lets go of it at once");
	device = device_open();
	tap_ok(counts(device, &sparse, &from), "and the module loaded again counts");
	tap_equal(sparse_wrong(&sparse), 0, "no byte of the program changed");
	sparse_free(&sparse);
	close(device);
	return tap_end();
}
