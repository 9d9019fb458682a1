// SPDX-License-Identifier: GPL-2.0
/*
 * A guest that asks its host for exchanges from user space: huge pages of its own, their guest-physical addresses by pagemap, requests
 * by the protocol of mega_exchange.h, every page checked after each. Prints TAP.
 * Usage: exchange REQUESTS CONTROL
 * CONTROL is a serial line to the host: it hears "exchanging", "checked" and "gone", and says "go" after each of the last two.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>
#include "mega_exchange.h"

#define HUGE (1UL << MEGA_EXCHANGE_PAGE_SHIFT)
#define PAGE 4096UL
#define WORDS (PAGE / 8)
#define BLOCKS 48
#define PAIRS 8
#define PATIENCE 1200 /* tenths of a second */

static struct mega_exchange_header *header;
static struct mega_exchange_pair *pairs;
static volatile uint32_t *registers;
static uint64_t *memory, physical[BLOCKS];
static int holds[BLOCKS], control, test;
static char device[PATH_MAX];

static void result(int good, const char *name)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++test, name);
	fflush(stdout);
	if (!good) {
		printf("Bail out! %s\n", name);
		exit(1);
	}
}

static uint64_t random_number(void)
{
	static uint64_t state = 0x6d656761;

	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1dULL;
}

static unsigned long read_number(const char *folder, const char *name)
{
	char path[PATH_MAX + 32], text[32] = "";
	int file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file >= 0 && read(file, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	if (file >= 0)
		close(file);
	return strtoul(text, NULL, 0);
}

/* The plugin adds the device while the guest runs. */
static int find_device(void)
{
	const char *folder = "/sys/bus/pci/devices";
	struct dirent *entry;

	for (int i = 0; i < PATIENCE; i++, usleep(100000)) {
		DIR *list = opendir(folder);

		while (list && (entry = readdir(list))) {
			snprintf(device, sizeof(device), "%s/%s", folder, entry->d_name);
			if (read_number(device, "vendor") == MEGA_EXCHANGE_PCI_VENDOR &&
			    read_number(device, "device") == MEGA_EXCHANGE_PCI_DEVICE) {
				closedir(list);
				return 1;
			}
		}
		if (list)
			closedir(list);
	}
	return 0;
}

static void *map_bar(const char *name, size_t bytes)
{
	char path[PATH_MAX + 32];
	void *mapped;
	int file;

	snprintf(path, sizeof(path), "%s/%s", device, name);
	file = open(path, O_RDWR | O_CLOEXEC);
	if (file < 0)
		return NULL;
	mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	return mapped == MAP_FAILED ? NULL : mapped;
}

static int map_device(void)
{
	char path[PATH_MAX + 32];
	int file;

	snprintf(path, sizeof(path), "%s/enable", device);
	file = open(path, O_WRONLY | O_CLOEXEC);
	if (file < 0 || write(file, "1", 1) != 1)
		return 0;
	close(file);
	registers = map_bar("resource0", PAGE);
	header = map_bar("resource2", MEGA_EXCHANGE_BYTES);
	pairs = (void *)((char *)header + MEGA_EXCHANGE_PAIRS_OFFSET);
	return registers && header;
}

static uint64_t tag(int block, unsigned long page)
{
	return ((uint64_t)block + 1) << 32 | page;
}

static uint64_t *words(int block)
{
	return memory + block * HUGE / 8;
}

/* Huge pages of a pool: they stay where they are. */
static int map_memory(void)
{
	int file = open("/proc/sys/vm/nr_hugepages", O_WRONLY | O_CLOEXEC), pagemap;

	if (file < 0 || write(file, "48", 2) != 2)
		return 0;
	close(file);
	memory = mmap(NULL, BLOCKS * HUGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0);
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (memory == MAP_FAILED || pagemap < 0)
		return 0;
	for (int block = 0; block < BLOCKS; block++) {
		uint64_t entry;
		uintptr_t address = (uintptr_t)words(block);

		if (pread(pagemap, &entry, sizeof(entry), address / PAGE * 8) != sizeof(entry))
			return 0;
		physical[block] = (entry & ((1ULL << 55) - 1)) * PAGE;
		if (!physical[block] || physical[block] % HUGE)
			return 0;
		holds[block] = block;
		/* First, middle and last word of each page. */
		for (unsigned long page = 0; page < HUGE / PAGE; page++)
			for (int i = 0; i < 3; i++)
				words(block)[page * WORDS + i * (WORDS - 1) / 2] = tag(block, page);
	}
	close(pagemap);
	return 1;
}

static int check(int block)
{
	for (unsigned long page = 0; page < HUGE / PAGE; page++)
		for (int i = 0; i < 3; i++)
			if (words(block)[page * WORDS + i * (WORDS - 1) / 2] != tag(holds[block], page))
				return 0;
	return 1;
}

static int change(uint32_t *state, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(state, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void ask(int index, uint64_t source, uint64_t target)
{
	pairs[index] = (struct mega_exchange_pair){ source, target, MEGA_EXCHANGE_PENDING, -1 };
}

/* Rings, and waits for the end. */
static int request(int count)
{
	uint32_t old = header->state;

	header->pairs = count;
	header->sequence++;
	if (old == MEGA_EXCHANGE_PENDING || old == MEGA_EXCHANGE_RUNNING ||
	    !change(&header->state, old, MEGA_EXCHANGE_PENDING))
		return 0;
	registers[MEGA_EXCHANGE_BAR0_DOORBELL / 4] = header->host_peer << 16;
	for (long i = 0; i < 2000000; i++) {
		if (__atomic_load_n(&header->state, __ATOMIC_ACQUIRE) == MEGA_EXCHANGE_DONE)
			return header->done_sequence == header->sequence;
		usleep(50);
	}
	return 0;
}

/* One request of random pairs. The token in the target tells what happened. */
static int exchange(void)
{
	int order[BLOCKS];
	uint64_t token = random_number() | 1, saved[PAIRS];

	for (int i = 0; i < BLOCKS; i++)
		order[i] = i;
	for (int i = 0; i < 2 * PAIRS; i++) {
		int other = i + random_number() % (BLOCKS - i), block = order[i];

		order[i] = order[other];
		order[other] = block;
	}
	for (int i = 0; i < PAIRS; i++) {
		int source = order[2 * i], target = order[2 * i + 1];

		saved[i] = words(target)[0];
		words(target)[0] = token + i;
		ask(i, physical[source], physical[target]);
	}
	if (!request(PAIRS))
		return 0;
	for (int i = 0; i < PAIRS; i++) {
		int source = order[2 * i], target = order[2 * i + 1], was = holds[source];

		if (pairs[i].state != MEGA_EXCHANGE_DONE || pairs[i].result || words(source)[0] != token + i) {
			printf("# state %u, result %d\n", pairs[i].state, pairs[i].result);
			return 0;
		}
		words(source)[0] = saved[i];
		holds[source] = holds[target];
		holds[target] = was;
		if (!check(source) || !check(target))
			return 0;
	}
	return 1;
}

static int all_is_there(void)
{
	for (int block = 0; block < BLOCKS; block++)
		if (!check(block))
			return 0;
	return 1;
}

static int refusals(void)
{
	ask(0, physical[0], physical[0]);
	ask(1, physical[0] + PAGE, physical[1]);
	ask(2, physical[0], 1ULL << 46);
	ask(3, 0, physical[1]); /* the first block has the VGA's window in it */
	ask(4, physical[2], physical[3]);
	ask(5, physical[3], physical[4]);
	ask(6, physical[5], physical[6]);
	pairs[6].state = MEGA_EXCHANGE_CANCELLED;
	if (!request(7))
		return 0;
	holds[2] = holds[2] ^ holds[3];
	holds[3] = holds[2] ^ holds[3];
	holds[2] = holds[2] ^ holds[3];
	return pairs[0].result == -EINVAL && pairs[1].result == -EINVAL && pairs[2].result == -EPERM &&
	       pairs[3].result == -EPERM && pairs[4].result == 0 && pairs[5].result == -EINVAL &&
	       pairs[6].result == -1 && pairs[6].state == MEGA_EXCHANGE_CANCELLED && all_is_there();
}

static void tell(const char *word)
{
	if (write(control, word, strlen(word)) < 0)
		result(0, "the host is told");
}

static void wait_for_host(void)
{
	char byte = 0;

	while (byte != '\n')
		if (read(control, &byte, 1) != 1)
			result(0, "the host answers");
}

static int device_goes(void)
{
	for (int i = 0; i < PATIENCE && !access(device, F_OK); i++)
		usleep(100000);
	return access(device, F_OK) != 0;
}

int main(int argc, char **argv)
{
	struct termios raw;
	int good = 1, requests = argc == 3 ? atoi(argv[1]) : 0;

	if (requests < 1) {
		fprintf(stderr, "usage: exchange REQUESTS CONTROL\n");
		return 2;
	}
	control = open(argv[2], O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (control < 0 || tcgetattr(control, &raw)) {
		perror(argv[2]);
		return 1;
	}
	cfmakeraw(&raw);
	tcsetattr(control, TCSANOW, &raw);
	printf("1..7\n");
	result(find_device() && map_device(), "there is an exchanger's device");
	result(header->magic == MEGA_EXCHANGE_MAGIC && header->version == MEGA_EXCHANGE_VERSION &&
	       header->features & MEGA_EXCHANGE_FEATURE_SERVING && header->max_pairs == MEGA_EXCHANGE_MAX_PAIRS &&
	       header->page_shift == MEGA_EXCHANGE_PAGE_SHIFT && header->session, "its page is served");
	result(map_memory(), "the guest has huge pages of its own");
	tell("exchanging\n");
	for (int i = 0; i < requests && good; i++) {
		good = exchange();
		if (i == requests / 2)
			good = good && refusals();
	}
	printf("# %d requests of %d pairs\n", requests, PAIRS);
	result(good, "every page is where the requests brought it, and what is refused is as before");
	tell("checked\n");
	result(device_goes(), "the device goes");
	tell("gone\n");
	wait_for_host();
	result(all_is_there(), "every page is as before when the machine was saved");
	for (int block = 0; block < BLOCKS; block++)
		memset(words(block), block, HUGE);
	for (int block = 0; block < BLOCKS; block++)
		good = good && words(block)[HUGE / 8 - 1] == 0x0101010101010101ULL * block;
	result(good, "the guest goes on");
	return 0;
}
