/* SPDX-License-Identifier: GPL-2.0 */
/* The host as an exchanger of memory: mega.ko's driver for it, as sysfs shows it. */
#ifndef HOST_H
#define HOST_H

#include <stdbool.h>
#include "device.h"

/* What the driver has counted; -1 without a device. */
long host_count(const char *name);

/* The host adds the device while the guest runs: waits for it, false when it took too long. */
bool wait_for_host_exchanger(void);

/* The driver loses the device as when it is unplugged. */
void remove_host_exchanger(void);

#endif /* HOST_H */
