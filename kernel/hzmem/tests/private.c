// SPDX-License-Identifier: GPL-2.0
/* Private mappings: what each process wrote is its own. private [hzmem|hugetlbfs] */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hz.h"

static const char *type;
static struct mount mount_;
static long before;

/* Every page of what a test used has been given back. */
static void nothing_left(const char *what)
{
	tap_equal(pool_free(type), before, "%s: every page is given back", what);
}

static void written(void)
{
	int file = file_new(&mount_);
	char *shared = map_shared(file, 4), *a, *b;

	text_fill_all(shared, 4, TEXT_LINES, 1);
	a = map_private(file, 4);
	b = map_private(file, 4);
	tap_equal(text_wrong(a, 4, TEXT_LINES, 1) + text_wrong(b, 4, TEXT_LINES, 1), 0,
		  "private mappings begin as the file is");
	text_fill(a, TEXT_RANDOM, 100);
	text_fill(b, TEXT_RANDOM, 200);
	a[HUGE + 5] ^= 1;
	tap_ok(text_right(a, TEXT_RANDOM, 100) && text_right(b, TEXT_RANDOM, 200), "each has what it wrote");
	a[HUGE + 5] ^= 1;
	tap_ok(text_right(a + HUGE, TEXT_LINES, 2), "one byte changed: the rest is the file's");
	tap_equal(text_wrong(shared, 4, TEXT_LINES, 1), 0, "the file has none of it");
	tap_equal(before - pool_free(type), 4 + 3, "a page for each page written");
	text_fill(shared + 2 * HUGE, TEXT_RANDOM, 300);
	tap_ok(text_right(a + 2 * HUGE, TEXT_RANDOM, 300), "a page not yet written follows the file");
	unmap_pages(a, 4);
	tap_equal(before - pool_free(type), 4 + 1, "an unmapped one gives its own back");
	tap_ok(text_right(b, TEXT_RANDOM, 200) && text_right(b + HUGE, TEXT_LINES, 2), "and the other keeps its own");
	unmap_pages(b, 4);
	unmap_pages(shared, 4);
	close(file);
	nothing_left("written");
}

/* A file's hole under a private mapping. */
static void holes(void)
{
	int file = file_new(&mount_);
	char *memory, *shared;

	ftruncate(file, 3 * HUGE);
	memory = map_private(file, 3);
	tap_ok(text_right(memory, TEXT_ZEROS, 0), "a hole reads as zeros");
	text_fill(memory + HUGE, TEXT_RANDOM, 5);
	shared = map_shared(file, 3);
	tap_ok(text_right(shared + HUGE, TEXT_ZEROS, 0), "what is written to it does not fill the file's");
	tap_ok(text_right(memory + HUGE, TEXT_RANDOM, 5), "and stays");
	text_fill(shared + 2 * HUGE, TEXT_RANDOM, 6);
	tap_ok(text_right(memory + 2 * HUGE, TEXT_RANDOM, 6), "a hole that the file fills is seen");
	unmap_pages(memory, 3);
	unmap_pages(shared, 3);
	close(file);
	nothing_left("holes");
}

/* ---- Processes --------------------------------------------------------- */

struct family {
	char *memory;
	int up[2], down[2];
};

static bool child_of_fork(void *argument)
{
	struct family *family = argument;
	char *memory = family->memory;
	bool right = !text_wrong(memory, 4, TEXT_LINES, 10);
	char byte;

	text_fill(memory, TEXT_RANDOM, 20);
	right &= write(family->up[1], "w", 1) == 1 && read(family->down[0], &byte, 1) == 1;
	/* The parent has written its page 1 by now. */
	right &= text_right(memory, TEXT_RANDOM, 20) && text_right(memory + HUGE, TEXT_LINES, 11);
	return right && text_right(memory + 2 * HUGE, TEXT_LINES, 12);
}

static void forked(void)
{
	int file = file_new(&mount_);
	struct family family = { .memory = map_private(file, 4) };
	char byte;
	pid_t child;

	if (pipe(family.up) || pipe(family.down))
		tap_bail("pipe");
	text_fill_all(family.memory, 4, TEXT_LINES, 10);
	child = fork();
	if (!child)
		_exit(!child_of_fork(&family));
	if (read(family.up[0], &byte, 1) != 1)
		tap_bail("read from the child");
	tap_ok(text_right(family.memory, TEXT_LINES, 10), "what a child writes its parent does not see");
	text_fill(family.memory + HUGE, TEXT_RANDOM, 30);
	if (write(family.down[1], "w", 1) != 1)
		tap_bail("write to the child");
	tap_equal(ended(child), 0, "and the child has its own, and not what its parent writes");
	tap_ok(text_right(family.memory, TEXT_LINES, 10) && text_right(family.memory + HUGE, TEXT_RANDOM, 30) &&
	       text_right(family.memory + 2 * HUGE, TEXT_LINES, 12), "after its exit all is in place");
	tap_equal(before - pool_free(type), 4, "and its pages are given back");
	for (int i = 0; i < 2; i++) {
		close(family.up[i]);
		close(family.down[i]);
	}
	unmap_pages(family.memory, 4);
	close(file);
	nothing_left("forked");
}

/*
 * A tree: each process forks two more after having written a page of its own; every one of them checks
 * that it sees what its ancestors wrote before it was born, and nothing of others.
 */
#define LEVELS 4

static bool tree(char *memory, unsigned int level, uint64_t name, const uint64_t *seeds)
{
	uint64_t own[LEVELS];
	pid_t children[2];
	bool right = true;

	memcpy(own, seeds, sizeof(own));
	for (unsigned int i = 0; i < LEVELS; i++)
		right &= text_right(memory + i * HUGE, TEXT_LINES, own[i]);
	if (level == LEVELS)
		return right;
	own[level] = 1000 + name;
	text_fill(memory + level * HUGE, TEXT_LINES, own[level]);
	for (unsigned int i = 0; i < 2; i++) {
		children[i] = fork();
		if (!children[i])
			_exit(!tree(memory, level + 1, name * 2 + i, own));
	}
	/* Written after the children were born: not theirs to see. */
	own[level] = 2000 + name;
	text_fill(memory + level * HUGE, TEXT_LINES, own[level]);
	for (unsigned int i = 0; i < 2; i++)
		right &= children[i] > 0 && !ended(children[i]);
	for (unsigned int i = 0; i < LEVELS; i++)
		right &= text_right(memory + i * HUGE, TEXT_LINES, own[i]);
	return right;
}

static bool tree_root(void *memory)
{
	static const uint64_t seeds[LEVELS] = { 500, 501, 502, 503 };

	return tree(memory, 0, 1, seeds);
}

static void family_tree(void)
{
	int file = file_new(&mount_);
	char *memory = map_private(file, LEVELS);

	text_fill_all(memory, LEVELS, TEXT_LINES, 500);
	tap_ok(in_child(tree_root, memory), "a tree of %d processes: each sees just what it should",
	       (1 << (LEVELS + 1)) - 1);
	tap_equal(text_wrong(memory, LEVELS, TEXT_LINES, 500), 0, "and so does the first");
	unmap_pages(memory, LEVELS);
	close(file);
	nothing_left("tree");
}

/* The parent is gone before the child has looked. */
static bool orphaned(void *argument)
{
	struct family *family = argument;
	pid_t child = fork();

	if (child < 0)
		return false;
	if (!child) {
		char byte, verdict;

		close(family->down[1]);
		/* Ends when the parent does. */
		while (read(family->down[0], &byte, 1) > 0)
			;
		verdict = text_wrong(family->memory, 3, TEXT_RANDOM, 40) ? 'x' : 'y';
		_exit(write(family->up[1], &verdict, 1) != 1);
	}
	/* Written after the fork and then abandoned. */
	text_fill(family->memory, TEXT_LINES, 41);
	return true;
}

static void parent_first(void)
{
	int file = file_new(&mount_);
	struct family family = { .memory = map_private(file, 3) };
	char verdict = 0;

	if (pipe(family.up) || pipe(family.down))
		tap_bail("pipe");
	text_fill_all(family.memory, 3, TEXT_RANDOM, 40);
	tap_ok(in_child(orphaned, &family), "a parent that writes and exits");
	close(family.down[0]);
	close(family.down[1]);
	tap_ok(read(family.up[0], &verdict, 1) == 1 && verdict == 'y', "leaves its child what there was at its birth");
	close(family.up[0]);
	close(family.up[1]);
	unmap_pages(family.memory, 3);
	close(file);
	tap_ok(wait_until(pool_free(type) == before), "orphans: every page is given back");
}

/* The file itself is read by the child after both have written. */
static bool shared_in_child(void *argument)
{
	char *memory = argument;
	bool right = text_right(memory, TEXT_LINES, 70);

	text_fill(memory + HUGE, TEXT_RANDOM, 71);
	return right;
}

static void shared_over_fork(void)
{
	int file = file_new(&mount_);
	char *memory = map_shared(file, 2);

	text_fill(memory, TEXT_LINES, 70);
	tap_ok(in_child(shared_in_child, memory), "a shared mapping is one with the child's");
	tap_ok(text_right(memory + HUGE, TEXT_RANDOM, 71), "both ways");
	unmap_pages(memory, 2);
	close(file);
	nothing_left("shared over fork");
}

static bool dontfork_child(void *argument)
{
	char *memory = argument;

	return read_faults(memory + HUGE) && text_right(memory, TEXT_LINES, 80) &&
	       text_right(memory + 2 * HUGE, TEXT_LINES, 82);
}

static void not_for_children(void)
{
	int file = file_new(&mount_);
	char *memory = map_private(file, 3);

	text_fill_all(memory, 3, TEXT_LINES, 80);
	tap_equal(madvise(memory + HUGE, HUGE, MADV_DONTFORK), 0, "MADV_DONTFORK of the middle page");
	tap_ok(in_child(dontfork_child, memory), "the child has the others");
	tap_equal(text_wrong(memory, 3, TEXT_LINES, 80), 0, "the parent has all");
	unmap_pages(memory, 3);
	close(file);
	nothing_left("MADV_DONTFORK");
}

/* ---- The mapping changed ----------------------------------------------- */

static void parts_unmapped(void)
{
	int file = file_new(&mount_);
	char *memory = map_private(file, 6), *again;

	text_fill_all(memory, 6, TEXT_RANDOM, 50);
	unmap_pages(memory + 2 * HUGE, 2);
	tap_equal(before - pool_free(type), 4, "the middle unmapped: its pages are given back");
	tap_ok(!text_wrong(memory, 2, TEXT_RANDOM, 50) && !text_wrong(memory + 4 * HUGE, 2, TEXT_RANDOM, 54),
	       "the ends are there");
	unmap_pages(memory, 1);
	unmap_pages(memory + 5 * HUGE, 1);
	tap_equal(before - pool_free(type), 2, "and the ends' ends");
	again = mmap(memory + 2 * HUGE, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 2 * HUGE);
	tap_ok(again == memory + 2 * HUGE && text_right(again, TEXT_ZEROS, 0),
	       "mapped again, the middle is the file's, not what was there");
	tap_ok(text_right(memory + HUGE, TEXT_RANDOM, 51) && text_right(memory + 4 * HUGE, TEXT_RANDOM, 54),
	       "and what is left is right");
	unmap_pages(memory, 6);
	close(file);
	nothing_left("parts unmapped");
}

static void moved(void)
{
	int file = file_new(&mount_);
	char *memory = map_private(file, 4), *room, *at;

	text_fill_all(memory, 4, TEXT_RANDOM, 60);
	room = map_aligned(4 * HUGE);
	at = mremap(memory, 4 * HUGE, 4 * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
	tap_ok(at == room, "mremap to another place");
	tap_equal(text_wrong(room, 4, TEXT_RANDOM, 60), 0, "every byte came along");
	tap_ok(read_faults(memory), "the old place is empty");
	tap_equal(before - pool_free(type), 4, "no page more or less");
	text_fill(room + HUGE, TEXT_LINES, 66);
	tap_ok(text_right(room + HUGE, TEXT_LINES, 66), "it can be written there");

	/* One page of it moves away, so that the mapping is in three. */
	at = mremap(room + 2 * HUGE, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, memory);
	tap_ok(at == memory && text_right(memory, TEXT_RANDOM, 62), "a page from its middle moved alone");
	tap_ok(text_right(room, TEXT_RANDOM, 60) && text_right(room + 3 * HUGE, TEXT_RANDOM, 63), "its neighbours stay");
	tap_equal(before - pool_free(type), 4, "no page more or less");
	tap_ok(mremap(room + 3 * HUGE, HUGE, 2 * HUGE, MREMAP_MAYMOVE) == MAP_FAILED &&
	       errno == (fs_is_hzmem(type) ? EFAULT : EINVAL), "it cannot grow");
	tap_ok(mremap(room, 2 * HUGE, HUGE, 0) == room, "it can shrink");
	tap_equal(before - pool_free(type), 3, "which gives a page back");
	tap_ok(text_right(room, TEXT_RANDOM, 60), "and keeps the rest");
	unmap_pages(memory, 1);
	munmap(room, 4 * HUGE);
	close(file);
	nothing_left("moved");
}

static bool reads_all(void *memory)
{
	return !text_wrong(memory, 2, TEXT_RANDOM, 91) && !text_wrong((char *)memory + 2 * HUGE, 1, TEXT_RANDOM, 93);
}

static void protected(void)
{
	int file = file_new(&mount_);
	char *memory = map_private(file, 3);

	text_fill_all(memory, 3, TEXT_RANDOM, 91);
	tap_equal(mprotect(memory, 3 * HUGE, PROT_READ), 0, "mprotect for reading");
	tap_ok(!read_faults(memory) && write_faults(memory), "reads succeed, writes do not");
	tap_equal(mprotect(memory + HUGE, HUGE, PROT_NONE), 0, "its middle for nothing");
	tap_ok(read_faults(memory + HUGE) && !read_faults(memory + 2 * HUGE), "nothing there, all beside it");
	tap_equal(mprotect(memory, 3 * HUGE, PROT_READ | PROT_WRITE), 0, "and all for all again");
	tap_equal(text_wrong(memory, 3, TEXT_RANDOM, 91), 0, "every byte is there");
	tap_ok(in_child(reads_all, memory), "also in a child");
	mprotect(memory, 3 * HUGE, PROT_READ);
	tap_ok(in_child(reads_all, memory), "and in one born while it was for reading");
	mprotect(memory, 3 * HUGE, PROT_READ | PROT_WRITE);
	text_fill(memory, TEXT_LINES, 94);
	tap_ok(text_right(memory, TEXT_LINES, 94), "and it can be written again");
	unmap_pages(memory, 3);
	close(file);
	nothing_left("protected");
}

/* What is forgotten on request. hugetlbfs gives the page up; hzmem keeps the content, and says so. */
static void forgotten(void)
{
	int file = file_new(&mount_);
	char *memory = map_private(file, 2);

	text_fill_all(memory, 2, TEXT_RANDOM, 95);
	tap_equal(madvise(memory, HUGE, MADV_DONTNEED), 0, "MADV_DONTNEED");
	if (fs_is_hzmem(type)) {
		tap_ok(text_right(memory, TEXT_RANDOM, 95), "only unmaps: the content stays");
		tap_equal(madvise(memory + HUGE, PAGE, MADV_DONTNEED), 0, "MADV_DONTNEED of a part of a page");
	} else {
		tap_ok(text_right(memory, TEXT_ZEROS, 0), "drops the page");
	}
	tap_ok(text_right(memory + HUGE, TEXT_RANDOM, 96), "no other page is touched");
	unmap_pages(memory, 2);
	close(file);
	nothing_left("forgotten");
}

/* The file shrinks and gets holes under a private mapping that has pages of its own. */
static void file_cut(void)
{
	int file = file_new(&mount_);
	char *shared = map_shared(file, 4), *memory;

	text_fill_all(shared, 4, TEXT_LINES, 110);
	memory = map_private(file, 4);
	text_fill(memory, TEXT_RANDOM, 120);
	text_fill(memory + 3 * HUGE, TEXT_RANDOM, 123);
	tap_equal(text_wrong(memory + HUGE, 2, TEXT_LINES, 111), 0, "a private mapping of which two pages were written");
	ftruncate(file, 2 * HUGE);
	tap_ok(read_faults(memory + 3 * HUGE) && read_faults(memory + 2 * HUGE), "the file cut off: a signal beyond its end");
	tap_ok(text_right(memory, TEXT_RANDOM, 120) && text_right(memory + HUGE, TEXT_LINES, 111), "and all before it is there");
	ftruncate(file, 4 * HUGE);
	tap_ok(text_right(memory + 3 * HUGE, TEXT_ZEROS, 0) && text_right(memory + 2 * HUGE, TEXT_ZEROS, 0),
	       "longer again it is zero, in the private mapping too");
	unmap_pages(shared, 4);
	unmap_pages(memory, 4);
	close(file);
	nothing_left("file cut");
}

int main(int argc, char **argv)
{
	type = fs_type(argc, argv, 32);
	before = pool_free(type);
	mount_ = mount_new(type, NULL);
	written();
	holes();
	forked();
	family_tree();
	parent_first();
	shared_over_fork();
	not_for_children();
	parts_unmapped();
	moved();
	protected();
	forgotten();
	file_cut();
	mount_end(&mount_);
	fs_end(type);
	return tap_end();
}
