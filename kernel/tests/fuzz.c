// SPDX-License-Identifier: GPL-2.0
/*
 * Random requests with random arguments, for as many seconds as the argument says
 * (or MEGA_FUZZ_SECONDS, or 60), at the same time as
 *
 *   victims    processes that map, touch, collapse, page out, fork and exit, and
 *              look whether their memory is what they wrote; and processes whose
 *              shared memory another one collapses, punches, truncates and extends,
 *              which takes page tables away from under them: of a memfd, and of a
 *              file of a tmpfs that has huge pages from the first touch on
 *   swap       to zram, where the kernel has it
 *   reloading  of the module
 *   a witness  sparse memory that is moved about all the time and must not change
 *
 * What the kernel logged and leaked meanwhile is for whoever runs this to look at.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "device.h"
#include "memory.h"
#include "module.h"
#include "random.h"
#include "tap.h"

#define VICTIMS 4
/* Where a tmpfs with huge pages is mounted. */
#define FOLDER "/tmp/fuzz-huge"
#define CALLERS 2
/* Garbage, and then each of the device's. */
#define REQUESTS 8

/* Shared by all processes. */
struct board {
	volatile bool stop;
	volatile bool quiet;		/* callers let go of the device */
	volatile pid_t victims[VICTIMS];
	uint64_t end;			/* of memory, in frames */
	bool folder;			/* there is one */
	bool giant;			/* the kernel has giant pages */
	bool free_zero;			/* and gives back what is zero-filled */
	bool exchange;			/* and exchanges huge pages */
	unsigned long calls[REQUESTS];	/* by request, that succeeded */
	unsigned long errors[REQUESTS];	/* and that failed */
	unsigned long done;		/* compactions that ended so */
	unsigned long exchanged;	/* pairs */
	unsigned long lives;		/* of victims */
	unsigned long collapses;	/* of memory that a victim shares */
	unsigned long in_folder;	/* lives with a file there */
	unsigned long reloads;
	unsigned long wrong;		/* pages that were not as written */
	unsigned long strange;		/* errors that must not be */
};

static struct board *board;

static void add(unsigned long *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- Numbers that a caller might get wrong -------------------------- */

static uint64_t odd_number(void)
{
	static const uint64_t edges[] = {
		0, 1, 511, 512, 4095, 4096, HUGE, ~0ULL, ~511ULL, 1ULL << 47, 1ULL << 56,
		1ULL << 63, 0xffff888000000000ULL, 0xffffffff80000000ULL, 1ULL << 31, 1ULL << 32,
	};

	if (below(3) == 0)
		return any() >> below(64);
	return edges[below(sizeof(edges) / sizeof(*edges))];
}

/* ---- Victims ----------------------------------------------------------- */

/* One life of a process that does to its memory what processes do. */
static void live(void)
{
	size_t pages = (1 + below(6)) * HUGE / PAGE;
	char *memory = map_aligned(pages * PAGE);
	uint64_t seed = any();
	unsigned int acts = 5 + below(40);

	for (size_t i = 0; i < pages; i++)
		page_fill(memory + i * PAGE, seed);
	while (acts-- && !board->stop) {
		size_t from = below(pages);
		size_t count = 1 + below(pages - from);
		char *at = memory + from * PAGE;

		switch (below(9)) {
		case 0:
			madvise(memory, pages * PAGE, MADV_HUGEPAGE);
			madvise(memory, pages * PAGE, MADV_COLLAPSE);
			break;
		case 1:
			madvise(at, count * PAGE, MADV_PAGEOUT);
			break;
		case 2:
			madvise(at, PAGE, MADV_COLD);
			break;
		case 3:
			if (!fork()) {
				for (size_t i = 0; i < pages; i += 1 + below(8))
					if (!page_right(memory + i * PAGE, seed))
						add(&board->wrong);
				_exit(0);
			}
			break;
		case 4:
			mprotect(at, count * PAGE, PROT_READ);
			mprotect(memory, pages * PAGE, PROT_READ | PROT_WRITE);
			break;
		case 5:
			memory = mremap(memory, pages * PAGE, pages * PAGE, 0);
			break;
		case 6:
			mlock(at, PAGE);
			munlock(at, PAGE);
			break;
		case 7:
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
			break;
		default:
			for (size_t i = from; i < from + count; i++)
				if (!page_right(memory + i * PAGE, seed))
					add(&board->wrong);
		}
	}
	for (size_t i = 0; i < pages; i++)
		if (!page_right(memory + i * PAGE, seed))
			add(&board->wrong);
}

/* Shared memory: what is kept, which is always right, and above it what comes and goes. */
struct shared {
	int file;
	size_t kept;		/* pages */
	size_t pages;
	char *memory;
	uint64_t seed;
};

static bool kept_right(const struct shared *shared)
{
	bool right = true;

	for (size_t i = 0; i < shared->kept; i++)
		right &= page_right(shared->memory + i * PAGE, shared->seed);
	return right;
}

/* A huge page in place of the tables of all who map it, who are not asked. */
static void collapse_shared(const struct shared *shared)
{
	size_t region = below(shared->pages / 512);

	if (!madvise(shared->memory + region * HUGE, HUGE, MADV_COLLAPSE))
		add(&board->collapses);
}

/* The other process: all that changes the file, and with it the victim's tables, is done here. */
static void disturb(const struct shared *shared)
{
	size_t loose = shared->pages - shared->kept;
	size_t at;

	while (!board->stop && getppid() != 1) {
		at = shared->kept + below(loose);
		switch (below(6)) {
		case 0:
			/* A hole in a huge page has it split, or mapped by tables again. */
			fallocate(shared->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at * PAGE, PAGE);
			break;
		case 1:
			if (ftruncate(shared->file, at * PAGE) || ftruncate(shared->file, shared->pages * PAGE))
				add(&board->strange);
			break;
		case 2:
			/* Written by address: nothing is cut off meanwhile, as nobody else does that. */
			memset(shared->memory + at * PAGE, 1, PAGE);
			break;
		default:
			collapse_shared(shared);
		}
	}
}

/* Of base pages that are to be collapsed; or of a file system that has huge pages from the first touch on, if there is one. */
static int shared_file(void)
{
	if (board->folder && below(2)) {
		add(&board->in_folder);
		return open(FOLDER, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	}
	return memfd_create("victim", MFD_CLOEXEC);
}

/* One life of a process whose memory is changed from outside. It maps by tables what it can, and never touches what may be cut off. */
static void live_shared(void)
{
	struct shared shared = { .kept = 512 + below(512), .seed = any() };
	unsigned int acts = 20 + below(200);
	pid_t other;

	shared.pages = 512 * (3 + below(3));
	shared.file = shared_file();
	shared.memory = map_aligned(shared.pages * PAGE);
	if (shared.file < 0 || ftruncate(shared.file, shared.pages * PAGE) ||
	    mmap(shared.memory, shared.pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, shared.file, 0) == MAP_FAILED)
		return;
	for (size_t i = 0; i < shared.kept; i++)
		page_fill(shared.memory + i * PAGE, shared.seed);
	memset(shared.memory + shared.kept * PAGE, 2, (shared.pages - shared.kept) * PAGE);
	other = fork();
	if (!other) {
		any();
		disturb(&shared);
		_exit(0);
	}
	while (acts-- && !board->stop) {
		switch (below(4)) {
		case 0:
			/* Its own tables are dropped, as when it has not touched it of late. */
			madvise(shared.memory, shared.pages * PAGE, MADV_DONTNEED);
			break;
		case 1:
			if (!kept_right(&shared))
				add(&board->wrong);
			break;
		default:
			/* Not by touching it: what is cut off is an error here, not a signal. */
			madvise(shared.memory, shared.pages * PAGE, MADV_POPULATE_READ);
		}
	}
	if (other > 0) {
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
	if (!kept_right(&shared))
		add(&board->wrong);
}

/* Keeps one victim alive: a new one when it has ended, or is killed early. */
static void keep_victim(int slot)
{
	while (!board->stop) {
		pid_t child = fork();

		if (child < 0) {
			usleep(1000);
			continue;
		}
		if (!child) {
			random_state = any() ^ getpid();
			if (slot % 2)
				live_shared();
			else
				live();
			_exit(0);
		}
		board->victims[slot] = child;
		any();
		if (below(3) == 0) {
			usleep(below(30000));
			kill(child, SIGKILL);
		}
		waitpid(child, NULL, 0);
		add(&board->lives);
	}
}

/* ---- Callers ----------------------------------------------------------- */

/*
 * Where results are written; parts of it come and go. What a request writes beyond it
 * meets a guard, and not the fuzzer's own memory: at most 2,000 blocks, or 200 maps.
 */
#define BUFFER (4UL << 20)
#define GUARD (64UL << 10)
static char *buffer;

/* Memory of the caller's own that is exchanged, whose contents are nobody's concern. */
#define OWN (8 * HUGE)
static char *own;

static uint64_t some_pointer(void)
{
	uint64_t odd = odd_number();

	switch (below(12)) {
	case 0:
		/* Not in user space, but for its first page: memory of the fuzzer's own would rightly be written. */
		return odd >= PAGE && odd < 1UL << 47 ? odd | 1UL << 63 : odd;
	case 1:
		mprotect(buffer + below(BUFFER / PAGE) * PAGE, PAGE, PROT_READ);
		break;
	case 2:
		mprotect(buffer, BUFFER, PROT_READ | PROT_WRITE);
		break;
	case 3:
		madvise(buffer, BUFFER, MADV_DONTNEED);
		break;
	}
	return (uintptr_t)buffer + below(BUFFER / 8) * 8;
}

/* Most members are right, or a request would never get far. */
#define MAYBE(member)                                 \
	do {                                          \
		if (below(40) == 0)                   \
			(member) = odd_number();      \
	} while (0)

static int scan_task(int device)
{
	int pidfd = pidfd_of(below(20) ? board->victims[below(VICTIMS)] : (pid_t)below(500));
	struct mega_scan_task request = scan_task_request(pidfd, NULL, 1ULL << 47, NULL, 0);
	int result;

	if (below(4) == 0) {
		request.start = below(1 << 16) * (1ULL << 31);
		request.length = (1 + below(1 << 14)) * HUGE;
	}
	request.flags = below(2);
	request.capacity = 1 + below(200);
	request.regions = some_pointer();
	request.maps = below(2) ? some_pointer() : 0;
	MAYBE(request.size);
	MAYBE(request.flags);
	MAYBE(request.pidfd);
	MAYBE(request.capacity);
	MAYBE(request.start);
	MAYBE(request.length);
	MAYBE(request.reserved);
	result = ioctl(device, MEGA_IOC_SCAN_TASK, &request);
	if (pidfd >= 0)
		close(pidfd);
	return result;
}

static int scan_blocks(int device)
{
	struct mega_scan_blocks request = scan_blocks_request(0, NULL, 1 + below(2000));

	request.start_frame = below(board->end / 512) * 512;
	request.blocks = some_pointer();
	request.flags = below(2);
	MAYBE(request.size);
	MAYBE(request.flags);
	MAYBE(request.start_frame);
	MAYBE(request.count);
	MAYBE(request.reserved);
	return ioctl(device, MEGA_IOC_SCAN_BLOCKS, &request);
}

static int compact_some(int device)
{
	uint32_t order = below(3) ? 9 : 9 + below(5);
	struct mega_compact request = compact_request(0, order);
	uint64_t avoid[33] = { 1 + below(32) };
	int result;

	request.frame = below(board->end >> order) * (1ULL << order);
	request.flags = below(4);
	for (uint64_t i = 1, frame = 0; i <= avoid[0]; i++) {
		frame += (1 + below(8)) << order;
		avoid[i] = frame;
	}
	if (!below(3))
		request.avoid = (uintptr_t)avoid;
	MAYBE(request.size);
	MAYBE(request.flags);
	MAYBE(request.frame);
	MAYBE(request.order);
	MAYBE(request.avoid);
	MAYBE(avoid[0]);
	MAYBE(avoid[2]);
	result = ioctl(device, MEGA_IOC_COMPACT, &request);
	if (!result && request.stop == MEGA_STOP_DONE)
		add(&board->done);
	return result;
}

/* Any, or one of those that victims have something in: their memory lies below what they share, as they are forked. */
static uint64_t some_span(void)
{
	uint64_t own = (uintptr_t)board / GIANT;

	return (below(4) ? own - below(3) : below(1 << 17)) * GIANT;
}

static int promote_some(int device)
{
	int pidfd = pidfd_of(board->victims[below(VICTIMS)]);
	struct mega_promote request = promote_request(pidfd, NULL);
	int result;

	request.start = some_span();
	request.flags = below(2);
	if (below(2))
		request.frame = below(board->end / MEGA_CHUNK_FRAMES + 2) * MEGA_CHUNK_FRAMES;
	MAYBE(request.size);
	MAYBE(request.flags);
	MAYBE(request.pidfd);
	MAYBE(request.start);
	MAYBE(request.frame);
	MAYBE(request.reserved);
	result = ioctl(device, MEGA_IOC_PROMOTE, &request);
	if (pidfd >= 0)
		close(pidfd);
	return result;
}

static int demote_some(int device)
{
	int pidfd = pidfd_of(board->victims[below(VICTIMS)]);
	struct mega_demote request = demote_request(pidfd, NULL);
	int result;

	request.start = some_span();
	MAYBE(request.size);
	MAYBE(request.flags);
	MAYBE(request.pidfd);
	MAYBE(request.start);
	MAYBE(request.reserved);
	result = ioctl(device, MEGA_IOC_DEMOTE, &request);
	if (pidfd >= 0)
		close(pidfd);
	return result;
}

static int free_some_zero(int device)
{
	int pidfd = pidfd_of(board->victims[below(VICTIMS)]);
	struct mega_free_zero request = free_zero_request(pidfd, NULL);
	int result;

	request.start = some_span();
	MAYBE(request.size);
	MAYBE(request.flags);
	MAYBE(request.pidfd);
	MAYBE(request.start);
	MAYBE(request.reserved);
	result = ioctl(device, MEGA_IOC_FREE_ZERO, &request);
	if (pidfd >= 0)
		close(pidfd);
	return result;
}

/* Two of the caller's own huge pages at most times, as there is no other process whose memory may get another order. */
static int exchange_some(int device)
{
	struct mega_pair pairs[8] = { 0 };
	struct mega_exchange request = exchange_request(pidfd_of(getpid()), pairs, 1 + below(8));
	int pidfd = request.pidfd, result;

	for (unsigned int i = 0; i < 8; i++) {
		size_t first = below(OWN / HUGE);

		pairs[i].first = (uintptr_t)own + first * HUGE;
		pairs[i].second = (uintptr_t)own + (first ^ 1) * HUGE;
	}
	switch (below(8)) {
	case 0:
		madvise(own + below(OWN / PAGE) * PAGE, PAGE, MADV_DONTNEED);
		break;
	case 1:
		madvise(own + below(OWN / HUGE) * HUGE, HUGE, MADV_DONTNEED);
		break;
	case 2:
		madvise(own, OWN, MADV_COLLAPSE);
	}
	/* What nobody has is not exchanged. The first touch of a region makes it huge. */
	for (size_t at = 0; at < OWN; at += HUGE)
		own[at]++;
	if (below(8) == 0)
		request.pairs = some_pointer();
	MAYBE(request.size);
	MAYBE(request.flags);
	MAYBE(request.pidfd);
	MAYBE(request.count);
	MAYBE(request.reserved);
	MAYBE(pairs[0].first);
	MAYBE(pairs[below(8)].second);
	result = ioctl(device, MEGA_IOC_EXCHANGE, &request);
	if (!result)
		__atomic_fetch_add(&board->exchanged, request.exchanged, __ATOMIC_RELAXED);
	close(pidfd);
	return result;
}

static int garbage(int device)
{
	uint64_t words[16];

	for (unsigned int i = 0; i < 16; i++)
		words[i] = odd_number();
	switch (below(4)) {
	case 0:
		return ioctl(device, MEGA_IOC_SCAN_TASK, odd_number());
	case 1:
		return ioctl(device, any(), words);
	case 2:
		return ioctl(device, _IOWR(MEGA_IOCTL_TYPE, below(9), char[64]), words);
	default:
		return ioctl(device, MEGA_IOC_INFO, words);
	}
}

static void call(int device)
{
	static int (*const requests[REQUESTS])(int) = {
		garbage, scan_task, scan_blocks, compact_some, promote_some, demote_some,
		free_some_zero, exchange_some,
	};
	unsigned int which = below(16) == 0 ? 0 : 1 + below(REQUESTS - 1);

	if (!requests[which](device)) {
		add(&board->calls[which]);
		return;
	}
	add(&board->errors[which]);
	switch (errno) {
	case EINVAL: case EFAULT: case EBADF: case ESRCH: case ENXIO: case ENOTTY: case EINTR:
	case ENOMEM: case EBUSY:
		break;
	case EOPNOTSUPP:
		if (which == 7 ? !board->exchange : which == 6 ? !board->free_zero : !board->giant)
			break;
		/* fall through */
	default:
		tap_note("request %u failed with %s", which, strerror(errno));
		add(&board->strange);
	}
}

static void keep_calling(void)
{
	buffer = mmap(NULL, BUFFER + GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer == MAP_FAILED || mprotect(buffer, BUFFER, PROT_READ | PROT_WRITE))
		_exit(1);
	own = map_aligned(OWN);
	madvise(own, OWN, MADV_HUGEPAGE);
	while (!board->stop) {
		int device = open(MEGA_DEVICE, O_RDWR | O_CLOEXEC);

		/* It is not there while the module is reloaded. */
		if (device < 0) {
			usleep(1000);
			continue;
		}
		for (unsigned int i = below(30); i && !board->stop; i--)
			call(device);
		close(device);
		if (below(4) == 0)
			usleep(below(20000));
		while (board->quiet && !board->stop)
			usleep(1000);
	}
}

/* Unloads between two uses, or, when it is always in use, asks for a pause. */
static bool unload(void)
{
	for (unsigned int attempt = 0; !board->stop; attempt++) {
		if (!module_unload())
			return true;
		if (errno != EAGAIN)
			add(&board->strange);
		board->quiet = attempt > 1000;
		usleep(500);
	}
	return false;
}

static void keep_reloading(void)
{
	while (unload()) {
		if (module_load())
			add(&board->strange);
		board->quiet = false;
		add(&board->reloads);
		usleep(below(1000000));
	}
}

/* Few blocks chosen at random can be emptied: this is one that can. */
static void empty_one(const struct sparse *sparse)
{
	int device = open(MEGA_DEVICE, O_RDWR | O_CLOEXEC);
	struct mega_compact request;
	size_t from = 0;

	if (device < 0)
		return;
	request = compact_request(sparse_block(sparse, device, 30, &from), 9);
	if (!ioctl(device, MEGA_IOC_COMPACT, &request) && request.stop == MEGA_STOP_DONE)
		add(&board->done);
	close(device);
}

static void keep_watching(void)
{
	struct sparse sparse = sparse_make(32 * HUGE, 5, 99);

	while (!board->stop) {
		size_t wrong = sparse_wrong(&sparse);

		if (wrong)
			__atomic_fetch_add(&board->wrong, wrong, __ATOMIC_RELAXED);
		if (!board->done)
			empty_one(&sparse);
		usleep(10000);
	}
}

/* ---- Swap -------------------------------------------------------------- */

#define DISK "/dev/zram0"

/* What mkswap writes: a page with a version, a last page and a signature. */
static bool swap_on(void)
{
	static char header[PAGE];
	uint32_t numbers[2] = { 1, (64 << 20) / PAGE - 1 };
	int disk;

	if (access(DISK, F_OK) || !write_file("/sys/block/zram0/disksize", "64M"))
		return false;
	memcpy(header + 1024, numbers, sizeof(numbers));
	memcpy(header + PAGE - 10, "SWAPSPACE2", 10);
	disk = open(DISK, O_RDWR | O_CLOEXEC);
	if (disk < 0 || pwrite(disk, header, PAGE, 0) != (ssize_t)PAGE)
		tap_bail("write the swap header");
	fsync(disk);
	close(disk);
	return !swapon(DISK, 0);
}

static void swap_off(void)
{
	swapoff(DISK);
	write_file("/sys/block/zram0/reset", "1");
}

/* ---- All of it --------------------------------------------------------- */

static pid_t start(void (*role)(void))
{
	pid_t child = fork();

	if (child < 0)
		tap_bail("fork");
	if (!child) {
		random_state = any() ^ ((uint64_t)getpid() << 32);
		role();
		_exit(0);
	}
	return child;
}

static int victim_slot;

static void victim(void)
{
	keep_victim(victim_slot);
}

static bool every_request_succeeded(void)
{
	return board->calls[1] && board->calls[2] && board->calls[3] && board->done && board->collapses &&
	       (!board->folder || board->in_folder) &&
	       (!board->giant || (board->calls[4] && board->calls[5])) &&
	       (!board->free_zero || board->calls[6]) &&
	       (!board->exchange || (board->calls[7] && board->exchanged));
}

/* How many seconds more it goes on where a slow machine did not come to all. */
#define PATIENCE 300

int main(int argc, char **argv)
{
	long seconds = argc > 1 ? atol(argv[1]) : seconds_of("MEGA_FUZZ_SECONDS", 60);
	pid_t children[VICTIMS + CALLERS + 2];
	unsigned int count = 0, ended = 0;
	int device = device_open();
	bool swaps = swap_on();
	int status;

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		tap_bail("mmap");
	board->end = end_frame(device);
	board->folder = !mkdir(FOLDER, 0700) && !mount("none", FOLDER, "tmpfs", 0, "huge=always");
	board->giant = giant_available(device);
	board->free_zero = free_zero_available(device);
	board->exchange = exchange_available(device);
	close(device);
	random_state = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL) * 2654435761u + 1;
	tap_note("seed 0x%lx, %ld seconds", random_state, seconds);

	for (victim_slot = 0; victim_slot < VICTIMS; victim_slot++)
		children[count++] = start(victim);
	for (unsigned int i = 0; i < CALLERS; i++)
		children[count++] = start(keep_calling);
	children[count++] = start(keep_watching);
	if (module_is_there())
		children[count++] = start(keep_reloading);
	for (long i = 0; i < seconds || (i < seconds + PATIENCE && !every_request_succeeded()); i++)
		sleep(1);
	board->stop = true;
	for (unsigned int i = 0; i < count; i++)
		ended += waitpid(children[i], &status, 0) == children[i] && WIFEXITED(status) &&
			 !WEXITSTATUS(status);

	tap_equal(ended, count, "every process of the fuzzer ends by itself");
	tap_equal(board->wrong, 0, "no byte of any process changed");
	tap_equal(board->strange, 0, "no error but those documented");
	tap_ok(every_request_succeeded(), "every request succeeded at times, and shared memory was collapsed");
	if (swaps)
		swap_off();
	else
		tap_skip("with swap to zram", "there is no " DISK);
	if (!module_is_there())
		tap_skip("with reloading", "there is no " MODULE_FILE);
	tap_note("SCAN_TASK %lu and %lu errors, SCAN_BLOCKS %lu and %lu, COMPACT %lu and %lu (%lu emptied), PROMOTE %lu and %lu, DEMOTE %lu and %lu, FREE_ZERO %lu and %lu, EXCHANGE %lu and %lu (%lu pairs), garbage %lu refused",
		 board->calls[1], board->errors[1], board->calls[2], board->errors[2],
		 board->calls[3], board->errors[3], board->done, board->calls[4], board->errors[4],
		 board->calls[5], board->errors[5], board->calls[6], board->errors[6],
		 board->calls[7], board->errors[7], board->exchanged, board->errors[0]);
	tap_note("%lu lives of victims, %lu with a file that has huge pages from the first, %lu collapses of shared memory, %lu reloads",
		 board->lives, board->in_folder, board->collapses, board->reloads);
	if (board->folder) {
		umount2(FOLDER, MNT_DETACH);
		rmdir(FOLDER);
	}
	return tap_end();
}
