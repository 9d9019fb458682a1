/* SPDX-License-Identifier: GPL-2.0 */
/* Mounts of hzmem (or of hugetlbfs, to which it is held), their files, and what sysfs says of them. */
#ifndef HZ_H
#define HZ_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "device.h"
#include "tap.h"
#include "text.h"

#define HZ_SYSFS "/sys/fs/hzmem/"
#define HZ_DEBUGFS "/sys/kernel/debug/hzmem/"
#define HZ_MODULE "/mega/modules/hzmem.ko"

struct mount {
	const char *type;
	char path[64];
	char sysfs[64];		/* its folder in /sys/fs/hzmem */
};

/*
 * The filesystem that the program tests: its argument, or hzmem. With hugetlbfs, huge pages are put
 * into the kernel's pool first, as many as `pages`; bails out when they are not to be had.
 */
const char *fs_type(int argc, char **argv, unsigned int pages);
bool fs_is_hzmem(const char *type);
/* Gives the kernel's pool back. */
void fs_end(const char *type);

/* Mounts at a new folder below /tmp; options may be NULL. Bails out when that fails. */
struct mount mount_new(const char *type, const char *options);
/* 0, or the errno with which the options are refused. What was mounted is unmounted again. */
int mount_error(const char *type, const char *options);
/* Bails out when it cannot be unmounted. */
void mount_end(struct mount *mount);

/* Opens a file of the mount, creating it. */
int file_open(const struct mount *mount, const char *name);
void file_unlink(const struct mount *mount, const char *name);
/* Opens a new file that has no name, so that no other process can open or unlink it. */
int file_new(const struct mount *mount);

/* mmap() that bails out; pages of 2 MiB. */
char *map_pages(int file, unsigned int pages, int protection, int flags, off_t offset);
/* All of a file's first pages, shared and writable. */
char *map_shared(int file, unsigned int pages);
/* The same, private. */
char *map_private(int file, unsigned int pages);
void unmap_pages(char *memory, unsigned int pages);

/* A number that sysfs has of the mount; bails out where there is none. */
long count_of(const struct mount *mount, const char *name);
/* The text, without its line end. */
void text_of(const struct mount *mount, const char *name, char *text, size_t size);
/* A number of a node: total, free, pinned, sections, daemon_cpu_ns; node -1 is all nodes together. */
long node_count(int node, const char *name);
/* A range of hzmem's memory. */
struct range {
	unsigned long start;
	unsigned long bytes;
	long node;
	char origin[16];
	unsigned long free;
};

/* False where there is no range of that number. */
bool range_read(unsigned int number, struct range *range);
/* How many nodes hzmem knows. */
int nodes(void);

/* Free pages of whatever the type takes its pages from. */
long pool_free(const char *type);

/* Waits until the condition holds, for at most five minutes, which no test should need. False after that. */
#define wait_until(condition)                                              \
	({                                                                 \
		int patience__ = 30000;                                    \
		while (!(condition) && patience__-- > 0)                   \
			usleep(10000);                                     \
		patience__ > 0;                                            \
	})

/* Whether a touch of the byte ends in SIGBUS (or SIGSEGV). In this process, so that its page tables are used. */
bool read_faults(const volatile char *byte);
bool write_faults(volatile char *byte);

/* Runs a function in a child: true if it returned true. What kills it is a false. */
bool in_child(bool (*work)(void *), void *argument);
/* Starts a function in a child, which ends when it returns. */
pid_t start(void (*work)(void *), void *argument);
/* 0 if the child ended by itself with 0. */
int ended(pid_t child);

/* Memory that processes share with each other; zero. */
void *share(size_t size);

/* Lines of the kernel's log, from now on, that contain the text. */
int log_open(void);
unsigned int log_lines(int log, const char *text);

/* Loads hzmem.ko as this guest's HZMEM_PARAMETERS say: 0, or -1 with errno. */
int hzmem_load(void);
/* 0, or -1 with errno: EAGAIN (EWOULDBLOCK) it is in use. Never waits. */
int hzmem_unload(void);

#endif /* HZ_H */
