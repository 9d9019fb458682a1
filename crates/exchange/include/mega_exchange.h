/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Exchanges blocks of a guest's memory within its VMM, without copying. Link
 * libmega_exchange.so or libmega_exchange.a. docs/exchange.md tells what a VMM
 * has to do.
 *
 * Functions that return int return 0, or a negative errno. `why` may be NULL;
 * else the reason is written there as text, ended by a 0, cut off where it does
 * not fit. All functions may be called from any thread. None touches an object
 * after it was freed; free an object once, when no other call uses it.
 */
#ifndef MEGA_EXCHANGE_VMM_H
#define MEGA_EXCHANGE_VMM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is exchanged, in bytes. */
#define MEGA_EXCHANGE_BLOCK_BYTES 0x200000ULL

/* A part of the guest's memory. Both addresses are alike modulo 2 MiB. */
struct mega_exchange_range {
	uint64_t guest;	/* guest-physical address */
	uint64_t bytes;
	void *host;	/* where this process maps it */
};

/* Two guest-physical addresses of blocks. */
struct mega_exchange_blocks {
	uint64_t source;
	uint64_t target;
};

struct mega_exchanger;
struct mega_exchange_server;
struct mega_exchange_connection;

/*
 * An exchanger over private anonymous memory. The memory must stay mapped where
 * it is until the exchanger is freed. -ENOSYS: the kernel has no UFFDIO_MOVE.
 * -EOPNOTSUPP: the memory is shared, of hugetlb, of a file, or in use by another
 * userfaultfd. -EINVAL: ranges overlap or are not aligned alike.
 */
int mega_exchanger_new(const struct mega_exchange_range *ranges, size_t count,
		       struct mega_exchanger **exchanger, char *why, size_t why_bytes);

/*
 * Exchanges the contents of each pair and writes a result for each: 0, or a
 * negative errno as in kernel/module/mega_exchange.h. Until it returns nobody may
 * touch the blocks. Returns how many pairs were exchanged.
 */
size_t mega_exchanger_exchange(const struct mega_exchanger *exchanger,
			       const struct mega_exchange_blocks *pairs, size_t count,
			       int32_t *results);

/*
 * Waits until no pair is being exchanged and refuses all others (-EAGAIN) until
 * resume. Around dirty logging, migration and snapshots. Calls nest.
 */
void mega_exchanger_pause(const struct mega_exchanger *exchanger);
int mega_exchanger_resume(const struct mega_exchanger *exchanger);

/* Not while a server runs over it. */
void mega_exchanger_free(struct mega_exchanger *exchanger);

/* Serves a guest from a thread of its own, over an exchanger that outlives it. */
int mega_exchange_server_start(const struct mega_exchanger *exchanger,
			       struct mega_exchange_server **server,
			       char *why, size_t why_bytes);

/*
 * The memfd to show the guest as BAR 2 of ivshmem-doorbell (16 KiB), and the
 * eventfd that its doorbell signals for peer 0, vector 0. They stay the server's:
 * do not close them.
 */
int mega_exchange_server_memory(const struct mega_exchange_server *server);
int mega_exchange_server_doorbell(const struct mega_exchange_server *server);

/*
 * Waits for the thread to end, after the pair that it is at. Also frees a server
 * of mega_exchange_server_new; end its connection before.
 */
void mega_exchange_server_stop(struct mega_exchange_server *server);

/*
 * On a host whose `mega daemon` exchanges memory (docs/exchange.md): a server
 * whose page says that nobody serves it, until the daemon does. It has no thread,
 * and needs no exchanger.
 */
int mega_exchange_server_new(struct mega_exchange_server **server,
			     char *why, size_t why_bytes);

/*
 * Asks the daemon that listens at `path` to serve the guest, whose memory lies in
 * this process, and waits for its answer. The memory, 1 to 64 ranges, must stay
 * the guest's until the connection is ended. A server has one connection at a
 * time. -ECONNREFUSED: nobody listens there, or the daemon refuses; `why` has its
 * reason. -EINVAL: a thread of this process serves the page.
 */
int mega_exchange_connect(const char *path, const struct mega_exchange_server *server,
			  const struct mega_exchange_range *ranges, size_t count,
			  struct mega_exchange_connection **connection,
			  char *why, size_t why_bytes);

/*
 * A descriptor that is readable when the daemon serves the guest no more: end the
 * connection then. It stays the connection's: do not read or close it.
 */
int mega_exchange_connection_ended(const struct mega_exchange_connection *connection);

/*
 * Has the daemon serve no more, and waits until no pair is being exchanged:
 * around dirty logging, migration and snapshots, and at a reset of the guest. The
 * page says then that nobody serves it, and a request in it is never carried out.
 * Frees the connection; the server can be connected again.
 */
void mega_exchange_connection_end(struct mega_exchange_connection *connection);

#ifdef __cplusplus
}
#endif

#endif
