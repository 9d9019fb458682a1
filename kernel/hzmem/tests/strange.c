// SPDX-License-Identifier: GPL-2.0
/*
 * System calls that walk, move, mark, poison, dump or send memory, on huge pages of hzmem that are mapped, private and
 * compressed: whatever they answer, every byte stays, and the kernel has nothing to say (which is for whoever runs this).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hz.h"

#define PAGES 4
#define THP "/sys/kernel/mm/transparent_hugepage/enabled"

static struct mount mount_;
static int file, other_file;
static char *shared, *private;

static void fill_all(void)
{
	text_fill_all(shared, PAGES, TEXT_LINES, 1);
	text_fill_all(private, PAGES, TEXT_LINES, 100);
}

static bool all_right(void)
{
	return !text_wrong(shared, PAGES, TEXT_LINES, 1) && !text_wrong(private, PAGES, TEXT_LINES, 100);
}

/* ---- Advice ------------------------------------------------------------ */

/* All but MADV_HWPOISON, which breaks what it is given: see poison.c. */
static void advice(void)
{
	static const struct {
		int advice;
		const char *name;
	} all[] = {
		{ MADV_NORMAL, "NORMAL" }, { MADV_RANDOM, "RANDOM" }, { MADV_SEQUENTIAL, "SEQUENTIAL" },
		{ MADV_WILLNEED, "WILLNEED" }, { MADV_DONTNEED, "DONTNEED" }, { MADV_FREE, "FREE" },
		{ MADV_MERGEABLE, "MERGEABLE" }, { MADV_UNMERGEABLE, "UNMERGEABLE" }, { MADV_HUGEPAGE, "HUGEPAGE" },
		{ MADV_NOHUGEPAGE, "NOHUGEPAGE" }, { MADV_COLD, "COLD" }, { MADV_PAGEOUT, "PAGEOUT" },
		{ MADV_POPULATE_READ, "POPULATE_READ" }, { MADV_POPULATE_WRITE, "POPULATE_WRITE" },
		{ MADV_COLLAPSE, "COLLAPSE" }, { MADV_DONTDUMP, "DONTDUMP" }, { MADV_DODUMP, "DODUMP" },
		{ 24, "DONTNEED_LOCKED" }, { 102, "GUARD_INSTALL" }, { MADV_WIPEONFORK, "WIPEONFORK" },
		{ MADV_KEEPONFORK, "KEEPONFORK" }, { 101, "SOFT_OFFLINE" },
	};

	for (unsigned int i = 0; i < sizeof(all) / sizeof(*all); i++) {
		int whole = madvise(shared, PAGES * HUGE, all[i].advice) ? errno : 0;
		int own = madvise(private, PAGES * HUGE, all[i].advice) ? errno : 0;
		/* A part of a page where that does not split the mapping. */
		int part = madvise(private + HUGE + PAGE, 3 * PAGE, all[i].advice) ? errno : 0;

		tap_ok(all_right(), "MADV_%s: every byte is there", all[i].name);
		tap_note("answers: %s, %s, and for a part %s", strerror(whole), strerror(own), strerror(part));
	}
}

/* ---- Reports ----------------------------------------------------------- */

static bool read_whole(const char *path)
{
	static char buffer[1 << 16];
	int opened = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (opened < 0)
		return false;
	do
		length = read(opened, buffer, sizeof(buffer));
	while (length > 0);
	close(opened);
	return !length;
}

static void reports(void)
{
	static const char *const files[] = {
		"/proc/self/smaps", "/proc/self/smaps_rollup", "/proc/self/numa_maps", "/proc/self/maps", "/proc/self/status",
	};
	unsigned char in_core[PAGES * HUGE / PAGE];

	for (unsigned int i = 0; i < sizeof(files) / sizeof(*files); i++) {
		if (access(files[i], F_OK))
			continue;
		tap_ok(read_whole(files[i]), "%s can be read", files[i]);
	}
	tap_equal(mincore(shared, PAGES * HUGE, in_core), 0, "mincore");
	for (int how = 1; how <= 5; how++) {
		char number[2] = { '0' + how, 0 };

		write_file("/proc/self/clear_refs", number);
	}
	tap_ok(all_right(), "clear_refs, all of its ways: every byte is there");
}

/* ---- NUMA, locks ------------------------------------------------------- */

static void moved_about(void)
{
	void *pages[PAGES];
	int nodes_[PAGES] = { 0 }, status[PAGES];
	unsigned long mask = 1;

	for (int i = 0; i < PAGES; i++)
		pages[i] = shared + i * HUGE + 5 * PAGE;
	syscall(SYS_move_pages, 0, PAGES, pages, nodes_, status, 2);
	syscall(SYS_move_pages, 0, PAGES, pages, NULL, status, 2);
	tap_ok(all_right(), "move_pages: every byte is there");
	syscall(SYS_mbind, shared, PAGES * HUGE, 2, &mask, 64, 3);
	syscall(SYS_mbind, private + HUGE, HUGE, 1, &mask, 64, 2);
	syscall(SYS_migrate_pages, 0, 64, &mask, &mask);
	tap_ok(all_right(), "mbind and migrate_pages: every byte is there");
	mlockall(MCL_CURRENT | MCL_FUTURE);
	munlockall();
	tap_ok(all_right(), "mlockall: every byte is there");
}

/* ---- Where huge pages are forbidden ------------------------------------ */

/* Whether the page at memory is one run of frames, as a huge page is. */
static bool in_one_piece(const volatile char *memory)
{
	uint64_t first, last;

	/* It may be compressed at any time, and has no frames then: touched, and looked at again. */
	for (int tries = 0; tries < 1000; tries++) {
		(void)*memory;
		first = frame_of((const void *)memory);
		last = frame_of((const void *)(memory + HUGE - PAGE));
		if (first && last)
			return first % 512 == 0 && last == first + 511;
	}
	return false;
}

static bool without_thp(void *argument)
{
	char *memory;

	(void)argument;
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		return false;
	memory = map_private(file, PAGES);
	if (!all_right() || text_wrong(memory, PAGES, TEXT_LINES, 1))
		return false;
	text_fill(memory, TEXT_RANDOM, 9);
	text_fill(private, TEXT_RANDOM, 10);
	return text_right(memory, TEXT_RANDOM, 9) && text_right(private, TEXT_RANDOM, 10) && in_one_piece(memory);
}

static void forbidden(void)
{
	char mode[64] = "";
	int opened = open(THP, O_RDONLY | O_CLOEXEC);

	tap_ok(in_child(without_thp, NULL), "a process that has huge pages turned off has hzmem's, as with hugetlbfs");
	if (opened < 0 || read(opened, mode, sizeof(mode) - 1) <= 0)
		tap_bail("read " THP);
	close(opened);
	write_file(THP, "never");
	tap_ok(in_child(without_thp, NULL), "so has one where all have");
	write_file(THP, strstr(mode, "[always]") ? "always" : strstr(mode, "[madvise]") ? "madvise" : "never");
}

/* ---- Debuggers and dumps ----------------------------------------------- */

static bool wait_for_parent(void *argument)
{
	(void)argument;
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	return private[7] == 0x55 && shared[7] == 0x66;
}

static void traced(void)
{
	pid_t child = fork();
	int status;
	char was = shared[7];
	long word;

	if (!child)
		_exit(!wait_for_parent(NULL));
	waitpid(child, &status, 0);
	word = ptrace(PTRACE_PEEKDATA, child, private, NULL);
	tap_ok(word == *(long *)private, "ptrace reads a private page");
	word = (word & 0x00ffffffffffffffL) | 0x55L << 56;
	tap_equal(ptrace(PTRACE_POKEDATA, child, private, (void *)word), 0, "and writes it");
	word = (*(long *)shared & 0x00ffffffffffffffL) | 0x66L << 56;
	tap_equal(ptrace(PTRACE_POKEDATA, child, shared, (void *)word), 0, "and a shared one");
	ptrace(PTRACE_CONT, child, NULL, NULL);
	tap_equal(ended(child), 0, "the process has what was written");
	tap_ok(shared[7] == 0x66, "so has who shares the page");
	shared[7] = was;
	tap_ok(all_right(), "and nobody else: every byte is there");
}

/* A process dies and leaves a core file, with its pages in it. */
static void dumped(void)
{
	struct rlimit no_limit = { RLIM_INFINITY, RLIM_INFINITY };
	static char buffer[HUGE];
	bool found = false;
	uint64_t first;
	int status, core;
	pid_t child;

	if (!write_file("/proc/sys/kernel/core_pattern", "/tmp/core")) {
		tap_note("the kernel writes no core files");
		return;
	}
	child = fork();
	if (!child) {
		setrlimit(RLIMIT_CORE, &no_limit);
		/* Memory of a file that is shared is in it only if asked for. */
		write_file("/proc/self/coredump_filter", "0xff");
		abort();
	}
	waitpid(child, &status, 0);
	core = open("/tmp/core", O_RDONLY | O_CLOEXEC);
	if (core < 0) {
		tap_note("the kernel wrote no core file");
		return;
	}
	for (off_t at = 0; !found && pread(core, &first, sizeof(first), at) == sizeof(first); at += PAGE)
		found = first == *(uint64_t *)private && pread(core, buffer, HUGE, at) == (ssize_t)HUGE &&
			text_is(buffer, TEXT_LINES, 100);
	close(core);
	unlink("/tmp/core");
	tap_ok(found, "a core file has the page");
	tap_ok(all_right(), "and every byte is there");
}

/* ---- Sending ----------------------------------------------------------- */

static void sent(void)
{
	static char buffer[1 << 16];
	struct iovec vector = { .iov_base = private + HUGE, .iov_len = sizeof(buffer) };
	int ends[2], sink = memfd_create("sink", MFD_CLOEXEC);

	if (pipe(ends) || sink < 0)
		tap_bail("pipe, memfd_create");
	/* A gift to the pipe, which may do with the page what it likes, and is not to take it. */
	tap_equal(vmsplice(ends[1], &vector, 1, SPLICE_F_GIFT), sizeof(buffer), "vmsplice as a gift");
	tap_equal(splice(ends[0], NULL, sink, NULL, sizeof(buffer), SPLICE_F_MOVE), sizeof(buffer), "moved on into a file");
	tap_ok(pread(sink, buffer, sizeof(buffer), 0) == sizeof(buffer) && !memcmp(buffer, private + HUGE, sizeof(buffer)),
	       "which has the bytes");
	tap_equal(sendfile(sink, file, &(off_t){ 0 }, HUGE), -1, "sendfile from the file is refused, as hugetlbfs does");
	tap_note("%s", strerror(errno));
	close(ends[0]);
	close(ends[1]);

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		tap_bail("socketpair");
	tap_ok(send(ends[0], shared, sizeof(buffer), MSG_DONTWAIT) > 0 &&
	       recv(ends[1], buffer, PAGE, 0) == (ssize_t)PAGE && !memcmp(buffer, shared, PAGE), "sent by a socket");
	close(ends[0]);
	close(ends[1]);
	tap_ok(pread(sink, shared, 16 * PAGE, 0) == 16 * (ssize_t)PAGE && !memcmp(shared, private + HUGE, 16 * PAGE),
	       "read() into a page of the file");
	text_fill(shared, TEXT_LINES, 1);
	close(sink);
	tap_ok(all_right(), "after all that every byte is there");
}

/* ---- userfaultfd ------------------------------------------------------- */

static bool with_userfaultfd(void *argument)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .range = { .start = (uintptr_t)private, .len = PAGES * HUGE } };
	static const uint64_t modes[] = { UFFDIO_REGISTER_MODE_MISSING, UFFDIO_REGISTER_MODE_WP, UFFDIO_REGISTER_MODE_MINOR };
	struct uffdio_writeprotect protect = { .range = range.range, .mode = UFFDIO_WRITEPROTECT_MODE_WP };
	unsigned int served = 0;
	int uffd;

	/* UFFD_FEATURE_WP_ASYNC and WP_UNPOPULATED, with which any mapping can be had. */
	api.features = (uintptr_t)argument;
	uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api))
		return true;
	for (unsigned int i = 0; i < 3; i++) {
		range.mode = modes[i];
		if (ioctl(uffd, UFFDIO_REGISTER, &range))
			continue;
		ioctl(uffd, UFFDIO_WRITEPROTECT, &protect);
		/* A touch may be a signal now; it is not to be another's bytes. */
		for (unsigned int page = 0; page < PAGES; page++) {
			alarm(1200);
			if (api.features && !write_faults(private + page * HUGE))
				served += text_right(private + page * HUGE, TEXT_LINES, 100 + page);
			else
				served++;
			alarm(0);
		}
		ioctl(uffd, UFFDIO_UNREGISTER, &range.range);
		return served == PAGES;
	}
	return true;
}

static void userfaults(void)
{
	if (syscall(SYS_userfaultfd, 0) < 0 && errno == ENOSYS) {
		tap_note("the kernel has no userfaultfd");
		return;
	}
	tap_ok(in_child(with_userfaultfd, NULL), "userfaultfd");
	tap_ok(in_child(with_userfaultfd, (void *)(uintptr_t)(1 << 15 | 1 << 13)), "userfaultfd's asynchronous write protection");
	tap_ok(all_right(), "every byte is there");
}

/* ---- What the kernel counts -------------------------------------------- */

/* Pages of 4 KiB that are counted as this process's own. */
static long resident(void)
{
	FILE *statm = fopen("/proc/self/statm", "re");
	long all, resident = -1;

	if (!statm || fscanf(statm, "%ld %ld", &all, &resident) != 2)
		tap_bail("read /proc/self/statm");
	fclose(statm);
	return resident;
}

/* Whether a kernel counts our pages or not, none stays counted: not where an entry was split to be written, nor unmapped. */
static void counted(void)
{
	int new = file_new(&mount_);
	long before = resident();
	unsigned int refused = 0;
	long most = 0;

	if (ftruncate(new, PAGES * HUGE))
		tap_bail("ftruncate");
	for (int flags = MAP_SHARED; flags <= MAP_PRIVATE; flags++) {
		for (unsigned int round = 0; round < 8; round++) {
			char *memory = map_pages(new, PAGES, PROT_READ, flags, 0);
			long now;

			for (unsigned int page = 0; page < PAGES; page++)
				refused += read_faults(memory + page * HUGE);
			if (mprotect(memory, PAGES * HUGE, PROT_READ | PROT_WRITE))
				tap_bail("mprotect");
			for (unsigned int page = 0; page < PAGES; page++)
				refused += write_faults(memory + page * HUGE);
			now = resident();
			if (now > most)
				most = now;
			unmap_pages(memory, PAGES);
		}
	}
	tap_equal(refused, 0, "pages are read, and then written");
	tap_note("of %ld pages of 4 KiB that were mapped at once %ld were counted", (long)(PAGES * HUGE / PAGE), most - before);
	/* What the C library took meanwhile, and what each CPU counts for itself. */
	tap_ok(resident() - before < (long)(HUGE / PAGE), "none of them is counted any more");
	close(new);
}

int main(void)
{
	long before = node_count(-1, "free");

	for (int eager = 0; eager < 2; eager++) {
		mount_ = mount_new("hzmem", eager ? "watermark=0,period=10ms" : "watermark=100,period=3600");
		file = file_new(&mount_);
		shared = map_shared(file, PAGES);
		other_file = file_new(&mount_);
		private = map_private(other_file, PAGES);
		fill_all();
		tap_note("%s", eager ? "pages are compressed all the time" : "pages stay where they are");
		/* Before the advice, of which MADV_DONTDUMP cannot be taken back. */
		dumped();
		advice();
		reports();
		moved_about();
		forbidden();
		traced();
		sent();
		userfaults();
		counted();
		unmap_pages(shared, PAGES);
		unmap_pages(private, PAGES);
		close(file);
		close(other_file);
		mount_end(&mount_);
		tap_ok(wait_until(node_count(-1, "free") == before), "every page is given back");
	}
	return tap_end();
}
