/* SPDX-License-Identifier: GPL-2.0 */
/* What happens when a mapping is touched. */
#ifndef HZMEM_FAULT_H
#define HZMEM_FAULT_H

#include <linux/mm.h>

extern const struct vm_operations_struct hz_vma_operations;

#endif
