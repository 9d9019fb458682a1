// SPDX-License-Identifier: GPL-2.0
/* FREE_ZERO: of a span, giant or not, what is zero-filled is given back, and nothing else ever is. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "kernel.h"
#include "random.h"
#include "span.h"
#include "tap.h"

#define CURRENT "/sys/fs/cgroup/giant/memory.current"
#define HUGE_KIB (HUGE / 1024)

/* Every fourth region is filled; of the others these two hold one byte that is not zero, their first and their last. */
#define FILLED_EVERY 4
#define FIRST_BYTE 101
#define LAST_BYTE 202
#define ZEROES (SPAN_REGIONS - SPAN_REGIONS / FILLED_EVERY - 2)

static int device;

/* ---- Spans with zero-filled regions ------------------------------------ */

static bool is_filled(size_t region)
{
	return region % FILLED_EVERY == 0;
}

static bool is_zero(size_t region)
{
	return !is_filled(region) && region != FIRST_BYTE && region != LAST_BYTE;
}

static char *byte_of(char *span, size_t region)
{
	return span + region * HUGE + (region == LAST_BYTE ? HUGE - 1 : 0);
}

/*
 * By writing a zero, which allocates a huge page as any other write does, but where the huge zero page is mapped, because
 * somebody read there.
 */
static void allocate_zeroes(char *span)
{
	for (size_t region = 0; region < SPAN_REGIONS; region++) {
		if (!is_zero(region))
			continue;
		madvise(span + region * HUGE, HUGE, MADV_DONTNEED);
		*(volatile char *)(span + region * HUGE) = 0;
	}
}

static char *sparse_span(void)
{
	char *span = map_spans(1);

	for (size_t region = 0; region < SPAN_REGIONS; region += FILLED_EVERY)
		fill_part(span + region * HUGE, HUGE, region * HUGE, 1);
	*byte_of(span, FIRST_BYTE) = 1;
	*byte_of(span, LAST_BYTE) = 1;
	allocate_zeroes(span);
	return span;
}

/* Pages that do not hold what sparse_span() left there. */
static size_t wrong_in(char *span)
{
	size_t wrong = 0;

	for (size_t region = 0; region < SPAN_REGIONS; region++) {
		char *at = span + region * HUGE;

		if (is_filled(region))
			wrong += wrong_pages(at, HUGE, region * HUGE, 1);
		else if (is_zero(region))
			wrong += nonzero_pages(at, HUGE);
	}
	return wrong + (*byte_of(span, FIRST_BYTE) != 1) + (*byte_of(span, LAST_BYTE) != 1);
}

/* ---- The request ------------------------------------------------------- */

static struct mega_free_zero free_zero_of(pid_t process, const char *span)
{
	int pidfd = pidfd_of(process);
	struct mega_free_zero request = free_zero_request(pidfd, span);

	if (ioctl(device, MEGA_IOC_FREE_ZERO, &request))
		tap_bail("FREE_ZERO of %p", span);
	close(pidfd);
	tap_ok(request.looked <= SPAN_REGIONS && request.zero <= request.looked &&
	       request.freed + request.busy == request.zero,
	       "%u looked at, %u zero-filled, %u given back and %u not: the sums are right", request.looked,
	       request.zero, request.freed, request.busy);
	return request;
}

static struct mega_free_zero free_zero(const char *span)
{
	return free_zero_of(getpid(), span);
}

/* All that is zero-filled is given back, once whatever kept it is gone. */
static void frees_all(const char *span, const char *when)
{
	struct mega_free_zero request = free_zero(span);

	tap_equal(request.freed, ZEROES, "%s: what is zero-filled is given back", when);
}

static void looks_at_none(const char *span, const char *what)
{
	tap_equal(free_zero(span).looked, 0, "%s is not looked at", what);
}

static void as_it_was(char *span, const char *when)
{
	tap_equal(wrong_in(span), 0, "%s: every byte is as it was", when);
}

/* ---- What it gives back ------------------------------------------------ */

static void memory_comes_back(char *span, const char *what)
{
	long rss = smaps(span, GIANT, "Rss"), counted = vmstat("anon_pud_zero_freed");
	long charged = read_number(CURRENT, 0);
	struct mega_free_zero request = free_zero(span);
	long freed_kib = request.freed * HUGE_KIB;

	tap_equal(request.looked, SPAN_REGIONS, "%s: all of it is looked at", what);
	tap_equal(request.zero, ZEROES, "and what is zero-filled found");
	tap_equal(request.freed, ZEROES, "and given back");
	tap_equal(rss - smaps(span, GIANT, "Rss"), freed_kib, "resident memory shrinks by it");
	tap_equal(vmstat("anon_pud_zero_freed") - counted, ZEROES, "it is counted");
	/* What the page tables of it took is uncharged as well, and each CPU keeps some charge in stock. */
	charged -= read_number(CURRENT, 0);
	tap_ok(labs(charged / 1024 - freed_kib) < 4 * (long)HUGE_KIB, "and uncharged: %ld KiB of %ld", charged / 1024,
	       freed_kib);
	tap_equal(giant_kib(span, GIANT), 0, "it is not giant");
	tap_equal(regions_of(device, span, GIANT, 21), SPAN_REGIONS - ZEROES, "the others are 2 MiB pages");
	as_it_was(span, what);
	tap_equal(free_zero(span).zero, 0, "and nothing is zero-filled any more but what nothing maps");
}

static void in_a_cgroup(void)
{
	char *span;

	if (!cgroup_enter())
		tap_bail("this kernel has no memory cgroups");
	span = sparse_span();
	promote_surely(device, span);
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "a giant page, sparsely filled");
	memory_comes_back(span, "a giant page");

	allocate_zeroes(span);
	memory_comes_back(span, "a span of huge pages");

	allocate_zeroes(span);
	tap_equal(promote_surely(device, span).stop, MEGA_PROMOTE_DONE, "filled again, the span can be giant again");
	as_it_was(span, "promoted again");
	munmap(span, GIANT);
	cgroup_leave();
}

static void nothing_to_give(void)
{
	char *span = giant_new(device);
	struct mega_free_zero request = free_zero(span);

	tap_equal(request.looked, SPAN_REGIONS, "a filled giant page is looked at");
	tap_equal(request.zero, 0, "nothing in it is zero-filled");
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "and it stays giant");
	tap_note("to search a filled span took %llu us", request.nanoseconds / 1000);
	munmap(span, GIANT);
}

static void nothing_else(void)
{
	char *span = map_spans(1);
	struct mega_free_zero request;

	for (size_t at = 0; at < GIANT; at += HUGE)
		*(volatile char *)(span + at) = 0;
	promote_surely(device, span);
	request = free_zero(span);
	tap_equal(request.freed, SPAN_REGIONS, "of a giant page with nothing in it all is given back");
	tap_equal(smaps(span, GIANT, "Rss"), 0, "and nothing is resident any more");
	tap_equal(nonzero_pages(span, GIANT), 0, "every byte is zero");
	tap_note("to search a zero-filled span and give it back took %llu us", request.nanoseconds / 1000);
	munmap(span, GIANT);
}

/* What no huge page of the process's own maps, in a span of several VMAs. */
static void other_pages(void)
{
	char *span = map_spans(1);
	volatile char *read_only = span + 8 * HUGE;
	long rss;

	fill_part(span, HUGE, 0, 1);
	span[HUGE] = 0;
	/* Base pages. */
	madvise(span + 2 * HUGE, HUGE, MADV_NOHUGEPAGE);
	memset(span + 2 * HUGE, 0, HUGE);
	/* A huge page over the border of two VMAs cannot be; one beside the border can. */
	span[4 * HUGE] = 0;
	madvise(span + 5 * HUGE, HUGE / 2, MADV_NOHUGEPAGE);
	/* Where a huge page is read before it is written, the huge zero page is mapped. */
	tap_equal(*read_only, 0, "a region that was only read is zero");
	rss = smaps(span, GIANT, "Rss");
	tap_equal(free_zero(span).looked, 3, "base pages, holes and the zero page are not looked at");
	tap_equal(rss - smaps(span, GIANT, "Rss"), 2 * HUGE_KIB, "and two huge pages of several VMAs are given back");
	tap_equal(wrong_pages(span, HUGE, 0, 1) + nonzero_pages(span + HUGE, GIANT - HUGE), 0,
		  "every byte is as it was");
	munmap(span, GIANT);
}

static void of_another_process(void)
{
	char *span = map_spans(1);
	int go[2], done[2];
	char byte = 0;
	pid_t child;

	if (pipe(go) || pipe(done))
		tap_bail("pipe");
	child = fork();
	if (!child) {
		size_t wrong;

		for (size_t region = 0; region < SPAN_REGIONS; region++)
			fill_part(span + region * HUGE, is_filled(region) ? HUGE : 0, region * HUGE, 1);
		*byte_of(span, FIRST_BYTE) = 1;
		*byte_of(span, LAST_BYTE) = 1;
		allocate_zeroes(span);
		if (write(done[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1)
			_exit(1);
		wrong = wrong_in(span) || smaps(span, GIANT, "Rss") != (long)((SPAN_REGIONS - ZEROES) * HUGE_KIB);
		_exit(wrong != 0);
	}
	if (read(done[0], &byte, 1) != 1)
		tap_bail("read");
	tap_equal(free_zero_of(child, span).freed, ZEROES, "another process's zero-filled pages are given back");
	if (write(go[1], &byte, 1) != 1)
		tap_bail("write");
	tap_ok(ended_well(child), "and it finds every byte as it was, and less memory resident");
	close(go[0]);
	close(go[1]);
	close(done[0]);
	close(done[1]);
	munmap(span, GIANT);
}

/* ---- What it leaves alone ---------------------------------------------- */

/* A page that a pipe holds: who reads the pipe later has to read what is written to it by then. */
static void held_by_a_pipe(char *span)
{
	static char read_back[PAGE];
	struct iovec pages = { span + 9 * HUGE + 100 * PAGE, PAGE };
	struct mega_free_zero request;
	int end[2];

	if (pipe(end) || vmsplice(end[1], &pages, 1, 0) != (ssize_t)PAGE)
		tap_bail("vmsplice");
	request = free_zero(span);
	tap_equal(request.busy, 1, "a huge page that a pipe holds is kept");
	tap_equal(request.freed, ZEROES - 1, "and the others given back");
	*(volatile uint64_t *)pages.iov_base = 77;
	if (read(end[0], read_back, PAGE) != (ssize_t)PAGE)
		tap_bail("read from the pipe");
	tap_equal(*(uint64_t *)read_back, 77, "the pipe has the page that is mapped");
	*(volatile uint64_t *)pages.iov_base = 0;
	tap_equal(free_zero(span).freed, 1, "when the pipe lets go it is given back");
	as_it_was(span, "held by a pipe");
	close(end[0]);
	close(end[1]);
}

/* Pinned for as long as a ring is there. */
static void pinned(char *span)
{
	struct io_uring_params params = { 0 };
	struct iovec buffer = { span + 9 * HUGE + 100 * PAGE, PAGE };
	struct mega_free_zero request;
	int ring = syscall(SYS_io_uring_setup, 4, &params);

	if (ring < 0) {
		tap_skip("io_uring", "this kernel has none");
		return;
	}
	if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1))
		tap_bail("IORING_REGISTER_BUFFERS");
	request = free_zero(span);
	tap_equal(request.busy, 1, "a huge page that is pinned is kept");
	tap_equal(request.freed, ZEROES - 1, "and the others given back");
	if (syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_BUFFERS, NULL, 0))
		tap_bail("IORING_UNREGISTER_BUFFERS");
	close(ring);
	tap_equal(free_zero(span).freed, 1, "when it is not pinned any more it is given back");
	as_it_was(span, "pinned");
}

static void shared_with_a_child(char *span)
{
	struct mega_free_zero request;
	int go[2];
	char byte = 0;
	pid_t child;

	if (pipe(go))
		tap_bail("pipe");
	child = fork();
	if (!child)
		_exit(read(go[0], &byte, 1) != 1 || wrong_in(span));
	request = free_zero(span);
	tap_equal(request.busy, ZEROES, "what is shared after a fork is kept");
	if (write(go[1], &byte, 1) != 1)
		tap_bail("write");
	tap_ok(ended_well(child), "the child finds every byte as it was");
	frees_all(span, "when the child is gone");
	as_it_was(span, "shared with a child");
	close(go[0]);
	close(go[1]);
}

static void locked(char *span)
{
	if (mlock(span, GIANT))
		tap_bail("mlock");
	looks_at_none(span, "locked memory");
	munlock(span, GIANT);
	frees_all(span, "unlocked");
	as_it_was(span, "locked and unlocked");
}

/* A debugger can write there, through no entry that would tell. */
static void not_writable(char *span)
{
	mprotect(span, GIANT, PROT_READ);
	looks_at_none(span, "memory that is not writable");
	mprotect(span, GIANT, PROT_NONE);
	looks_at_none(span, "memory that is not accessible");
	mprotect(span, GIANT, PROT_READ | PROT_WRITE);
	frees_all(span, "writable");
	as_it_was(span, "protected and not");
}

/* Who supplies missing pages would be asked for those that were given back. */
static void watched(char *span)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register request = { .range = { (uintptr_t)span, GIANT }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	int faults = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (faults < 0) {
		tap_skip("userfaultfd", "this kernel has none");
		return;
	}
	if (ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &request))
		tap_bail("UFFDIO_REGISTER");
	looks_at_none(span, "memory registered with userfaultfd");
	/* Closed, it is registered no more. */
	close(faults);
	frees_all(span, "not registered");
	as_it_was(span, "registered and not");
}

#define KSM "/sys/kernel/mm/ksm/"

/* Until it has taken apart length bytes of huge pages, for a minute at most. */
static bool taken_apart(const char *memory, size_t length)
{
	for (unsigned int i = 0; i < 600; i++) {
		if (!regions_of(device, memory, length, 21))
			return true;
		usleep(100000);
	}
	return false;
}

/* To merge pages KSM splits huge pages, by which the kernel finds what is zero-filled in them itself. */
static void merged_by_ksm(char *span)
{
	struct mega_free_zero request;

	if (access(KSM "run", W_OK)) {
		tap_skip("KSM", "this kernel has none");
		return;
	}
	set_file(KSM "pages_to_scan", "20000");
	set_file(KSM "sleep_millisecs", "1");
	/* Two zero-filled regions. */
	madvise(span + HUGE, 2 * HUGE, MADV_MERGEABLE);
	set_file(KSM "run", "1");
	tap_ok(taken_apart(span + HUGE, 2 * HUGE), "two regions are taken apart by KSM");
	/* Who is merging holds what he looks at. */
	set_file(KSM "run", "0");
	request = free_zero(span);
	tap_equal(request.looked, SPAN_REGIONS - 2, "they are not looked at");
	tap_equal(request.freed, ZEROES - 2, "and the others given back");
	as_it_was(span, "merged");
	set_file(KSM "run", "2");
	set_file(KSM "run", "0");
	madvise(span + HUGE, 2 * HUGE, MADV_UNMERGEABLE);
	as_it_was(span, "unmerged");
}

/* Each with a sparsely filled span: what looks pages up by the page tables with a giant page. */
static void leaves_alone(void)
{
	static const struct {
		void (*run)(char *span);
		bool giant;
	} cases[] = {
		{ held_by_a_pipe, true }, { pinned, true }, { shared_with_a_child, true }, { locked, true },
		{ not_writable, false }, { watched, false }, { merged_by_ksm, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *span = sparse_span();

		if (cases[i].giant)
			promote_surely(device, span);
		cases[i].run(span);
		munmap(span, GIANT);
	}
}

/* ---- Writers meanwhile ------------------------------------------------- */

/* Few regions, so that each is looked at while somebody writes to it; and bytes beside them that are filled. */
#define RACED 6
#define BESIDE (2 * HUGE)
#define WRITERS 3

static volatile bool stop;
static unsigned long writes, lost;

struct writer {
	pthread_t thread;
	/* Of WRITERS pages in a row it has this one: what another writes is none of its business. */
	size_t turn;
	char *span;
	bool (*write)(volatile uint64_t *to, uint64_t value);
};

static bool by_itself(volatile uint64_t *to, uint64_t value)
{
	*to = value;
	return true;
}

/* GUP, and a pin for as long as it takes. */
static bool by_process_vm_writev(volatile uint64_t *to, uint64_t value)
{
	struct iovec own = { &value, sizeof(value) }, its = { (void *)to, sizeof(value) };

	return process_vm_writev(getpid(), &own, 1, &its, 1, 0) == sizeof(value);
}

/* GUP with FOLL_FORCE. */
static bool by_a_debugger(volatile uint64_t *to, uint64_t value)
{
	static __thread int file;

	if (!file)
		file = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	return pwrite(file, &value, sizeof(value), (uintptr_t)to) == sizeof(value);
}

#define DISK "/dev/ram0"

/* GUP-fast. By way of a block of its own: threads that begin one after the other have numbers that do. */
static bool by_a_disk(volatile uint64_t *to, uint64_t value)
{
	static __thread uint64_t page[PAGE / sizeof(uint64_t)] __attribute__((aligned(4096)));
	static __thread int disk;
	off_t block = gettid() % 64 * PAGE;

	if (!disk)
		disk = open(DISK, O_RDWR | O_DIRECT | O_CLOEXEC);
	page[0] = value;
	return pwrite(disk, page, PAGE, block) == (ssize_t)PAGE && pread(disk, (void *)to, PAGE, block) == (ssize_t)PAGE;
}

/*
 * The word is there until it is zeroed again, by which its huge page is zero-filled again, mostly. Zero is never read:
 * that would map the huge zero page, and the next write there be to a base page.
 */
static void *write_words(void *argument)
{
	struct writer *writer = argument;
	uint64_t state = writer->turn * 2 + 77;

	while (!stop) {
		size_t page = next(&state) % (RACED * (HUGE / PAGE) / WRITERS) * WRITERS + writer->turn;
		volatile uint64_t *to = (uint64_t *)(writer->span + page * PAGE);
		uint64_t value = next(&state) | 1;

		if (!writer->write(to, value) || *to != value)
			__atomic_fetch_add(&lost, 1, __ATOMIC_RELAXED);
		if (value >> 8 & 1)
			usleep(value >> 16 & 1023);
		if (*to != value || !writer->write(to, 0))
			__atomic_fetch_add(&lost, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&writes, 1, __ATOMIC_RELAXED);
		if (value >> 9 & 1)
			usleep(value >> 32 & 4095);
	}
	return NULL;
}

static void give_back_again_and_again(char *span, unsigned long *freed, unsigned long *busy)
{
	long seconds = seconds_of("TRIDENT_RACES_SECONDS", 10);
	time_t end = time(NULL) + seconds, patience = end + 300;
	int self = pidfd_of(getpid());

	while (time(NULL) < end || (!*busy && time(NULL) < patience)) {
		struct mega_free_zero request = free_zero_request(self, span);

		if (ioctl(device, MEGA_IOC_FREE_ZERO, &request))
			tap_bail("FREE_ZERO");
		*freed += request.freed;
		*busy += request.busy;
	}
	close(self);
}

static void against(const char *what, bool (*write)(volatile uint64_t *, uint64_t))
{
	struct writer writers[WRITERS];
	unsigned long freed = 0, busy = 0;
	char *span = map_spans(1), *beside = span + RACED * HUGE;

	fill_part(beside, BESIDE, 0, 1);
	stop = false;
	writes = lost = 0;
	for (size_t i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){ .turn = i, .span = span, .write = write };
		pthread_create(&writers[i].thread, NULL, write_words, &writers[i]);
	}
	give_back_again_and_again(span, &freed, &busy);
	stop = true;
	for (size_t i = 0; i < WRITERS; i++)
		pthread_join(writers[i].thread, NULL);
	tap_equal(lost, 0, "%s: no write is lost", what);
	tap_ok(freed && busy && writes, "%s: pages were given back, and others kept for a write", what);
	tap_equal(nonzero_pages(span, RACED * HUGE) + wrong_pages(beside, BESIDE, 0, 1), 0,
		  "%s: every other byte is as it was", what);
	tap_note("%lu writes, %lu pages given back, %lu kept", writes, freed, busy);
	munmap(span, GIANT);
}

/* ---- Ends in the middle ------------------------------------------------ */

#define ROUNDS 6

/* What is freed by a process that ended comes back within a moment. */
static bool comes_back(long free_before)
{
	for (unsigned int i = 0; i < 100; i++) {
		if (free_before - meminfo("MemFree") < (long)(GIANT / 1024 / 8) && !meminfo("AnonPudMapped"))
			return true;
		usleep(100000);
	}
	return false;
}

/* Asks for as long as there is a process to ask about. */
static void keep_freeing(pid_t target, const char *span)
{
	struct mega_free_zero request = free_zero_request(pidfd_of(target), span);

	while (!ioctl(device, MEGA_IOC_FREE_ZERO, &request))
		;
	_exit(errno != ESRCH);
}

static void killed(unsigned int round)
{
	bool target_dies = round % 2;
	char *span = map_spans(1);
	pid_t target, caller;
	int ready[2], status;
	char byte = 0;

	if (pipe(ready))
		tap_bail("pipe");
	target = fork();
	if (!target) {
		for (size_t region = 0; region < SPAN_REGIONS; region++)
			*(volatile char *)(span + region * HUGE) = 0;
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		for (size_t region = 0;; region = (region + 1) % SPAN_REGIONS)
			*(volatile char *)(span + region * HUGE) = 0;
	}
	if (read(ready[0], &byte, 1) != 1)
		tap_bail("read");
	caller = fork();
	if (!caller)
		keep_freeing(target, span);
	usleep(50000 + round * 70000);
	kill(target_dies ? target : caller, SIGKILL);
	if (target_dies)
		tap_ok(ended_well(caller), "a process is killed while its memory is given back: there is none any more");
	else
		tap_ok(waitpid(caller, &status, 0) == caller && WIFSIGNALED(status), "who gives back is killed, and ends");
	kill(target, SIGKILL);
	waitpid(target, &status, 0);
	close(ready[0]);
	close(ready[1]);
	munmap(span, GIANT);
}

static void ends(void)
{
	long free_before = meminfo("MemFree"), tables = meminfo("PageTables");

	for (unsigned int round = 0; round < ROUNDS; round++)
		killed(round);
	tap_ok(comes_back(free_before), "and all memory comes back");
	tap_ok(meminfo("PageTables") - tables < 1024, "and no page tables are left");
}

int main(void)
{
	device = device_open();
	in_a_cgroup();
	nothing_to_give();
	nothing_else();
	other_pages();
	of_another_process();
	leaves_alone();
	against("writing", by_itself);
	against("process_vm_writev", by_process_vm_writev);
	against("/proc/PID/mem", by_a_debugger);
	if (access(DISK, F_OK))
		tap_skip("O_DIRECT", "this kernel has no RAM disk");
	else
		against("O_DIRECT", by_a_disk);
	ends();
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
