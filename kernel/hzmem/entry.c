// SPDX-License-Identifier: GPL-2.0
/*
 * What becomes of 2 MiB of content: zero, resident, compressed, and back; corrupt or
 * poisoned, and lost.
 *
 * All changes are made under the entry's lock, and so is inserting its page into a
 * page table (fault.c). So while the lock is held and the page has been unmapped
 * nobody can map it, and with its reference count frozen nobody can take hold of it:
 * it cannot change while it is compressed.
 */

#define pr_fmt(fmt) "hzmem: " fmt

#include <linux/highmem.h>
#include <linux/memcontrol.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include "entry.h"
#include "limits.h"
#include "lru.h"
#include "poison.h"
#include "reclaim.h"
#include "rmap.h"
#include "trace.h"

/* How many scans an incompressible page is left alone at first, and at most. */
#define BACKOFF_FIRST 8
#define BACKOFF_MOST 64

static struct kmem_cache *cache;

/* ---- References and shares ------------------------------------------------ */

void hz_entry_get(struct hz_entry *entry)
{
	kref_get(&entry->references);
}

static void release(struct kref *references)
{
	struct hz_entry *entry = container_of(references, struct hz_entry,
					      references);

	mutex_destroy(&entry->lock);
	mem_cgroup_put(entry->memcg);
	kmem_cache_free(cache, entry);
}

void hz_entry_put(struct hz_entry *entry)
{
	kref_put(&entry->references, release);
}

/* One store more has it. */
void hz_entry_share(struct hz_entry *entry)
{
	atomic_inc(&entry->shares);
}

bool hz_entry_shared(const struct hz_entry *entry)
{
	return atomic_read(&entry->shares) > 1;
}

/* False if the mount is full. */
static bool charge(struct hz_mount *mount)
{
	unsigned long limit = hz_limit_pages(mount);
	long used = atomic_long_read(&mount->used);

	do {
		if (used >= limit)
			return false;
	} while (!atomic_long_try_cmpxchg(&mount->used, &used, used + 1));
	return true;
}

static void set_state(struct hz_entry *entry, enum hz_state state)
{
	atomic_long_dec(&entry->mount->states[entry->state]);
	entry->state = state;
	atomic_long_inc(&entry->mount->states[state]);
}

/*
 * All zero, with one share that is the caller's. The active cgroup (fault.c), or else the
 * task's, is charged for the entry, and for what it is compressed to later on, whoever
 * compresses it. -ENOSPC: the mount is full.
 */
struct hz_entry *hz_entry_new(struct inode *inode, pgoff_t index)
{
	struct hz_mount *mount = hz_mount_of(inode->i_sb);
	struct hz_entry *entry;

	if (!charge(mount))
		return ERR_PTR(-ENOSPC);
	entry = kmem_cache_zalloc(cache, HZ_GFP);
	if (!entry) {
		atomic_long_dec(&mount->used);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&entry->references);
	atomic_set(&entry->shares, 1);
	mutex_init(&entry->lock);
	entry->state = HZ_ZERO;
	entry->mount = mount;
	entry->inode = inode;
	entry->index = index;
	entry->memcg = get_mem_cgroup_from_mm(NULL);
	atomic_long_inc(&mount->states[HZ_ZERO]);
	return entry;
}

/* ---- Its page -------------------------------------------------------------- */

struct hz_lru *hz_entry_lru(const struct hz_entry *entry)
{
	return &entry->mount->lrus[hz_page_node(entry->page)->id];
}

/*
 * A futex that processes share is known by the mapping and index of its page
 * (get_futex_key()), so it needs both; those of private copies too, as a futex must not
 * change its name when its page is copied.
 */
static void give_name(struct hz_entry *entry, struct folio *folio)
{
	folio->index = entry->index * HZ_FRAMES;
	/* Pairs with the acquire in hz_page_owner(). */
	smp_store_release(&folio->mapping, entry->inode->i_mapping);
}

/*
 * Who holds the page may be marking it dirty (folio_mark_dirty()), which follows the
 * mapping under the folio's lock. get_futex_key() follows it under RCU, and inodes are
 * freed after a grace period.
 */
static void take_name(struct folio *folio)
{
	folio_lock(folio);
	WRITE_ONCE(folio->mapping, NULL);
	folio_unlock(folio);
}

static void attach(struct hz_entry *entry, struct hz_page *page)
{
	entry->page = page;
	page->owner = entry;
	give_name(entry, hz_page_folio(page));
	page->pinned = false;
	page->used = false;
	page->skip = 0;
	page->backoff = 0;
	page->changed = true;
	set_state(entry, HZ_RESIDENT);
	hz_lru_add(hz_entry_lru(entry), page);
	hz_page_settles(page);
}

static void mark_pinned(struct hz_entry *entry, bool pinned)
{
	if (entry->page->pinned == pinned)
		return;
	entry->page->pinned = pinned;
	atomic_long_add(pinned ? 1 : -1, &entry->mount->marks[HZ_PINNED]);
}

static void mark_incompressible(struct hz_entry *entry, int algorithm)
{
	struct hz_page *page = entry->page;

	if (!page->backoff)
		atomic_long_inc(&entry->mount->marks[HZ_INCOMPRESSIBLE]);
	page->backoff = page->backoff ? min(2 * page->backoff, BACKOFF_MOST) :
					BACKOFF_FIRST;
	page->skip = page->backoff;
	/* Nobody can write to it now, nor before it is mapped again. */
	page->changed = false;
	page->refused_by = algorithm;
}

static void unmark_incompressible(struct hz_entry *entry)
{
	if (entry->page->backoff)
		atomic_long_dec(&entry->mount->marks[HZ_INCOMPRESSIBLE]);
	entry->page->backoff = 0;
	entry->page->skip = 0;
}

/* Who can write to the page from now on, or does, says so. Under the lock. */
void hz_entry_changes(struct hz_entry *entry)
{
	entry->page->changed = true;
}

/* Whether compressing the page is known to fail: it did, with the same data. Under the lock. */
bool hz_entry_hopeless(const struct hz_entry *entry)
{
	const struct hz_page *page = entry->page;

	return page->backoff && !page->changed &&
	       page->refused_by == READ_ONCE(entry->mount->settings.algorithm);
}

/*
 * Forgets that it was found incompressible: the algorithm is another one now. -EINTR: the task
 * is being killed.
 */
int hz_entry_retry(struct hz_entry *entry)
{
	/* Who forks with the page held may be looking for one for the child. */
	if (mutex_lock_killable(&entry->lock))
		return -EINTR;
	if (entry->state == HZ_RESIDENT)
		unmark_incompressible(entry);
	mutex_unlock(&entry->lock);
	return 0;
}

/* The page is nobody's then, and in no list; the entry's state is to be set. */
static struct hz_page *detach(struct hz_entry *entry)
{
	struct hz_page *page = entry->page;

	hz_page_begins(page);
	hz_lru_remove(hz_entry_lru(entry), page);
	take_name(hz_page_folio(page));
	mark_pinned(entry, false);
	unmark_incompressible(entry);
	entry->page = NULL;
	return page;
}

/*
 * Whether somebody beside us and what maps it has a reference. That nobody has is certain only
 * while it is unmapped by who asks (pool.c), and under the lock: then nobody maps it anew, so the
 * second count is no higher than when the first was read.
 */
bool hz_entry_held(const struct hz_entry *entry)
{
	struct folio *folio = hz_page_folio(entry->page);
	int references = folio_ref_count(folio);

	/* Pairs with the order in which who unmaps it lowers both. */
	smp_rmb();
	return references - folio_mapcount(folio) > 1;
}

/* Reads and clears the Accessed bits of all that maps the page. */
static bool clear_young(struct hz_entry *entry)
{
	return hz_rmap_clear_young(entry->inode->i_mapping, entry->index,
				   hz_page_frame(entry->page));
}

/* A scan's reading: whether the page was accessed since the one before. Under the lock. */
bool hz_entry_young(struct hz_entry *entry)
{
	bool used = entry->page->used;

	entry->page->used = false;
	return clear_young(entry) || used;
}

/* Whether it was since it was last looked at; the next scan is told. Under the lock. */
bool hz_entry_used(struct hz_entry *entry)
{
	bool used = clear_young(entry);

	entry->page->used |= used;
	return used;
}

static void unmap(struct hz_entry *entry)
{
	hz_rmap_unmap(entry->inode->i_mapping, entry->index, 1);
}

/* ---- Memory errors ----------------------------------------------------------- */

/*
 * The entry that a page belongs to, with a reference, or NULL. A page has its name from when
 * it has its owner until take_name(), which waits for the folio's lock; and until then its
 * owner cannot go.
 */
struct hz_entry *hz_page_owner(struct hz_page *page)
{
	struct folio *folio = hz_page_folio(page);
	struct hz_entry *entry = NULL;

	folio_lock(folio);
	/* Pairs with the release in give_name(). */
	if (smp_load_acquire(&folio->mapping)) {
		entry = page->owner;
		hz_entry_get(entry);
	}
	folio_unlock(folio);
	return entry;
}

/* Under the entry's lock, with the page not frozen. */
static void lose(struct hz_entry *entry)
{
	struct hz_page *page;

	pr_err("page %lu of inode %llu on device %u:%u is lost to a memory error: who touches it gets SIGBUS\n",
	       entry->index, (u64)entry->inode->i_ino,
	       MAJOR(entry->mount->device), MINOR(entry->mount->device));
	unmap(entry);
	page = detach(entry);
	set_state(entry, HZ_POISONED);
	/* It is used no more (pool.c). */
	hz_pool_give(page);
}

/* Makes a page, filled, the entry's; which loses it again if an error was found meanwhile. */
static int settle(struct hz_entry *entry, struct hz_page *page)
{
	attach(entry, page);
	/* Its name before the look at the mark (poison.c). */
	smp_mb();
	if (!READ_ONCE(page->poisoned))
		return 0;
	lose(entry);
	return -EHWPOISON;
}

/* What the entry has is lost, if it still has it in this page, which is marked. */
void hz_entry_lose(struct hz_entry *entry, struct hz_page *page)
{
	mutex_lock(&entry->lock);
	if (entry->state == HZ_RESIDENT && entry->page == page)
		lose(entry);
	mutex_unlock(&entry->lock);
}

/* ---- Filling a page --------------------------------------------------------- */

static void clear(void *page)
{
	unsigned long offset;

	for (offset = 0; offset < HZ_SIZE; offset += PAGE_SIZE) {
		clear_page(page + offset);
		cond_resched();
	}
}

/* -EHWPOISON: the page of the entry has an error, so its content is lost. Under its lock. */
static int copy(void *to, struct hz_entry *from)
{
	unsigned long offset;
	int error;

	for (offset = 0; offset < HZ_SIZE; offset += PAGE_SIZE) {
		error = hz_copy_from_page(from->page, offset, to + offset);
		if (error) {
			lose(from);
			return error;
		}
		cond_resched();
	}
	return 0;
}

static void note_corrupt(struct hz_entry *entry)
{
	pr_err("compressed page %lu of inode %llu on device %u:%u is damaged: who touches it gets SIGBUS\n",
	       entry->index, (u64)entry->inode->i_ino,
	       MAJOR(entry->mount->device), MINOR(entry->mount->device));
	hz_blob_free(entry->mount, &entry->blob);
	set_state(entry, HZ_CORRUPT);
}

/* Writes the entry's content into a page that nobody sees yet. Under its lock. */
static int fill(struct hz_entry *entry, struct hz_page *page)
{
	void *data = hz_page_data(page);
	bool whole;

	switch (entry->state) {
	case HZ_ZERO:
		clear(data);
		return 0;
	case HZ_RESIDENT:
		return copy(data, entry);
	case HZ_COMPRESSED:
		whole = hz_blob_load(&entry->blob, data);
		trace_hzmem_decompress(entry, entry->blob.length,
				       whole ? 0 : -EIO);
		if (whole)
			return 0;
		note_corrupt(entry);
		return -EIO;
	case HZ_CORRUPT:
		return -EIO;
	case HZ_POISONED:
		return -EHWPOISON;
	default:
		return -ENOENT;
	}
}

/*
 * Makes the entry resident, under its lock, and says what it took (HZ_FAULTS_...).
 * -ENOMEM: no page; -EIO: its data are damaged; -EHWPOISON: they are lost to a memory
 * error; -EINTR: the task is being killed; -ENOENT: it is in no store any more.
 */
int hz_entry_load(struct hz_entry *entry, enum hz_event *how)
{
	struct hz_page *page;
	int error;

	*how = HZ_FAULTS_RESIDENT;
	if (entry->state == HZ_RESIDENT)
		return 0;
	*how = entry->state == HZ_ZERO ? HZ_FAULTS_ZERO : HZ_FAULTS_DECOMPRESS;
	if (entry->state == HZ_CORRUPT)
		return -EIO;
	if (entry->state == HZ_POISONED)
		return -EHWPOISON;
	if (entry->state == HZ_DEAD)
		return -ENOENT;
	page = hz_alloc_page(entry->mount, entry->state == HZ_COMPRESSED);
	if (IS_ERR(page))
		return PTR_ERR(page);
	error = fill(entry, page);
	if (error) {
		hz_pool_give(page);
		return error;
	}
	if (entry->state == HZ_COMPRESSED)
		hz_blob_free(entry->mount, &entry->blob);
	return settle(entry, page);
}

/*
 * A resident entry of its own with the same content, in a page that the caller has: who
 * looked for one with the source's lock held could not compress the source for it. Under
 * the source's lock. The page is given back where this fails.
 */
struct hz_entry *hz_entry_copy(struct hz_entry *source, struct hz_page *page)
{
	struct hz_entry *entry = NULL;
	int error = fill(source, page);

	if (!error) {
		entry = hz_entry_new(source->inode, source->index);
		error = PTR_ERR_OR_ZERO(entry);
	}
	if (error) {
		hz_pool_give(page);
		return ERR_PTR(error);
	}
	/* Nobody else knows the entry yet, but reclaim finds it by its page. */
	mutex_lock_nested(&entry->lock, SINGLE_DEPTH_NESTING);
	settle(entry, page);
	mutex_unlock(&entry->lock);
	return entry;
}

/* ---- Compressing ------------------------------------------------------------ */

/*
 * Copies the page to work->in, as memory errors are survived only while copying. -EAGAIN: only
 * zeros were wanted, and there is something else.
 */
static int read_page(struct hz_entry *entry, struct hz_work *work,
		     bool zero_only, bool *zero)
{
	unsigned long offset;
	int error;

	*zero = true;
	for (offset = 0; offset < HZ_SIZE; offset += PAGE_SIZE) {
		error = hz_copy_from_page(entry->page, offset,
					  work->in + offset);
		if (error)
			return error;
		if (*zero && memchr_inv(work->in + offset, 0, PAGE_SIZE))
			*zero = false;
		if (!*zero && zero_only)
			return -EAGAIN;
	}
	return 0;
}

/* What was read of the page. 0: all is in *blob. */
static int squeeze(struct hz_entry *entry, struct hz_work *work,
		   struct hz_blob *blob)
{
	int algorithm = READ_ONCE(entry->mount->settings.algorithm);
	size_t length;

	if (algorithm == HZ_NO_ALGORITHM)
		return -EAGAIN;
	length = hz_compress(algorithm, work->in, work->out,
			     work->memory[algorithm]);
	if (!length) {
		mark_incompressible(entry, algorithm);
		return -E2BIG;
	}
	return hz_blob_store(entry->mount, entry->memcg, blob, algorithm,
			     work->out, length);
}

/* The page is unmapped and nobody can take hold of it. */
static int compress_frozen(struct hz_entry *entry, struct hz_work *work,
			   bool zero_only, struct hz_page **freed)
{
	struct hz_blob blob = { .length = 0 };
	bool zero;
	int error;

	error = read_page(entry, work, zero_only, &zero);
	if (!error && !zero)
		error = squeeze(entry, work, &blob);
	if (error)
		return error;
	*freed = detach(entry);
	if (!zero)
		entry->blob = blob;
	set_state(entry, zero ? HZ_ZERO : HZ_COMPRESSED);
	hz_count(entry->mount, zero ? HZ_COMPRESSIONS_ZERO : HZ_COMPRESSIONS);
	return 0;
}

static void note_refusal(struct hz_room *room, const struct hz_entry *entry,
			 int error)
{
	if (error == -ENOSPC) {
		room->refusals = HZ_MOST_REFUSALS;
	} else if (error == -ENOMEM) {
		room->refusals++;
		room->full = entry->memcg;
	}
}

/*
 * Takes the page away from a resident entry, under its lock. On success *freed is
 * that page, which is in no list. Otherwise the entry is as before, only unmapped:
 * -EHWPOISON: it had a memory error and is lost; -EBUSY: somebody holds the page; -E2BIG: it is incompressible; -ENOSPC, -ENOMEM:
 * no room for the compressed data, which *room knows from then on; -EAGAIN: not zero,
 * and it was known that there is none.
 */
int hz_entry_compress(struct hz_entry *entry, struct hz_work *work,
		      struct hz_room *room, struct hz_page **freed)
{
	struct folio *folio = hz_page_folio(entry->page);
	int error;

	unmap(entry);
	if (folio_ref_freeze(folio, 1)) {
		mark_pinned(entry, false);
		error = compress_frozen(entry, work, hz_room_none(room, entry),
					freed);
		folio_ref_unfreeze(folio, 1);
		note_refusal(room, entry, error);
		if (error == -EHWPOISON)
			lose(entry);
	} else {
		mark_pinned(entry, true);
		error = -EBUSY;
	}
	if (error && error != -EAGAIN)
		hz_count(entry->mount, HZ_COMPRESSIONS_REFUSED);
	trace_hzmem_compress(entry, entry->state == HZ_COMPRESSED ?
			     entry->blob.length : 0, error);
	return error;
}

/* ---- The end ------------------------------------------------------------------ */

/*
 * One store less has it. With the last one the content goes. It is unmapped first:
 * whoever drops has unmapped its own mapping, but a process may still map read-only
 * what its last sharer now drops.
 */
void hz_entry_drop(struct hz_entry *entry)
{
	struct hz_page *page = NULL;

	if (!atomic_dec_and_test(&entry->shares))
		return;
	mutex_lock(&entry->lock);
	if (entry->state == HZ_RESIDENT) {
		unmap(entry);
		page = detach(entry);
	} else if (entry->state == HZ_COMPRESSED) {
		hz_blob_free(entry->mount, &entry->blob);
	}
	set_state(entry, HZ_DEAD);
	atomic_long_dec(&entry->mount->states[HZ_DEAD]);
	atomic_long_dec(&entry->mount->used);
	if (page)
		hz_pool_give(page);
	mutex_unlock(&entry->lock);
	hz_entry_put(entry);
}

int hz_entry_init(void)
{
	cache = KMEM_CACHE(hz_entry, SLAB_ACCOUNT);
	return cache ? 0 : -ENOMEM;
}

void hz_entry_exit(void)
{
	kmem_cache_destroy(cache);
}
