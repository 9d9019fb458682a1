// SPDX-License-Identifier: GPL-2.0
/*
 * Memory errors, as the kernel can be told of them (madvise(), sysfs) and as the module finds them itself (needs
 * HZMEM_INJECT=1): the huge page is used no more, who touches what it held gets SIGBUS, everything else is as it was.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#include "hz.h"

#ifndef MADV_HWPOISON
#define MADV_HWPOISON 100
#endif
#ifndef BUS_MCEERR_AR
#define BUS_MCEERR_AR 4
#endif

#define ALONE "watermark=100,period=3600"
#define OFFLINE "/sys/devices/system/memory/hard_offline_page"
#define ERRORS HZ_DEBUGFS "memory_error"

static unsigned int total;

/* What the last signal said. */
static sigjmp_buf back;
static int code;
static void *where;

static void note(int signal, siginfo_t *info, void *context)
{
	(void)context;
	code = info->si_code;
	where = info->si_addr;
	siglongjmp(back, signal);
}

/* The signal that reading the byte raises, or 0. */
static int signal_of(const volatile char *byte)
{
	struct sigaction action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_NODEFER }, before;
	int signal;

	sigaction(SIGBUS, &action, &before);
	signal = sigsetjmp(back, 1);
	if (!signal)
		(void)*byte;
	sigaction(SIGBUS, &before, NULL);
	return signal;
}

/* A memory error at the address, as if a program had found it there. */
static bool break_memory(char *at)
{
	return !madvise(at, PAGE, MADV_HWPOISON);
}

static bool reads(void *memory)
{
	return signal_of(memory) == 0;
}

/* One huge page less from here on. */
static void one_less(const char *what)
{
	total--;
	tap_equal(node_count(-1, "total"), total, "%s: one huge page less is in use", what);
}

static void in_a_mapping(void)
{
	struct mount mount = mount_new("hzmem", ALONE);
	int file = file_new(&mount), log = log_open();
	char *memory = map_shared(file, 4), byte;
	uint64_t frame;

	text_fill_all(memory, 4, TEXT_LINES, 1);
	frame = frame_of(memory + HUGE);
	tap_ok(break_memory(memory + HUGE + 5 * PAGE), "a memory error in a page that is mapped");
	one_less("mapped");
	tap_equal(count_of(&mount, "poisoned"), 1, "what it held is lost");
	tap_ok(log_lines(log, "hzmem: memory error") == 1, "the log says so");
	tap_equal(signal_of(memory + HUGE), SIGBUS, "who touches it gets SIGBUS");
	tap_ok(code == BUS_MCEERR_AR && where == memory + HUGE, "which says that it is the memory, and where");
	tap_ok(!in_child(reads, memory + HUGE), "another process too");
	tap_fails(pread(file, &byte, 1, HUGE), EIO, "read() is EIO");
	tap_ok(text_right(memory, TEXT_LINES, 1) && text_wrong(memory + 2 * HUGE, 2, TEXT_LINES, 3) == 0, "the pages beside it are as they were");
	tap_equal(madvise(memory + HUGE, HUGE, MADV_REMOVE), 0, "a hole punched there");
	tap_ok(text_right(memory + HUGE, TEXT_ZEROS, 0), "is zeros");
	text_fill(memory + HUGE, TEXT_LINES, 9);
	tap_ok(text_right(memory + HUGE, TEXT_LINES, 9), "and memory to be written to");
	tap_ok(frame_of(memory + HUGE) / 512 != frame / 512, "elsewhere");
	tap_equal(count_of(&mount, "poisoned"), 0, "nothing is lost any more");
	unmap_pages(memory, 4);
	close(file);
	mount_end(&mount);
	tap_equal(node_count(-1, "free"), total, "every other page is given back");
}

static void in_a_private_copy(void)
{
	struct mount mount = mount_new("hzmem", ALONE);
	int file = file_new(&mount);
	char *memory = map_shared(file, 1), *own = map_private(file, 1);

	text_fill(memory, TEXT_LINES, 1);
	text_fill(own, TEXT_LINES, 2);
	tap_ok(break_memory(own), "a memory error in a private copy");
	one_less("private");
	tap_equal(signal_of(own), SIGBUS, "is SIGBUS there");
	tap_ok(text_right(memory, TEXT_LINES, 1), "and the file is as it was");
	unmap_pages(own, 1);
	unmap_pages(memory, 1);
	close(file);
	mount_end(&mount);
}

static void in_a_free_page(void)
{
	struct mount mount = mount_new("hzmem", ALONE);
	int file = file_new(&mount);
	unsigned int pages = total, found = 0;
	char *memory = map_shared(file, pages), text[32];
	uint64_t frame;

	text_fill(memory, TEXT_LINES, 1);
	frame = frame_of(memory);
	madvise(memory, HUGE, MADV_REMOVE);
	if (access(OFFLINE, W_OK)) {
		tap_skip("in a free page", "there is no " OFFLINE);
	} else {
		snprintf(text, sizeof(text), "%#llx", (unsigned long long)(frame + 17) * PAGE);
		tap_ok(write_file(OFFLINE, text), "a memory error in a page that is free");
		one_less("free");
		text_fill_all(memory, total, TEXT_RANDOM, 1);
		for (unsigned int i = 0; i < total; i++)
			found += frame_of(memory + i * HUGE) / 512 == frame / 512;
		tap_equal(found, 0, "none of all the others is that one");
		tap_equal(text_wrong(memory, total, TEXT_RANDOM, 1), 0, "they hold what is written");
		tap_ok(write_faults(memory + total * HUGE), "and there are no more");
	}
	unmap_pages(memory, pages);
	close(file);
	mount_end(&mount);
	tap_equal(node_count(-1, "free"), total, "all of them are given back");
}

static void in_a_held_page(void)
{
	struct mount mount = mount_new("hzmem", ALONE);
	int file = file_new(&mount), ends[2];
	char *memory = map_shared(file, 1), copy[PAGE];
	struct iovec part = { memory, PAGE };

	text_fill(memory, TEXT_LINES, 1);
	if (pipe(ends) || vmsplice(ends[1], &part, 1, 0) != (ssize_t)PAGE)
		tap_bail("vmsplice");
	tap_ok(break_memory(memory + 100 * PAGE), "a memory error in a page that a pipe holds");
	tap_equal(signal_of(memory), SIGBUS, "is SIGBUS");
	tap_equal(node_count(-1, "pinned"), 1, "it is the pipe's still");
	tap_equal(read(ends[0], copy, PAGE), PAGE, "until that is read");
	close(ends[0]);
	close(ends[1]);
	tap_ok(wait_until(node_count(-1, "retired") > 0 && node_count(-1, "pinned") == 0), "and used no more then");
	one_less("held");
	unmap_pages(memory, 1);
	close(file);
	mount_end(&mount);
	tap_equal(node_count(-1, "free"), total, "every other page is free");
}

/* The module finds the error itself, as it reads a cold page. */
static void while_compressing(void)
{
	struct mount mount = mount_new("hzmem", "watermark=0,period=50ms");
	int file = file_new(&mount);
	char *memory = map_shared(file, 4);
	unsigned int lost = 0, wrong = 0;

	write_file(ERRORS, "1");
	text_fill_all(memory, 4, TEXT_LINES, 1);
	tap_ok(wait_until(count_of(&mount, "poisoned") == 1), "an error in a page that the daemon reads");
	tap_ok(wait_until(count_of(&mount, "compressed") == 3), "the others are compressed");
	one_less("compressing");
	for (unsigned int i = 0; i < 4; i++) {
		if (signal_of(memory + i * HUGE))
			lost++;
		else
			wrong += !text_right(memory + i * HUGE, TEXT_LINES, 1 + i);
	}
	tap_equal(lost, 1, "one is SIGBUS");
	tap_equal(wrong, 0, "the others are as they were");
	unmap_pages(memory, 4);
	close(file);
	mount_end(&mount);
}

static void while_copying(void)
{
	struct mount mount = mount_new("hzmem", ALONE);
	int file = file_new(&mount);
	char *memory = map_shared(file, 2), *own = map_private(file, 2);

	text_fill_all(memory, 2, TEXT_LINES, 1);
	tap_ok(!read_faults(own), "a private mapping of a file's page");
	write_file(ERRORS, "1");
	tap_ok(write_faults(own), "an error in it as it is copied is a signal");
	one_less("copying");
	tap_equal(signal_of(memory), SIGBUS, "for the file too");
	tap_ok(!write_faults(own + HUGE) && text_right(own + HUGE, TEXT_LINES, 2) && text_right(memory + HUGE, TEXT_LINES, 2),
	       "and all is well beside it");
	unmap_pages(own, 2);
	unmap_pages(memory, 2);
	close(file);
	mount_end(&mount);
	tap_equal(node_count(-1, "free"), total, "every other page is given back");
}

/* A file's content comes and goes under errors in it: at its end every page is free, or used no more. */
static void again_and_again(void)
{
	struct mount mount = mount_new("hzmem", "watermark=0,period=20ms");
	int file = file_new(&mount);
	char *memory = map_shared(file, 8);
	unsigned int broken = 0, wrong = 0;
	pid_t child = fork();

	if (!child) {
		/* Whatever is there, holes and lost pages too. */
		for (unsigned int i = 0; ; i++) {
			write_faults(memory + i % 8 * HUGE);
			if (i % 16 == 15)
				madvise(memory + i / 16 % 8 * HUGE, HUGE, MADV_REMOVE);
		}
	}
	for (unsigned int i = 0; i < 10; i++) {
		broken += break_memory(memory + i % 8 * HUGE);
		usleep(20000);
	}
	kill(child, SIGKILL);
	ended(child);
	tap_ok(broken > 0, "errors in pages that come and go");
	for (unsigned int i = 0; i < 8; i++) {
		madvise(memory + i * HUGE, HUGE, MADV_REMOVE);
		text_fill(memory + i * HUGE, TEXT_LINES, i);
	}
	wrong = text_wrong(memory, 8, TEXT_LINES, 0);
	tap_equal(wrong, 0, "what is written afterwards is right");
	unmap_pages(memory, 8);
	close(file);
	mount_end(&mount);
	tap_ok(wait_until(node_count(-1, "pinned") == 0), "nobody holds one");
	tap_ok(node_count(-1, "free") == node_count(-1, "total") && node_count(-1, "total") < total, "all are free, or used no more");
	tap_note("%u errors, %ld pages used no more", broken, node_count(-1, "retired"));
}

int main(void)
{
	long pages = node_count(-1, "total");

	total = pages;
	in_a_mapping();
	in_a_private_copy();
	in_a_free_page();
	in_a_held_page();
	if (access(ERRORS, W_OK)) {
		tap_skip("found by the module", "hzmem.ko was built without HZMEM_INJECT=1");
	} else {
		while_compressing();
		while_copying();
	}
	again_and_again();
	tap_equal(node_count(-1, "retired") + node_count(-1, "total"), pages, "no page was lost sight of");
	/* The memory is not broken: the module forgets all that when it is loaded again. */
	tap_equal(hzmem_unload(), 0, "the module can be unloaded");
	tap_equal(hzmem_load(), 0, "and loaded");
	tap_equal(node_count(-1, "total"), pages, "with all of its memory");
	return tap_end();
}
