/* SPDX-License-Identifier: GPL-2.0 */
/* The host as an exchanger of memory: mega.ko's driver for it, as sysfs shows it. */
#ifndef HOST_H
#define HOST_H

#include <stdbool.h>
#include "device.h"

/* What the driver has counted; -1 without a device. */
long host_count(const char *name);

/* The host adds the device while the guest runs: looks for it until it is there, false when it took too long. */
bool wait_for_host_exchanger(void);

/* The driver loses the device as when it is unplugged, and finds it again. */
void remove_host_exchanger(void);
void find_host_exchanger(void);

/*
 * Power of the slot that the host plugs the device into, the one PCIe port that there is: the device is ejected where it is
 * switched off. The kernel of the tests has no driver for that. Without a port nothing happens.
 */
void power_host_slot(bool on);

#endif /* HOST_H */
