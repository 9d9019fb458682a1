// SPDX-License-Identifier: GPL-2.0
/* Every wrong argument is an errno, and nothing happens. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "device.h"
#include "memory.h"
#include "tap.h"

static int device;
static int self;
static char *memory;	/* 2 MiB, every page touched and so accessed */
static struct mega_region regions[4];
static struct mega_region_maps maps[4];
static struct mega_block blocks[4];

#define BAD_POINTER 0x10000ULL	/* nothing is mapped so low */

static struct mega_scan_task good_scan_task(void)
{
	struct mega_scan_task request = scan_task_request(self, memory, HUGE, regions, 4);

	request.flags = MEGA_TASK_CLEAR;
	request.maps = (uintptr_t)maps;
	return request;
}

static int accessed_pages(void)
{
	struct mega_region region;
	struct mega_scan_task request = scan_task_request(self, memory, HUGE, &region, 1);

	if (ioctl(device, MEGA_IOC_SCAN_TASK, &request) || request.count != 1)
		tap_bail("SCAN_TASK");
	return region.accessed;
}

/* Runs a request with one member changed, which must fail and clear nothing. */
#define SCAN_TASK_FAILS(error, change)                                               \
	do {                                                                         \
		struct mega_scan_task request = good_scan_task();                    \
		request.change;                                                      \
		memset(memory, 1, HUGE);                                             \
		tap_fails(ioctl(device, MEGA_IOC_SCAN_TASK, &request), error,        \
			  "SCAN_TASK with %s", #change);                             \
		tap_equal(accessed_pages(), 512, "and nothing was cleared");         \
	} while (0)

static void scan_task(void)
{
	struct mega_scan_task request;
	int null = open("/dev/null", O_RDONLY);
	int path = open("/", O_PATH);

	SCAN_TASK_FAILS(EINVAL, size = 0);
	SCAN_TASK_FAILS(EINVAL, size = sizeof(request) + 8);
	SCAN_TASK_FAILS(EINVAL, flags = 1U << 1);
	SCAN_TASK_FAILS(EINVAL, flags = ~0U);
	SCAN_TASK_FAILS(EINVAL, reserved = 1);
	SCAN_TASK_FAILS(EINVAL, capacity = 0);
	SCAN_TASK_FAILS(EINVAL, capacity = 65537);
	SCAN_TASK_FAILS(EINVAL, capacity = ~0U);
	SCAN_TASK_FAILS(EINVAL, start += PAGE);
	SCAN_TASK_FAILS(EINVAL, length = 0);
	SCAN_TASK_FAILS(EINVAL, length += 1);
	SCAN_TASK_FAILS(EINVAL, length = ~(HUGE - 1));
	SCAN_TASK_FAILS(EINVAL, start = 0xffff800000000000ULL);
	SCAN_TASK_FAILS(EINVAL, start = -(__u64)HUGE);
	SCAN_TASK_FAILS(EINVAL, regions += 4);
	SCAN_TASK_FAILS(EINVAL, maps += 1);
	SCAN_TASK_FAILS(EFAULT, regions = 0);
	SCAN_TASK_FAILS(EFAULT, regions = BAD_POINTER);
	SCAN_TASK_FAILS(EFAULT, maps = BAD_POINTER);
	SCAN_TASK_FAILS(EFAULT, regions = 0xffff888000000000ULL);
	SCAN_TASK_FAILS(EFAULT, regions = (uintptr_t)"a constant" & ~7UL);
	SCAN_TASK_FAILS(EBADF, pidfd = -1);
	SCAN_TASK_FAILS(EBADF, pidfd = 1 << 20);
	SCAN_TASK_FAILS(EBADF, pidfd = null);
	SCAN_TASK_FAILS(EBADF, pidfd = path);
	SCAN_TASK_FAILS(EBADF, pidfd = device);
	close(null);
	close(path);

	tap_fails(ioctl(device, MEGA_IOC_SCAN_TASK, BAD_POINTER), EFAULT,
		  "SCAN_TASK of a bad pointer");
	tap_fails(ioctl(device, MEGA_IOC_SCAN_TASK, NULL), EFAULT, "SCAN_TASK of a null pointer");
	request = good_scan_task();
	tap_equal(ioctl(device, MEGA_IOC_SCAN_TASK, &request), 0, "SCAN_TASK with none of it succeeds");
	tap_equal(accessed_pages(), 0, "and clears");
}

/* A request that cannot be answered must not be carried out. */
static void read_only_request(void)
{
	struct mega_scan_task *request = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
					      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*request = good_scan_task();
	mprotect(request, PAGE, PROT_READ);
	forget_translations(memory, HUGE);
	memset(memory, 1, HUGE);
	tap_fails(ioctl(device, MEGA_IOC_SCAN_TASK, request), EFAULT,
		  "SCAN_TASK of a request that cannot be written to");
	tap_equal(accessed_pages(), 512, "and nothing was cleared");
	munmap(request, PAGE);
}

#define SCAN_BLOCKS_FAILS(error, change)                                             \
	do {                                                                         \
		struct mega_scan_blocks request = scan_blocks_request(0, blocks, 4); \
		request.change;                                                      \
		tap_fails(ioctl(device, MEGA_IOC_SCAN_BLOCKS, &request), error,      \
			  "SCAN_BLOCKS with %s", #change);                           \
	} while (0)

static void scan_blocks(void)
{
	struct mega_scan_blocks request = scan_blocks_request(0, blocks, 4);

	SCAN_BLOCKS_FAILS(EINVAL, size = 0);
	SCAN_BLOCKS_FAILS(EINVAL, size = sizeof(request) - 8);
	SCAN_BLOCKS_FAILS(EINVAL, flags = 2);
	SCAN_BLOCKS_FAILS(EINVAL, reserved = 1);
	SCAN_BLOCKS_FAILS(EINVAL, count = 0);
	SCAN_BLOCKS_FAILS(EINVAL, count = 524289);
	SCAN_BLOCKS_FAILS(EINVAL, count = ~0U);
	SCAN_BLOCKS_FAILS(EINVAL, start_frame = 1);
	SCAN_BLOCKS_FAILS(EINVAL, start_frame = 511);
	SCAN_BLOCKS_FAILS(EINVAL, start_frame = ~0ULL);
	SCAN_BLOCKS_FAILS(EINVAL, start_frame = ~511ULL);
	SCAN_BLOCKS_FAILS(EINVAL, start_frame = 1ULL << 52);
	SCAN_BLOCKS_FAILS(EINVAL, blocks += 1);
	SCAN_BLOCKS_FAILS(EFAULT, blocks = 0);
	SCAN_BLOCKS_FAILS(EFAULT, blocks = BAD_POINTER);
	SCAN_BLOCKS_FAILS(EFAULT, blocks = 0xffff888000000000ULL);
	tap_fails(ioctl(device, MEGA_IOC_SCAN_BLOCKS, BAD_POINTER), EFAULT,
		  "SCAN_BLOCKS of a bad pointer");
	tap_ok(!ioctl(device, MEGA_IOC_SCAN_BLOCKS, &request) && request.done == 4,
	       "SCAN_BLOCKS with none of it succeeds");
}

#define COMPACT_FAILS(error, change)                                                  \
	do {                                                                          \
		struct mega_compact request = compact_request(1 << 18, 9);            \
		request.change;                                                       \
		tap_fails(ioctl(device, MEGA_IOC_COMPACT, &request), error,           \
			  "COMPACT with %s", #change);                                \
	} while (0)

/* Lists of what COMPACT is to move nothing into. */
static void compact_avoiding(void)
{
	uint64_t list[] = { 2, 512, 1024 };

	if (!avoid_available(device)) {
		COMPACT_FAILS(EOPNOTSUPP, avoid = (uintptr_t)list);
		COMPACT_FAILS(EOPNOTSUPP, avoid = 1);
		return;
	}
	COMPACT_FAILS(EFAULT, avoid = BAD_POINTER);
	COMPACT_FAILS(EFAULT, avoid = 0xffff888000000000ULL);
	COMPACT_FAILS(ENXIO, avoid = (uintptr_t)list; request.frame = 1ULL << 40);
	list[2] = 512;
	COMPACT_FAILS(EINVAL, avoid = (uintptr_t)list);
	list[2] = 256;
	COMPACT_FAILS(EINVAL, avoid = (uintptr_t)list);
	list[2] = 1025;
	COMPACT_FAILS(EINVAL, avoid = (uintptr_t)list);
	list[0] = 0;
	COMPACT_FAILS(EINVAL, avoid = (uintptr_t)list);
	list[0] = MEGA_MAX_AVOID + 1;
	COMPACT_FAILS(EINVAL, avoid = (uintptr_t)list);
	list[0] = ~0ULL;
	COMPACT_FAILS(EINVAL, avoid = (uintptr_t)list);
}

static void compact_request_checks(void)
{
	struct mega_compact request = compact_request(1 << 18, 9);

	COMPACT_FAILS(EINVAL, size = 0);
	COMPACT_FAILS(EINVAL, size = sizeof(request) + 1);
	COMPACT_FAILS(EINVAL, flags = 4);
	COMPACT_FAILS(EINVAL, flags = ~0U);
	COMPACT_FAILS(EINVAL, order = 0);
	COMPACT_FAILS(EINVAL, order = 8);
	COMPACT_FAILS(EINVAL, order = 19);
	COMPACT_FAILS(EINVAL, order = 64);
	COMPACT_FAILS(EINVAL, order = ~0U);
	COMPACT_FAILS(EINVAL, frame = 1);
	COMPACT_FAILS(EINVAL, frame = 256);
	COMPACT_FAILS(EINVAL, frame = ~511ULL);
	COMPACT_FAILS(ENXIO, frame = (end_frame(device) | 511) + 1);
	COMPACT_FAILS(ENXIO, frame = 1ULL << 40);
	request.order = 10;
	request.frame = 512;
	tap_fails(ioctl(device, MEGA_IOC_COMPACT, &request), EINVAL,
		  "COMPACT of a frame not aligned to its order");
	request = compact_request(0, 18);
	tap_fails(ioctl(device, MEGA_IOC_COMPACT, &request), ENXIO,
		  "COMPACT of a range in two zones");
	tap_fails(ioctl(device, MEGA_IOC_COMPACT, BAD_POINTER), EFAULT, "COMPACT of a bad pointer");
	compact_avoiding();
}

/* On a kernel without giant pages a request with nothing wrong is refused as well. */
#define PROMOTE_FAILS(error, change)                                                  \
	do {                                                                          \
		struct mega_promote request = promote_request(self, NULL);            \
		request.change;                                                       \
		tap_fails(ioctl(device, MEGA_IOC_PROMOTE, &request), error,           \
			  "PROMOTE with %s", #change);                                \
	} while (0)

static void promote(void)
{
	struct mega_promote request = promote_request(self, NULL);
	bool giant = giant_available(device);

	PROMOTE_FAILS(EINVAL, size = 0);
	PROMOTE_FAILS(EINVAL, size = sizeof(request) + 8);
	PROMOTE_FAILS(EINVAL, flags = 4);
	PROMOTE_FAILS(EINVAL, flags = ~0U);
	PROMOTE_FAILS(EINVAL, reserved = 1);
	PROMOTE_FAILS(EINVAL, start = HUGE);
	PROMOTE_FAILS(EINVAL, start = ~0ULL);
	PROMOTE_FAILS(EINVAL, start = 0xffff800000000000ULL);
	PROMOTE_FAILS(EINVAL, start = -(__u64)GIANT);
	PROMOTE_FAILS(EINVAL, frame = 1);
	PROMOTE_FAILS(EINVAL, frame = MEGA_CHUNK_FRAMES - 1);
	PROMOTE_FAILS(EINVAL, frame = ~0ULL - 1);
	PROMOTE_FAILS(giant ? EBADF : EOPNOTSUPP, pidfd = -1);
	PROMOTE_FAILS(giant ? EBADF : EOPNOTSUPP, pidfd = device);
	tap_fails(ioctl(device, MEGA_IOC_PROMOTE, BAD_POINTER), EFAULT, "PROMOTE of a bad pointer");
	if (!giant) {
		tap_fails(ioctl(device, MEGA_IOC_PROMOTE, &request), EOPNOTSUPP,
			  "PROMOTE on a kernel without giant pages");
		return;
	}
	tap_equal(ioctl(device, MEGA_IOC_PROMOTE, &request), 0, "PROMOTE with none of it succeeds");
	tap_equal(request.stop, MEGA_PROMOTE_NOT_ELIGIBLE, "and finds no memory at address 0");
	tap_equal(request.error, -EINVAL, "and says what the kernel said");
	tap_ok(request.frame == MEGA_ANY_FRAME, "and no frame");
}

#define DEMOTE_FAILS(error, change)                                                   \
	do {                                                                          \
		struct mega_demote request = demote_request(self, NULL);              \
		request.change;                                                       \
		tap_fails(ioctl(device, MEGA_IOC_DEMOTE, &request), error,            \
			  "DEMOTE with %s", #change);                                 \
	} while (0)

static void demote(void)
{
	struct mega_demote request = demote_request(self, NULL);
	bool giant = giant_available(device);

	DEMOTE_FAILS(EINVAL, size = 0);
	DEMOTE_FAILS(EINVAL, size = sizeof(request) - 8);
	DEMOTE_FAILS(EINVAL, flags = 1);
	DEMOTE_FAILS(EINVAL, reserved = 1);
	DEMOTE_FAILS(EINVAL, start = HUGE);
	DEMOTE_FAILS(EINVAL, start = 0xffff800000000000ULL);
	DEMOTE_FAILS(giant ? EBADF : EOPNOTSUPP, pidfd = -1);
	DEMOTE_FAILS(giant ? EBADF : EOPNOTSUPP, pidfd = device);
	tap_fails(ioctl(device, MEGA_IOC_DEMOTE, BAD_POINTER), EFAULT, "DEMOTE of a bad pointer");
	if (!giant) {
		tap_fails(ioctl(device, MEGA_IOC_DEMOTE, &request), EOPNOTSUPP,
			  "DEMOTE on a kernel without giant pages");
		return;
	}
	tap_equal(ioctl(device, MEGA_IOC_DEMOTE, &request), 0, "DEMOTE with none of it succeeds");
	tap_equal(request.stop, MEGA_DEMOTE_NOT_GIANT, "and finds no giant page at address 0");
}

#define FREE_ZERO_FAILS(error, change)                                                \
	do {                                                                          \
		struct mega_free_zero request = free_zero_request(self, NULL);        \
		request.change;                                                       \
		tap_fails(ioctl(device, MEGA_IOC_FREE_ZERO, &request), error,         \
			  "FREE_ZERO with %s", #change);                              \
	} while (0)

static void free_zero(void)
{
	struct mega_free_zero request = free_zero_request(self, NULL);
	bool available = free_zero_available(device);

	FREE_ZERO_FAILS(EINVAL, size = 0);
	FREE_ZERO_FAILS(EINVAL, size = sizeof(request) - 8);
	FREE_ZERO_FAILS(EINVAL, flags = 1);
	FREE_ZERO_FAILS(EINVAL, reserved = 1);
	FREE_ZERO_FAILS(EINVAL, reserved2 = 1);
	FREE_ZERO_FAILS(EINVAL, start = HUGE);
	FREE_ZERO_FAILS(EINVAL, start = 0xffff800000000000ULL);
	FREE_ZERO_FAILS(EINVAL, start = -(__u64)GIANT);
	FREE_ZERO_FAILS(available ? EBADF : EOPNOTSUPP, pidfd = -1);
	FREE_ZERO_FAILS(available ? EBADF : EOPNOTSUPP, pidfd = device);
	tap_fails(ioctl(device, MEGA_IOC_FREE_ZERO, BAD_POINTER), EFAULT, "FREE_ZERO of a bad pointer");
	if (!available) {
		tap_fails(ioctl(device, MEGA_IOC_FREE_ZERO, &request), EOPNOTSUPP,
			  "FREE_ZERO on a kernel without giant pages");
		return;
	}
	request.looked = request.zero = request.freed = request.busy = 77;
	tap_equal(ioctl(device, MEGA_IOC_FREE_ZERO, &request), 0, "FREE_ZERO with none of it succeeds");
	tap_ok(!request.looked && !request.zero && !request.freed && !request.busy,
	       "and finds no huge page at address 0");
}

#define EXCHANGE_FAILS(error, change)                                                 \
	do {                                                                          \
		struct mega_pair pair = { .second = HUGE };                           \
		struct mega_exchange request = exchange_request(self, &pair, 1);      \
		request.change;                                                       \
		tap_fails(ioctl(device, MEGA_IOC_EXCHANGE, &request), error,          \
			  "EXCHANGE with %s", #change);                               \
	} while (0)

/* Of pairs that are there, one is wrong. */
#define PAIR_FAILS(change)                                                            \
	do {                                                                          \
		struct mega_pair pairs[2] = { { .second = HUGE }, { .first = HUGE } };\
		struct mega_exchange request = exchange_request(self, pairs, 2);      \
		pairs[1].change;                                                      \
		tap_fails(ioctl(device, MEGA_IOC_EXCHANGE, &request), EINVAL,         \
			  "EXCHANGE of a pair with %s", #change);                     \
	} while (0)

static void exchange(void)
{
	char *read_only = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mega_pair pair = { .second = HUGE, .result = 77 };
	struct mega_exchange request = exchange_request(self, &pair, 1);
	bool available = exchange_available(device);

	EXCHANGE_FAILS(EINVAL, size = 0);
	EXCHANGE_FAILS(EINVAL, size = sizeof(request) - 8);
	EXCHANGE_FAILS(EINVAL, flags = 1);
	EXCHANGE_FAILS(EINVAL, reserved = 1);
	EXCHANGE_FAILS(EINVAL, count = 0);
	EXCHANGE_FAILS(EINVAL, count = MEGA_MAX_PAIRS + 1);
	EXCHANGE_FAILS(EINVAL, count = ~0U);
	EXCHANGE_FAILS(EINVAL, pairs += 4);
	tap_fails(ioctl(device, MEGA_IOC_EXCHANGE, BAD_POINTER), EFAULT, "EXCHANGE of a bad pointer");
	if (!available) {
		tap_fails(ioctl(device, MEGA_IOC_EXCHANGE, &request), EOPNOTSUPP,
			  "EXCHANGE on a kernel without it");
		munmap(read_only, PAGE);
		return;
	}
	EXCHANGE_FAILS(EFAULT, pairs = BAD_POINTER);
	EXCHANGE_FAILS(EFAULT, pairs = 0xffff888000000000ULL);
	EXCHANGE_FAILS(EBADF, pidfd = -1);
	EXCHANGE_FAILS(EBADF, pidfd = device);
	PAIR_FAILS(reserved = 1);
	PAIR_FAILS(first = PAGE);
	PAIR_FAILS(second = HUGE + 1);
	PAIR_FAILS(second = pairs[1].first);
	PAIR_FAILS(first = 0xffff800000000000ULL);
	PAIR_FAILS(second = -(__u64)HUGE);
	/* Zeroes: the pair 0 and 0 would be wrong, but that nobody could be told comes after. */
	request.pairs = (uintptr_t)read_only;
	tap_ok(ioctl(device, MEGA_IOC_EXCHANGE, &request) < 0, "EXCHANGE with pairs that cannot be written fails");
	request.pairs = (uintptr_t)&pair;
	request.exchanged = 77;
	tap_equal(ioctl(device, MEGA_IOC_EXCHANGE, &request), 0, "EXCHANGE with none of it succeeds");
	tap_equal(request.exchanged, 0, "and exchanges nothing");
	tap_equal(pair.result, MEGA_PAIR_NOT_ELIGIBLE, "as there is no memory at address 0");
	munmap(read_only, PAGE);
}

static void info(void)
{
	struct mega_info request = info_request();

	request.size--;
	tap_fails(ioctl(device, MEGA_IOC_INFO, &request), EINVAL, "INFO of another size");
	request = info_request();
	request.reserved = 1;
	tap_fails(ioctl(device, MEGA_IOC_INFO, &request), EINVAL, "INFO with reserved = 1");
	request = info_request();
	request.reserved2[1] = 1;
	tap_fails(ioctl(device, MEGA_IOC_INFO, &request), EINVAL, "INFO with reserved2 = 1");
	tap_fails(ioctl(device, MEGA_IOC_INFO, BAD_POINTER), EFAULT, "INFO of a bad pointer");
	tap_fails(ioctl(device, _IOWR(MEGA_IOCTL_TYPE, 0, struct mega_compact), &request), ENOTTY,
		  "INFO's number with another size is no request");
	tap_fails(ioctl(device, _IO(MEGA_IOCTL_TYPE, 8), 0), ENOTTY, "number 8 is no request");
	tap_fails(ioctl(device, 0, 0), ENOTTY, "0 is no request");
	tap_fails(ioctl(device, FIONREAD, &request), ENOTTY, "FIONREAD is no request");
}

static void other_calls(void)
{
	char byte;

	tap_fails(read(device, &byte, 1), EINVAL, "the device cannot be read");
	tap_fails(write(device, &byte, 1), EINVAL, "nor written");
	tap_fails(lseek(device, 0, SEEK_SET), ESPIPE, "nor sought in");
	tap_ok(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, device, 0) == MAP_FAILED, "nor mapped");
}

/* Takes CAP_SYS_PTRACE from this process, and leaves it CAP_SYS_ADMIN. */
static bool drop_ptrace(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2];

	if (syscall(SYS_capget, &header, sets))
		return false;
	sets[0].effective &= ~(1U << CAP_SYS_PTRACE);
	return !syscall(SYS_capset, &header, sets) && sets[0].effective & 1U << CAP_SYS_ADMIN;
}

/* CAP_SYS_ADMIN alone opens the device; whose memory may be looked into is another question. */
static void without_ptrace(void)
{
	pid_t child = fork();
	int status;

	if (!child) {
		struct mega_scan_task task = good_scan_task();
		int refused;

		if (!drop_ptrace())
			_exit(255);
		refused = ioctl(device, MEGA_IOC_SCAN_TASK, &task) && errno == EPERM;
		task = good_scan_task();
		task.pidfd = pidfd_of(getpid());
		_exit((refused ? 0 : 1) | (ioctl(device, MEGA_IOC_SCAN_TASK, &task) ? 2 : 0));
	}
	waitpid(child, &status, 0);
	tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	       "without CAP_SYS_PTRACE: EPERM for another process's memory, and one's own can be scanned");
	if (WEXITSTATUS(status))
		tap_note("exit status %d", WEXITSTATUS(status));
}

/* The exit status of a child without privilege says what it was refused. */
static void unprivileged(void)
{
	pid_t child;
	int status;

	child = fork();
	if (!child) {
		struct mega_info info = info_request();
		struct mega_scan_task task = good_scan_task();
		struct mega_scan_blocks scan = scan_blocks_request(0, blocks, 4);
		struct mega_compact request = compact_request(1 << 18, 9);
		struct mega_promote up = promote_request(self, NULL);
		struct mega_demote down = demote_request(self, NULL);
		struct mega_free_zero zero = free_zero_request(self, NULL);
		struct mega_pair pair = { .second = HUGE };
		struct mega_exchange pairs = exchange_request(self, &pair, 1);
		int allowed = 0;

		if (setgid(1) || setuid(1))
			_exit(255);
		allowed |= open(MEGA_DEVICE, O_RDWR) >= 0 || errno != EACCES;
		/* The descriptor was opened by root and inherited. */
		allowed |= (!ioctl(device, MEGA_IOC_INFO, &info) || errno != EPERM) << 1;
		allowed |= (!ioctl(device, MEGA_IOC_SCAN_TASK, &task) || errno != EPERM) << 2;
		allowed |= (!ioctl(device, MEGA_IOC_SCAN_BLOCKS, &scan) || errno != EPERM) << 3;
		allowed |= (!ioctl(device, MEGA_IOC_COMPACT, &request) || errno != EPERM) << 4;
		allowed |= (!ioctl(device, 0, 0) || errno != EPERM) << 5;
		allowed |= (!ioctl(device, MEGA_IOC_PROMOTE, &up) || errno != EPERM) << 6;
		allowed |= (!ioctl(device, MEGA_IOC_DEMOTE, &down) || errno != EPERM) << 7;
		/* A status has eight bits. */
		if (!ioctl(device, MEGA_IOC_FREE_ZERO, &zero) || errno != EPERM)
			_exit(254);
		if (!ioctl(device, MEGA_IOC_EXCHANGE, &pairs) || errno != EPERM)
			_exit(253);
		_exit(allowed);
	}
	waitpid(child, &status, 0);
	tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	       "without privilege: EACCES at open, EPERM at every request on root's descriptor");
	if (WEXITSTATUS(status))
		tap_note("bits of what was allowed: 0x%x", WEXITSTATUS(status));
}

int main(void)
{
	device = device_open();
	self = pidfd_of(getpid());
	memory = map_aligned(HUGE);
	memset(memory, 1, HUGE);
	info();
	scan_task();
	read_only_request();
	scan_blocks();
	compact_request_checks();
	promote();
	demote();
	free_zero();
	exchange();
	other_calls();
	without_ptrace();
	unprivileged();
	return tap_end();
}
