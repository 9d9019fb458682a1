// SPDX-License-Identifier: GPL-2.0
/* Every mount option in range, out of range and misspelt; what a mount says of itself; remounting. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "hz.h"

static void refused(void)
{
	static const char *const wrong[] = {
		"size=", "size=none", "size=-1", "size=5x", "size=99999999999999999999",
		"uid=-2", "uid=root", "gid=4294967296", "mode=9", "mode=rwx",
		"node=-1", "node=900", "node=x", "compress=", "compress=deflate",
		"watermark=-1", "watermark=101", "watermark=half", "period=", "period=-1",
		"period=0", "period=1h", "readahead=65", "readahead=-1", "compressed=-1", "compressed=0", "compressed=much",
		"colour=red", "nr_inodes=3", "size=unlimitedly", "compressed=unlimited5",
	};

	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		tap_equal(mount_error("hzmem", wrong[i]), EINVAL, "%s: EINVAL", wrong[i]);
}

static void taken(void)
{
	static const char *const right[] = {
		"size=2M", "size=2097152", "size=1g", "size=50%", "size=100%", "uid=0", "gid=65534", "mode=1777", "mode=0",
		"node=0", "compress=lz4", "compress=none", "watermark=0", "watermark=100", "period=1",
		"period=10ms", "period=3600", "readahead=0", "readahead=64", "compressed=64M", "compressed=4k",
		"size=unlimited", "compressed=unlimited",
		"size=16M,uid=1,gid=2,mode=0700,node=0,compress=lzo,watermark=50,period=100ms,readahead=2,compressed=8M",
	};

	for (unsigned int i = 0; i < sizeof(right) / sizeof(*right); i++)
		tap_equal(mount_error("hzmem", right[i]), 0, "%s", right[i]);
	tap_equal(mount_error("hzmem", NULL), 0, "none at all");
}

/* Whether the setting, as sysfs has it, is value. */
static bool set_to(const struct mount *mount, const char *name, const char *value)
{
	char text[64];

	text_of(mount, name, text, sizeof(text));
	if (!strcmp(text, value))
		return true;
	tap_note("%s is %s, should be %s", name, text, value);
	return false;
}

static void defaults(void)
{
	struct mount mount = mount_new("hzmem", NULL);
	struct sysinfo memory;
	struct statfs numbers;
	struct stat status;

	tap_ok(set_to(&mount, "watermark", "80"), "the watermark is 80 %% by default");
	tap_ok(set_to(&mount, "period_ms", "10000"), "the period 10 s");
	tap_ok(set_to(&mount, "compress", "lz4"), "the algorithm LZ4");
	tap_ok(set_to(&mount, "readahead", "0"), "the readahead none");
	/* No mount may have all of the kernel's memory. */
	sysinfo(&memory);
	statfs(mount.path, &numbers);
	tap_equal(count_of(&mount, "size"), 4 * node_count(-1, "total"), "four times as many pages as there are");
	tap_equal(numbers.f_blocks, 4 * node_count(-1, "total"), "as statfs says too");
	tap_equal(count_of(&mount, "compressed_limit_bytes"), memory.totalram * memory.mem_unit / 5,
		  "and a fifth of the kernel's memory for what they are compressed to");
	stat(mount.path, &status);
	tap_ok(!status.st_uid && !status.st_gid && (status.st_mode & 07777) == 0755,
	       "the folder root's, mode 755");
	mount_end(&mount);
}

/* A line of the file that has both texts. */
static bool has_line(const char *path, const char *first, const char *second)
{
	FILE *file = fopen(path, "re");
	char line[1024];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, first) && strstr(line, second);
	if (file)
		fclose(file);
	return found;
}

static void given(void)
{
	struct mount mount = mount_new("hzmem",
		"size=10M,uid=1,gid=2,mode=0710,node=0,compress=lzo,watermark=50,period=1500ms,readahead=3,compressed=4M");
	struct stat status;
	struct statfs numbers;

	stat(mount.path, &status);
	statfs(mount.path, &numbers);
	tap_equal(status.st_uid, 1, "uid= is the folder's");
	tap_equal(status.st_gid, 2, "gid= too");
	tap_equal(status.st_mode & 07777, 0710, "and mode=");
	tap_equal(numbers.f_blocks, 5, "size= in pages is what statfs says");
	tap_ok(set_to(&mount, "size", "5"), "and sysfs");
	tap_ok(set_to(&mount, "node", "0"), "node=");
	tap_ok(set_to(&mount, "compress", "lzo"), "compress=");
	tap_ok(set_to(&mount, "watermark", "50"), "watermark=");
	tap_ok(set_to(&mount, "period_ms", "1500"), "period=");
	tap_ok(set_to(&mount, "readahead", "3"), "readahead=");
	tap_ok(set_to(&mount, "compressed_limit_bytes", "4194304"), "compressed=");
	tap_ok(has_line("/proc/mounts", mount.path, "watermark=50"), "/proc/mounts shows the options");
	mount_end(&mount);
	tap_ok(access(mount.sysfs, F_OK), "an unmounted filesystem is gone from sysfs");
}

static void without_limits(void)
{
	struct mount mount = mount_new("hzmem", "size=unlimited,compressed=unlimited");

	tap_equal(count_of(&mount, "size"), 0, "size=unlimited: none");
	tap_equal(count_of(&mount, "compressed_limit_bytes"), 0, "compressed=unlimited: none");
	tap_ok(has_line("/proc/mounts", mount.path, "size=unlimited"), "/proc/mounts says so of the one");
	tap_ok(has_line("/proc/mounts", mount.path, "compressed=unlimited"), "and of the other");
	mount_end(&mount);
}

static int remount(const struct mount *mount_, const char *options)
{
	return mount("none", mount_->path, "hzmem", MS_REMOUNT, options);
}

static void remounted(void)
{
	struct mount mount = mount_new("hzmem", "size=8M,compress=lz4,watermark=60,period=5,node=0");
	int file = file_new(&mount);
	char *memory = map_shared(file, 3);
	struct statfs numbers;
	struct stat status;

	text_fill_all(memory, 3, TEXT_LINES, 1);
	tap_equal(remount(&mount, "size=16M,compress=lzo,watermark=70,period=20ms,readahead=4,compressed=2M"), 0,
		  "remount with everything different");
	statfs(mount.path, &numbers);
	tap_equal(numbers.f_blocks, 8, "changes the size");
	tap_ok(set_to(&mount, "compress", "lzo") && set_to(&mount, "watermark", "70") &&
	       set_to(&mount, "period_ms", "20") && set_to(&mount, "readahead", "4") &&
	       set_to(&mount, "compressed_limit_bytes", "2097152"), "and all else that was given");
	tap_equal(remount(&mount, "watermark=75"), 0, "remount with one option");
	tap_ok(set_to(&mount, "compress", "lzo") && set_to(&mount, "period_ms", "20") &&
	       set_to(&mount, "size", "8") && set_to(&mount, "watermark", "75"), "leaves the others");
	chmod(mount.path, 0700);
	tap_equal(remount(&mount, "uid=3"), 0, "remount with another owner of the folder");
	stat(mount.path, &status);
	tap_ok(status.st_uid == 3 && (status.st_mode & 07777) == 0700, "leaves its mode, which was changed meanwhile");
	tap_fails(remount(&mount, "watermark=200"), EINVAL, "what is out of range is refused: EINVAL");
	tap_ok(set_to(&mount, "watermark", "75"), "and changes nothing");
	if (nodes() > 1) {
		tap_ok(remount(&mount, "node=1"), "another node is refused");
		tap_ok(set_to(&mount, "node", "0"), "and it stays on its own");
	}
	tap_ok(remount(&mount, "size=4M"), "a size smaller than what is in use is refused");
	tap_ok(set_to(&mount, "size", "8"), "and changes nothing");
	tap_equal(text_wrong(memory, 3, TEXT_LINES, 1), 0, "every byte is there");
	unmap_pages(memory, 3);
	close(file);
	mount_end(&mount);
}

/* size= is a limit on pages whether they are compressed or not. */
static void limited(void)
{
	struct mount mount = mount_new("hzmem", "size=8M");
	int file = file_new(&mount);
	char *memory = map_shared(file, 6);

	text_fill_all(memory, 4, TEXT_RANDOM, 7);
	tap_ok(write_faults(memory + 4 * HUGE), "a touch past size= is a signal");
	tap_fails(fallocate(file, 0, 4 * HUGE, HUGE), ENOSPC, "and fallocate ENOSPC");
	tap_equal(text_wrong(memory, 4, TEXT_RANDOM, 7), 0, "the pages within are as they were");
	tap_equal(ftruncate(file, 3 * HUGE) | ftruncate(file, 6 * HUGE), 0, "a page given back");
	tap_ok(!write_faults(memory + 5 * HUGE), "is one that can be had");
	tap_ok(write_faults(memory + 4 * HUGE), "once");
	unmap_pages(memory, 6);
	close(file);
	mount_end(&mount);
}

static void every_compressor(void)
{
	char names[128] = "", options[64];
	FILE *file = fopen(HZ_SYSFS "compressors", "re");

	if (!file || !fgets(names, sizeof(names), file))
		tap_bail("read " HZ_SYSFS "compressors");
	fclose(file);
	tap_ok(strstr(names, "lz4") && strstr(names, "lzo"), "there are LZ4 and LZO");
	tap_note("compressors: %s", strtok(names, "\n"));
	for (char *name = strtok(names, " "); name; name = strtok(NULL, " ")) {
		snprintf(options, sizeof(options), "compress=%s", name);
		tap_equal(mount_error("hzmem", options), 0, "%s, as sysfs names it", options);
	}
}

/* Begun before another remount, and carried out after it. */
static void remounted_by_two(void)
{
	struct mount mount = mount_new("hzmem", "watermark=60,readahead=1");
	int context = fspick(AT_FDCWD, mount.path, FSPICK_CLOEXEC);

	tap_equal(remount(&mount, "watermark=70,compress=none"), 0, "a remount while another one has begun");
	tap_ok(context >= 0 && !fsconfig(context, FSCONFIG_SET_STRING, "readahead", "4", 0) &&
	       !fsconfig(context, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0), "which is then carried out");
	tap_ok(set_to(&mount, "readahead", "4"), "it changes what it was given");
	tap_ok(set_to(&mount, "watermark", "70") && set_to(&mount, "compress", "none"), "and leaves what the other one was");
	close(context);
	mount_end(&mount);
}

int main(void)
{
	refused();
	taken();
	defaults();
	given();
	without_limits();
	remounted();
	remounted_by_two();
	limited();
	every_compressor();
	return tap_end();
}
