/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A VMM in small: exchanges by a call and through the page. Exit 3: the kernel has no UFFDIO_MOVE. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../include/mega_exchange.h"
#include "../../../kernel/module/mega_exchange.h"

#define BLOCK MEGA_EXCHANGE_BLOCK_BYTES

static void expect(int holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "not so: %s\n", what);
		exit(1);
	}
}
#define EXPECT(condition) expect(condition, #condition)

int main(void)
{
	char why[200];
	char *mapped = mmap(NULL, 5 * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(mapped != MAP_FAILED);
	char *memory = (char *)(((unsigned long)mapped + BLOCK - 1) / BLOCK * BLOCK);
	struct mega_exchange_range range = { 0, 4 * BLOCK, memory };
	struct mega_exchanger *exchanger;

	for (size_t i = 0; i < 4 * BLOCK; i++)
		memory[i] = 'a' + i / BLOCK;

	struct mega_exchange_range odd = { 4096, BLOCK, memory };
	EXPECT(mega_exchanger_new(&odd, 1, &exchanger, why, sizeof(why)) == -EINVAL);
	EXPECT(strstr(why, "modulo 2 MiB") != NULL);
	EXPECT(mega_exchanger_new(&odd, 1, &exchanger, why, 5) == -EINVAL && strlen(why) == 4);

	int result = mega_exchanger_new(&range, 1, &exchanger, why, sizeof(why));
	if (result == -ENOSYS || result == -EPERM) {
		fprintf(stderr, "%s\n", why);
		return 3;
	}
	EXPECT(result == 0);

	struct mega_exchange_blocks pairs[] = { { 0, BLOCK }, { 2 * BLOCK, 9 * BLOCK } };
	int32_t results[2];
	EXPECT(mega_exchanger_exchange(exchanger, pairs, 2, results) == 1);
	EXPECT(results[0] == 0 && results[1] == -EPERM);
	EXPECT(memory[0] == 'b' && memory[BLOCK] == 'a' && memory[2 * BLOCK] == 'c');

	mega_exchanger_pause(exchanger);
	EXPECT(mega_exchanger_exchange(exchanger, pairs, 1, results) == 0 && results[0] == -EAGAIN);
	EXPECT(mega_exchanger_resume(exchanger) == 0);

	struct mega_exchange_server *server;
	EXPECT(mega_exchange_server_start(exchanger, &server, why, sizeof(why)) == 0);
	char *page = mmap(NULL, MEGA_EXCHANGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			  mega_exchange_server_memory(server), 0);
	EXPECT(page != MAP_FAILED);
	struct mega_exchange_header *header = (void *)page;
	struct mega_exchange_pair *asked = (void *)(page + MEGA_EXCHANGE_PAIRS_OFFSET);

	EXPECT(header->magic == MEGA_EXCHANGE_MAGIC && header->features == MEGA_EXCHANGE_FEATURE_SERVING);
	asked[0] = (struct mega_exchange_pair){ 2 * BLOCK, 3 * BLOCK, MEGA_EXCHANGE_PENDING, -1 };
	header->pairs = 1;
	header->sequence = 5;
	__atomic_store_n(&header->state, MEGA_EXCHANGE_PENDING, __ATOMIC_RELEASE);
	uint64_t one = 1;
	EXPECT(write(mega_exchange_server_doorbell(server), &one, sizeof(one)) == sizeof(one));
	while (__atomic_load_n(&header->state, __ATOMIC_ACQUIRE) != MEGA_EXCHANGE_DONE)
		usleep(100);
	EXPECT(asked[0].state == MEGA_EXCHANGE_DONE && asked[0].result == 0 && header->done_sequence == 5);
	for (size_t i = 0; i < 4 * BLOCK; i++)
		EXPECT(memory[i] == "badc"[i / BLOCK]);

	struct mega_exchange_connection *connection;
	EXPECT(mega_exchange_connect("/nowhere", server, &range, 1, &connection, why, sizeof(why)) == -EINVAL);
	EXPECT(strstr(why, "a thread of this process serves it") != NULL);

	mega_exchange_server_stop(server);
	EXPECT(header->features == 0);
	mega_exchanger_free(exchanger);
	return 0;
}
