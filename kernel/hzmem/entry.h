/* SPDX-License-Identifier: GPL-2.0 */
/* The content of one 2 MiB of a file, or of a private copy of it. */
#ifndef HZMEM_ENTRY_H
#define HZMEM_ENTRY_H

#include <linux/kref.h>
#include <linux/mutex.h>
#include "blob.h"
#include "hzmem.h"
#include "pool.h"

/*
 * shares counts the stores that it is in: more than one after fork. With the last
 * one the content goes, at once; the struct stays until nobody has a reference.
 * mount, inode and index are valid until then, under lock: who finds HZ_DEAD under
 * lock must not use them, who finds another state may until it unlocks.
 */
struct hz_entry {
	struct kref references;
	atomic_t shares;
	struct mutex lock;	/* what is below */
	enum hz_state state;
	union {
		struct hz_page *page;	/* HZ_RESIDENT */
		struct hz_blob blob;	/* HZ_COMPRESSED */
	};
	struct hz_mount *mount;
	struct inode *inode;
	pgoff_t index;
	struct mem_cgroup *memcg;	/* charged for the blob; with a reference */
};

/*
 * What a search for pages to compress knows of room for compressed data. A cgroup that is
 * at its limit has none for its own pages; a mount that is has none for any, and after so
 * many refusals none is expected elsewhere.
 */
#define HZ_MOST_REFUSALS 8

struct hz_room {
	const struct mem_cgroup *full;	/* who was refused last */
	unsigned int refusals;
};

/* Whether nothing but pages of zeros is worth trying any more. */
static inline bool hz_room_ended(const struct hz_room *room)
{
	return room->refusals >= HZ_MOST_REFUSALS;
}

/* Whether compressed data of this entry would not find any. */
static inline bool hz_room_none(const struct hz_room *room,
				const struct hz_entry *entry)
{
	return hz_room_ended(room) ||
	       (room->refusals && room->full == entry->memcg);
}

struct hz_entry *hz_entry_new(struct inode *inode, pgoff_t index);
struct hz_entry *hz_entry_copy(struct hz_entry *source, struct hz_page *page);
void hz_entry_get(struct hz_entry *entry);
void hz_entry_put(struct hz_entry *entry);
void hz_entry_share(struct hz_entry *entry);
void hz_entry_drop(struct hz_entry *entry);
bool hz_entry_shared(const struct hz_entry *entry);

struct hz_entry *hz_page_owner(struct hz_page *page);
void hz_entry_lose(struct hz_entry *entry, struct hz_page *page);

struct hz_lru *hz_entry_lru(const struct hz_entry *entry);
int hz_entry_load(struct hz_entry *entry, enum hz_event *how);
bool hz_entry_held(const struct hz_entry *entry);
void hz_entry_changes(struct hz_entry *entry);
bool hz_entry_hopeless(const struct hz_entry *entry);
int hz_entry_retry(struct hz_entry *entry);
bool hz_entry_young(struct hz_entry *entry);
bool hz_entry_used(struct hz_entry *entry);
int hz_entry_compress(struct hz_entry *entry, struct hz_work *work,
		      struct hz_room *room, struct hz_page **freed);

int hz_entry_init(void);
void hz_entry_exit(void);

#endif
