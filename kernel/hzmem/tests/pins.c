// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that somebody holds beside those that map them: by a pipe, by io_uring's fixed buffers, by O_DIRECT, by another
 * process's system call. They are not given to anyone else, nor (on hzmem) compressed, until they are let go.
 * pins [hzmem|hugetlbfs]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hz.h"

static const char *type;
static struct mount mount_;
static long before;

static void nothing_left(const char *what)
{
	tap_ok(wait_until(pool_free(type) == before), "%s: every page is given back", what);
}

/* Takes every free page, writes to it and gives it back: what was not to be reused is not what it was, if it was. */
static void reuse_all(void)
{
	unsigned int free = pool_free(type);
	int file = file_new(&mount_);
	char *memory = map_shared(file, free);

	for (unsigned int i = 0; i < free; i++)
		memset(memory + i * HUGE, 0x5a, HUGE);
	unmap_pages(memory, free);
	close(file);
}

/* ---- A pipe ------------------------------------------------------------ */

struct pipe_pin {
	int ends[2];
	char expected[PAGE];
};

static struct pipe_pin pipe_pin(char *page)
{
	struct pipe_pin pin;
	struct iovec vector = { .iov_base = page, .iov_len = PAGE };

	memcpy(pin.expected, page, PAGE);
	if (pipe(pin.ends) || vmsplice(pin.ends[1], &vector, 1, 0) != PAGE)
		tap_bail("vmsplice");
	return pin;
}

/* Lets go; whether the pipe still had the page's bytes. */
static bool pipe_unpin(struct pipe_pin *pin)
{
	char copy[PAGE];
	bool right = read(pin->ends[0], copy, PAGE) == PAGE && !memcmp(copy, pin->expected, PAGE);

	close(pin->ends[0]);
	close(pin->ends[1]);
	return right;
}

static void held_past_end(void)
{
	static const char *const ends[] = { "unmap and close", "truncate", "punch a hole", "exit" };

	for (unsigned int end = 0; end < 4; end++) {
		int file = file_new(&mount_);
		char *memory = map_shared(file, 2);
		struct pipe_pin pin;

		text_fill_all(memory, 2, TEXT_RANDOM, 10 + end);
		pin = pipe_pin(memory + 7 * PAGE);
		if (end == 1)
			ftruncate(file, 0);
		if (end == 2)
			fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 2 * HUGE);
		unmap_pages(memory, 2);
		close(file);
		tap_equal(pool_free(type), before - 1, "%s: a page held by a pipe is not free", ends[end]);
		if (fs_is_hzmem(type))
			tap_equal(node_count(-1, "pinned"), 1, "and sysfs says so");
		reuse_all();
		tap_ok(pipe_unpin(&pin), "the pipe has what was in it");
		nothing_left(ends[end]);
	}
}

/* Private pages are held as well: by a pipe, while the process writes on. */
static void private_held(void)
{
	int file = file_new(&mount_);
	char *memory = map_private(file, 2);
	struct pipe_pin pin;

	text_fill_all(memory, 2, TEXT_RANDOM, 30);
	pin = pipe_pin(memory);
	unmap_pages(memory, 2);
	close(file);
	reuse_all();
	tap_ok(pipe_unpin(&pin), "a private page, unmapped: the pipe has what was in it");
	nothing_left("private");
}

/* ---- io_uring ---------------------------------------------------------- */

struct ring {
	int file;
	struct io_uring_params parameters;
	void *submissions, *completions;
	struct io_uring_sqe *entries;
};

static bool ring_make(struct ring *ring)
{
	memset(ring, 0, sizeof(*ring));
	ring->file = syscall(SYS_io_uring_setup, 4, &ring->parameters);
	if (ring->file < 0)
		return false;
	ring->submissions = mmap(NULL, ring->parameters.sq_off.array + 4 * sizeof(uint32_t), PROT_READ | PROT_WRITE,
				 MAP_SHARED, ring->file, IORING_OFF_SQ_RING);
	ring->completions = mmap(NULL, ring->parameters.cq_off.cqes + 8 * sizeof(struct io_uring_cqe),
				 PROT_READ | PROT_WRITE, MAP_SHARED, ring->file, IORING_OFF_CQ_RING);
	ring->entries = mmap(NULL, 4 * sizeof(*ring->entries), PROT_READ | PROT_WRITE, MAP_SHARED, ring->file,
			     IORING_OFF_SQES);
	if (ring->submissions == MAP_FAILED || ring->completions == MAP_FAILED || ring->entries == MAP_FAILED)
		tap_bail("mmap of io_uring");
	return true;
}

static uint32_t *word_at(void *base, uint32_t offset)
{
	return (uint32_t *)((char *)base + offset);
}

/* One read or write through registered buffer 0; what it returned. */
static int ring_transfer(struct ring *ring, int opcode, int file, void *memory, uint32_t length)
{
	uint32_t tail = *word_at(ring->submissions, ring->parameters.sq_off.tail);
	uint32_t slot = tail & *word_at(ring->submissions, ring->parameters.sq_off.ring_mask);
	uint32_t head = *word_at(ring->completions, ring->parameters.cq_off.head), at;
	struct io_uring_cqe *done;

	ring->entries[slot] = (struct io_uring_sqe){
		.opcode = opcode, .fd = file, .addr = (uintptr_t)memory, .len = length, .off = 0,
	};
	word_at(ring->submissions, ring->parameters.sq_off.array)[slot] = slot;
	__atomic_store_n(word_at(ring->submissions, ring->parameters.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring->file, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		tap_bail("io_uring_enter");
	at = head & *word_at(ring->completions, ring->parameters.cq_off.ring_mask);
	done = (struct io_uring_cqe *)((char *)ring->completions + ring->parameters.cq_off.cqes) + at;
	__atomic_store_n(word_at(ring->completions, ring->parameters.cq_off.head), head + 1, __ATOMIC_RELEASE);
	return done->res;
}

static bool ring_register(struct ring *ring, void *memory, size_t length)
{
	struct iovec vector = { .iov_base = memory, .iov_len = length };

	return !syscall(SYS_io_uring_register, ring->file, IORING_REGISTER_BUFFERS, &vector, 1);
}

static void ring_unregister(struct ring *ring)
{
	if (syscall(SYS_io_uring_register, ring->file, IORING_UNREGISTER_BUFFERS, NULL, 0))
		tap_bail("IORING_UNREGISTER_BUFFERS");
}

static void ring_end(struct ring *ring)
{
	munmap(ring->submissions, ring->parameters.sq_off.array + 4 * sizeof(uint32_t));
	munmap(ring->completions, ring->parameters.cq_off.cqes + 8 * sizeof(struct io_uring_cqe));
	munmap(ring->entries, 4 * sizeof(*ring->entries));
	close(ring->file);
}

/* A file that has known bytes, not on the filesystem tested. */
static int source_file(uint64_t seed)
{
	char *bytes = map_aligned(HUGE);
	int file = memfd_create("source", MFD_CLOEXEC);

	text_fill(bytes, TEXT_RANDOM, seed);
	if (file < 0 || pwrite(file, bytes, HUGE, 0) != (ssize_t)HUGE)
		tap_bail("write a memfd");
	munmap(bytes, HUGE);
	return file;
}

static bool child_keeps(void *argument)
{
	return text_right(argument, TEXT_LINES, 50);
}

/*
 * A buffer that a device may write at any time, at a fork: the parent's memory has what the device wrote, the child's what
 * there was at its birth.
 */
static void forked_while_held(struct ring *ring)
{
	int file = file_new(&mount_), source = source_file(51), go[2];
	char *memory = map_private(file, 2), byte;
	pid_t child;

	text_fill(memory, TEXT_LINES, 50);
	if (!ring_register(ring, memory, HUGE) || pipe(go)) {
		tap_ok(false, "io_uring takes a private page as a buffer (%s)", strerror(errno));
		return;
	}
	child = fork();
	if (!child)
		_exit(read(go[0], &byte, 1) != 1 || !child_keeps(memory));
	tap_equal(ring_transfer(ring, IORING_OP_READ_FIXED, source, memory, HUGE), HUGE,
		  "a private page in io_uring's hands at a fork: it reads into it afterwards");
	tap_ok(text_right(memory, TEXT_RANDOM, 51), "the parent has what was read");
	tap_equal(write(go[1], "g", 1), 1, "the child looks");
	tap_equal(ended(child), 0, "and has what there was at its birth");
	text_fill(memory, TEXT_LINES, 52);
	tap_equal(ring_transfer(ring, IORING_OP_WRITE_FIXED, source, memory, HUGE), HUGE,
		  "io_uring writes out the page");
	tap_ok(pread(source, memory + HUGE, HUGE, 0) == (ssize_t)HUGE && text_right(memory + HUGE, TEXT_LINES, 52),
	       "as the parent has written it since");
	unmap_pages(memory, 2);
	ring_unregister(ring);
	ftruncate(file, 0);
	close(file);
	close(source);
	close(go[0]);
	close(go[1]);
}

static void io_uring_holds(void)
{
	struct ring ring;
	int file, source;
	char *memory;

	if (!ring_make(&ring)) {
		tap_skip("io_uring", "this kernel has no io_uring");
		return;
	}
	file = file_new(&mount_);
	memory = map_shared(file, 2);
	source = source_file(41);
	text_fill_all(memory, 2, TEXT_LINES, 40);
	if (!tap_ok(ring_register(&ring, memory, 2 * HUGE), "io_uring takes two shared pages as a buffer"))
		tap_note("%s", strerror(errno));
	tap_equal(ring_transfer(&ring, IORING_OP_READ_FIXED, source, memory, HUGE), HUGE, "and reads into it");
	tap_ok(text_right(memory, TEXT_RANDOM, 41), "what the file has");
	unmap_pages(memory, 2);
	ftruncate(file, 0);
	close(file);
	tap_equal(pool_free(type), before - 2, "unmapped and cut off, both pages are held");
	reuse_all();
	/* The buffer is still io_uring's, at an address where nothing is any more. */
	tap_equal(ring_transfer(&ring, IORING_OP_WRITE_FIXED, source, memory + HUGE, HUGE), HUGE,
		  "io_uring writes out what it holds");
	memory = map_aligned(HUGE);
	tap_ok(pread(source, memory, HUGE, 0) == (ssize_t)HUGE && text_right(memory, TEXT_LINES, 41),
	       "which nobody has changed");
	munmap(memory, HUGE);
	ring_unregister(&ring);
	close(source);
	nothing_left("io_uring");

	forked_while_held(&ring);
	ring_end(&ring);
	nothing_left("io_uring at a fork");
}

/* ---- Other processes' system calls ------------------------------------- */

struct remote {
	char *shared, *private;
	int ready[2], go[2];
};

static bool is_read_and_written(void *argument)
{
	struct remote *remote = argument;
	char byte;

	return write(remote->ready[1], "r", 1) == 1 && read(remote->go[0], &byte, 1) == 1 &&
	       text_right(remote->shared, TEXT_RANDOM, 62) && text_right(remote->private, TEXT_RANDOM, 63);
}

static void from_outside(void)
{
	int file = file_new(&mount_), other = file_new(&mount_);
	struct remote remote = { .shared = map_shared(file, 1), .private = map_private(other, 1) };
	char *buffer = map_aligned(HUGE), byte;
	struct iovec here = { .iov_base = buffer, .iov_len = HUGE }, there = { .iov_len = HUGE };
	pid_t child;

	if (pipe(remote.ready) || pipe(remote.go))
		tap_bail("pipe");
	text_fill(remote.shared, TEXT_RANDOM, 60);
	text_fill(remote.private, TEXT_RANDOM, 61);
	child = fork();
	if (!child)
		_exit(!is_read_and_written(&remote));
	if (read(remote.ready[0], &byte, 1) != 1)
		tap_bail("read from the child");
	there.iov_base = remote.shared;
	tap_ok(process_vm_readv(child, &here, 1, &there, 1, 0) == (ssize_t)HUGE && text_right(buffer, TEXT_RANDOM, 60),
	       "process_vm_readv of a shared page");
	text_fill(buffer, TEXT_RANDOM, 62);
	tap_equal(process_vm_writev(child, &here, 1, &there, 1, 0), HUGE, "process_vm_writev to it");
	there.iov_base = remote.private;
	tap_ok(process_vm_readv(child, &here, 1, &there, 1, 0) == (ssize_t)HUGE && text_right(buffer, TEXT_RANDOM, 61),
	       "process_vm_readv of a private page");
	text_fill(buffer, TEXT_RANDOM, 63);
	tap_equal(process_vm_writev(child, &here, 1, &there, 1, 0), HUGE, "process_vm_writev to it");
	if (write(remote.go[1], "g", 1) != 1)
		tap_bail("write to the child");
	tap_equal(ended(child), 0, "the process has what was written");
	tap_ok(text_right(remote.shared, TEXT_RANDOM, 62), "so has who shares the page");
	tap_ok(text_right(remote.private, TEXT_RANDOM, 61), "and who shared it once has not");
	munmap(buffer, HUGE);
	unmap_pages(remote.shared, 1);
	unmap_pages(remote.private, 1);
	close(file);
	close(other);
	for (int i = 0; i < 2; i++) {
		close(remote.ready[i]);
		close(remote.go[i]);
	}
	nothing_left("process_vm_*");
}

/* A debugger's write, which ignores that the mapping is only for reading. */
static void forced(void)
{
	int file = file_new(&mount_), self = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	char *memory = map_shared(file, 1), *private, byte = 1;

	if (self < 0)
		tap_bail("open /proc/self/mem");
	text_fill(memory, TEXT_RANDOM, 70);
	private = map_pages(file, 1, PROT_READ, MAP_PRIVATE, 0);
	tap_ok(text_right(private, TEXT_RANDOM, 70), "a private mapping for reading");
	alarm(1200);
	tap_fails(pwrite(self, &byte, 1, (uintptr_t)private + 9), EIO, "a debugger's write to it is refused, as hugetlbfs does, and ends");
	alarm(0);
	tap_ok(pread(self, &byte, 1, (uintptr_t)private + 9) == 1 && byte == private[9], "its read is not");
	mprotect(private, HUGE, PROT_NONE);
	alarm(1200);
	tap_ok(pread(self, &byte, 1, (uintptr_t)private + 9) != 1 || byte == memory[9],
	       "its read of what may not be read at all ends, and has no other's byte");
	tap_fails(pwrite(self, &byte, 1, (uintptr_t)private + 9), EIO, "and its write is refused");
	alarm(0);
	mprotect(private, HUGE, PROT_READ);
	byte = ~memory[9];
	tap_equal(pwrite(self, &byte, 1, (uintptr_t)memory + 9), 1, "its write to a shared mapping is not");
	tap_ok(memory[9] == byte && private[9] == byte, "and is seen");
	unmap_pages(memory, 1);
	unmap_pages(private, 1);
	close(self);
	close(file);
	nothing_left("/proc/PID/mem");
}

/* ---- O_DIRECT in flight ------------------------------------------------ */

#define DISK "/dev/zram0"
#define PAGES 4

struct writer {
	char *memory;
	int disk;
	volatile bool stop;
	unsigned long rounds, wrong;
};

/* Writes known pages to the disk with O_DIRECT and reads them back into others of the same file, over and over. */
static void *write_and_read(void *argument)
{
	struct writer *writer = argument;
	char *back = writer->memory + PAGES * HUGE;
	size_t length = PAGES * HUGE;

	/* Once at least, however late this thread begins. */
	for (; !writer->stop || !writer->rounds; writer->rounds++) {
		text_fill_all(writer->memory, PAGES, writer->rounds % 2 ? TEXT_LINES : TEXT_RANDOM, writer->rounds);
		if (pwrite(writer->disk, writer->memory, length, 0) != (ssize_t)length ||
		    pread(writer->disk, back, length, 0) != (ssize_t)length) {
			tap_note("O_DIRECT: %s", strerror(errno));
			writer->wrong += PAGES;
			break;
		}
		writer->wrong += memcmp(writer->memory, back, length) != 0;
		writer->wrong += text_wrong(back, PAGES, writer->rounds % 2 ? TEXT_LINES : TEXT_RANDOM, writer->rounds);
	}
	return NULL;
}

static void direct_io(void)
{
	/* Everything that can be compressed is, at once and all the time. */
	struct mount mount = mount_new(type, fs_is_hzmem(type) ? "watermark=0,period=20ms" : NULL);
	long seconds = seconds_of("HZMEM_PINS_SECONDS", 3);
	struct writer writer = { 0 };
	pthread_t thread;
	int file;

	if (access(DISK, F_OK) || !write_file("/sys/block/zram0/disksize", "16M")) {
		tap_skip("O_DIRECT in flight", "there is no " DISK " to write to");
		mount_end(&mount);
		return;
	}
	for (int shared = 0; shared < 2; shared++) {
		long compressions = fs_is_hzmem(type) ? count_of(&mount, "compressions") : 0;

		file = file_new(&mount);
		writer = (struct writer){ .disk = open(DISK, O_RDWR | O_DIRECT | O_CLOEXEC) };
		writer.memory = shared ? map_shared(file, 2 * PAGES) : map_private(file, 2 * PAGES);
		if (writer.disk < 0)
			tap_bail("open " DISK);
		pthread_create(&thread, NULL, write_and_read, &writer);
		for (long i = 0; i < seconds * 10; i++) {
			usleep(100000);
			/* A child every now and then, which holds the private pages for a moment. */
			if (i % 10 == 5 && !fork())
				_exit(0);
		}
		writer.stop = true;
		pthread_join(thread, NULL);
		while (waitpid(-1, NULL, 0) > 0)
			;
		tap_ok(!writer.wrong && writer.rounds, "O_DIRECT in flight from and to %s pages: every byte is right",
		       shared ? "shared" : "private");
		tap_note("%lu rounds, %ld compressions meanwhile", writer.rounds,
			 fs_is_hzmem(type) ? count_of(&mount, "compressions") - compressions : 0);
		unmap_pages(writer.memory, 2 * PAGES);
		close(writer.disk);
		close(file);
	}
	write_file("/sys/block/zram0/reset", "1");
	mount_end(&mount);
	nothing_left("O_DIRECT");
}

/* ---- Not compressed while held ----------------------------------------- */

/* The frame of a page that is held. Trying to compress it unmaps it, so it is touched until it is seen. */
static uint64_t frame_of_held(const volatile char *memory)
{
	uint64_t frame = 0;

	for (int tries = 0; !frame && tries < 1000; tries++) {
		(void)*memory;
		frame = frame_of((const void *)memory);
	}
	return frame;
}

static void not_compressed(void)
{
	struct mount mount;
	struct pipe_pin pin;
	uint64_t frame;
	char *memory;
	long scans;
	int file;

	if (!fs_is_hzmem(type))
		return;
	mount = mount_new(type, "watermark=0,period=20ms");
	file = file_new(&mount);
	memory = map_shared(file, 4);
	text_fill_all(memory, 4, TEXT_LINES, 80);
	pin = pipe_pin(memory);
	frame = frame_of_held(memory);
	tap_ok(wait_until(count_of(&mount, "compressed") == 3), "pages that nobody holds are compressed");
	scans = count_of(&mount, "scans");
	tap_ok(wait_until(count_of(&mount, "scans") >= scans + 10), "ten scans on");
	tap_equal(count_of(&mount, "resident"), 1, "the one held is not");
	tap_ok(text_right(memory, TEXT_LINES, 80) && frame && frame_of_held(memory) == frame, "and is where it was");
	tap_ok(pipe_unpin(&pin), "the pipe has its bytes");
	tap_ok(wait_until(count_of(&mount, "compressed") == 4), "let go, it is compressed too");
	tap_equal(text_wrong(memory, 4, TEXT_LINES, 80), 0, "and every byte comes back");
	unmap_pages(memory, 4);
	close(file);
	mount_end(&mount);
	nothing_left("held and compressed");
}

/* ---- Waited for ---------------------------------------------------------- */

/* All pages are in use but one, which somebody held past its end: let go, it can be had, whoever puts it into the free list. */
static void waited_for(void)
{
	struct mount mount;
	struct pipe_pin pin;
	char *memory;
	int file;

	if (!fs_is_hzmem(type))
		return;
	mount = mount_new(type, "compress=none,size=unlimited");
	file = file_new(&mount);
	memory = map_shared(file, before);
	for (long i = 0; i < before; i++)
		memory[i * HUGE] = 1;
	pin = pipe_pin(memory);
	fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HUGE);
	tap_equal(node_count(-1, "pinned"), 1, "the last page is held by a pipe");
	tap_ok(pipe_unpin(&pin) && wait_until(!node_count(-1, "pinned")), "and let go");
	tap_ok(!write_faults(memory), "then whoever wants a page has it");
	unmap_pages(memory, before);
	close(file);
	mount_end(&mount);
	nothing_left("held and wanted");
}

int main(int argc, char **argv)
{
	type = fs_type(argc, argv, 32);
	before = pool_free(type);
	mount_ = mount_new(type, NULL);
	held_past_end();
	private_held();
	io_uring_holds();
	from_outside();
	forced();
	direct_io();
	not_compressed();
	waited_for();
	mount_end(&mount_);
	fs_end(type);
	return tap_end();
}
