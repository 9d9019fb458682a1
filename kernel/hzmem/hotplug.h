/* SPDX-License-Identifier: GPL-2.0 */
/* Memory for the pool: kept at boot, taken from the kernel, given back. */
#ifndef HZMEM_HOTPLUG_H
#define HZMEM_HOTPLUG_H

int hz_hotplug_boot(const char *text);
int hz_hotplug_add(const char *text);
int hz_hotplug_remove(const char *text);
void hz_hotplug_exit(void);

#endif
