/* SPDX-License-Identifier: GPL-2.0 */
/* The memory that compressing needs, one for each who compresses. */
#ifndef HZMEM_WORK_H
#define HZMEM_WORK_H

#include "compress.h"

struct hz_work {
	void *in;			/* a page's content */
	void *out;			/* HZ_OUT_SIZE bytes */
	void *memory[HZ_ALGORITHMS];	/* the algorithm's own */
};

int hz_work_prepare(struct hz_work *work, int algorithm);
void hz_work_free(struct hz_work *work);

#endif
