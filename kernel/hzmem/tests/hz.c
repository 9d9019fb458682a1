// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hz.h"

/* ---- The filesystem and its mounts ------------------------------------- */

#define POOL "/sys/kernel/mm/hugepages/hugepages-2048kB/"

bool fs_is_hzmem(const char *type)
{
	return !strcmp(type, "hzmem");
}

const char *fs_type(int argc, char **argv, unsigned int pages)
{
	const char *type = argc > 1 ? argv[1] : "hzmem";
	char number[16];

	if (fs_is_hzmem(type))
		return type;
	snprintf(number, sizeof(number), "%u", pages);
	if (!write_file(POOL "nr_hugepages", number) || read_number(POOL "nr_hugepages", 0) < (long)pages)
		tap_bail("put %u huge pages into the kernel's pool", pages);
	return type;
}

void fs_end(const char *type)
{
	if (!fs_is_hzmem(type))
		write_file(POOL "nr_hugepages", "0");
}

struct mount mount_new(const char *type, const char *options)
{
	struct mount mount_ = { .type = type };
	struct stat status;

	strcpy(mount_.path, "/tmp/hz.XXXXXX");
	if (!mkdtemp(mount_.path))
		tap_bail("mkdtemp");
	if (mount("none", mount_.path, type, 0, options))
		tap_bail("mount %s with options %s", type, options ? options : "(none)");
	if (stat(mount_.path, &status))
		tap_bail("stat %s", mount_.path);
	snprintf(mount_.sysfs, sizeof(mount_.sysfs), HZ_SYSFS "mounts/%u:%u/", major(status.st_dev),
		 minor(status.st_dev));
	return mount_;
}

int mount_error(const char *type, const char *options)
{
	char path[] = "/tmp/hz.XXXXXX";
	int error = 0;

	if (!mkdtemp(path))
		tap_bail("mkdtemp");
	if (mount("none", path, type, 0, options))
		error = errno;
	else if (umount(path))
		tap_bail("umount %s", path);
	rmdir(path);
	return error;
}

void mount_end(struct mount *mount)
{
	if (umount(mount->path))
		tap_bail("umount %s", mount->path);
	rmdir(mount->path);
}

/* ---- Files and mappings ------------------------------------------------ */

int file_open(const struct mount *mount, const char *name)
{
	char path[128];
	int file;

	snprintf(path, sizeof(path), "%s/%s", mount->path, name);
	file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0)
		tap_bail("open %s", path);
	return file;
}

void file_unlink(const struct mount *mount, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", mount->path, name);
	if (unlink(path))
		tap_bail("unlink %s", path);
}

int file_new(const struct mount *mount)
{
	int file = open(mount->path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (file < 0)
		tap_bail("open a file without a name in %s", mount->path);
	return file;
}

char *map_pages(int file, unsigned int pages, int protection, int flags, off_t offset)
{
	char *memory = mmap(NULL, pages * HUGE, protection, flags, file, offset);

	if (memory == MAP_FAILED)
		tap_bail("mmap of %u huge pages", pages);
	return memory;
}

char *map_shared(int file, unsigned int pages)
{
	return map_pages(file, pages, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
}

char *map_private(int file, unsigned int pages)
{
	return map_pages(file, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE, 0);
}

void unmap_pages(char *memory, unsigned int pages)
{
	if (munmap(memory, pages * HUGE))
		tap_bail("munmap of %u huge pages", pages);
}

/* ---- sysfs ------------------------------------------------------------- */

long count_of(const struct mount *mount, const char *name)
{
	char path[128];
	long count;

	snprintf(path, sizeof(path), "%s%s", mount->sysfs, name);
	count = read_number(path, -1);
	if (count < 0)
		tap_bail("read %s", path);
	return count;
}

void text_of(const struct mount *mount, const char *name, char *text, size_t size)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", mount->sysfs, name);
	file = fopen(path, "re");
	if (!file || !fgets(text, size, file))
		tap_bail("read %s", path);
	fclose(file);
	text[strcspn(text, "\n")] = 0;
}

static void node_path(char *path, size_t size, int node, const char *name)
{
	snprintf(path, size, HZ_SYSFS "nodes/node%d/%s", node, name);
}

#define MAX_NODES 8

long node_count(int node, const char *name)
{
	char path[128];
	long sum = 0, count;

	for (int i = node < 0 ? 0 : node; i < (node < 0 ? MAX_NODES : node + 1); i++) {
		node_path(path, sizeof(path), i, name);
		count = read_number(path, -1);
		if (count >= 0)
			sum += count;
		else if (node >= 0)
			tap_bail("read %s", path);
	}
	return sum;
}

bool range_read(unsigned int number, struct range *range)
{
	char path[128], text[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), HZ_SYSFS "ranges/%u/start", number);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		tap_bail("read %s", path);
	fclose(file);
	range->start = strtoul(text, NULL, 16);
	snprintf(path, sizeof(path), HZ_SYSFS "ranges/%u/origin", number);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%15s", range->origin) != 1)
		tap_bail("read %s", path);
	fclose(file);
	snprintf(path, sizeof(path), HZ_SYSFS "ranges/%u/bytes", number);
	range->bytes = read_number(path, 0);
	snprintf(path, sizeof(path), HZ_SYSFS "ranges/%u/node", number);
	range->node = read_number(path, -1);
	snprintf(path, sizeof(path), HZ_SYSFS "ranges/%u/free", number);
	range->free = read_number(path, 0);
	return true;
}

int nodes(void)
{
	char path[128];
	int found = 0;

	for (int i = 0; i < MAX_NODES; i++) {
		node_path(path, sizeof(path), i, "total");
		found += read_number(path, 0) > 0;
	}
	return found;
}

long pool_free(const char *type)
{
	if (fs_is_hzmem(type))
		return node_count(-1, "free");
	return read_number(POOL "free_hugepages", -1);
}

/* ---- Faults ------------------------------------------------------------ */

static __thread sigjmp_buf back;

static void jump_back(int signal)
{
	siglongjmp(back, signal);
}

/* Touches the byte; whether that raised a signal. */
static bool touch_faults(volatile char *byte, bool write)
{
	struct sigaction jump = { .sa_handler = jump_back, .sa_flags = SA_NODEFER };
	struct sigaction bus, segv;
	int signal;

	sigaction(SIGBUS, &jump, &bus);
	sigaction(SIGSEGV, &jump, &segv);
	signal = sigsetjmp(back, 1);
	if (!signal) {
		if (write)
			*byte = *byte + 0;
		else
			(void)*byte;
	}
	sigaction(SIGBUS, &bus, NULL);
	sigaction(SIGSEGV, &segv, NULL);
	return signal != 0;
}

bool read_faults(const volatile char *byte)
{
	return touch_faults((volatile char *)byte, false);
}

bool write_faults(volatile char *byte)
{
	return touch_faults(byte, true);
}

/* ---- Processes --------------------------------------------------------- */

bool in_child(bool (*work)(void *), void *argument)
{
	pid_t child = fork();

	if (child < 0)
		tap_bail("fork");
	if (!child)
		_exit(work(argument) ? 0 : 1);
	return !ended(child);
}

pid_t start(void (*work)(void *), void *argument)
{
	pid_t child = fork();

	if (child < 0)
		tap_bail("fork");
	if (!child) {
		work(argument);
		_exit(0);
	}
	return child;
}

int ended(pid_t child)
{
	int status = -1;

	if (waitpid(child, &status, 0) != child)
		return -1;
	return status;
}

void *share(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		tap_bail("mmap of %zu bytes", size);
	return memory;
}

/* ---- The kernel's log -------------------------------------------------- */

int log_open(void)
{
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (log < 0 || lseek(log, 0, SEEK_END) < 0)
		tap_bail("open /dev/kmsg");
	return log;
}

unsigned int log_lines(int log, const char *text)
{
	char line[8192];
	unsigned int found = 0;
	ssize_t length;

	for (;;) {
		length = read(log, line, sizeof(line) - 1);
		/* EPIPE: lines were lost before they were read; the next read goes on after them. */
		if (length < 0 && errno == EPIPE)
			continue;
		if (length < 0)
			return found;
		line[length] = 0;
		found += strstr(line, text) != NULL;
	}
}

/* ---- The module -------------------------------------------------------- */

int hzmem_load(void)
{
	const char *parameters = getenv("HZMEM_PARAMETERS");
	int file = open(HZ_MODULE, O_RDONLY | O_CLOEXEC);
	int result, error;

	if (file < 0)
		return -1;
	result = syscall(SYS_finit_module, file, parameters ? parameters : "", 0);
	error = errno;
	close(file);
	errno = error;
	return result;
}

int hzmem_unload(void)
{
	return syscall(SYS_delete_module, "hzmem", O_NONBLOCK);
}
