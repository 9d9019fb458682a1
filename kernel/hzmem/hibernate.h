/* SPDX-License-Identifier: GPL-2.0 */
/* Hibernation is refused while it would lose data. */
#ifndef HZMEM_HIBERNATE_H
#define HZMEM_HIBERNATE_H

int hz_hibernate_init(void);
void hz_hibernate_exit(void);

#endif
