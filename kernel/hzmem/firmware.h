/* SPDX-License-Identifier: GPL-2.0 */
/* What the machine's firmware says about memory. */
#ifndef HZMEM_FIRMWARE_H
#define HZMEM_FIRMWARE_H

#include <linux/types.h>

int hz_firmware_memory(u64 start, u64 size);

#endif
