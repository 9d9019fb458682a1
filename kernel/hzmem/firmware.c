// SPDX-License-Identifier: GPL-2.0
/*
 * The firmware's own map of the machine, which memmap= on the kernel's command line does not
 * change. No function that says what is in it is exported by all kernels, so it is read where
 * programs read it: /sys/firmware/memmap/N, a folder for each range, counted from 0, with
 * the files start, end (the last byte) and type.
 */

#include <linux/err.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include "firmware.h"

#define MAP "/sys/firmware/memmap"

/* Longer than the text of any of the files. */
#define TEXT 64

struct piece {
	u64 first;
	u64 last;
	bool memory;
};

/* -ENOENT: there is no such file. */
static int read_text(unsigned int number, const char *name, char *text)
{
	char path[TEXT];
	struct file *file;
	loff_t position = 0;
	ssize_t length;

	snprintf(path, sizeof(path), MAP "/%u/%s", number, name);
	file = filp_open(path, O_RDONLY, 0);
	if (IS_ERR(file))
		return PTR_ERR(file);
	length = kernel_read(file, text, TEXT - 1, &position);
	filp_close(file, NULL);
	if (length < 0)
		return length;
	text[length] = '\0';
	return 0;
}

static int read_number(unsigned int number, const char *name, u64 *value)
{
	char text[TEXT];

	return read_text(number, name, text) ?: kstrtou64(text, 0, value);
}

static int read_piece(unsigned int number, struct piece *piece)
{
	char text[TEXT];
	int error;

	error = read_number(number, "start", &piece->first) ?:
		read_number(number, "end", &piece->last) ?:
		read_text(number, "type", text);
	if (error)
		return error;
	piece->memory = sysfs_streq(text, "System RAM");
	return 0;
}

/*
 * 0: all of the range is memory, and nothing else is said about it; -ENXIO: it is not; another
 * error: the map could not be read. May sleep.
 */
int hz_firmware_memory(u64 start, u64 size)
{
	u64 last = start + size - 1;
	struct piece piece;
	unsigned int number;
	u64 memory = 0;
	int error;

	for (number = 0;; number++) {
		error = read_piece(number, &piece);
		if (error)
			break;
		if (piece.first > last || piece.last < start)
			continue;
		if (!piece.memory)
			return -ENXIO;
		/* Its ranges do not overlap. */
		memory += min(piece.last, last) - max(piece.first, start) + 1;
	}
	/* After the last one, or where there is no map. */
	if (error != -ENOENT || !number)
		return error;
	return memory == size ? 0 : -ENXIO;
}
