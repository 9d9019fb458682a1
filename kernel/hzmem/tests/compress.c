// SPDX-License-Identifier: GPL-2.0
/* Cold pages are compressed and come back right; what is hot, held back by a limit or does not compress stays. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include "hz.h"
#include "memory.h"

/* Everything that is cold is compressed, soon. */
#define EAGER "watermark=0,period=50ms"
/* Nothing is, from now on, short of a full pool. */
#define NEVER "watermark=100,period=3600"

static long before;

static void remount(const struct mount *mount_, const char *options)
{
	if (mount("none", mount_->path, "hzmem", MS_REMOUNT, options))
		tap_bail("remount with %s", options);
}

static void done(struct mount *mount, const char *what)
{
	mount_end(mount);
	tap_equal(node_count(-1, "free"), before, "%s: every page is given back", what);
}

/* Lines, zeros and random data with one algorithm: out and back. */
static void with(const char *algorithm)
{
	char options[96];
	struct mount mount;
	char *memory, *lines, *zeros, *random;
	long bytes;
	int file;

	snprintf(options, sizeof(options), EAGER ",compress=%s", algorithm);
	mount = mount_new("hzmem", options);
	file = file_new(&mount);
	memory = lines = map_shared(file, 8);
	zeros = memory + 4 * HUGE;
	random = memory + 6 * HUGE;
	text_fill_all(lines, 4, TEXT_LINES, 1);
	text_fill_all(zeros, 2, TEXT_ZEROS, 0);
	text_fill_all(random, 2, TEXT_RANDOM, 2);
	tap_ok(wait_until(count_of(&mount, "compressed") == 4), "%s: cold text is compressed", algorithm);
	tap_ok(wait_until(count_of(&mount, "zero") == 2), "zeros need nothing at all");
	/* Both of it, and not one of them twice while the other was being filled. */
	tap_ok(wait_until(count_of(&mount, "incompressible") == 2), "random data is tried, and found incompressible");
	tap_ok(wait_until(count_of(&mount, "compressions_refused") >= 2), "which is counted");
	tap_equal(count_of(&mount, "resident"), 2, "and left alone");
	bytes = count_of(&mount, "compressed_bytes");
	tap_ok(bytes > 0 && bytes < 4 * (long)HUGE / 2, "the text takes less than half its size in base memory");
	tap_note("%s: 4 pages of text in %ld bytes", algorithm, bytes);
	/* A page is counted as compressed a moment before it is free. */
	tap_ok(wait_until(node_count(-1, "free") == before - 2), "their pages are free");
	tap_ok(!frame_of(lines) && !frame_of(zeros), "nothing is mapped where they were");

	remount(&mount, NEVER);
	tap_equal(text_wrong(lines, 4, TEXT_LINES, 1), 0, "touched, every byte of the text is back");
	tap_ok(text_right(zeros, TEXT_ZEROS, 0) && text_right(zeros + HUGE, TEXT_ZEROS, 0), "and the zeros");
	tap_equal(text_wrong(random, 2, TEXT_RANDOM, 2), 0, "and the rest was never away");
	tap_equal(count_of(&mount, "compressed"), 0, "nothing is compressed then");
	tap_equal(count_of(&mount, "compressed_bytes"), 0, "and no base memory is used");
	tap_equal(count_of(&mount, "corrupt"), 0, "nothing was corrupt");
	unmap_pages(memory, 8);
	close(file);
	done(&mount, algorithm);
}

static void every_algorithm(void)
{
	char names[128] = "";
	FILE *file = fopen(HZ_SYSFS "compressors", "re");

	if (!file || !fgets(names, sizeof(names), file))
		tap_bail("read " HZ_SYSFS "compressors");
	fclose(file);
	for (char *at, *name = strtok_r(names, " \n", &at); name; name = strtok_r(NULL, " \n", &at))
		with(name);
}

/* What is done to a compressed page by other ways than touching it. */
static void handled(void)
{
	struct mount mount = mount_new("hzmem", EAGER);
	int file = file_new(&mount), punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	char *memory = map_shared(file, 6), *buffer = map_aligned(6 * HUGE);
	long bytes;

	text_fill_all(memory, 6, TEXT_LINES, 20);
	tap_ok(wait_until(count_of(&mount, "compressed") == 6), "six pages are compressed");
	remount(&mount, NEVER);
	tap_ok(pread(file, buffer, 2 * HUGE, 0) == 2 * (ssize_t)HUGE && !text_wrong(buffer, 2, TEXT_LINES, 20),
	       "read() has their bytes");
	tap_equal(fallocate(file, 0, 0, 6 * HUGE), 0, "fallocate");
	tap_ok(text_right(memory + 2 * HUGE, TEXT_LINES, 22), "changes nothing of what is there");
	tap_equal(fallocate(file, punch, 3 * HUGE + PAGE, PAGE), 0, "a hole inside a compressed page");
	memcpy(buffer, memory + 3 * HUGE, HUGE);
	text_fill(buffer + HUGE, TEXT_LINES, 23);
	memset(buffer + HUGE + PAGE, 0, PAGE);
	tap_ok(!memcmp(buffer, buffer + HUGE, HUGE), "is zero, and all else is as it was");
	bytes = count_of(&mount, "compressed_bytes");
	tap_equal(fallocate(file, punch, 4 * HUGE, HUGE), 0, "a hole instead of a compressed page");
	tap_ok(count_of(&mount, "compressed_bytes") < bytes, "gives its base memory back");
	tap_ok(text_right(memory + 4 * HUGE, TEXT_ZEROS, 0), "and is zero");
	tap_equal(ftruncate(file, HUGE), 0, "truncate");
	unmap_pages(memory, 6);
	tap_equal(count_of(&mount, "compressed_bytes"), 0, "the rest too");
	munmap(buffer, 6 * HUGE);
	close(file);

	remount(&mount, EAGER);
	file = file_open(&mount, "unlinked");
	memory = map_shared(file, 2);
	text_fill_all(memory, 2, TEXT_LINES, 30);
	tap_ok(wait_until(count_of(&mount, "compressed") == 2), "two pages of a file that nobody uses");
	unmap_pages(memory, 2);
	close(file);
	tap_equal(count_of(&mount, "compressed"), 2, "stay compressed");
	file = file_open(&mount, "unlinked");
	memory = map_shared(file, 2);
	tap_equal(text_wrong(memory, 2, TEXT_LINES, 30), 0, "until the file is mapped again");
	tap_ok(wait_until(count_of(&mount, "compressed") == 2), "compressed once more");
	unmap_pages(memory, 2);
	close(file);
	file_unlink(&mount, "unlinked");
	tap_equal(count_of(&mount, "compressed_bytes"), 0, "unlinked, they give their base memory back");
	done(&mount, "handled");
}

/* ---- Private pages ----------------------------------------------------- */

struct family {
	struct mount *mount;
	char *memory;
};

static bool child_of_compressed(void *argument)
{
	struct family *family = argument;
	bool right = !text_wrong(family->memory, 3, TEXT_LINES, 40);

	text_fill(family->memory, TEXT_LINES, 45);
	right &= wait_until(count_of(family->mount, "resident") == 0);
	return right && text_right(family->memory, TEXT_LINES, 45) && !text_wrong(family->memory + HUGE, 2, TEXT_LINES, 41);
}

static void private_pages(void)
{
	struct mount mount = mount_new("hzmem", EAGER);
	int file = file_new(&mount);
	struct family family = { .mount = &mount, .memory = map_private(file, 3) };

	text_fill_all(family.memory, 3, TEXT_LINES, 40);
	tap_ok(wait_until(count_of(&mount, "compressed") == 3), "private pages are compressed");
	tap_ok(in_child(child_of_compressed, &family), "a child of theirs has them, compressed again too, and its own");
	tap_equal(text_wrong(family.memory, 3, TEXT_LINES, 40), 0, "the parent has what it had");
	tap_ok(wait_until(count_of(&mount, "compressed") == 3), "compressed once more, and none left of the child's");
	unmap_pages(family.memory, 3);
	tap_equal(count_of(&mount, "compressed_bytes"), 0, "unmapped, they give their base memory back");
	close(file);
	done(&mount, "private");
}

/* ---- Hot and cold ------------------------------------------------------ */

#define HOT 3
#define COLD 5

static void touch_hot(char *memory)
{
	forget_translations(memory, HOT * HUGE);
	for (unsigned int i = 0; i < HOT; i++)
		*(volatile char *)(memory + i * HUGE);
}

/*
 * Hot pages are touched between any two scans. A scan missed, because this program did not run for so long, leaves the
 * question open: tried again then.
 */
static bool hot_stay(struct mount *mount, char *memory, bool *known)
{
	long first = count_of(mount, "scans"), earlier = first, seen = first, scans;
	uint64_t frames[HOT], frame;
	bool stayed = true;

	*known = true;
	while (*known && (seen < first + 15 || count_of(mount, "compressed") < COLD)) {
		touch_hot(memory);
		for (unsigned int i = 0; i < HOT; i++) {
			frame = frame_of(memory + i * HUGE);
			/* What was cold before may be compressed just now, until scans have found it touched. */
			if (seen < first + 3)
				frames[i] = frame;
			stayed &= frame == frames[i];
		}
		scans = count_of(mount, "scans");
		/*
		 * Since before the touch before this one. A page that is compressed was not touched from the scan before
		 * those two that found it cold to the last of them, and two scans at least are counted meanwhile.
		 */
		*known = scans <= earlier + 1;
		earlier = seen;
		seen = scans;
		usleep(1000);
	}
	return stayed;
}

static void hot_and_cold(void)
{
	/* Above a watermark of 1 is only the node that has the pages, so that the scans of its daemon alone are counted. */
	struct mount mount = mount_new("hzmem", "watermark=1,period=400ms,node=0");
	int file = file_new(&mount);
	char *memory = map_shared(file, HOT + COLD);
	bool known = false, stayed = false;

	text_fill_all(memory, HOT + COLD, TEXT_LINES, 50);
	for (unsigned int attempt = 0; attempt < 20 && !known; attempt++)
		stayed = hot_stay(&mount, memory, &known);
	if (known)
		tap_ok(stayed, "pages that are touched between any two scans stay where they are");
	else
		tap_note("this machine is too busy to touch pages between any two scans");
	tap_ok(wait_until(count_of(&mount, "compressed") >= COLD), "and those that are not are compressed");
	tap_equal(text_wrong(memory, HOT + COLD, TEXT_LINES, 50), 0, "every byte is right");
	unmap_pages(memory, HOT + COLD);
	close(file);
	done(&mount, "hot and cold");
}

/* A page just touched is not compressed before two scans have found it cold. */
static void second_chance(void)
{
	struct mount mount = mount_new("hzmem", "watermark=0,period=100ms,node=0");
	int file = file_new(&mount);
	char *memory = map_shared(file, 1);
	unsigned int early = 0, wrong = 0;

	for (unsigned int round = 0; round < 8; round++) {
		long scans = count_of(&mount, "scans"), at_least;

		text_fill(memory, TEXT_LINES, 60 + round);
		while (!count_of(&mount, "compressed"))
			usleep(1000);
		at_least = count_of(&mount, "scans") - scans;
		early += at_least < 2;
		wrong += !text_right(memory, TEXT_LINES, 60 + round);
		/* Compressed again, so that the next round begins with a page that no scan has found cold. */
		while (!count_of(&mount, "compressed"))
			usleep(1000);
	}
	tap_equal(early, 0, "no page is compressed before two scans since its last touch");
	tap_equal(wrong, 0, "and each comes back right");
	unmap_pages(memory, 1);
	close(file);
	done(&mount, "second chance");
}

/* How often a page that does not compress is tried in so many scans: once, after 8 scans, 16 more, 32 more, and each 64. */
static long most_tries(long scans)
{
	long tries = 1;

	for (long pause = 8; scans >= pause; pause = pause < 64 ? 2 * pause : 64) {
		scans -= pause;
		tries++;
	}
	return tries;
}

/* Tried, found not to compress, and not tried again at every scan. */
static void not_retried(void)
{
	/* The scans of one node's daemon, as above. */
	struct mount mount = mount_new("hzmem", "watermark=1,period=20ms,node=0");
	int file = file_new(&mount);
	char *memory = map_shared(file, 2);
	long refused, scans;

	text_fill_all(memory, 2, TEXT_RANDOM, 70);
	tap_ok(wait_until(count_of(&mount, "compressions_refused") >= 2), "two random pages are tried");
	scans = count_of(&mount, "scans");
	tap_ok(wait_until(count_of(&mount, "scans") >= scans + 60), "sixty scans on");
	refused = count_of(&mount, "compressions_refused");
	/* There may be many more than sixty, of which all are counted that these attempts came with. */
	scans = count_of(&mount, "scans");
	tap_ok(refused <= 2 * most_tries(scans), "they were not tried again at every scan");
	tap_note("%ld attempts in %ld scans", refused, scans);
	tap_equal(count_of(&mount, "resident"), 2, "and are where they were");
	text_fill_all(memory, 2, TEXT_LINES, 71);
	tap_ok(wait_until(count_of(&mount, "compressed") == 2), "written with text, they are compressed in time");
	tap_equal(text_wrong(memory, 2, TEXT_LINES, 71), 0, "and come back right");
	unmap_pages(memory, 2);
	close(file);
	done(&mount, "not retried");
}

/* ---- Limits and settings ----------------------------------------------- */

static void limited(void)
{
	struct mount mount = mount_new("hzmem", EAGER ",compressed=512K");
	int file = file_new(&mount);
	char *memory = map_shared(file, 12);
	long scans, most = 0, bytes;

	text_fill_all(memory, 12, TEXT_LINES, 80);
	tap_ok(wait_until(count_of(&mount, "compressed") > 0), "a limit on base memory: pages are compressed");
	scans = count_of(&mount, "scans");
	while (count_of(&mount, "scans") < scans + 20) {
		bytes = count_of(&mount, "compressed_bytes");
		most = bytes > most ? bytes : most;
		usleep(1000);
	}
	tap_ok(most <= 512 << 10, "up to the limit and never beyond");
	tap_ok(count_of(&mount, "compressed") < 12, "so not all of them");
	tap_note("%ld pages in %ld bytes", count_of(&mount, "compressed"), most);
	tap_equal(text_wrong(memory, 12, TEXT_LINES, 80), 0, "every byte is right");
	text_fill_all(memory, 12, TEXT_ZEROS, 0);
	tap_ok(wait_until(count_of(&mount, "zero") == 12), "zeros are not limited");
	unmap_pages(memory, 12);
	close(file);
	done(&mount, "limited");
}

static void switched_off(void)
{
	struct mount mount = mount_new("hzmem", EAGER ",compress=none");
	int file = file_new(&mount);
	char *memory = map_shared(file, 4);

	text_fill_all(memory, 4, TEXT_LINES, 90);
	usleep(1500000);
	tap_equal(count_of(&mount, "compressions") + count_of(&mount, "compressed") + count_of(&mount, "zero"), 0,
		  "compress=none: nothing is compressed");
	remount(&mount, "compress=lz4");
	tap_ok(wait_until(count_of(&mount, "compressed") == 4), "changed to LZ4, it is");
	remount(&mount, "compress=lzo");
	tap_equal(text_wrong(memory, 4, TEXT_LINES, 90), 0, "changed to LZO, what LZ4 compressed comes back right");
	unmap_pages(memory, 4);
	close(file);
	done(&mount, "switched off");
}

static void ahead(void)
{
	struct mount mount = mount_new("hzmem", "watermark=1,period=50ms,node=0,readahead=3");
	int file = file_new(&mount);
	char *memory = map_shared(file, 10);
	long scans;

	/* What does not compress keeps the node above the watermark, and its daemon, no other's, scanning. */
	text_fill_all(memory + 8 * HUGE, 2, TEXT_RANDOM, 108);
	text_fill_all(memory, 8, TEXT_LINES, 100);
	tap_ok(wait_until(count_of(&mount, "compressed") == 8), "eight pages are compressed");
	/* Pages that the daemon has locked still are not read ahead: at its next scan it has let go of the last one. */
	scans = count_of(&mount, "scans");
	tap_ok(wait_until(count_of(&mount, "scans") > scans), "and the daemon has gone on");
	remount(&mount, NEVER);
	tap_ok(text_right(memory + 2 * HUGE, TEXT_LINES, 102), "one is touched");
	tap_ok(wait_until(count_of(&mount, "compressed") == 4), "the three after it come back by themselves");
	tap_ok(wait_until(count_of(&mount, "readaheads") == 3), "and are counted");
	usleep(200000);
	tap_equal(count_of(&mount, "compressed"), 4, "no more than that");
	tap_equal(text_wrong(memory, 8, TEXT_LINES, 100), 0, "every byte is right");
	unmap_pages(memory, 10);
	close(file);
	done(&mount, "readahead");
}

/* Below the watermark nothing is looked at. */
static void below_watermark(void)
{
	struct mount mount = mount_new("hzmem", "watermark=90,period=20ms");
	int file = file_new(&mount);
	char *memory = map_shared(file, 2);

	text_fill_all(memory, 2, TEXT_LINES, 110);
	usleep(1000000);
	tap_equal(count_of(&mount, "compressed"), 0, "with little of the pool in use nothing is compressed");
	tap_equal(count_of(&mount, "resident"), 2, "nor taken away");
	unmap_pages(memory, 2);
	close(file);
	done(&mount, "below the watermark");
}

int main(void)
{
	before = node_count(-1, "free");
	every_algorithm();
	handled();
	private_pages();
	hot_and_cold();
	second_chance();
	not_retried();
	limited();
	switched_off();
	ahead();
	below_watermark();
	return tap_end();
}
