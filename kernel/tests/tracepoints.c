// SPDX-License-Identifier: GPL-2.0
/* Each request leaves one line in the kernel's trace that says what it did. */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "device.h"
#include "tap.h"

#define TRACING "/sys/kernel/tracing/"

/* Whether a line of the trace has all of these in it. */
static bool traced(const char *event, const char *first, const char *second)
{
	FILE *trace = fopen(TRACING "trace", "re");
	char line[1024];
	bool found = false;

	while (trace && !found && fgets(line, sizeof(line), trace))
		found = strstr(line, event) && strstr(line, first) && strstr(line, second);
	if (trace)
		fclose(trace);
	return found;
}

int main(void)
{
	int device = device_open();
	int self = pidfd_of(getpid());
	struct mega_region regions[4];
	struct mega_block blocks[4];
	/* Of memory made for it: over how many regions a program lies is random. */
	char *memory = map_aligned(4 * HUGE);
	struct mega_scan_task task = scan_task_request(self, memory, 4 * HUGE, regions, 4);
	struct mega_scan_blocks scan = scan_blocks_request(512, blocks, 4);
	struct mega_compact request = compact_request(0, 9);
	struct mega_promote up = promote_request(self, NULL);
	struct mega_demote down = demote_request(self, NULL);
	struct mega_free_zero zero = free_zero_request(self, NULL);
	struct mega_pair pair = { .second = HUGE };
	struct mega_exchange exchange = exchange_request(self, &pair, 1);
	bool giant = giant_available(device);

	if (access(TRACING "events/mega/enable", F_OK)) {
		tap_skip("tracepoints", "this kernel has no tracefs");
		return tap_end();
	}
	for (size_t at = 0; at < 4 * HUGE; at += HUGE)
		memory[at] = 1;
	write_file(TRACING "trace", "");
	tap_ok(write_file(TRACING "events/mega/enable", "1"), "the events can be switched on");
	task.flags = MEGA_TASK_CLEAR;
	if (ioctl(device, MEGA_IOC_SCAN_TASK, &task) || ioctl(device, MEGA_IOC_SCAN_BLOCKS, &scan) ||
	    ioctl(device, MEGA_IOC_COMPACT, &request))
		tap_bail("a request");
	if (giant && (ioctl(device, MEGA_IOC_PROMOTE, &up) || ioctl(device, MEGA_IOC_DEMOTE, &down)))
		tap_bail("PROMOTE or DEMOTE");
	if (free_zero_available(device) && ioctl(device, MEGA_IOC_FREE_ZERO, &zero))
		tap_bail("FREE_ZERO");
	if (exchange_available(device) && ioctl(device, MEGA_IOC_EXCHANGE, &exchange))
		tap_bail("EXCHANGE");
	task.pidfd = -1;
	ioctl(device, MEGA_IOC_SCAN_TASK, &task);
	write_file(TRACING "events/mega/enable", "0");

	tap_ok(traced("mega_scan_task:", "flags=0x1", "count=4"), "SCAN_TASK is traced");
	tap_ok(traced("mega_scan_task:", "error=-9", "count=0"), "and that it failed");
	tap_ok(traced("mega_scan_blocks:", "start_frame=0x200 count=4", "done=4"), "SCAN_BLOCKS is traced");
	tap_ok(traced("mega_compact:", "frame=0x0 order=9", "stop=unmovable"), "COMPACT is traced");
	if (giant) {
		tap_ok(traced("mega_promote:", "start=0x0", "stop=not_eligible"), "PROMOTE is traced");
		tap_ok(traced("mega_demote:", "start=0x0", "stop=not_giant"), "DEMOTE is traced");
	}
	if (free_zero_available(device))
		tap_ok(traced("mega_free_zero:", "start=0x0", "looked=0"), "FREE_ZERO is traced");
	if (exchange_available(device))
		tap_ok(traced("mega_exchange:", "pairs=1", "exchanged=0"), "EXCHANGE is traced");
	close(self);
	close(device);
	return tap_end();
}
