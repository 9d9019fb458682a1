/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The hypervisor as the kernel's exchanger, where the kernel can use one and knows
 * PCI. Elsewhere there is none.
 */
#ifndef MEGA_EXCHANGE_DEVICE_H
#define MEGA_EXCHANGE_DEVICE_H

#include <linux/kconfig.h>
#include <linux/types.h>
#include "giant.h"

#if defined(ANON_PUD_EXCHANGER) && IS_ENABLED(CONFIG_PCI)
#define MEGA_EXCHANGE_BUILT

int mega_exchange_init(void);
void mega_exchange_exit(void);

/* Whether there is a device, and somebody on the host who serves it. */
bool mega_exchange_available(void);
#else
static inline int mega_exchange_init(void)
{
	return 0;
}

static inline void mega_exchange_exit(void)
{
}

static inline bool mega_exchange_available(void)
{
	return false;
}
#endif

#endif /* MEGA_EXCHANGE_DEVICE_H */
