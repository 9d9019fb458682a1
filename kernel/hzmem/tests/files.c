// SPDX-License-Identifier: GPL-2.0
/* Files, as hugetlbfs has them. files [hzmem|hugetlbfs] */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "hz.h"

#define HUGETLBFS 0x958458f6
#define PAGES 8

static const char *type;
static struct mount mount_;

static long free_pages(void)
{
	struct statfs status;

	if (statfs(mount_.path, &status))
		tap_bail("statfs");
	return status.f_bfree;
}

static char *path_of(const char *name)
{
	static char paths[4][128];
	static unsigned int next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", mount_.path, name);
	return path;
}

static void numbers(void)
{
	struct statfs status;
	struct stat file_status;
	int file = file_open(&mount_, "numbers");

	tap_ok(!statfs(mount_.path, &status) && status.f_type == HUGETLBFS,
	       "statfs: the type is hugetlbfs's, by which programs know it");
	tap_equal(status.f_bsize, HUGE, "statfs: blocks of 2 MiB");
	tap_equal(status.f_blocks, 2 * PAGES, "statfs: as many as size= says");
	tap_equal(status.f_bfree, 2 * PAGES, "statfs: all are free");
	tap_equal(status.f_bavail, 2 * PAGES, "statfs: and to be had");
	fstat(file, &file_status);
	tap_equal(file_status.st_blksize, HUGE, "stat: a block is 2 MiB");
	tap_equal(file_status.st_size, 0, "a new file is empty");
	tap_ok(file_status.st_ino != 0, "and has a number");
	close(file);
	file_unlink(&mount_, "numbers");
}

static void names(void)
{
	int file = file_open(&mount_, "one"), other;
	char *memory = map_shared(file, 1), *again;
	struct stat a, b;
	char target[16] = "";

	text_fill(memory, TEXT_RANDOM, 1);
	tap_equal(rename(path_of("one"), path_of("two")), 0, "rename");
	tap_fails(open(path_of("one"), O_RDWR), ENOENT, "the old name is gone");
	tap_equal(link(path_of("two"), path_of("three")), 0, "a second name");
	stat(path_of("two"), &a);
	stat(path_of("three"), &b);
	tap_ok(a.st_ino == b.st_ino && a.st_nlink == 2, "names the same file");
	tap_equal(mkdir(path_of("folder"), 0700), 0, "mkdir");
	tap_equal(rename(path_of("three"), path_of("folder/three")), 0, "rename into a folder");
	tap_fails(rmdir(path_of("folder")), ENOTEMPTY, "a folder with a file stays");
	if (fs_is_hzmem(type)) {
		tap_equal(symlink("folder/three", path_of("link")), 0, "symlink");
		tap_ok(readlink(path_of("link"), target, sizeof(target)) == 12 &&
		       !memcmp(target, "folder/three", 12), "readlink");
	} else {
		tap_fails(symlink("folder/three", path_of("link")), EINVAL, "hugetlbfs cannot have symlinks");
		link(path_of("folder/three"), path_of("link"));
	}
	file_unlink(&mount_, "two");
	close(file);
	unmap_pages(memory, 1);
	other = file_open(&mount_, "link");
	again = map_shared(other, 1);
	tap_ok(text_right(again, TEXT_RANDOM, 1), "by whichever name, its bytes are there");

	file_unlink(&mount_, "folder/three");
	file_unlink(&mount_, "link");
	tap_equal(rmdir(path_of("folder")), 0, "rmdir");
	tap_ok(text_right(again, TEXT_RANDOM, 1), "with no name left too, while it is mapped");
	tap_equal(free_pages(), 2 * PAGES - 1, "and it still has its page");
	unmap_pages(again, 1);
	tap_equal(free_pages(), 2 * PAGES - 1, "so it has while it is open");
	close(other);
	tap_equal(free_pages(), 2 * PAGES, "closed, it gives the page back");

	file = open(mount_.path, O_TMPFILE | O_RDWR, 0600);
	tap_ok(file >= 0, "O_TMPFILE");
	memory = map_shared(file, 1);
	text_fill(memory, TEXT_RANDOM, 2);
	tap_ok(text_right(memory, TEXT_RANDOM, 2), "has pages like any other file");
	unmap_pages(memory, 1);
	close(file);
	tap_equal(free_pages(), 2 * PAGES, "and gives them back");
}

/* A mapping that is shared, one that is not, and a second of the same file. */
static void mappings(void)
{
	int file = file_new(&mount_);
	struct stat status;
	char *shared = map_shared(file, PAGES), *second, *private;

	fstat(file, &status);
	tap_equal(status.st_size, PAGES * HUGE, "a writable mapping makes the file as long as itself");
	text_fill_all(shared, PAGES, TEXT_LINES, 10);
	second = map_shared(file, PAGES);
	private = map_private(file, PAGES);
	tap_equal(text_wrong(second, PAGES, TEXT_LINES, 10), 0, "a second mapping shows the same");
	tap_equal(text_wrong(private, PAGES, TEXT_LINES, 10), 0, "so does a private one");
	text_fill(second, TEXT_RANDOM, 11);
	tap_ok(text_right(shared, TEXT_RANDOM, 11) && text_right(private, TEXT_RANDOM, 11),
	       "what one writes the others see");
	text_fill(private + HUGE, TEXT_RANDOM, 12);
	tap_ok(text_right(private + HUGE, TEXT_RANDOM, 12), "a private mapping has what it wrote");
	tap_ok(text_right(shared + HUGE, TEXT_LINES, 11) && text_right(second + HUGE, TEXT_LINES, 11),
	       "by itself");
	text_fill(shared + HUGE, TEXT_RANDOM, 13);
	tap_ok(text_right(private + HUGE, TEXT_RANDOM, 12), "and keeps it when the file changes");
	unmap_pages(second, PAGES);
	unmap_pages(private, PAGES);
	tap_equal(free_pages(), PAGES, "unmapped, the private page is given back, the file's are not");
	tap_equal(ftruncate(file, 0), 0, "truncate while it is mapped");
	tap_equal(free_pages(), 2 * PAGES, "gives all pages back");
	tap_ok(read_faults(shared) && write_faults(shared + HUGE), "and a touch is a signal then");
	unmap_pages(shared, PAGES);
	close(file);

	file = file_new(&mount_);
	shared = map_pages(file, 1, PROT_READ, MAP_SHARED, 0);
	fstat(file, &status);
	tap_equal(status.st_size, 0, "a mapping that cannot write leaves the size alone");
	tap_ok(read_faults(shared), "and a touch past the end is a signal");
	tap_equal(ftruncate(file, HUGE), 0, "truncate to a page");
	tap_ok(!read_faults(shared) && text_right(shared, TEXT_ZEROS, 0), "which then reads as zeros");
	unmap_pages(shared, 1);
	close(file);

	file = file_new(&mount_);
	shared = map_pages(file, 2, PROT_READ | PROT_WRITE, MAP_SHARED, 4 * HUGE);
	text_fill(shared + HUGE, TEXT_RANDOM, 20);
	second = map_shared(file, 6);
	tap_ok(text_right(second + 5 * HUGE, TEXT_RANDOM, 20), "an offset is one into the file");
	tap_ok(text_right(second, TEXT_ZEROS, 0), "what was never written is zero");
	unmap_pages(shared, 2);
	unmap_pages(second, 6);
	close(file);

	file = file_new(&mount_);
	shared = map_pages(file, 2, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, 0);
	tap_ok(frame_of(shared) && frame_of(shared + HUGE), "MAP_POPULATE touches every page");
	tap_equal(frame_of(shared) % 512, 0, "which begins at a frame of its size");
	tap_ok(frame_of(shared + HUGE - PAGE) == frame_of(shared) + 511, "and is in one piece");
	tap_equal(mlock(shared, 2 * HUGE) | munlock(shared, 2 * HUGE), 0, "mlock and munlock");
	unmap_pages(shared, 2);
	close(file);
}

static void alignment(void)
{
	int file = file_new(&mount_);
	char *room = map_aligned(4 * HUGE), *memory;
	int both = PROT_READ | PROT_WRITE;

	ftruncate(file, 4 * HUGE);
	tap_ok(mmap(NULL, HUGE, both, MAP_SHARED, file, PAGE) == MAP_FAILED && errno == EINVAL,
	       "mmap at an offset inside a page: EINVAL");
	tap_ok(mmap(room + PAGE, HUGE, both, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED &&
	       errno == EINVAL, "mmap at an address inside a page: EINVAL");
	memory = mmap(NULL, HUGE + PAGE, both, MAP_SHARED, file, 0);
	if (fs_is_hzmem(type)) {
		tap_ok(memory == MAP_FAILED && errno == EINVAL,
		       "mmap of a page and a bit: EINVAL, where hugetlbfs rounds up");
	} else {
		tap_ok(memory != MAP_FAILED, "mmap of a page and a bit is rounded up");
		munmap(memory, 2 * HUGE);
	}
	memory = mmap(room + HUGE + PAGE, HUGE, both, MAP_SHARED, file, 0);
	tap_ok(memory != MAP_FAILED && !((uintptr_t)memory % HUGE),
	       "an address that is only a wish is rounded");
	unmap_pages(memory, 1);
	memory = map_shared(file, 4);
	text_fill_all(memory, 4, TEXT_LINES, 30);
	tap_ok(!((uintptr_t)memory % HUGE), "an address of the kernel's choice is a multiple of 2 MiB");
	tap_fails((long)mremap(memory, 4 * HUGE, 4 * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, room + PAGE), EINVAL,
		  "mremap to an address inside a page: EINVAL");
	tap_fails(munmap(memory, PAGE), EINVAL, "munmap of a part of a page: EINVAL");
	tap_fails(munmap(memory + PAGE, HUGE), EINVAL, "munmap from inside a page: EINVAL");
	tap_fails(mprotect(memory + HUGE, PAGE, PROT_READ), EINVAL, "mprotect of a part of a page: EINVAL");
	tap_fails(madvise(memory + PAGE, HUGE, MADV_DONTFORK), EINVAL, "madvise that would split a page: EINVAL");
	if (fs_is_hzmem(type))
		tap_ok(mremap(memory, 4 * HUGE, 4 * HUGE - PAGE, 0) == MAP_FAILED && errno == EINVAL,
		       "mremap to a length that is no multiple: EINVAL, where hugetlbfs rounds up");
	tap_equal(text_wrong(memory, 4, TEXT_LINES, 30), 0, "after all that every byte is there");
	unmap_pages(memory, 4);
	munmap(room, 4 * HUGE);

	tap_fails(ftruncate(file, HUGE + PAGE), EINVAL, "truncate to a part of a page: EINVAL");
	tap_fails(ftruncate(file, 1), EINVAL, "and to a byte");
	close(file);
}

static void reading(void)
{
	int file = file_new(&mount_);
	char *memory = map_shared(file, 3), *buffer = map_aligned(4 * HUGE);

	text_fill(memory, TEXT_RANDOM, 40);
	text_fill(memory + 2 * HUGE, TEXT_LINES, 41);
	tap_equal(pread(file, buffer, 4 * HUGE, 0), 3 * HUGE, "read ends at the end of the file");
	tap_ok(text_right(buffer, TEXT_RANDOM, 40) && text_right(buffer + 2 * HUGE, TEXT_LINES, 41),
	       "and has what the mapping wrote");
	tap_ok(text_right(buffer + HUGE, TEXT_ZEROS, 0), "and zeros for a hole");
	/* hugetlbfs sets pages aside for all that is mapped. */
	tap_equal(free_pages(), 2 * PAGES - (fs_is_hzmem(type) ? 2 : 3), "which reading does not fill");
	tap_equal(pread(file, buffer, 10 * PAGE, HUGE - 5 * PAGE - 3), 10 * PAGE, "read across two pages");
	tap_ok(!memcmp(buffer, memory + HUGE - 5 * PAGE - 3, 10 * PAGE), "the same");
	tap_equal(pread(file, buffer, PAGE, 3 * HUGE), 0, "nothing past the end");
	tap_equal(lseek(file, 0, SEEK_END), 3 * HUGE, "lseek to the end");
	tap_fails(pwrite(file, buffer, PAGE, 0), EINVAL, "write is refused: EINVAL");
	mprotect(buffer, HUGE, PROT_NONE);
	tap_fails(pread(file, buffer, PAGE, 0), EFAULT, "read to where nothing can be written: EFAULT");
	tap_ok(text_right(memory, TEXT_RANDOM, 40), "the file is as it was");
	unmap_pages(memory, 3);
	munmap(buffer, 4 * HUGE);
	close(file);
}

/* A pattern whose every byte but those of [from, to) is as it was filled, and those are zero. */
static bool zeroed(const char *page, uint64_t seed, size_t from, size_t to)
{
	static char whole[HUGE];

	text_fill(whole, TEXT_RANDOM, seed);
	memset(whole + from, 0, to - from);
	return !memcmp(page, whole, HUGE);
}

static void allocating(void)
{
	int file = file_new(&mount_);
	int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	struct stat status;
	char *memory;

	tap_equal(fallocate(file, 0, 0, 4 * HUGE), 0, "fallocate");
	fstat(file, &status);
	tap_equal(status.st_size, 4 * HUGE, "makes the file as long");
	tap_equal(free_pages(), 2 * PAGES - 4, "and gives it pages");
	tap_equal(fallocate(file, FALLOC_FL_KEEP_SIZE, 4 * HUGE, HUGE), 0, "with KEEP_SIZE");
	fstat(file, &status);
	tap_equal(status.st_size, 4 * HUGE, "the size stays");
	ftruncate(file, 4 * HUGE);
	memory = map_shared(file, 4);
	tap_ok(text_right(memory, TEXT_ZEROS, 0) && text_right(memory + 3 * HUGE, TEXT_ZEROS, 0),
	       "pages allocated are zero");
	text_fill_all(memory, 4, TEXT_RANDOM, 50);
	tap_equal(fallocate(file, 0, 0, 4 * HUGE), 0, "fallocate of what is there");
	tap_equal(text_wrong(memory, 4, TEXT_RANDOM, 50), 0, "changes nothing");

	tap_equal(fallocate(file, punch, HUGE, HUGE), 0, "a hole of one page");
	tap_ok(text_right(memory + HUGE, TEXT_ZEROS, 0), "is zero, mapped as it is");
	tap_ok(text_right(memory, TEXT_RANDOM, 50) && text_right(memory + 2 * HUGE, TEXT_RANDOM, 52),
	       "and its neighbours are not");
	tap_equal(fallocate(file, punch, 2 * HUGE + 3 * PAGE, 5 * PAGE), 0, "a hole inside a page");
	tap_ok(zeroed(memory + 2 * HUGE, 52, 3 * PAGE, 8 * PAGE), "makes just that zero");
	text_fill(memory + 2 * HUGE, TEXT_RANDOM, 52);
	tap_equal(fallocate(file, punch, HUGE - PAGE, 2 * HUGE + 2 * PAGE), 0, "a hole across pages");
	tap_ok(zeroed(memory, 50, HUGE - PAGE, HUGE) && text_right(memory + HUGE, TEXT_ZEROS, 0) &&
	       text_right(memory + 2 * HUGE, TEXT_ZEROS, 0) && zeroed(memory + 3 * HUGE, 53, 0, PAGE),
	       "whole pages and parts of both ends");
	tap_equal(madvise(memory, HUGE, MADV_REMOVE), 0, "MADV_REMOVE");
	tap_ok(text_right(memory, TEXT_ZEROS, 0), "is a hole too");
	tap_fails(fallocate(file, FALLOC_FL_COLLAPSE_RANGE, 0, HUGE), EOPNOTSUPP, "other modes: EOPNOTSUPP");
	tap_fails(fallocate(file, 0, -1, HUGE), EINVAL, "a negative offset: EINVAL");
	unmap_pages(memory, 4);

	tap_equal(ftruncate(file, 0), 0, "truncate to nothing");
	tap_equal(free_pages(), 2 * PAGES, "gives everything back");
	tap_equal(ftruncate(file, 2 * HUGE), 0, "and longer again");
	memory = map_shared(file, 2);
	tap_ok(text_right(memory, TEXT_ZEROS, 0) && text_right(memory + HUGE, TEXT_ZEROS, 0),
	       "it is zero: nothing comes back");
	unmap_pages(memory, 2);
	tap_fails(fallocate(file, 0, 0, (2 * PAGES + 1) * HUGE), ENOSPC, "more than the mount's size: ENOSPC");
	ftruncate(file, 0);
	tap_equal(free_pages(), 2 * PAGES, "no page is lost by that");
	close(file);
}

/* Whether the descriptor is refused what its file's mode or its own refuses. */
static void permissions(void)
{
	int file = file_open(&mount_, "mode"), reader;
	struct stat status;
	char *memory = map_shared(file, 1);

	text_fill(memory, TEXT_LINES, 60);
	reader = open(path_of("mode"), O_RDONLY | O_CLOEXEC);
	tap_ok(mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, reader, 0) == MAP_FAILED &&
	       errno == EACCES, "a reader cannot map it shared and writable: EACCES");
	unmap_pages(memory, 1);
	memory = map_private(reader, 1);
	text_fill(memory, TEXT_LINES, 61);
	tap_ok(text_right(memory, TEXT_LINES, 61), "privately it can");
	unmap_pages(memory, 1);
	memory = map_pages(reader, 1, PROT_READ, MAP_SHARED, 0);
	tap_ok(text_right(memory, TEXT_LINES, 60), "which the file does not see");
	tap_ok(write_faults(memory), "a write to what is mapped for reading is a signal");
	unmap_pages(memory, 1);
	tap_ok(!chmod(path_of("mode"), 0640) && !chown(path_of("mode"), 5, 6) &&
	       !stat(path_of("mode"), &status) && (status.st_mode & 0777) == 0640 && status.st_uid == 5 &&
	       status.st_gid == 6, "chmod and chown");
	close(reader);
	close(file);
	file_unlink(&mount_, "mode");
}

static void unlinked_in_crowd(void)
{
	struct stat status;
	unsigned int made = 0;
	DIR *folder;

	for (int i = 0; i < 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%d", i);
		close(file_open(&mount_, name));
	}
	folder = opendir(mount_.path);
	while (readdir(folder))
		made++;
	closedir(folder);
	tap_equal(made, 102, "a folder lists its files");
	for (int i = 0; i < 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%d", i);
		file_unlink(&mount_, name);
	}
	tap_fails(stat(path_of("f7"), &status), ENOENT, "and loses them");
}

int main(int argc, char **argv)
{
	long before;

	type = fs_type(argc, argv, 2 * PAGES);
	before = pool_free(type);
	mount_ = mount_new(type, "size=32M,mode=0755");
	numbers();
	names();
	mappings();
	alignment();
	reading();
	allocating();
	permissions();
	unlinked_in_crowd();
	tap_equal(free_pages(), 2 * PAGES, "every page is free in the end");
	mount_end(&mount_);
	tap_equal(pool_free(type), before, "and back in the pool");
	fs_end(type);
	return tap_end();
}
