/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A VMM in small that has a daemon serve its guest: usage: vmm_of_daemon SOCKET, where tests/c_interface.rs refuses the first
 * connection, serves the next, and dies in the middle of the last one's request.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../include/mega_exchange.h"
#include "../../../kernel/module/mega_exchange.h"

#define BLOCK MEGA_EXCHANGE_BLOCK_BYTES
#define BLOCKS 4

static void expect(int holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "not so: %s\n", what);
		exit(1);
	}
}
#define EXPECT(condition) expect(condition, #condition)

static struct mega_exchange_header *header;
static struct mega_exchange_pair *pairs;

static int is_served(void)
{
	return header->features & MEGA_EXCHANGE_FEATURE_SERVING;
}

static void ask(const struct mega_exchange_server *server, uint64_t source, uint64_t target)
{
	uint64_t one = 1;

	pairs[0] = (struct mega_exchange_pair){ source, target, MEGA_EXCHANGE_PENDING, -1 };
	pairs[1] = (struct mega_exchange_pair){ source, 9 * BLOCK, MEGA_EXCHANGE_PENDING, -1 };
	header->pairs = 2;
	__atomic_store_n(&header->state, MEGA_EXCHANGE_PENDING, __ATOMIC_RELEASE);
	EXPECT(write(mega_exchange_server_doorbell(server), &one, sizeof(one)) == sizeof(one));
}

/* Whether the daemon has ended, after so many milliseconds at most; -1: however long it takes. */
static int has_ended(const struct mega_exchange_connection *connection, int at_most)
{
	struct pollfd wait = { .fd = mega_exchange_connection_ended(connection), .events = POLLIN };

	return poll(&wait, 1, at_most) == 1;
}

int main(int argc, char **argv)
{
	EXPECT(argc == 2);
	char why[300];
	char *mapped = mmap(NULL, (BLOCKS + 1) * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(mapped != MAP_FAILED);
	char *memory = (char *)(((unsigned long)mapped + BLOCK - 1) / BLOCK * BLOCK);
	struct mega_exchange_range range = { 0, BLOCKS * BLOCK, memory };
	struct mega_exchange_server *server;
	struct mega_exchange_connection *connection;

	for (size_t i = 0; i < BLOCKS * BLOCK; i++)
		memory[i] = 'a' + i / BLOCK;
	EXPECT(mega_exchange_server_new(&server, why, sizeof(why)) == 0);
	char *page = mmap(NULL, MEGA_EXCHANGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			  mega_exchange_server_memory(server), 0);
	EXPECT(page != MAP_FAILED);
	header = (void *)page;
	pairs = (void *)(page + MEGA_EXCHANGE_PAIRS_OFFSET);
	EXPECT(header->magic == MEGA_EXCHANGE_MAGIC && !is_served());

	EXPECT(mega_exchange_connect("/nowhere/at.all", server, &range, 1, &connection, why, sizeof(why)) == -ECONNREFUSED);
	EXPECT(strstr(why, "/nowhere/at.all") && strstr(why, "No such file") && strstr(why, "[exchange]"));
	EXPECT(mega_exchange_connect(argv[1], server, &range, 1, &connection, why, sizeof(why)) == -ECONNREFUSED);
	EXPECT(strstr(why, "the kernel has no EXCHANGE") != NULL);
	EXPECT(!is_served());

	EXPECT(mega_exchange_connect(argv[1], server, &range, 1, &connection, why, sizeof(why)) == 0);
	EXPECT(is_served() && !has_ended(connection, 0));
	ask(server, BLOCK, 2 * BLOCK);
	while (__atomic_load_n(&header->state, __ATOMIC_ACQUIRE) != MEGA_EXCHANGE_DONE)
		usleep(100);
	EXPECT(pairs[0].state == MEGA_EXCHANGE_DONE && pairs[0].result == 0);
	EXPECT(pairs[1].state == MEGA_EXCHANGE_DONE && pairs[1].result == -EPERM);
	for (size_t i = 0; i < BLOCKS * BLOCK; i++)
		EXPECT(memory[i] == "acbd"[i / BLOCK]);
	mega_exchange_connection_end(connection);
	EXPECT(!is_served());

	/* The next one leaves a request in the middle, and the page as it is. */
	EXPECT(mega_exchange_connect(argv[1], server, &range, 1, &connection, why, sizeof(why)) == 0);
	EXPECT(is_served());
	ask(server, 0, BLOCK);
	EXPECT(has_ended(connection, -1));
	EXPECT(is_served() && header->state == MEGA_EXCHANGE_RUNNING);
	mega_exchange_connection_end(connection);
	EXPECT(!is_served() && header->state == MEGA_EXCHANGE_DONE);
	EXPECT(pairs[0].state == MEGA_EXCHANGE_DONE && pairs[1].state == MEGA_EXCHANGE_CANCELLED);

	mega_exchange_connection_end(NULL);
	mega_exchange_server_stop(server);
	return 0;
}
