// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "counts.h"
#include "device.h"
#include "tap.h"

#define FOLDER "/sys/kernel/debug/anon_pud/"

/* What a look at every frame of a chunk finds. */
struct walked {
	uint64_t frame;
	unsigned int free, unmovable;
	unsigned int wrong;	/* frames that are not what their bit says */
};

static FILE *open_counts(const char *path)
{
	FILE *file = fopen(path, "re");

	if (!file)
		tap_bail("open %s", path);
	return file;
}

struct chunks chunks_now(void)
{
	FILE *file = open_counts(FOLDER "chunks");
	struct chunks chunks = { 0 };
	struct chunk chunk;
	int mapped;

	while (fscanf(file, "%lu %d %u %u %d", &chunk.frame, &chunk.node, &chunk.free, &chunk.unmovable,
		      &mapped) == 5) {
		if (chunks.count == MAX_CHUNKS)
			tap_bail("more than %d chunks", MAX_CHUNKS);
		chunk.mapped = mapped;
		chunks.chunk[chunks.count++] = chunk;
	}
	fclose(file);
	if (!chunks.count)
		tap_bail("no chunks");
	return chunks;
}

static size_t walk(struct walked *walked)
{
	FILE *file = open_counts(FOLDER "chunks_walked");
	size_t count = 0;

	while (count < MAX_CHUNKS && fscanf(file, "%lu %u %u %u", &walked[count].frame, &walked[count].free,
					    &walked[count].unmovable, &walked[count].wrong) == 4)
		count++;
	fclose(file);
	return count;
}

const struct chunk *chunk_of(const struct chunks *chunks, uint64_t frame)
{
	for (size_t i = 0; i < chunks->count; i++)
		if (chunks->chunk[i].frame == frame / CHUNK_FRAMES * CHUNK_FRAMES)
			return chunks->chunk + i;
	tap_bail("frame 0x%lx is in no chunk", frame);
}

void chunks_note(const struct chunks *chunks)
{
	for (size_t i = 0; i < chunks->count; i++) {
		const struct chunk *chunk = chunks->chunk + i;

		tap_note("chunk 0x%lx of node %d: %u free, %u unmovable%s", chunk->frame, chunk->node,
			 chunk->free, chunk->unmovable, chunk->mapped ? ", mapped" : "");
	}
}

/*
 * KASAN keeps what is freed to the slabs for a while, so that looking allocates memory, by which a processor's list of free
 * pages is filled: 2016 at a time, at most. Of these the counts may be off then.
 */
static bool has_kasan(void)
{
	FILE *symbols = fopen("/proc/kallsyms", "re");
	bool found = false;
	char line[512];

	while (symbols && !found && fgets(line, sizeof(line), symbols))
		found = strstr(line, " kasan_report\n");
	if (symbols)
		fclose(symbols);
	return found;
}

static bool about(unsigned int a, unsigned int b, unsigned int off)
{
	return a <= b + off && b <= a + off;
}

/* How many chunks were counted otherwise than seen, or have frames whose bit is wrong. */
static size_t differences(const struct chunks *chunks, const struct walked *walked, bool print)
{
	static int off = -1;
	size_t different = 0;

	if (off < 0)
		off = has_kasan() ? 2 * 2016 : 0;

	for (size_t i = 0; i < chunks->count; i++) {
		const struct chunk *counted = chunks->chunk + i;
		const struct walked *seen = walked + i;

		if (counted->frame == seen->frame && about(counted->free, seen->free, off) &&
		    about(counted->unmovable, seen->unmovable, off) && !seen->wrong)
			continue;
		different++;
		if (print)
			tap_note("chunk 0x%lx: %u free counted, %u seen; %u unmovable counted, %u seen; %u frames wrong",
				 counted->frame, counted->free, seen->free, counted->unmovable,
				 seen->unmovable, seen->wrong);
	}
	return different;
}

bool counts_agree(void)
{
	struct walked walked[MAX_CHUNKS];

	/* Somebody always allocates something, but not all the time. */
	for (unsigned int i = 0; i < 20; i++) {
		size_t seen = walk(walked);
		struct chunks chunks = chunks_now();

		if (seen == chunks.count && !differences(&chunks, walked, i == 19))
			return true;
		usleep(200000);
	}
	return false;
}
