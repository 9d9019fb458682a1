// SPDX-License-Identifier: GPL-2.0
/* Unloading is refused while anything of hzmem is in use, and clean otherwise, again and again; parameters out of range. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hz.h"

static void refused(const char *while_)
{
	tap_fails(hzmem_unload(), EAGAIN, "unloading is refused while %s", while_);
}

static void detach(struct mount *mount)
{
	if (umount2(mount->path, MNT_DETACH))
		tap_bail("umount %s", mount->path);
	rmdir(mount->path);
}

static void in_use(void)
{
	struct mount mount = mount_new("hzmem", NULL);
	struct iovec vector = { .iov_len = PAGE };
	char *memory, copy[PAGE], byte;
	int file, ends[2], end[2];
	pid_t child;

	refused("it is mounted");
	file = file_new(&mount);
	memory = map_shared(file, 2);
	text_fill_all(memory, 2, TEXT_LINES, 1);
	tap_fails(umount(mount.path), EBUSY, "a mount with an open file stays: EBUSY");
	detach(&mount);
	refused("a file of a mount that is gone is open");
	close(file);
	refused("only a mapping is left");
	tap_equal(text_wrong(memory, 2, TEXT_LINES, 1), 0, "which has every byte");

	/* A child keeps the mapping. */
	if (pipe(end) || pipe(ends))
		tap_bail("pipe");
	child = fork();
	if (!child) {
		close(end[1]);
		_exit(read(end[0], &byte, 1) != 0 || text_wrong(memory, 2, TEXT_LINES, 1));
	}
	close(end[0]);
	vector.iov_base = memory;
	if (vmsplice(ends[1], &vector, 1, 0) != PAGE)
		tap_bail("vmsplice");
	memcpy(copy, memory, PAGE);
	unmap_pages(memory, 2);
	refused("a child has it mapped");
	close(end[1]);
	tap_equal(ended(child), 0, "who has every byte too");
	refused("a pipe holds one of its pages");
	char held[PAGE];
	tap_ok(read(ends[0], held, PAGE) == PAGE && !memcmp(held, copy, PAGE), "with its bytes");
	close(ends[0]);
	close(ends[1]);
	tap_ok(wait_until(!hzmem_unload()), "with nothing left it is unloaded");
	tap_ok(access(HZ_SYSFS, F_OK), "and gone from sysfs");
	tap_fails(mount_error("hzmem", NULL) ? (errno = ENODEV, -1) : 0, ENODEV, "and cannot be mounted");
	tap_equal(hzmem_load(), 0, "it is loaded again");
}

static bool use(void)
{
	struct mount mount = mount_new("hzmem", "watermark=0,period=10ms");
	int file = file_new(&mount);
	char *memory = map_shared(file, 3), *private = map_private(file, 3);
	bool right;

	text_fill_all(memory, 3, TEXT_LINES, 5);
	text_fill(private, TEXT_RANDOM, 6);
	right = wait_until(count_of(&mount, "compressed") > 0);
	right &= !text_wrong(memory, 3, TEXT_LINES, 5) && text_right(private, TEXT_RANDOM, 6);
	unmap_pages(memory, 3);
	unmap_pages(private, 3);
	close(file);
	mount_end(&mount);
	return right;
}

static void in_a_loop(void)
{
	unsigned int failed = 0;

	for (unsigned int round = 0; round < 5; round++)
		if (!use() || !wait_until(!hzmem_unload()) || hzmem_load())
			failed++;
	tap_equal(failed, 0, "five times mounted, used, unmounted, unloaded and loaded");
	tap_fails(hzmem_load(), EEXIST, "it is loaded once");
}

/* Unmounting while the daemon compresses what is on the mount. */
static void while_busy(void)
{
	unsigned int wrong = 0;

	for (unsigned int round = 0; round < 6; round++) {
		struct mount mount = mount_new("hzmem", "watermark=0,period=1ms");
		int file = file_open(&mount, "left");
		char *memory = map_shared(file, 8);

		text_fill_all(memory, 8, TEXT_LINES, round);
		wrong += !text_right(memory, TEXT_LINES, round);
		unmap_pages(memory, 8);
		close(file);
		usleep(round * 5000);
		/* With all its data, resident and compressed. */
		mount_end(&mount);
	}
	tap_equal(wrong, 0, "six times unmounted while the daemon is at work");
	tap_equal(node_count(-1, "free"), node_count(-1, "total"), "every page is given back");
	tap_ok(wait_until(!hzmem_unload()) && !hzmem_load(), "and the module can go");
}

/* Somebody mounts and unmounts all the time; unloading succeeds or is refused, and waits for neither. */
static void while_mounted(void)
{
	unsigned int unloaded = 0, strange = 0;
	pid_t child = fork();

	if (!child)
		for (;;)
			mount_error("hzmem", "size=2M");
	for (unsigned int round = 0; round < 500 && unloaded < 5; round++) {
		if (!hzmem_unload()) {
			unloaded++;
			strange += hzmem_load() != 0;
		} else {
			strange += errno != EAGAIN && errno != EBUSY;
			usleep(1000);
		}
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	/* Killed between the two, it leaves a mount behind, which only this test's folders can be. */
	if (system("grep ' hzmem ' /proc/mounts | cut -d ' ' -f 2 | xargs -r -n 1 umount"))
		tap_note("umount failed");
	tap_equal(strange, 0, "while somebody mounts and unmounts, it is unloaded or refuses");
	tap_note("unloaded %u times", unloaded);
}

static int load_with(const char *parameters)
{
	int file = open(HZ_MODULE, O_RDONLY | O_CLOEXEC), result, error;

	result = syscall(SYS_finit_module, file, parameters, 0);
	error = errno;
	close(file);
	if (!result)
		hzmem_unload();
	errno = error;
	return result;
}

static void parameters(void)
{
	/* The first is System RAM, where the kernel's programs are; then what is no range at all. */
	static const char *const wrong[] = {
		"memory=2M@16M", "memory=16M", "memory=16M@", "memory=@16M", "memory=16K@256M", "memory=3M@256M",
		"memory=16M@257M", "memory=none", "memory=0@256M", "memory=16M@256M,8M@256M",
		"memory=16M@0xffffffffffe00000", "memory=16M@1T", "memory=16M@3G",
		/* Reserved, but by the firmware: on a PC of QEMU's the last 12 GiB below 1 TiB. */
		"memory=16M@1012G", "section=1", "section=0", "section=3M",
	};

	if (!wait_until(!hzmem_unload()))
		tap_bail("unload hzmem");
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		int result = load_with(wrong[i]);

		tap_ok(result < 0 && (errno == EINVAL || errno == EBUSY || errno == ENXIO || errno == ERANGE),
		       "%s is refused", wrong[i]);
		if (result < 0)
			tap_note("%s", strerror(errno));
	}
	tap_equal(load_with(""), 0, "without memory it is loaded");
	tap_equal(hzmem_load(), 0, "after all that the right ones are taken");
	tap_equal(node_count(-1, "free"), node_count(-1, "total"), "with all pages free");
	tap_ok(use(), "and it works");
}

/* A mount of a module that has no memory at all. */
static void without_memory(void)
{
	int file = open(HZ_MODULE, O_RDONLY | O_CLOEXEC);
	struct mount mount;
	char *memory;

	if (!wait_until(!hzmem_unload()))
		tap_bail("unload hzmem");
	tap_equal(syscall(SYS_finit_module, file, "", 0), 0, "loaded without memory");
	close(file);
	mount = mount_new("hzmem", NULL);
	file = file_new(&mount);
	memory = map_shared(file, 1);
	tap_ok(write_faults(memory) && read_faults(memory), "it can be mounted and mapped, and a touch is a signal");
	unmap_pages(memory, 1);
	close(file);
	mount_end(&mount);
	tap_ok(wait_until(!hzmem_unload()) && !hzmem_load(), "and it can go");
}

int main(void)
{
	if (access(HZ_MODULE, R_OK) || !getenv("HZMEM_PARAMETERS")) {
		tap_skip("unloading", "there is no " HZ_MODULE " to load again, or no HZMEM_PARAMETERS to do it with");
		return tap_end();
	}
	in_use();
	in_a_loop();
	while_busy();
	while_mounted();
	parameters();
	without_memory();
	return tap_end();
}
