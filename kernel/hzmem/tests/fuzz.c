// SPDX-License-Identifier: GPL-2.0
/*
 * Random operations of several processes on shared files and private mappings, for HZMEM_FUZZ_SECONDS (default 20); the
 * truth about every page is kept beside it. fuzz [hzmem|hugetlbfs [SEED]]
 *
 *   sharers    write, check, punch, read(), map and unmap pages of the same files; a page's lock is held meanwhile
 *   loners     have private mappings: write, check, fork, move, protect, unmap parts, and are killed at times
 *   cutters    truncate a file of their own under their own mappings
 *   an adjuster changes the mount's settings
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "hz.h"
#include "random.h"

#define FILES 2
#define FILE_PAGES 10
#define LONER_PAGES 6
#define SHARERS 3
#define LONERS 3
#define CUTTERS 1

/* What a page of a file holds: 0 is nothing but zeros. */
struct slot {
	pthread_mutex_t lock;
	uint64_t seed;
};

struct board {
	volatile bool stop;
	struct slot slots[FILES][FILE_PAGES];
	unsigned long wrong, strange, acts, forks, lives;
};

static struct board *board;
static struct mount mount_;
static const char *type;
static int files[FILES];

static void count(unsigned long *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- Text from a seed, which says of what kind ---------------------- */

/* A seed says of what kind its text is; 0 is zeros. */
static enum text kind_of(uint64_t seed)
{
	return !seed || seed % 8 == 0 ? TEXT_ZEROS : seed % 8 == 1 ? TEXT_RANDOM : TEXT_LINES;
}

static void fill(char *page, uint64_t seed)
{
	text_fill(page, kind_of(seed), seed);
	count(&board->acts);
}

static void check(const char *page, uint64_t seed)
{
	if (!text_right(page, kind_of(seed), seed))
		count(&board->wrong);
	count(&board->acts);
}

/* Mistakes of the kernel's are counted, and the process goes on. */
static void expect(bool done, const char *what)
{
	if (done)
		return;
	tap_note("%s: %s", what, strerror(errno));
	count(&board->strange);
}

/* ---- Sharers ----------------------------------------------------------- */

static void share_files(void)
{
	char *memory[FILES], *buffer = map_aligned(HUGE);

	for (int i = 0; i < FILES; i++)
		memory[i] = map_shared(files[i], FILE_PAGES);
	while (!board->stop) {
		unsigned int which = below(FILES), page = below(FILE_PAGES);
		struct slot *slot = &board->slots[which][page];
		char *at = memory[which] + page * HUGE;

		/* Its holder may have been killed by a fault, which is found in the end; nobody is to wait for ever. */
		if (pthread_mutex_trylock(&slot->lock)) {
			usleep(100);
			continue;
		}
		switch (below(9)) {
		case 0:
		case 1:
			slot->seed = any();
			fill(at, slot->seed);
			break;
		case 2:
			expect(!fallocate(files[which], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page * HUGE, HUGE), "punch");
			slot->seed = 0;
			break;
		case 3:
			expect(pread(files[which], buffer, HUGE, page * HUGE) == (ssize_t)HUGE, "read");
			check(buffer, slot->seed);
			break;
		case 4:
			expect(!munmap(at, HUGE), "munmap");
			expect(mmap(at, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, files[which], page * HUGE) == at,
			       "mmap");
			break;
		case 5: {
			char *private = map_pages(files[which], 1, PROT_READ | PROT_WRITE, MAP_PRIVATE, page * HUGE);

			check(private, slot->seed);
			fill(private, slot->seed + 1);
			check(private, slot->seed + 1);
			unmap_pages(private, 1);
			check(at, slot->seed);
			break;
		}
		case 6:
			expect(!mprotect(at, HUGE, PROT_READ), "mprotect");
			check(at, slot->seed);
			expect(!mprotect(at, HUGE, PROT_READ | PROT_WRITE), "mprotect");
			break;
		default:
			check(at, slot->seed);
		}
		pthread_mutex_unlock(&slot->lock);
	}
}

/* ---- Loners ------------------------------------------------------------ */

/* A private mapping, whose pages may be in several places. */
struct own {
	char *at[LONER_PAGES];		/* or NULL: unmapped */
	uint64_t seeds[LONER_PAGES];
};

static void check_own(struct own *own)
{
	for (unsigned int i = 0; i < LONER_PAGES; i++)
		if (own->at[i])
			check(own->at[i], own->seeds[i]);
}

static void live(struct own *own, unsigned int depth);

/* A child that lives on with what its parent had, or is killed. One at a time, or there were no end of them. */
static void have_child(struct own *own, unsigned int depth)
{
	pid_t child;

	while (waitpid(-1, NULL, 0) > 0)
		;
	child = fork();
	if (child < 0)
		return;
	count(&board->forks);
	if (!child) {
		any();
		random_state ^= getpid();
		check_own(own);
		if (depth < 3)
			live(own, depth + 1);
		_exit(0);
	}
	if (below(3) == 0) {
		usleep(below(20000));
		kill(child, SIGKILL);
	}
}

static void move_own(struct own *own, unsigned int page)
{
	char *room = map_aligned(HUGE);

	expect(mremap(own->at[page], HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, room) == room, "mremap");
	own->at[page] = room;
}

static void live(struct own *own, unsigned int depth)
{
	for (unsigned int acts = 5 + below(25); acts && !board->stop; acts--) {
		unsigned int page = below(LONER_PAGES);

		if (!own->at[page])
			continue;
		switch (below(10)) {
		case 0:
		case 1:
			own->seeds[page] = any();
			fill(own->at[page], own->seeds[page]);
			break;
		case 2:
			have_child(own, depth);
			break;
		case 3:
			move_own(own, page);
			break;
		case 4:
			unmap_pages(own->at[page], 1);
			own->at[page] = NULL;
			break;
		case 5:
			expect(!mprotect(own->at[page], HUGE, below(2) ? PROT_READ : PROT_NONE), "mprotect");
			expect(!mprotect(own->at[page], HUGE, PROT_READ | PROT_WRITE), "mprotect");
			break;
		default:
			check(own->at[page], own->seeds[page]);
		}
	}
	check_own(own);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static void live_alone(void)
{
	int file = file_new(&mount_);
	char *memory = map_private(file, LONER_PAGES);
	struct own own;

	close(file);
	for (unsigned int i = 0; i < LONER_PAGES; i++) {
		own.at[i] = memory + i * HUGE;
		own.seeds[i] = any();
		fill(own.at[i], own.seeds[i]);
	}
	live(&own, 0);
}

static void keep_loners(void)
{
	/*
	 * The children of one that is killed live on. They come to this process, which waits for them: there are no more
	 * of them at a time than there are pages for, and none when the filesystem is unmounted.
	 */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		tap_bail("prctl");
	while (!board->stop) {
		pid_t child = fork();

		if (child < 0)
			continue;
		if (!child) {
			random_state ^= getpid();
			live_alone();
			_exit(0);
		}
		any();
		if (below(4) == 0) {
			usleep(below(100000));
			kill(child, SIGKILL);
		}
		while (waitpid(-1, NULL, 0) > 0)
			;
		count(&board->lives);
	}
}

/* ---- Cutters ----------------------------------------------------------- */

static void cut(void)
{
	uint64_t seeds[LONER_PAGES] = { 0 };
	int file = file_new(&mount_);
	char *memory;

	ftruncate(file, LONER_PAGES * HUGE);
	memory = map_shared(file, LONER_PAGES);
	while (!board->stop) {
		unsigned int page = below(LONER_PAGES), length;

		switch (below(4)) {
		case 0:
			length = below(LONER_PAGES);
			expect(!ftruncate(file, length * HUGE) && !ftruncate(file, LONER_PAGES * HUGE), "ftruncate");
			for (unsigned int i = length; i < LONER_PAGES; i++)
				seeds[i] = 0;
			break;
		case 1:
			seeds[page] = any();
			fill(memory + page * HUGE, seeds[page]);
			break;
		default:
			check(memory + page * HUGE, seeds[page]);
		}
	}
}

/* ---- The mount's settings ---------------------------------------------- */

static void adjust(void)
{
	static const char *const options[] = {
		"watermark=0", "watermark=50", "watermark=0,period=5ms", "period=50ms", "compress=lzo", "compress=lz4",
		"readahead=2", "readahead=0", "compressed=64M", "compressed=1g", "watermark=100", "watermark=0",
	};

	while (!board->stop && fs_is_hzmem(type)) {
		expect(!mount("none", mount_.path, "hzmem", MS_REMOUNT, options[below(sizeof(options) / sizeof(*options))]),
		       "remount");
		usleep(below(300000));
	}
}

/* ---- All of it --------------------------------------------------------- */

static pid_t begin(void (*role)(void))
{
	pid_t child = fork();

	if (child < 0)
		tap_bail("fork");
	any();
	if (!child) {
		random_state ^= (uint64_t)getpid() << 32;
		role();
		_exit(0);
	}
	return child;
}

static void make_locks(void)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	for (int i = 0; i < FILES; i++)
		for (int page = 0; page < FILE_PAGES; page++)
			pthread_mutex_init(&board->slots[i][page].lock, &attributes);
}

/* How many seconds more it goes on where a slow machine compressed nothing yet. */
#define PATIENCE 300

static bool nothing_compressed(void)
{
	return fs_is_hzmem(type) && !count_of(&mount_, "compressions");
}

int main(int argc, char **argv)
{
	long seconds = seconds_of("HZMEM_FUZZ_SECONDS", 20), before;
	pid_t children[SHARERS + LONERS + CUTTERS + 1];
	unsigned int started = 0, failed = 0, wrong = 0;
	time_t end;

	/* As much as all of them may have at once, where nothing is compressed. */
	type = fs_type(argc, argv, 128);
	before = pool_free(type);
	mount_ = mount_new(type, fs_is_hzmem(type) ? "watermark=50,period=20ms" : NULL);
	board = share(sizeof(*board));
	make_locks();
	random_state = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL) * 2654435761u + 1;
	tap_note("seed 0x%lx, %ld seconds", random_state, seconds);
	for (int i = 0; i < FILES; i++) {
		files[i] = file_new(&mount_);
		ftruncate(files[i], FILE_PAGES * HUGE);
	}
	for (int i = 0; i < SHARERS; i++)
		children[started++] = begin(share_files);
	for (int i = 0; i < LONERS; i++)
		children[started++] = begin(keep_loners);
	for (int i = 0; i < CUTTERS; i++)
		children[started++] = begin(cut);
	children[started++] = begin(adjust);
	end = time(NULL) + seconds;
	while (time(NULL) < end || (time(NULL) < end + PATIENCE && nothing_compressed()))
		sleep(1);
	board->stop = true;
	for (unsigned int i = 0; i < started; i++)
		failed += ended(children[i]) != 0;
	tap_equal(failed, 0, "every process of the fuzzer ends by itself");
	tap_equal(board->wrong, 0, "no byte of any page was another");
	tap_equal(board->strange, 0, "no call failed that should not have");
	for (int i = 0; i < FILES; i++) {
		char *memory = map_shared(files[i], FILE_PAGES);

		for (int page = 0; page < FILE_PAGES; page++) {
			uint64_t seed = board->slots[i][page].seed;

			wrong += !text_right(memory + page * HUGE, kind_of(seed), seed);
		}
		unmap_pages(memory, FILE_PAGES);
		close(files[i]);
	}
	tap_equal(wrong, 0, "the files hold what was last written");
	tap_note("%lu acts, %lu forks, %lu lives of loners", board->acts, board->forks, board->lives);
	if (fs_is_hzmem(type)) {
		tap_note("%ld compressions, %ld of zeros, %ld decompressions, %ld direct, %ld refused",
			 count_of(&mount_, "compressions"), count_of(&mount_, "compressions_zero"),
			 count_of(&mount_, "faults_decompress"), count_of(&mount_, "direct_reclaims"), count_of(&mount_, "sigbus"));
		tap_ok(count_of(&mount_, "compressions") > 0, "pages were compressed meanwhile");
		tap_equal(count_of(&mount_, "corrupt"), 0, "none was corrupt");
	}
	mount_end(&mount_);
	tap_ok(wait_until(pool_free(type) == before), "every page is given back");
	fs_end(type);
	return tap_end();
}
