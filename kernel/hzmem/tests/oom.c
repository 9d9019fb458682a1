// SPDX-License-Identifier: GPL-2.0
/*
 * Base memory runs out until the OOM killer comes, while hzmem is full and has to compress for nearly every touch: the
 * killer takes whom it is to take, a touch may be refused for as long, and no byte is another than before. Who is killed in
 * the middle of using hzmem gives every page back.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hz.h"
#include "random.h"

#define SPARES 8

static unsigned int total;

/* ---- Whom the killer takes ---------------------------------------------- */

/* From -1000, never, to 1000, first. */
static void set_oom_score(const char *adjustment)
{
	if (!write_file("/proc/self/oom_score_adj", adjustment))
		tap_bail("write /proc/self/oom_score_adj");
}

/* Uses base memory until somebody is killed for it: this process, as it is to be. */
static void eat(void)
{
	struct sysinfo info;
	size_t length, at;
	char *memory;

	sysinfo(&info);
	length = info.totalram * info.mem_unit + (512UL << 20);
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	/* Sooner, in an emulated machine; the last of it is base pages all the same. */
	madvise(memory, length, MADV_HUGEPAGE);
	for (at = 0; memory != MAP_FAILED && at < length; at += PAGE)
		memory[at] = 1;
}

static void eat_first(void *argument)
{
	(void)argument;
	set_oom_score("1000");
	eat();
}

/*
 * The killer may come again before the memory of whom it killed is free, and then takes one of these, which come next. A
 * process that only touches its memory calls it as well: each touch may need a page table.
 */
static void spare(void *argument)
{
	(void)argument;
	set_oom_score("900");
	for (;;)
		pause();
}

static bool was_killed(int status)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* ---- Beside somebody who is killed -------------------------------------- */

struct board {
	volatile bool stop;
	unsigned long touches, refused, wrong;
};

struct worker {
	struct board *board;
	char *memory;
	unsigned int pages;
};

static sigjmp_buf refusal;

static void jump_back(int signal)
{
	siglongjmp(refusal, signal);
}

/*
 * Reads a page, or writes to it what it holds already, so that whatever is refused in the middle it holds the same.
 */
static void touch(struct worker *worker, unsigned int page, bool write)
{
	char *memory = worker->memory + page * HUGE;

	worker->board->touches++;
	if (sigsetjmp(refusal, 1)) {
		worker->board->refused++;
		return;
	}
	if (write)
		text_fill(memory, TEXT_LINES, page);
	else if (!text_right(memory, TEXT_LINES, page))
		worker->board->wrong++;
}

static void work(void *argument)
{
	struct sigaction jump = { .sa_handler = jump_back, .sa_flags = SA_NODEFER };
	struct worker *worker = argument;
	uint64_t state = 1;

	set_oom_score("0");
	sigaction(SIGBUS, &jump, NULL);
	while (!worker->board->stop) {
		state = mix(state);
		touch(worker, state % worker->pages, state >> 63);
	}
}

static void beside_a_victim(void)
{
	struct mount mount = mount_new("hzmem", "period=100ms");
	struct worker worker = { .board = share(sizeof(struct board)), .pages = total + total / 4 };
	int file = file_new(&mount), log = log_open();
	long compressions;
	bool killed;
	pid_t child, spares[SPARES];

	worker.memory = map_shared(file, worker.pages);
	text_fill_all(worker.memory, worker.pages, TEXT_LINES, 0);
	for (unsigned int i = 0; i < SPARES; i++)
		spares[i] = start(spare, NULL);
	compressions = count_of(&mount, "compressions");
	child = start(work, &worker);
	killed = was_killed(ended(start(eat_first, NULL)));
	worker.board->stop = true;
	for (unsigned int i = 0; i < SPARES; i++) {
		kill(spares[i], SIGKILL);
		ended(spares[i]);
	}
	tap_ok(killed, "who uses all base memory is killed for it");
	tap_ok(log_lines(log, "Out of memory: Killed process") > 0, "because there is none");
	tap_equal(ended(child), 0, "who uses hzmem is not, with others to be taken before");
	tap_equal(worker.board->wrong, 0, "and never meets a wrong byte");
	compressions = count_of(&mount, "compressions") - compressions;
	tap_ok(compressions > 0, "while its pages go out and come back");
	tap_note("%lu touches, %lu refused, %ld compressions", worker.board->touches, worker.board->refused, compressions);
	tap_equal(count_of(&mount, "corrupt"), 0, "nothing is corrupt");

	/* There is memory again: nothing is refused any more. */
	tap_equal(text_wrong(worker.memory, worker.pages, TEXT_LINES, 0), 0, "afterwards every byte of every page is there");
	text_fill_all(worker.memory, worker.pages, TEXT_LINES, 5000);
	tap_equal(text_wrong(worker.memory, worker.pages, TEXT_LINES, 5000), 0, "and each can be written");
	unmap_pages(worker.memory, worker.pages);
	close(file);
	tap_equal(count_of(&mount, "compressed_bytes"), 0, "no base memory is left in use");
	mount_end(&mount);
	tap_equal(node_count(-1, "free"), total, "every page is given back");
}

/* ---- The victim uses hzmem ---------------------------------------------- */

struct victim {
	int file;
	unsigned int pages;
};

static void *fill_again_and_again(void *argument)
{
	struct victim *victim = argument;
	char *shared = map_shared(victim->file, victim->pages), *private = map_private(victim->file, victim->pages);

	for (uint64_t seed = 0;; seed += victim->pages) {
		text_fill_all(shared, victim->pages, TEXT_LINES, seed);
		text_fill_all(private, victim->pages, TEXT_LINES, seed);
	}
	return NULL;
}

/* A touch that is refused waits for the end, which is to be the killer's. */
static void wait_for_the_end(int signal)
{
	(void)signal;
	for (;;)
		pause();
}

static void use_and_eat(void *argument)
{
	struct sigaction wait = { .sa_handler = wait_for_the_end };
	pthread_t user;

	sigaction(SIGBUS, &wait, NULL);
	set_oom_score("1000");
	if (!pthread_create(&user, NULL, fill_again_and_again, argument))
		eat();
}

static void a_victim(void)
{
	struct mount mount = mount_new("hzmem", "period=100ms");
	struct victim victim = { .pages = total * 3 / 4 };
	unsigned int kept = total / 4;
	int file = file_new(&mount);
	char *memory = map_shared(file, kept);

	text_fill_all(memory, kept, TEXT_LINES, 9000);
	victim.file = file_new(&mount);
	tap_ok(was_killed(ended(start(use_and_eat, &victim))), "a process is killed that compresses and is compressed");
	close(victim.file);
	tap_ok(wait_until(count_of(&mount, "resident") + count_of(&mount, "compressed") == kept),
	       "what it had is given back, and nothing else");
	tap_equal(text_wrong(memory, kept, TEXT_LINES, 9000), 0, "who shares the mount with it has every byte");
	unmap_pages(memory, kept);
	close(file);
	tap_equal(count_of(&mount, "compressed_bytes"), 0, "no base memory is left in use");
	mount_end(&mount);
	tap_equal(node_count(-1, "free"), total, "every page is given back");
}

int main(void)
{
	total = node_count(-1, "free");
	set_oom_score("-1000");
	/* The killer says where it was called, as a warning does. */
	tap_expect("kills");
	beside_a_victim();
	a_victim();
	return tap_end();
}
