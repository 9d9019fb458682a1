// SPDX-License-Identifier: GPL-2.0
/* Giant pages at the first write: who gets one, what it costs whom, what it is afterwards, and who may come in between. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "kernel.h"
#include "pool.h"
#include "span.h"
#include "tap.h"

#define KIB ((long)(GIANT / 1024))
#define ENABLED "/sys/kernel/mm/transparent_hugepage/enabled"

static int device;

/* Memory of that length at a multiple of 1 GiB, with no advice. */
static char *plain(size_t length)
{
	char *memory = mmap(room_for(length), length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (memory == MAP_FAILED)
		tap_bail("mmap of %zu bytes", length);
	return memory;
}

static void touch(char *at)
{
	*(volatile char *)at = 1;
}

/* A span mapped by a giant page at its first write, with the words of seed 1. */
static char *faulted(void)
{
	char *span = plain(GIANT);

	pool_fill(1);
	fill_part(span + 100 * HUGE, PAGE, 100 * HUGE, 1);
	if (giant_kib(span, GIANT) != KIB)
		tap_bail("a write makes no giant page");
	fill(span, GIANT, 1);
	return span;
}

static void as_it_was(const char *span, const char *when)
{
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "%s: no byte changed", when);
}

/* ---- Who gets one ------------------------------------------------------ */

static void off_by_default(void)
{
	char text[128] = "";
	FILE *file = fopen(SIZE_FOLDER "/enabled", "re");

	if (!file || !fgets(text, sizeof(text), file))
		tap_bail("read enabled");
	fclose(file);
	tap_ok(strstr(text, "[never]"), "by default nobody gets giant pages: %.*s", (int)strcspn(text, "\n"), text);
	tap_equal(read_number(SIZE_FOLDER "/pool_target", -1), 0, "nor are there to be chunks for them");
	tap_equal(pool_chunks(), 0, "and there are none");
	tap_equal(meminfo("AnonPudPool"), 0, "the pool has no memory");
}

/* Whether a write to a new span, after such advice, makes a giant page. */
static bool given(int advice)
{
	char *span = plain(GIANT);
	bool is;

	if (advice && madvise(span, GIANT, advice))
		tap_bail("madvise");
	touch(span + 5 * HUGE);
	is = giant_kib(span, GIANT) == KIB;
	munmap(span, GIANT);
	return is;
}

static void to_whom(void)
{
	pool_fill(1);
	tap_ok(!given(0) && !given(MADV_HUGEPAGE), "\"never\": nobody");
	size_enable("madvise");
	tap_ok(!given(0), "\"madvise\": not without asking");
	tap_ok(given(MADV_HUGEPAGE), "but who asks");
	pool_fill(1);
	size_enable("always");
	tap_ok(!given(MADV_NOHUGEPAGE), "\"always\": not who does not want it");
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	tap_ok(!given(0), "nor a process that has none of them");
	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	tap_ok(given(0), "but everybody else");

	pool_fill(1);
	size_enable("inherit");
	set_file(ENABLED, "never");
	tap_ok(!given(MADV_HUGEPAGE), "\"inherit\" of \"never\": nobody");
	set_file(ENABLED, "madvise");
	tap_ok(!given(0), "of \"madvise\": not without asking");
	tap_ok(given(MADV_HUGEPAGE), "but who asks");
	pool_fill(1);
	set_file(ENABLED, "always");
	tap_ok(given(0), "of \"always\": everybody");
	set_file(ENABLED, "madvise");
	size_enable("always");
}

/* What it is, when it is there. */
static void what_it_is(void)
{
	long alloc = size_stat("anon_fault_alloc"), events = vmstat("anon_pud_fault_alloc"), mapped, faults;
	long fallback = size_stat("anon_fault_fallback");
	char *span = plain(GIANT);
	struct rusage usage;
	uint64_t frame;

	pool_fill(1);
	mapped = smaps(span, GIANT, "Rss");
	getrusage(RUSAGE_SELF, &usage);
	faults = usage.ru_minflt;
	fill_part(span + 100 * HUGE, PAGE, 100 * HUGE, 1);
	tap_equal(nonzero_pages(span, GIANT), 1, "all is zero but what was written");
	tap_equal(wrong_pages(span + 100 * HUGE, PAGE, 100 * HUGE, 1), 0, "which is there");
	fill(span, GIANT, 1);
	getrusage(RUSAGE_SELF, &usage);
	tap_ok(usage.ru_minflt - faults < 64, "it took one fault and a few of the program's own: %ld",
	       usage.ru_minflt - faults);
	as_it_was(span, "written");
	tap_equal(giant_kib(span, GIANT), KIB, "smaps says that it is giant");
	tap_equal(smaps(span, GIANT, "AnonHugePages"), KIB, "in huge pages");
	tap_equal(smaps(span, GIANT, "Rss") - mapped, KIB, "of that size");
	tap_equal(meminfo("AnonPudMapped"), KIB, "and meminfo");
	tap_equal(size_stat("anon_fault_alloc") - alloc, 1, "the size's statistics count one");
	tap_equal(vmstat("anon_pud_fault_alloc") - events, 1, "and vmstat does");
	tap_equal(size_stat("anon_fault_fallback") - fallback, 0, "nothing was tried in vain");
	frame = frame_of(span);
	tap_ok(frame && !(frame % SPAN_PAGES), "its first frame is a chunk's");
	tap_equal(frame_of(span + GIANT - PAGE), frame + SPAN_PAGES - 1, "and its last one the chunk's last");

	tap_equal(demote(device, span), MEGA_PROMOTE_DONE, "it can be demoted");
	tap_equal(regions_of(device, span, GIANT, 21), SPAN_REGIONS, "to 2 MiB pages");
	tap_equal(promote(device, span, MEGA_PROMOTE_IN_PLACE).stop, MEGA_PROMOTE_DONE, "and promoted in place");
	as_it_was(span, "demoted and promoted");
	munmap(span, GIANT);
	tap_equal(meminfo("AnonPudMapped"), 0, "unmapped it is gone");
}

static void where_it_fits(void)
{
	long fallback = size_stat("anon_fault_fallback");
	char *memory, *lies[2];
	int aligned = 0;

	pool_fill(1);
	memory = plain(GIANT - HUGE);
	touch(memory);
	tap_equal(giant_kib(memory, GIANT - HUGE), 0, "less than 1 GiB is not mapped so");
	munmap(memory, GIANT - HUGE);
	memory = plain(3 * GIANT);
	munmap(memory, HUGE);
	munmap(memory + 3 * GIANT - HUGE, HUGE);
	touch(memory + GIANT - PAGE);
	touch(memory + 2 * GIANT);
	tap_equal(giant_kib(memory + HUGE, 3 * GIANT - 2 * HUGE), 0, "nor spans of which a part is missing");
	tap_equal(size_stat("anon_fault_fallback") - fallback, 0, "which counts as no failure");
	touch(memory + GIANT + 7 * HUGE);
	tap_equal(giant_kib(memory + HUGE, 3 * GIANT - 2 * HUGE), KIB, "but the one between them");
	munmap(memory, 3 * GIANT);

	pool_fill(1);
	memory = mmap(NULL, GIANT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	tap_equal((uintptr_t)memory % GIANT, 0, "1 GiB from mmap() is a span");
	touch(memory);
	tap_equal(giant_kib(memory, GIANT), KIB, "and mapped so");
	munmap(memory, GIANT);
	size_enable("never");
	memory = mmap(NULL, 2 * GIANT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	tap_ok(memory != MAP_FAILED && !((uintptr_t)memory % HUGE), "without the size it is aligned as before");
	munmap(memory, 2 * GIANT);
	/* One below the other, so that not all can be at multiples of 1 GiB by chance. */
	size_enable("madvise");
	for (int i = 0; i < 2; i++) {
		memory = mmap(NULL, GIANT + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		aligned += !((uintptr_t)memory % GIANT);
		lies[i] = memory;
	}
	tap_ok(aligned < 2, "nor is it aligned to 1 GiB where only who asks gets it");
	munmap(lies[0], GIANT + HUGE);
	munmap(lies[1], GIANT + HUGE);
	size_enable("always");
}

/* Reading, populating, and what has been there before. */
static void by_what(void)
{
	char *span = plain(GIANT);

	pool_fill(1);
	tap_equal(nonzero_pages(span, HUGE), 0, "what is read first is zero");
	tap_equal(giant_kib(span, GIANT), 0, "and not giant");
	touch(span);
	touch(span + 9 * HUGE);
	tap_equal(giant_kib(span, GIANT), 0, "nor does a write make it so then");
	munmap(span, GIANT);
	tap_equal(pool_chunks(), nodes_with_memory(), "which took no chunk");

	span = plain(GIANT);
	tap_equal(madvise(span + 3 * HUGE, PAGE, MADV_POPULATE_WRITE), 0, "MADV_POPULATE_WRITE of a page");
	tap_equal(giant_kib(span, GIANT), KIB, "makes a giant page");
	munmap(span, GIANT);
	pool_fill(1);
	span = plain(GIANT);
	tap_equal(mlock(span, GIANT), 0, "mlock");
	tap_equal(giant_kib(span, GIANT), KIB, "makes one");
	tap_equal(smaps(span, GIANT, "Locked"), KIB, "that is locked");
	fill(span, GIANT, 1);
	as_it_was(span, "locked");
	munlock(span, GIANT);
	munmap(span, GIANT);
	tap_equal(meminfo("Mlocked"), 0, "unmapped, nothing is locked");
}

static void watched(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register watch = { .mode = UFFDIO_REGISTER_MODE_WP };
	struct uffdio_range range;
	char *span = plain(GIANT);
	int file = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (file < 0 || ioctl(file, UFFDIO_API, &api)) {
		tap_skip("memory that userfaultfd watches", "this kernel has none");
		return;
	}
	pool_fill(1);
	range = (struct uffdio_range){ (uintptr_t)span, GIANT };
	watch.range = range;
	if (ioctl(file, UFFDIO_REGISTER, &watch))
		tap_bail("UFFDIO_REGISTER");
	touch(span);
	tap_equal(giant_kib(span, GIANT), 0, "memory that userfaultfd watches is not giant");
	close(file);
	munmap(span, GIANT);
}

/* ---- When there is none ------------------------------------------------ */

static void exhausted(void)
{
	long fallback = size_stat("anon_fault_fallback"), events = vmstat("anon_pud_fault_fallback");
	char *span = plain(GIANT);

	pool_empty();
	madvise(span, GIANT, MADV_HUGEPAGE);
	fill_part(span, HUGE, 0, 1);
	tap_equal(giant_kib(span, GIANT), 0, "with an empty pool it is not giant");
	tap_equal(smaps(span, GIANT, "AnonHugePages"), HUGE / 1024, "but 2 MiB");
	tap_equal(size_stat("anon_fault_fallback") - fallback, 1, "the size's statistics count that");
	tap_equal(vmstat("anon_pud_fault_fallback") - events, 1, "and vmstat does");
	fill_part(span + HUGE, HUGE, HUGE, 1);
	tap_equal(size_stat("anon_fault_fallback") - fallback, 1, "a span is tried once");
	tap_equal(wrong_pages(span, 2 * HUGE, 0, 1), 0, "and has what was written");
	munmap(span, GIANT);
}

#define GROUP "/sys/fs/cgroup/giant"

/* Above its limit a group gets smaller pages: nothing is reclaimed, nobody killed, and the charge is right after it. */
static void charged(void)
{
	long slack = 8L << 20, fallback, charge, before, with;
	char *span;

	if (!cgroup_enter()) {
		tap_skip("a cgroup at its limit", "there is no memory cgroup");
		return;
	}
	pool_fill(1);
	before = read_number(GROUP "/memory.current", -1);
	if (!cgroup_write("memory.max", "1000M"))
		tap_bail("set memory.max");
	fallback = size_stat("anon_fault_fallback");
	charge = size_stat("anon_fault_fallback_charge");
	span = plain(GIANT);
	madvise(span, GIANT, MADV_HUGEPAGE);
	fill_part(span, 4 * HUGE, 0, 1);
	tap_equal(giant_kib(span, GIANT), 0, "a group without room for it gets none");
	tap_equal(size_stat("anon_fault_fallback") - fallback, 1, "which is counted");
	tap_equal(size_stat("anon_fault_fallback_charge") - charge, 1, "as being for the charge");
	tap_equal(pool_chunks(), nodes_with_memory(), "the chunk is in the pool again");
	tap_equal(wrong_pages(span, 4 * HUGE, 0, 1), 0, "the smaller pages have what was written");
	with = read_number(GROUP "/memory.current", -1);
	tap_ok(with - before < (long)(4 * HUGE) + slack, "the group is charged for these only: %ld", with - before);
	munmap(span, GIANT);

	if (!cgroup_write("memory.max", "1100M"))
		tap_bail("set memory.max");
	before = read_number(GROUP "/memory.current", -1);
	span = plain(GIANT);
	touch(span);
	tap_equal(giant_kib(span, GIANT), KIB, "with room it gets it");
	with = read_number(GROUP "/memory.current", -1);
	tap_ok(with - before >= (long)GIANT && with - before < (long)GIANT + slack, "and is charged for all of it: %ld",
	       with - before);
	munmap(span, GIANT);
	with = read_number(GROUP "/memory.current", -1);
	tap_ok(with - before < slack, "and uncharged: %ld", with - before);
	cgroup_write("memory.max", "max");
	cgroup_leave();
}

/* At its limit a group is asked for what the giant page takes as a whole first, and not for its tables: those would kill. */
static void at_its_limit(void)
{
	long room = 1L << 20, current;
	char limit[32], byte = 0;
	pid_t child;
	int go[2];

	if (!cgroup_enter()) {
		tap_skip("a cgroup without room for tables", "there is no memory cgroup");
		return;
	}
	pool_fill(1);
	if (pipe(go))
		tap_bail("pipe");
	child = fork();
	if (child < 0)
		tap_bail("fork");
	if (!child) {
		char *span = plain(GIANT);

		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		touch(span);
		_exit(0);
	}
	current = read_number(GROUP "/memory.current", -1);
	snprintf(limit, sizeof(limit), "%ld", current + room);
	if (!cgroup_write("memory.max", limit))
		tap_bail("set memory.max");
	if (write(go[1], &byte, 1) != 1)
		tap_bail("write");
	tap_ok(ended_well(child), "in a group with room for a page, but not for a giant page's tables, a write gets the page");
	tap_equal(pool_chunks(), nodes_with_memory(), "and the chunk is in the pool");
	cgroup_write("memory.max", "max");
	cgroup_leave();
	close(go[0]);
	close(go[1]);
}

/* ---- What may be done with it ------------------------------------------ */

static void forked(void)
{
	char *span = faulted();
	pid_t child = fork();

	if (!child) {
		size_t wrong = wrong_pages(span, GIANT, 0, 1);

		for (size_t at = 0; at < GIANT; at += 64 * HUGE)
			span[at] = 1;
		_exit(wrong != 0);
	}
	span[3 * HUGE + 8] = 5;
	tap_ok(ended_well(child), "a child finds what its parent wrote");
	as_it_was(span, "forked");
	munmap(span, GIANT);
}

static void cut(void)
{
	char *span = faulted();

	if (mprotect(span + 7 * HUGE, HUGE, PROT_READ))
		tap_bail("mprotect");
	as_it_was(span, "mprotect of a region");
	tap_ok(regions_of(device, span, GIANT, 21) == SPAN_REGIONS, "all of it is 2 MiB pages");
	munmap(span + 9 * HUGE + PAGE, PAGE);
	tap_equal(wrong_pages(span, 9 * HUGE + PAGE, 0, 1), 0, "munmap of a page: nothing before it changed");
	tap_equal(wrong_pages(span + 9 * HUGE + 2 * PAGE, GIANT - 9 * HUGE - 2 * PAGE, 9 * HUGE + 2 * PAGE, 1), 0,
		  "nor behind it");
	munmap(span, GIANT);
}

static void moved(void)
{
	char *span = faulted();
	char *there = mremap(span, GIANT, GIANT, MREMAP_MAYMOVE | MREMAP_FIXED, room_for(GIANT));

	if (there == MAP_FAILED)
		tap_bail("mremap");
	tap_equal(giant_kib(there, GIANT), KIB, "moved by mremap it is giant");
	as_it_was(there, "moved");
	munmap(there, GIANT);
}

/* Given back as a whole, it is zero again. */
static void given_up(void)
{
	char *span = faulted();

	if (madvise(span, GIANT, MADV_DONTNEED))
		tap_bail("MADV_DONTNEED");
	tap_equal(smaps(span, GIANT, "Rss"), 0, "MADV_DONTNEED gives it back");
	tap_equal(nonzero_pages(span, GIANT), 0, "and it is zero");
	munmap(span, GIANT);
}

static void by_policy(void)
{
	for (int node = 0; node < 2; node++) {
		unsigned long nodes = 1UL << node;
		char *span = plain(GIANT);

		pool_fill(1);
		if (syscall(SYS_mbind, span, GIANT, MPOL_BIND, &nodes, 3, 0))
			tap_bail("mbind");
		touch(span);
		tap_equal(giant_kib(span, GIANT), KIB, "bound to node %d it is giant", node);
		tap_equal(node_of(span), node, "and there");
		munmap(span, GIANT);
		/* That node's chunk is being zeroed anew; one that is taken from there twice shows what happens without. */
		pool_empty();
	}
}

/* A node that has none does not get one from where the policy does not allow. */
static void not_from_elsewhere(void)
{
	unsigned long nodes = 2;
	char *first = plain(GIANT), *second = plain(GIANT);

	pool_fill(1);
	set_file(SIZE_FOLDER "/pool_rate", "1");
	if (syscall(SYS_mbind, first, GIANT, MPOL_BIND, &nodes, 3, 0) ||
	    syscall(SYS_mbind, second, GIANT, MPOL_BIND, &nodes, 3, 0))
		tap_bail("mbind");
	touch(first);
	touch(second);
	tap_equal(giant_kib(first, GIANT), KIB, "the node's chunk is taken");
	tap_equal(giant_kib(second, GIANT), 0, "no other node's is");
	tap_equal(node_of(second), 1, "it is smaller pages of that node");
	munmap(first, GIANT);
	munmap(second, GIANT);
}

/* Nor does it without a policy: smaller pages of the node are nearer. */
static void not_from_far_away(void)
{
	char *first = plain(GIANT), *second = plain(GIANT);
	cpu_set_t all, here;

	pool_fill(1);
	set_file(SIZE_FOLDER "/pool_rate", "1");
	if (sched_getaffinity(0, sizeof(all), &all))
		tap_bail("sched_getaffinity");
	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	if (sched_setaffinity(0, sizeof(here), &here))
		tap_bail("sched_setaffinity");
	touch(first);
	touch(second);
	tap_equal(giant_kib(first, GIANT), KIB, "without a policy the nearest node's chunk is taken");
	tap_equal(giant_kib(second, GIANT), 0, "and no other's");
	tap_equal(node_of(second), node_of(first), "it is smaller pages of the nearest node");
	sched_setaffinity(0, sizeof(all), &all);
	munmap(first, GIANT);
	munmap(second, GIANT);
}

/* ---- Several at once --------------------------------------------------- */

#define THREADS 8

static char *shared;
static pthread_barrier_t together;

static void *write_share(void *number)
{
	size_t n = (size_t)number;

	pthread_barrier_wait(&together);
	/* Each its own regions, all in the same span. */
	for (size_t i = n; i < SPAN_REGIONS; i += THREADS)
		fill_part(shared + i * HUGE, HUGE, i * HUGE, 1);
	return NULL;
}

/* One of them maps the span, and the others find that: the pool need not have more than that one chunk. */
static void by_many(void)
{
	long alloc = size_stat("anon_fault_alloc");
	pthread_t threads[THREADS];

	for (unsigned int round = 0; round < 4; round++) {
		pool_fill(1);
		shared = plain(GIANT);
		pthread_barrier_init(&together, NULL, THREADS);
		for (size_t n = 0; n < THREADS; n++)
			pthread_create(&threads[n], NULL, write_share, (void *)n);
		for (size_t n = 0; n < THREADS; n++)
			pthread_join(threads[n], NULL);
		tap_equal(giant_kib(shared, GIANT), KIB, "threads that write to a span at once get one giant page");
		as_it_was(shared, "written by threads");
		munmap(shared, GIANT);
	}
	tap_equal(size_stat("anon_fault_alloc") - alloc, 4, "each span is counted once");
}

static volatile bool stop;
static unsigned long lost;

/* Writes words to the span all the time, and looks whether they are there, or zero if somebody gave the memory back. */
static void *keep_writing(void *number)
{
	size_t n = (size_t)number;

	for (uint64_t i = 1; !stop; i++) {
		for (size_t at = n * PAGE; at < GIANT; at += 61 * HUGE) {
			volatile uint64_t *word = (uint64_t *)(shared + at);
			uint64_t seen;

			*word = i;
			seen = *word;
			if (seen != i && seen != 0)
				__atomic_add_fetch(&lost, 1, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

/* Has threads write to the shared span for some seconds, while `disturb` is called again and again. */
static void against(void (*disturb)(void), const char *what)
{
	long seconds = seconds_of("TRIDENT_RACES_SECONDS", 5), before = vmstat("anon_pud_fault_alloc");
	time_t end = time(NULL) + seconds;
	pthread_t threads[4];
	unsigned long rounds = 0;

	pool_fill(1);
	shared = plain(GIANT);
	stop = false;
	lost = 0;
	for (size_t n = 0; n < 4; n++)
		pthread_create(&threads[n], NULL, keep_writing, (void *)n);
	for (; time(NULL) < end; rounds++)
		disturb();
	stop = true;
	for (size_t n = 0; n < 4; n++)
		pthread_join(threads[n], NULL);
	munmap(shared, GIANT);
	tap_equal(lost, 0, "faults against %s: no write is lost", what);
	tap_note("%lu rounds, %ld giant pages", rounds, vmstat("anon_pud_fault_alloc") - before);
}

/* Mapped anew, so that there is nothing, not even a table; and the chunk that it had, if any, may come back. */
static void map_anew(void)
{
	if (mmap(shared, GIANT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
		 0) != shared)
		tap_bail("mmap");
	pool_want(1);
}

static void fork_and_map_anew(void)
{
	pid_t child = fork();

	if (!child)
		_exit(0);
	map_anew();
	if (!ended_well(child))
		tap_bail("the child");
}

static void give_back_and_map_anew(void)
{
	map_anew();
	for (int i = 0; i < 50; i++)
		madvise(shared, GIANT, MADV_DONTNEED);
}

static void look_and_map_anew(void)
{
	read_all("/proc/self/smaps");
	read_all("/proc/self/numa_maps");
	map_anew();
}

static void page_out_and_map_anew(void)
{
	madvise(shared + 61 * HUGE, HUGE, MADV_PAGEOUT);
	map_anew();
}

static void *give_back_pages(void *nothing)
{
	(void)nothing;
	for (size_t i = 0; !stop; i++)
		madvise(shared + GIANT - HUGE + i % (HUGE / PAGE) * PAGE, PAGE, MADV_DONTNEED);
	return NULL;
}

/* Pages of the last huge page are given back at the moment of the fault: it is not whole any more before the fault is over. */
static void partly_given_back(void)
{
	long before = vmstat("anon_pud_fault_alloc");
	size_t wrong = 0;
	pthread_t other;

	for (unsigned int i = 0; i < 6; i++) {
		pool_fill(1);
		shared = plain(GIANT);
		stop = false;
		pthread_create(&other, NULL, give_back_pages, NULL);
		usleep(i * 1000);
		fill_part(shared, HUGE, 0, 1);
		stop = true;
		pthread_join(other, NULL);
		wrong += wrong_pages(shared, HUGE, 0, 1) + nonzero_pages(shared + HUGE, GIANT - HUGE);
		munmap(shared, GIANT);
	}
	tap_equal(vmstat("anon_pud_fault_alloc") - before, 6, "spans are mapped while pages of them are given back");
	tap_equal(wrong, 0, "and hold what was written, and zeroes");
}

/* A process that is killed at some moment of its faults. */
static void killed(void)
{
	for (unsigned int i = 0; i < 10; i++) {
		pid_t child;

		pool_fill(1);
		shared = plain(GIANT);
		child = fork();
		if (!child) {
			pthread_t threads[4];

			stop = false;
			for (size_t n = 0; n < 4; n++)
				pthread_create(&threads[n], NULL, keep_writing, (void *)n);
			for (;;)
				pause();
		}
		usleep(i * 700);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		munmap(shared, GIANT);
	}
	tap_equal(meminfo("AnonPudMapped"), 0, "who is killed at a fault leaves nothing behind");
}

int main(void)
{
	device = device_open();
	off_by_default();
	to_whom();
	what_it_is();
	where_it_fits();
	by_what();
	watched();
	exhausted();
	charged();
	at_its_limit();
	forked();
	cut();
	moved();
	given_up();
	if (nodes_with_memory() > 1) {
		by_policy();
		not_from_elsewhere();
		not_from_far_away();
	} else {
		/* Not a skip: on one node there is nothing to choose. */
		tap_note("there is one node");
	}
	by_many();
	against(map_anew, "mapping anew");
	against(fork_and_map_anew, "fork");
	against(give_back_and_map_anew, "MADV_DONTNEED");
	against(look_and_map_anew, "smaps");
	against(page_out_and_map_anew, "MADV_PAGEOUT");
	partly_given_back();
	killed();
	size_enable("never");
	pool_empty();
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	tap_equal(meminfo("AnonPudPool"), 0, "and the pool has no memory");
	return tap_end();
}
