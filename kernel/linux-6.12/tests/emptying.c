// SPDX-License-Identifier: GPL-2.0
/*
 * Which chunk is emptied for a giant page, and where what was in it goes. Memory is filled with base pages, and of each
 * chunk a part is kept that is its own, so that some are fuller than others.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "counts.h"
#include "kernel.h"
#include "random.h"
#include "span.h"
#include "tap.h"

#define SEQUENTIAL "/sys/kernel/debug/anon_pud/sequential"
#define HUGE_POOL "/proc/sys/vm/nr_hugepages"
#define PROACTIVE "/proc/sys/vm/compaction_proactiveness"

/* Pages that are given back, or kept, together: 32 such runs in 2 MiB. */
#define RUN 16
#define RUNS (HUGE / PAGE / RUN)

static int device;

/* ---- Memory that is in pieces ------------------------------------------ */

/* A lot of base pages, and the frame of each that is kept, or 0. */
static struct {
	char *memory;
	size_t pages;
	uint64_t *frame;
} litter;

/* Frames of the program, one for each of its pages. */
static void read_frames(void)
{
	int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	size_t bytes = litter.pages * sizeof(*litter.frame);

	for (size_t done = 0; done < bytes;) {
		ssize_t got = pread(file, (char *)litter.frame + done, bytes - done,
				    (uintptr_t)litter.memory / PAGE * sizeof(*litter.frame) + done);

		if (got <= 0)
			tap_bail("read /proc/self/pagemap");
		done += got;
	}
	close(file);
	for (size_t page = 0; page < litter.pages; page++)
		litter.frame[page] = litter.frame[page] >> 63 ? litter.frame[page] & ((1ULL << 55) - 1) : 0;
}

/* How many of 32 runs a chunk keeps: neither the emptiest nor the fullest is the first. */
#define MOST_KEPT 28
static unsigned int kept_runs(uint64_t frame)
{
	static const unsigned int kept[] = { 20, 14, MOST_KEPT, 8, 24, 4, 12, 26, 10, 22, 16, 6 };

	return kept[frame / CHUNK_FRAMES % (sizeof(kept) / sizeof(*kept))];
}

/* Spread over the block. */
static bool is_kept(uint64_t frame)
{
	return frame / RUN % RUNS * 13 % RUNS < kept_runs(frame);
}

/*
 * Maps as much as can ever be filled, with its page tables, while the kernel has memory to keep its own together. Later
 * they would go into the chunks, one here and one there, and none could be emptied.
 */
static void litter_map(void)
{
	size_t length = meminfo("MemAvailable") * 1024 & ~(HUGE - 1);

	litter.memory = map_aligned(length);
	for (size_t at = 0; at < length; at += HUGE)
		litter.memory[at] = 1;
	if (madvise(litter.memory, length, MADV_DONTNEED))
		tap_bail("MADV_DONTNEED");
}

/* How many pages Linux's own compaction has looked at. It counts them when it ends. */
static long compaction_scanned(void)
{
	return vmstat("compact_migrate_scanned") + vmstat("compact_free_scanned");
}

/* How far it has got: the pages that it takes, to move them or others to them, it counts as it goes. */
static long compaction_progress(void)
{
	return compaction_scanned() + vmstat("compact_isolated");
}

/*
 * Until Linux's own compaction rests, which goes on for a while after memory was short. A page that it is just moving cannot
 * be told from one that cannot be moved: the chunk that it lies in is refused.
 */
static void await_compaction(void)
{
	long progress, before = -1;
	unsigned int waited = 0;

	while ((progress = compaction_progress()) != before) {
		if (waited == 600)
			tap_bail("Linux's own compaction has not come to rest for %u s", waited);
		before = progress;
		sleep(2);
		waited += 2;
	}
	if (waited > 2)
		tap_note("Linux's own compaction came to rest after %u s", waited);
}

/* Fills memory but for what it takes to go on, and gives most of it back. */
static void litter_make(void)
{
	size_t kept = 0;

	litter.pages = (meminfo("MemAvailable") - 400 * 1024) / 4 & ~(HUGE / PAGE - 1);
	litter.frame = malloc(litter.pages * sizeof(*litter.frame));
	if (!litter.frame)
		tap_bail("malloc");
	fill_part(litter.memory, litter.pages * PAGE, 0, 7);
	read_frames();
	for (size_t page = 0; page < litter.pages; page++) {
		size_t first = page;

		if (is_kept(litter.frame[page])) {
			kept++;
			continue;
		}
		while (page + 1 < litter.pages && !is_kept(litter.frame[page + 1]))
			page++;
		if (madvise(litter.memory + first * PAGE, (page + 1 - first) * PAGE, MADV_DONTNEED))
			tap_bail("MADV_DONTNEED");
	}
	await_compaction();
	read_frames();
	tap_note("%zu pages, of which %zu are kept", litter.pages, kept);
}

static size_t litter_wrong(void)
{
	size_t wrong = 0;

	for (size_t page = 0; page < litter.pages; page++)
		if (litter.frame[page])
			wrong += wrong_pages(litter.memory + page * PAGE, PAGE, page * PAGE, 7);
	return wrong;
}

/* The page tables stay. */
static void litter_free(void)
{
	if (madvise(litter.memory, litter.pages * PAGE, MADV_DONTNEED))
		tap_bail("MADV_DONTNEED");
	free(litter.frame);
}

/* ---- Where it goes ----------------------------------------------------- */

/* Whether a chunk may be emptied, by its counts. */
static bool is_candidate(const struct chunk *chunk, int node)
{
	return chunk->node == node && !chunk->unmovable && !chunk->mapped;
}

/* The chunk of the node that is emptied with the least effort. Bails out where that is not one that the litter is in. */
static const struct chunk *emptiest(const struct chunks *chunks, int node)
{
	const struct chunk *best = NULL;

	for (size_t i = 0; i < chunks->count; i++) {
		const struct chunk *chunk = chunks->chunk + i;

		if (is_candidate(chunk, node) && (!best || chunk->free > best->free))
			best = chunk;
	}
	if (!best || best->free < CHUNK_FRAMES / 32 * (32 - MOST_KEPT)) {
		chunks_note(chunks);
		tap_bail("no chunk of node %d with a part of the litter is without unmovable frames", node);
	}
	return best;
}

/* How many chunks of the node can be emptied. */
static unsigned int nr_candidates(const struct chunks *chunks, int node)
{
	unsigned int nr = 0;

	for (size_t i = 0; i < chunks->count; i++)
		nr += is_candidate(chunks->chunk + i, node);
	return nr;
}

/* How many pages of the litter went from one chunk to which other. */
struct moves {
	unsigned long all;
	unsigned long to[MAX_CHUNKS];
};

static struct moves moves_from(const struct chunks *chunks, uint64_t chunk)
{
	uint64_t *before = litter.frame;
	struct moves moves = { 0 };

	litter.frame = malloc(litter.pages * sizeof(*litter.frame));
	if (!litter.frame)
		tap_bail("malloc");
	read_frames();
	for (size_t page = 0; page < litter.pages; page++) {
		if (before[page] / CHUNK_FRAMES != chunk / CHUNK_FRAMES || before[page] == litter.frame[page])
			continue;
		moves.all++;
		moves.to[chunk_of(chunks, litter.frame[page]) - chunks->chunk]++;
	}
	free(before);
	for (size_t i = 0; i < chunks->count; i++)
		if (moves.to[i])
			tap_note("%lu pages of %lu went to chunk 0x%lx, which had %u free", moves.to[i],
				 moves.all, chunks->chunk[i].frame, chunks->chunk[i].free);
	return moves;
}

/* Whether what is in a chunk may go to another: not to a lower zone. */
static bool may_take(const struct chunk *to, const struct chunk *from)
{
	const uint64_t end_of_dma32 = (4ULL << 30) / PAGE;

	return to != from && is_candidate(to, from->node) && (to->frame >= end_of_dma32 || from->frame < end_of_dma32);
}

/*
 * How many chunks still had room when pages went to an emptier one. `others` were moved as well, and are not known to be
 * anywhere. Only chunks without unmovable frames: of the rest not all that is free is to be had.
 */
static unsigned int passed_over(const struct chunks *chunks, const struct moves *moves, const struct chunk *from,
				unsigned long others)
{
	unsigned int emptiest_used = 0, passed = 0;

	for (size_t i = 0; i < chunks->count; i++)
		if (moves->to[i] && chunks->chunk[i].free > emptiest_used)
			emptiest_used = chunks->chunk[i].free;
	for (size_t i = 0; i < chunks->count; i++) {
		const struct chunk *chunk = chunks->chunk + i;

		if (may_take(chunk, from) && chunk->free < emptiest_used)
			passed += (moves->to[i] + others) * 10 < chunk->free * 9UL;
	}
	return passed;
}

/* ---- What is tested ---------------------------------------------------- */

/* A span of huge pages, before memory is filled: so that there is no need to have some for it. */
static char *span_new(uint64_t seed)
{
	char *span = map_spans(1);

	fill(span, GIANT, seed);
	if (regions_of(device, span, GIANT, 21) != SPAN_REGIONS)
		tap_bail("no huge pages for a span");
	return span;
}

/* Returns how many pages were moved to empty chunks, and in *choice how many chunks there were to choose from. */
static long smart(char *span, unsigned int *choice)
{
	long moved = vmstat("anon_pud_compact_moved"), failed = vmstat("anon_pud_compact_fail");
	struct chunks before = chunks_now();
	int node = chunk_of(&before, frame_of(span))->node;
	const struct chunk *best = emptiest(&before, node);
	struct mega_promote request;
	struct moves moves;

	chunks_note(&before);
	*choice = nr_candidates(&before, node);
	request = promote(device, span, 0);
	promote_note(&request);
	moved = vmstat("anon_pud_compact_moved") - moved;

	tap_equal(request.stop, MEGA_PROMOTE_DONE, "a span is promoted where every chunk has to be emptied");
	tap_equal(request.frame, best->frame, "into the chunk with the most free frames and no unmovable one");
	tap_equal(vmstat("anon_pud_compact_fail"), failed, "at the first try");
	tap_ok(vmstat("anon_pud_compact_success") > 0, "which is counted");
	moves = moves_from(&before, best->frame);
	tap_ok(moves.all > 0, "what was in it was moved (%lu pages, and %ld in all)", moves.all, moved);
	tap_ok(moved >= (long)moves.all, "which is counted, too");
	tap_ok(moved <= (long)(CHUNK_FRAMES - best->free) * 11 / 10 + 1024, "and no more than was in it");
	tap_equal(passed_over(&before, &moves, best, moved - moves.all), 0,
		  "the fullest chunks were filled first: how many were passed over");
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "no byte of the span changed");
	tap_equal(litter_wrong(), 0, "nor of what was moved away");
	tap_ok(counts_agree(), "the counts are what is seen");
	return moved;
}

/* The chunk of a giant page is not taken for another, also where that is asked for. */
static void mapped(char *giant, char *other)
{
	uint64_t frame = frame_of(giant);
	int self = pidfd_of(getpid());
	struct mega_promote request = promote_request(self, other);

	request.frame = frame;
	if (ioctl(device, MEGA_IOC_PROMOTE, &request))
		tap_bail("PROMOTE");
	tap_equal(request.stop, MEGA_PROMOTE_NO_CHUNK, "a chunk that a giant page lies in cannot be had");
	tap_equal(giant_kib(giant, GIANT), GIANT / 1024, "and is giant still");
	request = promote(device, other, 0);
	promote_note(&request);
	tap_ok(request.frame != frame, "and is not chosen for another");
	tap_equal(giant_kib(giant, GIANT), GIANT / 1024, "also then it is giant still");
	tap_equal(wrong_pages(giant, GIANT, 0, 1), 0, "no byte of it changed");
	tap_equal(wrong_pages(other, GIANT, 0, 2), 0, "nor of the other");
	close(self);
}

/* Gives back all of the litter in one block of a chunk, so that somebody can have it. */
static void free_block(uint64_t frame)
{
	for (size_t page = 0; page < litter.pages; page++)
		if (litter.frame[page] / MEGA_BLOCK_FRAMES == frame / MEGA_BLOCK_FRAMES) {
			madvise(litter.memory + page * PAGE, PAGE, MADV_DONTNEED);
			litter.frame[page] = 0;
		}
}

/* The best chunk gets a page that must not be moved: it is not even tried. */
static void unmovable(char *span)
{
	long failed, scanned, pool = 0;
	struct chunks chunks = chunks_now();
	int node = chunk_of(&chunks, frame_of(span))->node;
	const struct chunk *best = emptiest(&chunks, node);
	struct mega_promote request;
	struct moves moves;
	uint64_t frame;
	char value[16];

	frame = best->frame;
	/* It takes what is free elsewhere first. */
	while (pool < 400 && !chunk_of(&chunks, frame)->unmovable) {
		free_block(frame + pool * MEGA_BLOCK_FRAMES);
		snprintf(value, sizeof(value), "%ld", ++pool);
		set_file(HUGE_POOL, value);
		chunks = chunks_now();
	}
	tap_ok(chunk_of(&chunks, frame)->unmovable, "the emptiest chunk gets a page of hugetlb's pool");
	/* The pool has asked for what was not there at once. */
	await_compaction();
	read_frames();
	chunks = chunks_now();
	failed = vmstat("anon_pud_compact_fail");
	scanned = compaction_scanned();
	request = promote(device, span, 0);
	promote_note(&request);
	tap_note("Linux's own compaction looked at %ld pages meanwhile", compaction_scanned() - scanned);
	tap_ok(request.frame / CHUNK_FRAMES != frame / CHUNK_FRAMES, "it is not chosen then");
	moves = moves_from(&chunks, frame);
	tap_equal(moves.all, 0, "and nothing is moved out of it");
	if (request.stop == MEGA_PROMOTE_DONE &&
	    !tap_equal(vmstat("anon_pud_compact_fail"), failed, "and no failure is counted")) {
		/* Which chunk it was, and whether it got a page of the kernel's after it had been chosen. */
		chunks_note(&chunks);
		chunks = chunks_now();
		chunks_note(&chunks);
	}
	tap_equal(read_number(HUGE_POOL, 0), pool, "the pool has kept its pages");
	set_file(HUGE_POOL, "0");
}

/* A page that is held for a moment is not known of: its chunk is tried, and another is used. */
static void held(char *span)
{
	struct chunks chunks = chunks_now();
	int node = chunk_of(&chunks, frame_of(span))->node, ends[2];
	const struct chunk *best = emptiest(&chunks, node);
	long failed = vmstat("anon_pud_compact_fail"), after;
	struct mega_promote request;
	size_t page = 0;

	while (page < litter.pages && litter.frame[page] / CHUNK_FRAMES != best->frame / CHUNK_FRAMES)
		page++;
	if (page == litter.pages || pipe(ends))
		tap_bail("no page in the emptiest chunk");
	if (vmsplice(ends[1], &(struct iovec){ litter.memory + page * PAGE, PAGE }, 1, 0) != PAGE)
		tap_bail("vmsplice");
	request = promote(device, span, 0);
	promote_note(&request);
	after = vmstat("anon_pud_compact_fail");
	tap_ok(after > failed, "a chunk with a page that is held is not emptied, which is counted");
	tap_ok(request.frame != best->frame, "nor used");
	tap_equal(litter_wrong(), 0, "no byte changed");
	close(ends[0]);
	close(ends[1]);
}

/* As compaction goes by itself: for comparison. Returns how many pages were moved. */
static long sequential(char *span)
{
	long moved = vmstat("anon_pud_compact_moved");
	struct mega_promote request;

	set_file(SEQUENTIAL, "1");
	for (unsigned int i = 0; i < 10; i++) {
		request = promote(device, span, 0);
		if (request.stop == MEGA_PROMOTE_DONE)
			break;
	}
	set_file(SEQUENTIAL, "0");
	promote_note(&request);
	moved = vmstat("anon_pud_compact_moved") - moved;
	tap_equal(request.stop, MEGA_PROMOTE_DONE, "one chunk after the other, it succeeds as well in the end");
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "no byte of the span changed");
	tap_equal(litter_wrong(), 0, "nor of what was moved away");
	tap_ok(counts_agree(), "the counts are what is seen");
	return moved;
}

/* ---- Under load -------------------------------------------------------- */

/* How much longer it may take until there is a promotion: one that empties a whole chunk takes a third of it here. */
#define GRACE_SECONDS 60

static volatile bool stop;

/* Takes what is free, for a moment, and gives it back. */
static void *allocate(void *seed)
{
	uint64_t state = (uintptr_t)seed;

	while (!stop) {
		size_t length = (1 + next(&state) % 16) * HUGE;
		char *memory = map_aligned(length);

		if (state >> 60 & 1)
			madvise(memory, length, MADV_HUGEPAGE);
		for (size_t at = 0; at < length; at += PAGE)
			memory[at] = 1;
		munmap(memory, length);
	}
	return NULL;
}

/* Children that copy some of the litter, which is shared for as long as they live. */
static void *copy(void *seed)
{
	uint64_t state = (uintptr_t)seed;

	while (!stop) {
		pid_t child = fork();

		if (!child) {
			for (unsigned int i = 0; i < 1000; i++)
				litter.memory[next(&state) % litter.pages * PAGE + 100] = 1;
			_exit(0);
		}
		if (child > 0)
			waitpid(child, NULL, 0);
	}
	return NULL;
}

/* Gives a region back and has it again, somewhere. */
static void renew(char *span, unsigned int region)
{
	char *start = span + region * HUGE;

	if (madvise(start, HUGE, MADV_DONTNEED))
		tap_bail("MADV_DONTNEED");
	fill_part(start, HUGE, region * HUGE, 1);
	madvise(start, HUGE, MADV_COLLAPSE);
}

static void under_load(char *span)
{
	static void *(*const work[])(void *) = { allocate, allocate, copy };
	unsigned int promotions = 0, rounds = 0, no_chunk = 0;
	long failed = vmstat("anon_pud_compact_fail");
	time_t end = time(NULL) + seconds_of("TRIDENT_RACES_SECONDS", 10);
	pthread_t thread[3];

	run_anywhere();
	/* What children share cannot be promoted. */
	if (madvise(span, GIANT, MADV_DONTFORK))
		tap_bail("MADV_DONTFORK");
	for (size_t i = 0; i < 3; i++)
		if (pthread_create(&thread[i], NULL, work[i], (void *)(i + 1)))
			tap_bail("pthread_create");
	do {
		struct mega_promote request = promote(device, span, 0);

		promotions += request.stop == MEGA_PROMOTE_DONE;
		no_chunk += request.stop == MEGA_PROMOTE_NO_CHUNK;
		rounds++;
		/* One region out of its place, so that who takes that meanwhile has to go. */
		demote(device, span);
		renew(span, rounds % SPAN_REGIONS);
		/* A chunk that could not be emptied is left alone for a while. */
		if (request.stop == MEGA_PROMOTE_NO_CHUNK)
			usleep(100000);
	} while (time(NULL) < end || (!promotions && time(NULL) < end + GRACE_SECONDS));
	stop = true;
	for (size_t i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	tap_note("%u rounds, %u promotions, %u times no chunk, %ld chunks not emptied", rounds, promotions, no_chunk,
		 vmstat("anon_pud_compact_fail") - failed);
	tap_ok(promotions > 0, "chunks are emptied while others allocate, free and copy");
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "no byte of the span changed");
	tap_equal(litter_wrong(), 0, "nor of what was in the way");
	tap_ok(counts_agree(), "the counts are what is seen");
}

int main(void)
{
	long by_smart, by_sequential;
	char *first, *second, proactive[16];
	unsigned int choice;
	cpu_set_t last;

	/* Where memory is not shared with the kernel's image. */
	CPU_ZERO(&last);
	CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &last);
	sched_setaffinity(0, sizeof(last), &last);
	device = device_open();
	/* Memory in pieces is what Linux's own compaction works on by itself, at any moment, and it hides pages by moving them. */
	snprintf(proactive, sizeof(proactive), "%ld", read_number(PROACTIVE, 20));
	set_file(PROACTIVE, "0");

	litter_map();
	first = span_new(1);
	second = span_new(2);
	litter_make();
	by_smart = smart(first, &choice);
	mapped(first, second);
	munmap(first, GIANT);
	munmap(second, GIANT);
	litter_free();

	first = span_new(1);
	litter_make();
	by_sequential = sequential(first);
	tap_note("%u chunks to choose from; %ld pages moved, %ld one after the other", choice, by_smart, by_sequential);
	/* Not a skip: of two, the span lies in one, and there is nothing to choose. */
	if (choice > 2)
		tap_ok(by_smart < by_sequential, "the emptiest into the fullest moves less than one after the other");
	munmap(first, GIANT);
	litter_free();

	first = span_new(1);
	litter_make();
	held(first);
	munmap(first, GIANT);
	litter_free();

	first = span_new(1);
	litter_make();
	unmovable(first);
	/* From here on a chunk may be refused. */
	set_file(PROACTIVE, proactive);
	under_load(first);
	close(device);
	return tap_end();
}
