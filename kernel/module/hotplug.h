/* SPDX-License-Identifier: GPL-2.0 */
/* Keeps struct page in place while the module reads it. */
#ifndef MEGA_HOTPLUG_H
#define MEGA_HOTPLUG_H

#include <linux/types.h>

int mega_hotplug_init(void);
void mega_hotplug_exit(void);

/*
 * Between enter and leave, and where mega_hotplug_busy() said no after enter, no
 * memory finishes going offline: a struct page found by pfn_to_online_page()
 * stays one. Enter returns a ticket for leave.
 */
int mega_hotplug_enter(void);
bool mega_hotplug_busy(void);
void mega_hotplug_leave(int ticket);

#endif /* MEGA_HOTPLUG_H */
