// SPDX-License-Identifier: GPL-2.0
/* Several mounts on one node: each gives pages when one of them wants some, and nobody waits for what is another's. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hz.h"

/* The daemon has no part in it. */
#define ALONE "node=0,watermark=100,period=3600"
#define TENANTS 4

static unsigned int total;

/* A file of a mount of its own. */
struct tenant {
	struct mount mount;
	int file;
	unsigned int pages;
	char *memory;
	uint64_t seed;
};

static struct tenant tenant_new(const char *options, unsigned int pages, uint64_t seed)
{
	struct tenant tenant = { .mount = mount_new("hzmem", options), .pages = pages, .seed = seed };

	tenant.file = file_new(&tenant.mount);
	tenant.memory = map_shared(tenant.file, pages);
	return tenant;
}

static void fill(struct tenant *tenant)
{
	text_fill_all(tenant->memory, tenant->pages, TEXT_LINES, tenant->seed);
}

static void tenant_end(struct tenant *tenant)
{
	tap_equal(text_wrong(tenant->memory, tenant->pages, TEXT_LINES, tenant->seed), 0, "every byte of tenant %lu is right",
		  tenant->seed / 1000);
	unmap_pages(tenant->memory, tenant->pages);
	close(tenant->file);
	mount_end(&tenant->mount);
}

/* ---- Turns ------------------------------------------------------------- */

static void turns_in_faults(void)
{
	struct tenant old = tenant_new(ALONE, total / 2, 1000), other = tenant_new(ALONE, total / 2, 2000);
	unsigned int more = total / 4;
	int file = file_new(&other.mount);
	char *memory = map_shared(file, more);

	fill(&old);
	fill(&other);
	text_fill_all(memory, more, TEXT_LINES, 3000);
	tap_note("for %u pages: %ld compressed of the first mount, %ld of the second", more, count_of(&old.mount, "compressed"),
		 count_of(&other.mount, "compressed"));
	tap_ok(count_of(&old.mount, "compressed") >= (long)more / 5 && count_of(&other.mount, "compressed") >= (long)more / 5,
	       "two mounts of a size give pages to faults in turns");
	tap_equal(text_wrong(memory, more, TEXT_LINES, 3000), 0, "and those are right");
	unmap_pages(memory, more);
	close(file);
	tenant_end(&old);
	tenant_end(&other);
}

static void turns_of_the_daemon(void)
{
	struct tenant old = tenant_new("node=0,watermark=100,period=10ms", total * 3 / 8, 1000);
	struct tenant other = tenant_new("node=0,watermark=100,period=10ms", total * 3 / 8, 2000);
	unsigned int cold = total / 4;

	fill(&old);
	fill(&other);
	if (mount("none", old.mount.path, "hzmem", MS_REMOUNT, "watermark=50") ||
	    mount("none", other.mount.path, "hzmem", MS_REMOUNT, "watermark=50"))
		tap_bail("remount");
	tap_ok(wait_until(count_of(&old.mount, "compressed") + count_of(&other.mount, "compressed") >= (long)cold - 1),
	       "the daemon compresses down to the watermark");
	tap_note("%ld compressed of the first mount, %ld of the second", count_of(&old.mount, "compressed"),
		 count_of(&other.mount, "compressed"));
	tap_ok(count_of(&old.mount, "compressed") >= (long)cold / 5 && count_of(&other.mount, "compressed") >= (long)cold / 5,
	       "of two mounts of a size, in turns");
	tenant_end(&old);
	tenant_end(&other);
}

/* ---- All at once ------------------------------------------------------- */

static bool write_and_read(void *argument)
{
	struct tenant *tenant = argument;
	unsigned int wrong = 0;

	for (unsigned int round = 0; round < 3; round++) {
		fill(tenant);
		wrong += text_wrong(tenant->memory, tenant->pages, TEXT_LINES, tenant->seed);
	}
	return !wrong;
}

static void at_once(void)
{
	struct tenant tenants[TENANTS];
	pid_t children[TENANTS];
	unsigned int failed = 0, gave = 0;

	for (unsigned int i = 0; i < TENANTS; i++)
		tenants[i] = tenant_new("node=0,watermark=80,period=20ms", total / 2, 1000 * (i + 1));
	for (unsigned int i = 0; i < TENANTS; i++) {
		children[i] = fork();
		if (!children[i])
			_exit(!write_and_read(&tenants[i]));
	}
	for (unsigned int i = 0; i < TENANTS; i++)
		failed += ended(children[i]) != 0;
	tap_equal(failed, 0, "%d tenants with twice the pages that there are read what they wrote", TENANTS);
	for (unsigned int i = 0; i < TENANTS; i++) {
		gave += count_of(&tenants[i].mount, "compressions") > 0;
		tap_equal(count_of(&tenants[i].mount, "sigbus"), 0, "tenant %u was not refused", i + 1);
	}
	tap_equal(gave, TENANTS, "each gave pages");
	for (unsigned int i = 0; i < TENANTS; i++)
		tenant_end(&tenants[i]);
}

/* ---- Waiting ----------------------------------------------------------- */

#define WAITERS 16

struct waiting {
	char *memory;			/* WAITERS pages that are not to be had */
	volatile unsigned int begun;
	volatile unsigned int ended;
};

/* One page of each of a tenant's lies in a pipe, so none can be compressed. Returns the pipes. */
static int (*hold_all(struct tenant *tenant))[2]
{
	int (*pipes)[2] = calloc(tenant->pages, sizeof(*pipes));

	for (unsigned int i = 0; pipes && i < tenant->pages; i++) {
		struct iovec vector = { tenant->memory + i * HUGE, PAGE };

		if (pipe(pipes[i]) || vmsplice(pipes[i][1], &vector, 1, 0) != (ssize_t)PAGE)
			tap_bail("vmsplice");
	}
	return pipes;
}

static void release_all(struct tenant *tenant, int (*pipes)[2])
{
	for (unsigned int i = 0; i < tenant->pages; i++) {
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
	free(pipes);
}

static pid_t start_waiting(struct waiting *waiting, unsigned int page)
{
	pid_t child = fork();

	if (child)
		return child;
	__atomic_fetch_add(&waiting->begun, 1, __ATOMIC_SEQ_CST);
	write_faults(waiting->memory + page * HUGE);
	__atomic_fetch_add(&waiting->ended, 1, __ATOMIC_SEQ_CST);
	_exit(0);
}

/* Those who wait for a page try for five seconds. What is done meanwhile takes less, but on no machine for certain: try again. */
#define ATTEMPTS 5

/* Two wait for one page, and one of them is killed: whether it is gone while the other waits. */
static bool dies_at_once(struct waiting *waiting)
{
	pid_t first, second;
	bool waits;

	waiting->begun = waiting->ended = 0;
	first = start_waiting(waiting, 0);
	while (waiting->begun < 1)
		usleep(1000);
	usleep(200000);
	second = start_waiting(waiting, 0);
	while (waiting->begun < 2)
		usleep(1000);
	usleep(200000);
	kill(second, SIGKILL);
	waitpid(second, NULL, 0);
	/* Long enough for the other to say that it has ended, if that is what was waited for. */
	usleep(200000);
	waits = !waiting->ended;
	waitpid(first, NULL, 0);
	return waits;
}

/* Many wait for pages of one file; another file's pages, which are all there, are touched: whether that waits for none of them. */
static bool strangers_go_on(struct waiting *waiting, struct tenant *tenant)
{
	char *memory = map_shared(tenant->file, tenant->pages);
	pid_t children[WAITERS];
	bool went;

	waiting->begun = waiting->ended = 0;
	for (unsigned int i = 0; i < WAITERS; i++)
		children[i] = start_waiting(waiting, i);
	while (waiting->begun < WAITERS)
		usleep(1000);
	usleep(200000);
	for (unsigned int i = 0; i < tenant->pages; i++)
		(void)*(volatile char *)(memory + i * HUGE);
	usleep(200000);
	went = !waiting->ended;
	for (unsigned int i = 0; i < WAITERS; i++)
		waitpid(children[i], NULL, 0);
	unmap_pages(memory, tenant->pages);
	return went;
}

static void waits(void)
{
	struct tenant tenant = tenant_new(ALONE, total, 1000);
	struct waiting *waiting = share(sizeof(*waiting));
	int file = file_new(&tenant.mount);
	bool died = false, went = false;
	int (*pipes)[2];

	fill(&tenant);
	pipes = hold_all(&tenant);
	waiting->memory = map_shared(file, WAITERS);
	for (int i = 0; i < ATTEMPTS && !died; i++)
		died = dies_at_once(waiting);
	tap_ok(died, "who waits for a page that another waits for can be killed");
	for (int i = 0; i < ATTEMPTS && !went; i++)
		went = strangers_go_on(waiting, &tenant);
	tap_ok(went, "and who touches what is there waits for nobody");
	release_all(&tenant, pipes);
	tap_ok(!write_faults(waiting->memory), "when the pages are held no more, one is to be had");
	unmap_pages(waiting->memory, WAITERS);
	close(file);
	tenant_end(&tenant);
}

int main(void)
{
	total = node_count(0, "free");
	turns_in_faults();
	turns_of_the_daemon();
	at_once();
	waits();
	tap_ok(wait_until(node_count(0, "free") == total), "every page is given back");
	return tap_end();
}
