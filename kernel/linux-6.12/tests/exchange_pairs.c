// SPDX-License-Identifier: GPL-2.0
/*
 * EXCHANGE: huge pages of a process change places. What is exchanged and what is refused, one thing after the other; then
 * while threads count in the pages, and something else happens to them; TRIDENT_RACES_SECONDS for each (default 10). With the
 * name of a race as the argument it is only that one, with `none` none of the races.
 *
 * In the races each page has a word: whose it was at first, and a count, both of which move with it. Threads count it up, at
 * whichever address they find it, by an atomic addition, and remember for whom they did. So a write that is lost, or done to
 * a page that is not there any more, shows, and so does a page that is at two places or at none.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
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

#define REGION_PAGES (HUGE / PAGE)

static int device;
static int self;
static char *span;

static const char *result_name(uint32_t result)
{
	static const char *const names[] = {
		"exchanged", "not eligible", "not huge", "shared", "held", "busy", "poisoned", "logged",
	};

	return result < sizeof(names) / sizeof(*names) ? names[result] : "?";
}

static struct mega_pair pair_of(const char *first, const char *second)
{
	return (struct mega_pair){ .first = (uintptr_t)first, .second = (uintptr_t)second, .result = 77 };
}

/* EXCHANGE of another process's memory; returns how many pairs were exchanged. */
static uint32_t exchange_of(int pidfd, struct mega_pair *pairs, uint32_t count)
{
	struct mega_exchange request = exchange_request(pidfd, pairs, count);

	if (ioctl(device, MEGA_IOC_EXCHANGE, &request))
		tap_bail("EXCHANGE");
	return request.exchanged;
}

static uint32_t exchange(struct mega_pair *pairs, uint32_t count)
{
	return exchange_of(self, pairs, count);
}

/* One pair; again while pages are busy, or held by the kernel, for a moment. */
static uint32_t exchange_one(const char *first, const char *second)
{
	struct mega_pair pair = pair_of(first, second);

	for (unsigned int i = 0; i < 20; i++) {
		exchange(&pair, 1);
		if (pair.result != MEGA_PAIR_BUSY && pair.result != MEGA_PAIR_HELD)
			break;
		usleep(20000);
	}
	return pair.result;
}

static char *region(size_t i)
{
	return span + i * HUGE;
}

static size_t wrong_region(size_t at, size_t whose)
{
	return wrong_pages(region(at), HUGE, whose * HUGE, 1);
}

/* Makes all of it huge pages, with seed 1's words. */
static void fresh(void)
{
	if (span)
		munmap(span, GIANT);
	span = map_spans(1);
	fill(span, GIANT, 1);
}

static size_t huge_regions(const char *from, size_t length)
{
	return regions_of(device, from, length, 21);
}

/* ---- What is exchanged ------------------------------------------------- */

static bool soft_dirty(const char *page)
{
	int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;

	if (file < 0 || pread(file, &entry, 8, (uintptr_t)page / PAGE * 8) != 8)
		tap_bail("pagemap");
	close(file);
	return entry >> 55 & 1;
}

static void one_pair(void)
{
	uint64_t first = frame_of(region(3)), second = frame_of(region(200));
	set_file("/proc/self/clear_refs", "4");
	/* It shows whether the kernel tracks that. */
	*(volatile char *)region(4) = *(volatile char *)region(4);
	tap_equal(exchange_one(region(3), region(200)), MEGA_PAIR_EXCHANGED, "two huge pages are exchanged");
	if (soft_dirty(region(4)) && !soft_dirty(region(5)))
		tap_ok(soft_dirty(region(3)) && soft_dirty(region(200)), "both are soft-dirty");
	else
		tap_skip("soft-dirty", "this kernel does not track it");
	tap_equal(wrong_region(3, 200) + wrong_region(200, 3), 0, "each address has what the other had");
	tap_ok(frame_of(region(3)) == second && frame_of(region(200)) == first, "and its frame: nothing was copied");
	tap_equal(huge_regions(span, GIANT), SPAN_REGIONS, "all is mapped by huge pages");
	fill_part(region(3), HUGE, 0, 7);
	fill_part(region(200), HUGE, HUGE, 7);
	tap_equal(wrong_pages(region(3), HUGE, 0, 7) + wrong_pages(region(200), HUGE, HUGE, 7), 0, "both can be written to");
	fill_part(region(3), HUGE, 200 * HUGE, 1);
	fill_part(region(200), HUGE, 3 * HUGE, 1);
	tap_equal(exchange_one(region(200), region(3)), MEGA_PAIR_EXCHANGED, "and exchanged back");
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "all is as it was");
}

/* All of the span, in pairs that begin at both of its ends. */
static void a_batch(void)
{
	struct mega_pair pairs[SPAN_REGIONS / 2];
	size_t wrong = 0;

	for (size_t i = 0; i < SPAN_REGIONS / 2; i++)
		pairs[i] = pair_of(region(i), region(SPAN_REGIONS - 1 - i));
	tap_equal(exchange(pairs, SPAN_REGIONS / 2), SPAN_REGIONS / 2, "256 pairs are exchanged in one request");
	for (size_t i = 0; i < SPAN_REGIONS; i++)
		wrong += wrong_region(i, SPAN_REGIONS - 1 - i);
	tap_equal(wrong, 0, "the span is the other way round");
	tap_equal(exchange(pairs, SPAN_REGIONS / 2), SPAN_REGIONS / 2, "and again");
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "and as it was");
}

static void a_giant_page(void)
{
	promote_surely(device, span);
	tap_equal(exchange_one(region(0), region(511)), MEGA_PAIR_EXCHANGED, "two huge pages of a giant page are exchanged");
	tap_equal(giant_kib(span, GIANT), 0, "it is not giant any more");
	tap_equal(wrong_region(0, 511) + wrong_region(511, 0) + wrong_pages(region(1), GIANT - 2 * HUGE, HUGE, 1), 0,
		  "each address has what the other had, and all else what it had");
	tap_equal(exchange_one(region(0), region(511)), MEGA_PAIR_EXCHANGED, "and exchanged back");
	tap_equal(promote_surely(device, span).stop, MEGA_PROMOTE_DONE, "it can be giant again");
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "and all is as it was");
	demote(device, span);
}

/* Which of two that have an address in common is first is not said; but something is lost by none. */
static void an_address_twice(void)
{
	struct mega_pair pairs[2] = { pair_of(region(1), region(2)), pair_of(region(2), region(3)) };
	size_t seen = 0;

	tap_equal(exchange(pairs, 2), 2, "two pairs with an address in common are exchanged, one after the other");
	for (size_t at = 1; at <= 3; at++)
		for (size_t whose = 1; whose <= 3; whose++)
			seen |= (size_t)!wrong_region(at, whose) << whose;
	tap_equal(seen, 2 + 4 + 8, "all three are there still");
	fresh();
}

static void another_process(void)
{
	struct mega_pair pair = { 0 };
	int go[2], ready[2], pidfd;
	char byte = 0, *its;
	pid_t child;

	if (pipe(go) || pipe(ready))
		tap_bail("pipe");
	child = fork();
	if (child < 0)
		tap_bail("fork");
	if (!child) {
		bool right;

		fresh();
		if (write(ready[1], &span, sizeof(span)) != sizeof(span) || read(go[0], &byte, 1) != 1)
			_exit(2);
		right = !wrong_region(10, 20) && !wrong_region(20, 10) && !wrong_region(11, 11);
		_exit(right ? 0 : 1);
	}
	if (read(ready[0], &its, sizeof(its)) != sizeof(its))
		tap_bail("read");
	pidfd = pidfd_of(child);
	pair = pair_of(its + 10 * HUGE, its + 20 * HUGE);
	for (unsigned int i = 0; i < 20 && pair.result != MEGA_PAIR_EXCHANGED; i++)
		exchange_of(pidfd, &pair, 1);
	tap_equal(pair.result, MEGA_PAIR_EXCHANGED, "huge pages of another process are exchanged");
	if (write(go[1], &byte, 1) != 1)
		tap_bail("write");
	tap_ok(ended_well(child), "it has them so");
	tap_equal(wrong_region(10, 10) + wrong_region(20, 20), 0, "and this one's are as they were");
	/* Since the fork they are not its own, until it writes to them. */
	fresh();
	close(pidfd);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(ready[i]);
	}
}

/* ---- What is refused --------------------------------------------------- */

static void refused(const char *first, const char *second, uint32_t should, const char *what)
{
	uint32_t is = exchange_one(first, second);

	if (!tap_ok(is == should, "%s: %s", what, result_name(should)))
		tap_note("but: %s", result_name(is));
	is = exchange_one(second, first);
	tap_ok(is == should, "and the other way round");
}

/* 2 MiB of memory of another kind, filled, at a multiple of 2 MiB. */
static char *other_memory(int protection, int flags, int file)
{
	char *memory = map_aligned(HUGE);

	if (mmap(memory, HUGE, protection, flags | MAP_FIXED, file, 0) != memory)
		return NULL;
	madvise(memory, HUGE, MADV_HUGEPAGE);
	if (protection & PROT_WRITE)
		memset(memory, 1, HUGE);
	return memory;
}

#define HUGE_POOL "/proc/sys/vm/nr_hugepages"

/* Its pool is made larger by what is mapped here, and put back. */
static void refused_hugetlb(void)
{
	long pool = read_number(HUGE_POOL, -1);
	char *own = region(5), *memory, text[32];

	if (pool < 0) {
		tap_skip("hugetlb", "this kernel has none");
		return;
	}
	snprintf(text, sizeof(text), "%ld", pool + 1);
	set_file(HUGE_POOL, text);
	memory = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (memory == MAP_FAILED)
		tap_bail("no page of hugetlb's pool of %ld", read_number(HUGE_POOL, -1));
	fill_part(memory, HUGE, 0, 7);
	refused(own, memory, MEGA_PAIR_NOT_ELIGIBLE, "hugetlb");
	tap_equal(wrong_pages(memory, HUGE, 0, 7), 0, "and it has what it had");
	munmap(memory, HUGE);
	snprintf(text, sizeof(text), "%ld", pool);
	set_file(HUGE_POOL, text);
	tap_equal(read_number(HUGE_POOL, -1), pool, "the pool is as it was");
}

static void refused_kinds(void)
{
	char *own = region(5), *memory;
	int file = memfd_create("shared", MFD_CLOEXEC);

	memory = map_aligned(HUGE);
	munmap(memory, HUGE);
	refused(own, memory, MEGA_PAIR_NOT_ELIGIBLE, "nothing is mapped there");

	memory = map_aligned(HUGE);
	refused(own, memory, MEGA_PAIR_NOT_HUGE, "nothing was touched");
	memset(memory, 1, HUGE);
	refused(own, memory, MEGA_PAIR_NOT_HUGE, "base pages");
	munmap(memory, HUGE);

	memory = other_memory(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
	refused(own, memory, MEGA_PAIR_NOT_ELIGIBLE, "shared memory");
	munmap(memory, HUGE);

	if (file < 0 || ftruncate(file, HUGE))
		tap_bail("memfd_create");
	memory = other_memory(PROT_READ | PROT_WRITE, MAP_PRIVATE, file);
	refused(own, memory, MEGA_PAIR_NOT_ELIGIBLE, "a file, mapped privately");
	munmap(memory, HUGE);
	close(file);

	memory = other_memory(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	refused(own, memory, MEGA_PAIR_NOT_ELIGIBLE, "memory with other rights");
	munmap(memory, HUGE);

	memory = other_memory(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	mprotect(memory, HUGE, PROT_READ);
	refused(own, memory, MEGA_PAIR_NOT_ELIGIBLE, "read-only memory");
	mprotect(memory, HUGE, PROT_READ | PROT_WRITE);
	tap_equal(exchange_one(own, memory), MEGA_PAIR_EXCHANGED, "writable again: it is exchanged");
	tap_equal(exchange_one(own, memory), MEGA_PAIR_EXCHANGED, "and back");
	mlock(memory, PAGE);
	refused(own, memory, MEGA_PAIR_NOT_ELIGIBLE, "partly locked memory");
	munmap(memory, HUGE);

	refused_hugetlb();
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "nothing of the span was changed by that");
}

static void refused_locked(void)
{
	if (mlock(region(7), HUGE))
		tap_bail("mlock");
	refused(region(5), region(7), MEGA_PAIR_NOT_ELIGIBLE, "locked memory");
	munlock(region(7), HUGE);
	tap_equal(exchange_one(region(5), region(7)), MEGA_PAIR_EXCHANGED, "unlocked: it is exchanged");
	tap_equal(exchange_one(region(5), region(7)), MEGA_PAIR_EXCHANGED, "and back");
}

static void refused_registered(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register request = { .range = { (uintptr_t)region(7), HUGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	int faults = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (faults < 0) {
		tap_skip("userfaultfd", "this kernel has none");
		return;
	}
	if (ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &request))
		tap_bail("UFFDIO_REGISTER");
	refused(region(5), region(7), MEGA_PAIR_NOT_ELIGIBLE, "memory registered with userfaultfd");
	close(faults);
	tap_equal(exchange_one(region(5), region(7)), MEGA_PAIR_EXCHANGED, "not registered any more: it is exchanged");
	tap_equal(exchange_one(region(5), region(7)), MEGA_PAIR_EXCHANGED, "and back");
}

static void refused_shared(void)
{
	int go[2];
	char byte = 0;
	pid_t child;

	if (pipe(go))
		tap_bail("pipe");
	child = fork();
	if (child < 0)
		tap_bail("fork");
	if (!child)
		_exit(read(go[0], &byte, 1) == 1 && !wrong_pages(span, GIANT, 0, 1) ? 0 : 1);
	refused(region(5), region(7), MEGA_PAIR_SHARED, "pages that a child has, too");
	if (write(go[1], &byte, 1) != 1)
		tap_bail("write");
	tap_ok(ended_well(child), "the child has what there was");
	refused(region(5), region(7), MEGA_PAIR_SHARED, "pages that a child had");
	fill_part(region(5), PAGE, 5 * HUGE, 1);
	fill_part(region(7), PAGE, 7 * HUGE, 1);
	tap_equal(exchange_one(region(5), region(7)), MEGA_PAIR_EXCHANGED, "written to since: they are exchanged");
	tap_equal(exchange_one(region(5), region(7)), MEGA_PAIR_EXCHANGED, "and back");
	close(go[0]);
	close(go[1]);
	fresh();
}

static void refused_in_a_pipe(void)
{
	struct iovec page = { region(7) + 9 * PAGE, PAGE };
	char words[PAGE];
	int end[2];

	if (pipe(end) || vmsplice(end[1], &page, 1, 0) != PAGE)
		tap_bail("vmsplice");
	refused(region(5), region(7), MEGA_PAIR_HELD, "a page that a pipe holds");
	if (read(end[0], words, PAGE) != PAGE)
		tap_bail("read from the pipe");
	tap_equal(wrong_pages(words, PAGE, 7 * HUGE + 9 * PAGE, 1), 0, "the pipe has what it should");
	tap_equal(exchange_one(region(5), region(7)), MEGA_PAIR_EXCHANGED, "let go: it is exchanged");
	tap_equal(exchange_one(region(5), region(7)), MEGA_PAIR_EXCHANGED, "and back");
	close(end[0]);
	close(end[1]);
}

static void refused_pinned(void)
{
	struct io_uring_params params = { 0 };
	struct iovec buffer = { region(7) + 9 * PAGE, PAGE };
	int ring = syscall(SYS_io_uring_setup, 1, &params);

	if (ring < 0) {
		tap_skip("io_uring", "this kernel has none");
		return;
	}
	if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1))
		tap_bail("IORING_REGISTER_BUFFERS");
	refused(region(5), region(7), MEGA_PAIR_HELD, "a buffer registered with io_uring");
	if (syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_BUFFERS, NULL, 0))
		tap_bail("IORING_UNREGISTER_BUFFERS");
	tap_equal(exchange_one(region(5), region(7)), MEGA_PAIR_EXCHANGED, "let go: it is exchanged");
	tap_equal(exchange_one(region(5), region(7)), MEGA_PAIR_EXCHANGED, "and back");
	close(ring);
}

#define KSM "/sys/kernel/mm/ksm/"

static void refused_merged(void)
{
	if (access(KSM "run", W_OK)) {
		tap_skip("KSM", "this kernel has none");
		return;
	}
	memset(region(7), 5, HUGE);
	set_file(KSM "pages_to_scan", "20000");
	set_file(KSM "sleep_millisecs", "1");
	madvise(region(7), HUGE, MADV_MERGEABLE);
	set_file(KSM "run", "1");
	for (unsigned int i = 0; i < 600 && read_number(KSM "pages_sharing", 0) <= 0; i++)
		usleep(100000);
	refused(region(5), region(7), MEGA_PAIR_NOT_HUGE, "merged pages");
	set_file(KSM "run", "2");
	madvise(region(7), HUGE, MADV_UNMERGEABLE);
	set_file(KSM "run", "0");
	fresh();
}

/* ---- While other things happen ----------------------------------------- */

#define COUNTERS 2
/* At a time. */
#define PAIRS 16
/* Of the span, in most races. */
#define FEW 64

static const char *only;
static long seconds;
static volatile bool stop;
/* Microseconds, at most, between two rounds. */
static unsigned long rest;
/* How many regions from the first on change places. */
static size_t playing;
/* By page, by whom: how often it was counted up. */
static uint32_t counted[COUNTERS][SPAN_PAGES];

static struct {
	unsigned long rounds, exchanged, wrong, touches, acts, promotions;
	unsigned long refusals[MEGA_PAIR_LOGGED + 1];
} count;

static void add(unsigned long *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* The upper half says whose it is, from 1 on; the lower half counts. */
static uint64_t *word_at(size_t page)
{
	return (uint64_t *)(span + page * PAGE);
}

/* Whether a word may be at the place of that page: it is from the same place in a region that plays. */
static bool may_be_at(size_t page, uint64_t word)
{
	size_t owner = (word >> 32) - 1;

	return owner < playing * REGION_PAGES && owner % REGION_PAGES == page % REGION_PAGES;
}

static void check(size_t page, uint64_t word)
{
	if (may_be_at(page, word))
		return;
	add(&count.wrong);
	tap_note("page %zu has 0x%lx", page, word);
}

static void *count_up(void *number)
{
	size_t own = (uintptr_t)number;
	uint64_t state = own * 2 + 77;

	while (!stop) {
		size_t page = next(&state) % (playing * REGION_PAGES);
		uint64_t word = __atomic_fetch_add(word_at(page), 1, __ATOMIC_RELAXED);

		check(page, word);
		if (may_be_at(page, word))
			counted[own][(word >> 32) - 1]++;
		add(&count.touches);
	}
	return NULL;
}

/* Each region has the pages of one, in order, and each one's are in one place. */
static bool is_permutation(void)
{
	static bool seen[SPAN_REGIONS];

	memset(seen, 0, sizeof(seen));
	for (size_t at = 0; at < playing; at++) {
		size_t owner = ((*word_at(at * REGION_PAGES) >> 32) - 1) / REGION_PAGES;

		if (owner >= playing || seen[owner])
			return false;
		seen[owner] = true;
		for (size_t i = 0; i < REGION_PAGES; i++)
			if ((*word_at(at * REGION_PAGES + i) >> 32) - 1 != owner * REGION_PAGES + i)
				return false;
	}
	return true;
}

/* Pages whose counts are not as often as they were counted up. */
static size_t miscounted(void)
{
	size_t wrong = 0;

	for (size_t page = 0; page < playing * REGION_PAGES; page++) {
		uint64_t word = *word_at(page);
		size_t owner = (word >> 32) - 1;
		uint32_t should = 0;

		if (!may_be_at(page, word))
			return SPAN_PAGES;
		for (size_t i = 0; i < COUNTERS; i++)
			should += counted[i][owner];
		wrong += (uint32_t)word != should;
	}
	return wrong;
}

static void *keep_exchanging(void *seed)
{
	uint64_t state = (uintptr_t)seed;
	struct mega_pair pairs[PAIRS];
	uint32_t done;

	while (!stop) {
		for (size_t i = 0; i < PAIRS; i++) {
			size_t first = next(&state) % playing;

			pairs[i] = pair_of(region(first), region((first + 1 + next(&state) % (playing - 1)) % playing));
		}
		done = exchange(pairs, PAIRS);
		count.exchanged += done;
		count.rounds++;
		for (size_t i = 0; i < PAIRS; i++)
			count.refusals[pairs[i].result % (MEGA_PAIR_LOGGED + 1)]++;
		/* What was split is made huge again, at times. */
		if (!done || next(&state) % 64 == 0)
			madvise(span, playing * HUGE, MADV_COLLAPSE);
		if (rest)
			usleep(next(&state) % rest);
	}
	return NULL;
}

static void mark_all(void)
{
	memset(counted, 0, sizeof(counted));
	for (size_t page = 0; page < SPAN_PAGES; page++)
		*word_at(page) = (uint64_t)(page + 1) << 32;
}

static void against(const char *what, size_t regions, void (*act)(uint64_t *state))
{
	uint64_t state = 0x9e3779b97f4a7c15ULL;
	pthread_t threads[COUNTERS + 1];
	/* A slow machine may exchange nothing in the time. */
	time_t begin = time(NULL);

	if (only && strcmp(only, what))
		return;
	playing = regions;
	count = (typeof(count)){ 0 };
	stop = false;
	mark_all();
	madvise(span, GIANT, MADV_COLLAPSE);
	for (uintptr_t i = 0; i < COUNTERS; i++)
		pthread_create(&threads[i], NULL, count_up, (void *)i);
	pthread_create(&threads[COUNTERS], NULL, keep_exchanging, (void *)5);
	while (time(NULL) < begin + seconds || (!count.exchanged && time(NULL) < begin + seconds + 300)) {
		act(&state);
		add(&count.acts);
	}
	stop = true;
	for (size_t i = 0; i <= COUNTERS; i++)
		pthread_join(threads[i], NULL);
	tap_equal(count.wrong, 0, "%s: no page was at a wrong place at any time", what);
	tap_ok(is_permutation(), "%s: every page is at one place", what);
	tap_equal(miscounted(), 0, "%s: no write was lost", what);
	tap_ok(count.exchanged > 0 && count.touches > 0 && count.acts > 0, "%s: everything went on meanwhile", what);
	tap_note("%lu rounds of %u pairs, %lu exchanged, not huge %lu, shared %lu, held %lu, busy %lu, not eligible %lu; %lu touches, %lu acts, %lu promotions",
		 count.rounds, PAIRS, count.exchanged, count.refusals[MEGA_PAIR_NOT_HUGE], count.refusals[MEGA_PAIR_SHARED],
		 count.refusals[MEGA_PAIR_HELD], count.refusals[MEGA_PAIR_BUSY], count.refusals[MEGA_PAIR_NOT_ELIGIBLE],
		 count.touches, count.acts, count.promotions);
}

static void nothing_else(uint64_t *state)
{
	usleep(next(state) % 10000);
}

static void pages_out(uint64_t *state)
{
	madvise(region(next(state) % playing), HUGE, next(state) % 4 ? MADV_PAGEOUT : MADV_COLD);
	usleep(next(state) % 20000);
}

/* The child has the pages as they were at one moment, in between two exchanges. */
static void forks(uint64_t *state)
{
	pid_t child = fork();

	if (child < 0)
		tap_bail("fork");
	if (!child)
		_exit(is_permutation() ? 0 : 1);
	if (!ended_well(child))
		add(&count.wrong);
	usleep(next(state) % 50000);
}

/* What a pipe holds stays what it was when it was read. */
static void splices(uint64_t *state)
{
	static char pages[8 * PAGE];
	static int end[2] = { -1, -1 };
	size_t first = next(state) % playing * REGION_PAGES + 8;
	struct iovec vector = { word_at(first), sizeof(pages) };
	size_t got = 0;

	if (end[0] < 0 && pipe(end))
		tap_bail("pipe");
	if (vmsplice(end[1], &vector, 1, 0) != (ssize_t)sizeof(pages))
		tap_bail("vmsplice");
	usleep(next(state) % 2000);
	while (got < sizeof(pages)) {
		ssize_t more = read(end[0], pages + got, sizeof(pages) - got);

		if (more <= 0)
			tap_bail("read from the pipe");
		got += more;
	}
	for (size_t i = 0; i < 8; i++)
		check(first + i, *(uint64_t *)(pages + i * PAGE));
}

static void reads_and_writes(uint64_t *state)
{
	size_t page = next(state) % (playing * REGION_PAGES);
	uint64_t word, two[2] = { 0 };
	struct iovec own = { &word, sizeof(word) }, its = { word_at(page), sizeof(word) };
	/* Beside the word, where nobody looks. */
	struct iovec from = { two, sizeof(two) }, to = { word_at(page) + 8, sizeof(two) };

	if (process_vm_readv(getpid(), &own, 1, &its, 1, 0) != sizeof(word))
		tap_bail("process_vm_readv");
	check(page, word);
	if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) != sizeof(two))
		tap_bail("process_vm_writev");
}

static void promotes_and_demotes(uint64_t *state)
{
	count.promotions += promote(device, span, next(state) % 4 ? 0 : MEGA_PROMOTE_IN_PLACE).stop == MEGA_PROMOTE_DONE;
	usleep(next(state) % 3000);
	if (next(state) % 2)
		demote(device, span);
}

static void empties(uint64_t *state)
{
	uint64_t frame = frame_of(region(next(state) % playing)) & ~(MEGA_BLOCK_FRAMES - 1ULL);
	struct mega_compact request = compact_request(frame, 9);

	request.flags = MEGA_COMPACT_MOVE_HUGE;
	if (frame)
		ioctl(device, MEGA_IOC_COMPACT, &request);
	usleep(next(state) % 20000);
}

static void looks(uint64_t *state)
{
	switch (next(state) % 4) {
	case 0:
		read_all("/proc/self/smaps");
		break;
	case 1:
		set_file("/proc/self/clear_refs", next(state) % 2 ? "1" : "4");
		break;
	case 2:
		mprotect(region(next(state) % playing), HUGE, PROT_READ | PROT_WRITE | PROT_EXEC);
		mprotect(span, GIANT, PROT_READ | PROT_WRITE);
		break;
	default:
		for (unsigned int i = 0; i < 100; i++)
			frame_of(word_at(next(state) % (playing * REGION_PAGES)));
	}
}

static void searches_for_the_same(uint64_t *state)
{
	usleep(next(state) % 100000);
}

/* To another place and back, behind memory that plays: what lies in between is not the same mapping then. */
static void moves(uint64_t *state)
{
	static char *room;
	char *own = region(SPAN_REGIONS - 8);

	if (!room)
		room = map_aligned(8 * HUGE);
	if (mremap(own, 8 * HUGE, 8 * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, room) != room)
		tap_bail("mremap");
	if (exchange_one(room, room + HUGE) == MEGA_PAIR_EXCHANGED)
		exchange_one(room, room + HUGE);
	usleep(next(state) % 5000);
	if (mremap(room, 8 * HUGE, 8 * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, own) != own)
		tap_bail("mremap");
}

/* ---- Pages that are given back while they change places ---------------- */

static void *exchange_two(void *unused)
{
	while (!stop) {
		struct mega_pair pair = pair_of(region(0), region(1));

		count.exchanged += exchange(&pair, 1);
		count.rounds++;
	}
	return unused;
}

/* A page that is given back reads as zero until it is filled, and is never another's. */
static void giving_back(void)
{
	uint64_t state = 99;
	pthread_t thread;
	time_t begin = time(NULL);

	if (only && strcmp(only, "giving back"))
		return;
	playing = 2;
	count = (typeof(count)){ 0 };
	stop = false;
	mark_all();
	pthread_create(&thread, NULL, exchange_two, NULL);
	while (time(NULL) < begin + seconds || (!count.exchanged && time(NULL) < begin + seconds + 300)) {
		size_t at = next(&state) % 2;
		size_t page = at * REGION_PAGES + next(&state) % REGION_PAGES;

		/* All of a region mostly, or it would not be huge again. */
		if (next(&state) % 16)
			madvise(region(at), HUGE, MADV_DONTNEED);
		else
			madvise(word_at(page), PAGE, MADV_DONTNEED);
		for (size_t i = 0; i < 8; i++) {
			uint64_t word;

			page = next(&state) % (2 * REGION_PAGES);
			word = *word_at(page);
			if (word)
				check(page, word);
			*word_at(page) = (uint64_t)(page + 1) << 32;
		}
		count.acts++;
		if (next(&state) % 4 == 0)
			madvise(span, 2 * HUGE, MADV_COLLAPSE);
	}
	stop = true;
	pthread_join(thread, NULL);
	tap_equal(count.wrong, 0, "giving back: no page was at a wrong place at any time");
	tap_ok(count.exchanged > 0, "giving back: pairs were exchanged meanwhile");
	tap_note("%lu rounds, %lu exchanged, %lu acts", count.rounds, count.exchanged, count.acts);
	fresh();
}

static void races(void)
{
	bool swaps = swap_on(), merges = !access(KSM "run", W_OK);

	against("touching", FEW, nothing_else);
	against("looking", FEW, looks);
	if (swaps)
		against("reclaim", FEW, pages_out);
	else
		tap_skip("reclaim", "there is nothing to swap to");
	against("pages held by a pipe", FEW, splices);
	against("reads and writes by others", FEW, reads_and_writes);
	against("compaction", FEW, empties);
	against("mremap", FEW, moves);
	if (merges) {
		madvise(span, GIANT, MADV_MERGEABLE);
		set_file(KSM "run", "1");
		against("KSM", FEW, searches_for_the_same);
		set_file(KSM "run", "2");
		set_file(KSM "run", "0");
		madvise(span, GIANT, MADV_UNMERGEABLE);
	}
	/* A promotion moves 512 huge pages, and has to find them where it put them. */
	rest = 300000;
	against("promotion and demotion", SPAN_REGIONS, promotes_and_demotes);
	rest = 0;
	/* The last, as it leaves base pages behind. */
	if (madvise(region(FEW), GIANT - FEW * HUGE, MADV_DONTFORK))
		tap_bail("MADV_DONTFORK");
	against("fork", FEW, forks);
	if (swaps)
		swap_off();
	fresh();
	giving_back();
}

int main(int arguments, char **argument)
{
	bool no_race = arguments > 1 && !strcmp(argument[1], "none");

	only = arguments > 1 && !no_race ? argument[1] : NULL;
	seconds = seconds_of("TRIDENT_RACES_SECONDS", 10);
	device = device_open();
	if (!exchange_available(device))
		tap_bail("this kernel has no EXCHANGE");
	self = pidfd_of(getpid());
	fresh();
	if (!only) {
		one_pair();
		a_batch();
		a_giant_page();
		an_address_twice();
		another_process();
		refused_kinds();
		refused_locked();
		refused_registered();
		refused_in_a_pipe();
		refused_pinned();
		refused_shared();
		refused_merged();
	}
	if (!no_race)
		races();
	munmap(span, GIANT);
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
