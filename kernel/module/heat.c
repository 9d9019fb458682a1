// SPDX-License-Identifier: GPL-2.0
/* What is remembered about physical memory from one scan to the next. */

#include <linux/slab.h>
#include <linux/xarray.h>
#include "heat.h"

/* By section number. Entries are added and never taken out until unload. */
static DEFINE_XARRAY(sections);

void mega_heat_look_up(struct mega_heat_cursor *cursor, unsigned long section)
{
	cursor->section = section;
	cursor->heat = xa_load(&sections, section);
}

struct mega_block_heat *mega_heat_get(struct mega_heat_cursor *cursor,
				      unsigned long frame)
{
	struct mega_block_heat *block = mega_heat_find(cursor, frame);
	struct mega_section_heat *section;

	if (block)
		return block;

	section = kvzalloc(sizeof(*section), GFP_KERNEL | __GFP_NOWARN);
	if (!section)
		return NULL;
	if (xa_err(xa_store(&sections, cursor->section, section,
			    GFP_KERNEL | __GFP_NOWARN))) {
		kvfree(section);
		return NULL;
	}
	cursor->heat = section;
	return mega_block_of(section, frame);
}

void mega_heat_exit(void)
{
	struct mega_section_heat *section;
	unsigned long number;

	xa_for_each(&sections, number, section)
		kvfree(section);
	xa_destroy(&sections);
}
