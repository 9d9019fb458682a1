// SPDX-License-Identifier: GPL-2.0
/* PROMOTE and DEMOTE themselves: what is eligible, by migration and in place, and that looking does not split. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/kernel-page-flags.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kernel.h"
#include "span.h"
#include "tap.h"

static int device;

/* ---- What is refused --------------------------------------------------- */

static void refused(const char *what, const char *span, uint32_t stop)
{
	struct mega_promote request = promote(device, span, 0);

	if (!tap_equal(request.stop, stop, "%s is refused", what))
		promote_note(&request);
}

static void not_eligible(void)
{
	char *room = room_for(2 * GIANT);
	char *memory;

	refused("nothing mapped", room, MEGA_PROMOTE_NOT_ELIGIBLE);

	memory = mmap(room, GIANT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	madvise(memory, GIANT, MADV_HUGEPAGE);
	refused("shared memory", memory, MEGA_PROMOTE_NOT_ELIGIBLE);
	munmap(memory, GIANT);

	memory = map_spans(1);
	munmap(memory + GIANT - HUGE, HUGE);
	refused("a span that its VMA ends in", memory, MEGA_PROMOTE_NOT_ELIGIBLE);
	munmap(memory, GIANT);

	memory = map_spans(1);
	mprotect(memory + GIANT / 2, GIANT / 2, PROT_READ);
	refused("a span in two VMAs", memory, MEGA_PROMOTE_NOT_ELIGIBLE);
	munmap(memory, GIANT);

	memory = map_spans(1);
	madvise(memory, GIANT, MADV_NOHUGEPAGE);
	refused("a span that wants no huge pages", memory, MEGA_PROMOTE_NOT_ELIGIBLE);
	munmap(memory, GIANT);

	memory = map_spans(1);
	memory[0] = 1;
	refused("a span with one region mapped", memory, MEGA_PROMOTE_NOT_HUGE);
	munmap(memory, GIANT);
}

/* A base page in the middle of huge ones; the memory is as it was. */
static void not_huge(char *memory)
{
	char *page = memory + 100 * HUGE + 7 * PAGE;

	if (madvise(page, PAGE, MADV_DONTNEED))
		tap_bail("MADV_DONTNEED");
	fill_part(page, PAGE, page - memory, 1);
	refused("a span with base pages in a region", memory, MEGA_PROMOTE_NOT_HUGE);
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "and the data is as it was");
	if (madvise(memory + 100 * HUGE, HUGE, MADV_COLLAPSE))
		tap_bail("MADV_COLLAPSE of a region");
}

static void would_move(char *memory)
{
	uint64_t first = frame_of(memory), last = frame_of(memory + GIANT - HUGE);
	struct mega_promote request = promote(device, memory, MEGA_PROMOTE_IN_PLACE);

	tap_equal(request.stop, MEGA_PROMOTE_WOULD_MOVE, "in place alone: something would have to move");
	tap_equal(request.moved, 0, "and nothing was");
	tap_ok(frame_of(memory) == first && frame_of(memory + GIANT - HUGE) == last,
	       "and the pages are where they were");
}

/* ---- What is promised -------------------------------------------------- */

/* Base pages whose frame is not the one that a leaf from `frame` on gives them. */
static size_t misplaced(const char *memory, uint64_t frame)
{
	static uint64_t entries[SPAN_PAGES];
	int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	size_t wrong = 0;

	for (size_t done = 0; done < sizeof(entries);) {
		ssize_t got = pread(file, (char *)entries + done, sizeof(entries) - done,
				    (uintptr_t)memory / PAGE * sizeof(*entries) + done);

		if (got <= 0)
			tap_bail("read /proc/self/pagemap");
		done += got;
	}
	close(file);
	for (size_t page = 0; page < SPAN_PAGES; page++)
		wrong += (entries[page] & ((1ULL << 55) - 1)) != frame + page || !(entries[page] >> 63);
	return wrong;
}

static void by_migration(char *memory)
{
	long promotions = vmstat("anon_pud_promote"), before = meminfo("AnonPudMapped");
	struct mega_promote request = promote_surely(device, memory);

	promote_note(&request);
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "scattered huge pages are promoted");
	tap_ok(request.moved > 0, "pages were moved for it");
	tap_equal(request.in_place + request.moved, SPAN_REGIONS, "every region is accounted for");
	tap_equal(request.error, 0, "without an error");
	tap_equal(request.frame % MEGA_CHUNK_FRAMES, 0, "the frame is a chunk's");
	tap_equal(misplaced(memory, request.frame), 0, "pagemap shows every page in its place");
	tap_equal(giant_kib(memory, GIANT), GIANT / 1024, "smaps shows the giant page");
	tap_equal(meminfo("AnonPudMapped") - before, GIANT / 1024, "meminfo too");
	tap_equal(vmstat("anon_pud_promote") - promotions, 1, "vmstat counts the promotion");
	tap_equal(regions_of(device, memory, GIANT, 30), SPAN_REGIONS, "SCAN_TASK finds pages of 1 GiB");
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "no byte changed");

	request = promote(device, memory, 0);
	tap_equal(request.stop, MEGA_PROMOTE_ALREADY, "again: it is one already");
	tap_equal(request.attempts, 0, "and nothing was tried");
	tap_equal(frame_of(memory), request.frame, "and the frame is the same");
	request = promote(device, memory, MEGA_PROMOTE_IN_PLACE);
	tap_equal(request.stop, MEGA_PROMOTE_ALREADY, "also in place alone");

	fill(memory, GIANT, 2);
	tap_equal(wrong_pages(memory, GIANT, 0, 2), 0, "it can be written");
	fill(memory, GIANT, 1);
	tap_equal(giant_kib(memory, GIANT), GIANT / 1024, "and is giant still");
}

static void in_place(char *memory)
{
	long promotions = vmstat("anon_pud_promote_in_place"), demotions = vmstat("anon_pud_demote");
	uint64_t frame = frame_of(memory);
	struct mega_promote request;

	tap_equal(demote(device, memory), MEGA_DEMOTE_DONE, "it is demoted");
	tap_equal(vmstat("anon_pud_demote") - demotions, 1, "vmstat counts the demotion");
	tap_equal(giant_kib(memory, GIANT), 0, "smaps shows no giant page");
	tap_equal(regions_of(device, memory, GIANT, 21), SPAN_REGIONS, "but huge ones");
	tap_equal(demote(device, memory), MEGA_DEMOTE_NOT_GIANT, "again: there is none");
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "no byte changed");

	request = promote(device, memory, MEGA_PROMOTE_IN_PLACE);
	promote_note(&request);
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "contiguous huge pages are promoted in place");
	tap_equal(request.in_place, SPAN_REGIONS, "all were in their places");
	tap_equal(request.moved, 0, "none was moved");
	tap_equal(request.frame, frame, "it is the same chunk");
	tap_equal(vmstat("anon_pud_promote_in_place") - promotions, 1, "vmstat counts it as in place");
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "no byte changed");
}

/* One huge page out of its place, which something else may have taken meanwhile. */
static void repaired(char *memory)
{
	uint64_t frame = frame_of(memory);
	char *region = memory + 200 * HUGE, *other = map_aligned(16 * HUGE);
	struct mega_promote request;

	demote(device, memory);
	if (madvise(region, HUGE, MADV_DONTNEED) || madvise(other, 16 * HUGE, MADV_HUGEPAGE))
		tap_bail("madvise");
	for (size_t at = 0; at < 16 * HUGE; at += PAGE)
		other[at] = 1;
	fill_part(region, HUGE, region - memory, 1);
	tap_note("the region is at frame 0x%lx of a chunk from 0x%lx", frame_of(region), frame);
	request = promote(device, memory, 0);
	promote_note(&request);
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "a span with one region out of place is promoted");
	tap_ok(request.moved <= 1, "by moving that one alone");
	tap_equal(request.frame, frame, "into the chunk where the others are");
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "no byte changed");
	for (size_t at = 0; at < 16 * HUGE; at += PAGE)
		if (other[at] != 1)
			tap_bail("another's byte changed");
	munmap(other, 16 * HUGE);
}

/* ---- Looking ----------------------------------------------------------- */

static void still_giant(const char *memory, const char *what)
{
	tap_equal(giant_kib(memory, GIANT), GIANT / 1024, "%s leaves it giant", what);
}

static size_t resident_pages(char *memory)
{
	unsigned char *vector = malloc(SPAN_PAGES);
	size_t resident = 0;

	if (!vector || mincore(memory, GIANT, vector))
		tap_bail("mincore");
	for (size_t i = 0; i < SPAN_PAGES; i++)
		resident += vector[i] & 1;
	free(vector);
	return resident;
}

/* /proc/self/numa_maps counts base pages of anonymous memory by VMA. */
static long numa_maps_anon(const char *memory)
{
	FILE *file = fopen("/proc/self/numa_maps", "re");
	char line[512], *anon;
	unsigned long begin;
	long pages = -1;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%lx", &begin) == 1 && begin == (uintptr_t)memory) {
			anon = strstr(line, " anon=");
			pages = anon ? atol(anon + 6) : 0;
		}
	if (file)
		fclose(file);
	return pages;
}

static size_t frames_without(uint64_t frame, uint64_t flags)
{
	size_t without = 0;

	for (uint64_t i = 0; i < SPAN_PAGES; i += 64)
		without += (flags_of(frame + i) & flags) != flags;
	return without;
}

static void observers(char *memory)
{
	uint64_t frame = frame_of(memory);
	long splits = vmstat("anon_pud_split");
	struct mega_region regions[4];
	int self = pidfd_of(getpid());
	struct mega_scan_task scan = scan_task_request(self, memory, 4 * HUGE, regions, 4);

	tap_equal(smaps(memory, GIANT, "Rss"), GIANT / 1024, "smaps: all of it is resident");
	tap_equal(smaps(memory, GIANT, "Anonymous"), GIANT / 1024, "and anonymous");
	tap_equal(smaps(memory, GIANT, "Private_Dirty"), GIANT / 1024, "and private and dirty");
	tap_equal(smaps(memory, GIANT, "Pss"), GIANT / 1024, "and its own");
	read_all("/proc/self/smaps_rollup");
	still_giant(memory, "smaps");
	tap_equal(resident_pages(memory), SPAN_PAGES, "mincore: every page is resident");
	still_giant(memory, "mincore");
	tap_equal(misplaced(memory, frame), 0, "pagemap: every page's frame");
	still_giant(memory, "pagemap");
	if (access("/proc/self/numa_maps", F_OK))
		tap_skip("numa_maps", "this kernel has none");
	else
		tap_equal(numa_maps_anon(memory), SPAN_PAGES, "numa_maps: every page");
	still_giant(memory, "numa_maps");
	tap_equal(frames_without(frame, 1ULL << KPF_THP | 1ULL << KPF_ANON | 1ULL << KPF_MMAP), 0,
		  "kpageflags: huge anonymous pages that are mapped");
	scan.flags = MEGA_TASK_CLEAR;
	if (ioctl(device, MEGA_IOC_SCAN_TASK, &scan))
		tap_bail("SCAN_TASK");
	still_giant(memory, "SCAN_TASK with CLEAR");
	set_file("/proc/self/clear_refs", "1");
	still_giant(memory, "clear_refs");
	if (mark_idle(frame, SPAN_PAGES)) {
		*(volatile char *)memory;
		/* Unless the TLB had it: then nobody is told of the access. */
		tap_note("page_idle: %zu are idle after a touch", idle_pages(frame, SPAN_PAGES));
	} else {
		tap_skip("page_idle", "this kernel has none");
	}
	still_giant(memory, "page_idle");
	tap_equal(vmstat("anon_pud_split") - splits, 0, "vmstat counts no split");
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "no byte changed");
	close(self);
}

/* ---- What may be reclaimed without being written ----------------------- */

/* Such pages are counted with those of files while they are isolated. */
static void freed_lazily(void)
{
	long isolated = vmstat("nr_isolated_anon");
	char *memory = map_spans(1);
	struct mega_promote request;

	fill(memory, GIANT, 1);
	if (madvise(memory, GIANT, MADV_FREE))
		tap_bail("MADV_FREE");
	request = promote_surely(device, memory);
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "what MADV_FREE left is promoted");
	tap_ok(request.moved > 0, "pages were moved for it");
	tap_equal(vmstat("nr_isolated_anon") - isolated, 0, "and none counts as isolated any more");
	munmap(memory, GIANT);
}

/* ---- A chunk that the caller names ------------------------------------- */

static void named_chunk(char *giant)
{
	uint64_t taken = frame_of(giant), freed;
	char *memory = giant_new(device), *other;
	struct mega_promote request;

	freed = frame_of(memory);
	munmap(memory, GIANT);
	other = map_spans(1);
	fill(other, GIANT, 5);

	request = promote_into(device, other, (end_frame(device) / MEGA_CHUNK_FRAMES + 1) * MEGA_CHUNK_FRAMES);
	tap_equal(request.stop, MEGA_PROMOTE_NO_CHUNK, "a chunk beyond memory is none");
	request = promote_into(device, other, 1ULL << 40);
	tap_equal(request.stop, MEGA_PROMOTE_NO_CHUNK, "nor one far beyond");
	request = promote_into(device, other, 0);
	tap_equal(request.stop, MEGA_PROMOTE_NO_CHUNK, "nor the one that the kernel lies in");
	request = promote_into(device, other, taken);
	tap_equal(request.stop, MEGA_PROMOTE_NO_CHUNK, "nor one that a giant page maps");
	tap_equal(giant_kib(giant, GIANT), GIANT / 1024, "which is giant still");
	tap_equal(request.frame == MEGA_ANY_FRAME, 1, "and no frame is reported");
	tap_equal(wrong_pages(other, GIANT, 0, 5), 0, "no byte changed");

	request = promote_into(device, other, freed);
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "one that has room is used");
	tap_equal(request.frame, freed, "and no other");
	tap_equal(wrong_pages(other, GIANT, 0, 5), 0, "no byte changed");
	munmap(other, GIANT);
}

/* ---- Base pages -------------------------------------------------------- */

#define KHUGEPAGED_SLEEP "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs"

/* Whether what this process touches from now on is base pages, whatever it asked for. */
static void only_base_pages(bool only)
{
	if (prctl(PR_SET_THP_DISABLE, only, 0, 0, 0))
		tap_bail("PR_SET_THP_DISABLE");
}

/* A span whose every so manyth region is base pages, all of them where that is 1. */
static char *partly_base(size_t every)
{
	char *memory = map_spans(1);

	only_base_pages(true);
	for (size_t region = 0; region < SPAN_REGIONS; region += every)
		fill_part(memory + region * HUGE, HUGE, region * HUGE, 1);
	only_base_pages(false);
	for (size_t region = 0; region < SPAN_REGIONS; region++)
		if (region % every)
			fill_part(memory + region * HUGE, HUGE, region * HUGE, 1);
	return memory;
}

static struct mega_promote collapse_into(const char *memory, uint64_t chunk)
{
	struct mega_promote request = promote_request(pidfd_of(getpid()), memory);

	request.flags = MEGA_PROMOTE_COLLAPSE;
	request.frame = chunk;
	if (ioctl(device, MEGA_IOC_PROMOTE, &request))
		tap_bail("PROMOTE with COLLAPSE");
	close(request.pidfd);
	promote_note(&request);
	return request;
}

/* Collapsed where it has to be: none of those huge pages is made anywhere else and moved. */
static void copied_once(size_t every)
{
	size_t base = SPAN_REGIONS / every;
	uint64_t chunk = free_chunk(device);
	char *memory = partly_base(every);
	long migrated = vmstat("thp_migration_success"), collapsed = vmstat("thp_collapse_alloc");
	struct mega_promote request;

	tap_equal(regions_of(device, memory, GIANT, 12), base, "%zu regions are base pages", base);
	refused("a span with base pages", memory, MEGA_PROMOTE_NOT_HUGE);
	request = promote(device, memory, MEGA_PROMOTE_COLLAPSE | MEGA_PROMOTE_IN_PLACE);
	tap_equal(request.stop, MEGA_PROMOTE_WOULD_MOVE, "in place alone: something would have to be copied");
	for (int i = 0; i < 5; i++) {
		request = collapse_into(memory, chunk);
		if (request.stop != MEGA_PROMOTE_BUSY)
			break;
	}
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "with COLLAPSE it is promoted");
	tap_equal(request.frame, chunk, "into the chunk that was named");
	tap_equal(vmstat("thp_collapse_alloc") - collapsed, base, "each region was collapsed once");
	/* The others may have been in the way in the chunk, before they were moved to their places. */
	migrated = vmstat("thp_migration_success") - migrated;
	tap_ok(migrated <= 2 * (long)(SPAN_REGIONS - base), "and none of them moved: %ld huge pages were", migrated);
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "no byte changed");
	munmap(memory, GIANT);
}

static void hardly_there(void)
{
	char *memory = map_spans(1), *region = memory + 300 * HUGE;
	struct mega_promote request;

	fill(memory, GIANT, 1);
	if (madvise(region, HUGE, MADV_DONTNEED))
		tap_bail("MADV_DONTNEED");
	request = collapse_into(memory, MEGA_ANY_FRAME);
	tap_equal(request.stop, MEGA_PROMOTE_NOT_HUGE, "COLLAPSE makes nothing of a region with no page");
	only_base_pages(true);
	fill_part(region + 7 * PAGE, PAGE, 300 * HUGE + 7 * PAGE, 1);
	only_base_pages(false);
	for (int i = 0; i < 5; i++) {
		request = collapse_into(memory, MEGA_ANY_FRAME);
		if (request.stop != MEGA_PROMOTE_BUSY)
			break;
	}
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "but of one with a page");
	tap_equal(nonzero_pages(region, HUGE), 1, "which is zero but for that");
	tap_equal(wrong_pages(region + 7 * PAGE, PAGE, 300 * HUGE + 7 * PAGE, 1), 0, "and that is as it was");
	tap_equal(wrong_pages(memory, 300 * HUGE, 0, 1), 0, "and the rest is");
	munmap(memory, GIANT);
}

static void held_base_page(void)
{
	char *memory = partly_base(2);
	struct iovec page = { memory + 20 * HUGE + 3 * PAGE, PAGE };
	struct mega_promote request;
	int end[2];

	if (pipe(end) || vmsplice(end[1], &page, 1, 0) != (ssize_t)PAGE)
		tap_bail("vmsplice");
	request = collapse_into(memory, MEGA_ANY_FRAME);
	tap_equal(request.stop, MEGA_PROMOTE_BUSY, "a base page that a pipe holds is not collapsed");
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "and no byte changed");
	close(end[0]);
	close(end[1]);
	for (int i = 0; i < 5 && request.stop == MEGA_PROMOTE_BUSY; i++)
		request = collapse_into(memory, MEGA_ANY_FRAME);
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "but when the pipe is closed");
	tap_equal(wrong_pages(memory, GIANT, 0, 1), 0, "and no byte changed");
	munmap(memory, GIANT);
}

static void base_pages(void)
{
	struct mega_info info = info_request();

	if (ioctl(device, MEGA_IOC_INFO, &info))
		tap_bail("INFO");
	tap_ok(info.features & MEGA_FEATURE_COLLAPSE, "INFO says that base pages can be collapsed");
	/* Nobody else is to collapse some of them. */
	set_file(KHUGEPAGED_SLEEP, "3600000");
	copied_once(1);
	copied_once(2);
	hardly_there();
	held_base_page();
	set_file(KHUGEPAGED_SLEEP, "10000");
}

/* ---- Another process --------------------------------------------------- */

static void another_process(void)
{
	long before = meminfo("AnonPudMapped");
	int ready[2], go[2], pidfd;
	struct mega_promote request;
	char *span = map_spans(1), byte = 0;
	pid_t child;

	if (pipe(ready) || pipe(go))
		tap_bail("pipe");
	child = fork();
	if (child < 0)
		tap_bail("fork");
	if (!child) {
		fill(span, GIANT, 3);
		if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1)
			_exit(2);
		_exit(wrong_pages(span, GIANT, 0, 3) != 0);
	}
	if (read(ready[0], &byte, 1) != 1)
		tap_bail("read");
	pidfd = pidfd_of(child);
	request = promote_request(pidfd, span);
	if (ioctl(device, MEGA_IOC_PROMOTE, &request))
		tap_bail("PROMOTE of a child's span");
	promote_note(&request);
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "another process's span is promoted");
	tap_equal(meminfo("AnonPudMapped") - before, GIANT / 1024, "meminfo counts it");
	if (write(go[1], &byte, 1) != 1)
		tap_bail("write");
	tap_ok(ended_well(child), "it finds its data as it was");
	tap_equal(meminfo("AnonPudMapped") - before, 0, "and its exit is counted");
	tap_fails(ioctl(device, MEGA_IOC_PROMOTE, &request), ESRCH, "a process that has exited has no spans");
	munmap(span, GIANT);
	close(pidfd);
}

int main(void)
{
	char *memory;

	device = device_open();
	not_eligible();
	memory = map_spans(1);
	fill(memory, GIANT, 1);
	tap_equal(regions_of(device, memory, GIANT, 21), SPAN_REGIONS, "a new span is all huge pages");
	not_huge(memory);
	would_move(memory);
	by_migration(memory);
	observers(memory);
	in_place(memory);
	repaired(memory);
	named_chunk(memory);
	munmap(memory, GIANT);
	freed_lazily();
	base_pages();
	another_process();
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
