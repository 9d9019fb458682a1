// SPDX-License-Identifier: GPL-2.0
/*
 * Records what the kernel's page allocator does: which areas its free lists give
 * and get, while programs use memory in many ways. It needs free_lists.ko, which
 * takes down the lists before and after, and a machine with one CPU.
 *
 * Prints a line for each event: kind, order, type, and the distance in frames from the
 * event before it, "x N" where the same line follows N times more. What each line means
 * is said where they are read, in crates/sim/src/physical/recorded.rs.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL
#define HUGE (512 * PAGE)
/* KiB that are left free: with less the kernel reclaims, and compacts, of which no event tells. */
#define LEFT (14 << 10)
#define TRACING "/sys/kernel/tracing/"
#define LISTS "/sys/kernel/debug/free_lists"

static void die(const char *what)
{
	printf("# cannot %s: %s\n", what, strerror(errno));
	exit(1);
}

static void put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_TRUNC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die(file);
	close(fd);
}

/* A number of /proc/vmstat or, in KiB, of /proc/meminfo. */
static long number(const char *file, const char *name)
{
	char line[256];
	long value = 0;
	FILE *in = fopen(file, "r");

	if (!in)
		die(file);
	while (fgets(line, sizeof(line), in))
		if (!strncmp(line, name, strlen(name)))
			value += atol(line + strcspn(line, " "));
	fclose(in);
	return value;
}

static unsigned long state = 88172645463325252UL;

static unsigned long draw(unsigned long below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

static char *map(unsigned long bytes, int advice)
{
	char *all = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (all == MAP_FAILED)
		die("map memory");
	all = (char *)(((unsigned long)all + HUGE - 1) & ~(HUGE - 1));
	if (madvise(all, bytes, advice))
		die("give advice");
	return all;
}

static void fill(char *memory, unsigned long bytes)
{
	for (unsigned long at = 0; at < bytes; at += PAGE)
		memory[at] = 1;
}

/* Gives back random runs of 1 to 32 pages until about that share, in percent, is left. */
static void thin(char *memory, unsigned long bytes, unsigned int left)
{
	unsigned long pages = bytes / PAGE, runs = pages / 16;

	for (unsigned long run = 0; run < runs * (100 - left) / 100; run++) {
		unsigned long length = 1 + draw(32), first = draw(pages - length);

		madvise(memory + first * PAGE, length * PAGE, MADV_DONTNEED);
	}
}

static void huge(unsigned long bytes)
{
	char *memory = map(bytes, MADV_HUGEPAGE);

	fill(memory, bytes);
	thin(memory, bytes, 70);
}

/* Pages that cannot move: those of pipes. Closes every second one in the end. */
static void pipes(unsigned int count)
{
	static char page[16 * PAGE];
	int ends[2];

	for (unsigned int i = 0; i < count; i++) {
		if (pipe2(ends, O_NONBLOCK))
			die("make a pipe");
		if (write(ends[1], page, sizeof(page)) < 0)
			die("write to a pipe");
		if (i % 2) {
			close(ends[0]);
			close(ends[1]);
		}
	}
}

/* Pages that can be reclaimed: the inodes and names of files. */
static void files(const char *folder, unsigned int count)
{
	char name[64];

	mkdir(folder, 0700);
	for (unsigned int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%s/%u", folder, i);
		close(open(name, O_CREAT | O_WRONLY, 0600));
	}
	for (unsigned int i = 0; i < count; i += 3) {
		snprintf(name, sizeof(name), "%s/%u", folder, i);
		unlink(name);
	}
}

/* A file's pages. */
static void contents(const char *name, unsigned long bytes)
{
	static char block[64 * 1024];
	int fd = open(name, O_CREAT | O_WRONLY, 0600);

	if (fd < 0)
		die(name);
	for (unsigned long at = 0; at < bytes; at += sizeof(block))
		if (write(fd, block, sizeof(block)) < 0)
			die(name);
	close(fd);
}

/* Processes that have something of their own, copy some, and exit. */
static void children(unsigned int count, char *shared, unsigned long bytes)
{
	for (unsigned int i = 0; i < count; i++) {
		pid_t child = fork();

		if (child < 0)
			die("fork");
		if (!child) {
			unsigned long own = (64 + 8 * i) * PAGE;

			fill(map(own, MADV_NORMAL), own);
			for (unsigned int page = 0; page < 64; page++)
				shared[draw(bytes / PAGE) * PAGE] = 2;
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
}

/* Fills memory until hardly any is free. */
static void fill_nearly_all(char *memory, unsigned long bytes)
{
	for (unsigned long at = 0; at < bytes; at += HUGE) {
		if (number("/proc/meminfo", "MemFree:") < LEFT)
			break;
		fill(memory + at, HUGE);
	}
}

/*
 * The use of memory that is recorded. It is as much as there is: else whole blocks are left for
 * every type, and none has to take from another's.
 */
static void use(unsigned long bytes)
{
	unsigned long most = bytes / HUGE * HUGE, eighth = bytes / 8 / HUGE * HUGE;
	char *first = map(most, MADV_NOHUGEPAGE), *second;

	fill_nearly_all(first, most);
	thin(first, most, 40);
	pipes(400);
	files("/tmp/some", 5000);
	children(20, first, eighth);
	huge(eighth);
	contents("/tmp/contents", eighth);
	second = map(most, MADV_NOHUGEPAGE);
	fill_nearly_all(second, most);
	thin(second, most, 50);
	unlink("/tmp/contents");
	pipes(200);
	files("/tmp/others", 2000);
	children(5, second, eighth);
	munmap(first, most);
	huge(eighth);
	fill_nearly_all(second, most);
	thin(second, most, 30);
}

/* The last line, and how often it came. */
static char last[128];
static unsigned long repeated;

static void say(const char *line)
{
	if (!strcmp(line, last)) {
		repeated++;
		return;
	}
	if (repeated)
		printf("x %lu\n", repeated);
	repeated = 0;
	snprintf(last, sizeof(last), "%s", line);
	if (*line)
		puts(line);
}

/* The events, and the letter of each. Frees of pages that go through lists of a CPU come back as drains. */
static const struct {
	const char *name;
	char letter;
} kinds[] = {
	{ "mm_page_alloc_zone_locked: ", 'a' },
	{ "mm_page_alloc_extfrag: ", 's' },
	{ "mm_page_pcpu_drain: ", 'd' },
	{ "mm_page_free: ", 'f' },
};

/* The number after a name in an event; 0 where there is none. */
static long field(const char *event, const char *name)
{
	const char *at = strstr(event, name);

	return at ? strtol(at + strlen(name), NULL, 0) : 0;
}

/* An event as the kernel writes it. */
static void event(char letter, const char *event)
{
	static long before;
	char line[sizeof(last)];
	long pfn = field(event, " pfn="), order = field(event, "order=");

	if (letter == 'f' && (order < 4 || order == 9))
		return;
	if (letter == 's')
		snprintf(line, sizeof(line), "s %ld %ld %ld %ld %ld", order,
			 field(event, " fallback_order="), field(event, " alloc_migratetype="),
			 field(event, " fallback_migratetype="), pfn - before);
	else
		snprintf(line, sizeof(line), "%c %ld %ld %ld", letter, order,
			 field(event, " migratetype="), pfn - before);
	before = pfn;
	say(line);
}

static void events(void)
{
	char line[512];
	FILE *in = fopen(TRACING "trace", "r");

	if (!in)
		die("read the trace");
	while (fgets(line, sizeof(line), in)) {
		if (strstr(line, "LOST"))
			die("keep all events");
		for (unsigned int kind = 0; kind < sizeof(kinds) / sizeof(*kinds); kind++) {
			const char *at = strstr(line, kinds[kind].name);

			if (at)
				event(kinds[kind].letter, at);
		}
	}
	say("");
	fclose(in);
}

static void lists(void)
{
	char line[sizeof(last)];
	FILE *in = fopen(LISTS, "r");

	if (!in)
		die(LISTS);
	while (fgets(line, sizeof(line), in)) {
		line[strcspn(line, "\n")] = 0;
		say(line);
	}
	say("");
	fclose(in);
}

int main(void)
{
	long compacted;

	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	put(TRACING "tracing_on", "0");
	put(TRACING "buffer_size_kb", "24576");
	put(TRACING "trace", "");
	put(TRACING "events/kmem/mm_page_alloc_zone_locked/enable", "1");
	put(TRACING "events/kmem/mm_page_alloc_extfrag/enable", "1");
	put(TRACING "events/kmem/mm_page_pcpu_drain/enable", "1");
	put(TRACING "events/kmem/mm_page_free/enable", "1");
	put("/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
	put("/sys/kernel/mm/transparent_hugepage/defrag", "never");
	put("/sys/kernel/mm/transparent_hugepage/khugepaged/defrag", "0");
	put("/proc/sys/vm/compaction_proactiveness", "0");
	/* What the kernel keeps free are whole blocks, which would be left. */
	put("/proc/sys/vm/watermark_boost_factor", "0");
	put("/proc/sys/vm/min_free_kbytes", "4096");
	compacted = number("/proc/vmstat", "compact_isolated");
	put(LISTS, "begin");
	use(number("/proc/meminfo", "MemFree:") * 1024);
	put(LISTS, "end");
	/* What compaction takes out of the lists, no event tells. */
	if (number("/proc/vmstat", "compact_isolated") != compacted) {
		printf("# memory was compacted meanwhile: %ld times in the background, %ld times by who wanted memory\n",
		       number("/proc/vmstat", "compact_daemon_wake"),
		       number("/proc/vmstat", "compact_stall"));
		return 1;
	}
	lists();
	puts("events");
	events();
	puts("done");
	return 0;
}
