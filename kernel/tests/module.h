/* SPDX-License-Identifier: GPL-2.0 */
/* Loading and unloading mega.ko, as insmod and rmmod do. */
#ifndef MODULE_H
#define MODULE_H

#include <stdbool.h>

#define MODULE_FILE "/mega/modules/mega.ko"

/* Whether the file is there, without which a test cannot load it again. */
bool module_is_there(void);
/* 0, or -1 with errno: EEXIST it is loaded. */
int module_load(void);
/* 0, or -1 with errno: EAGAIN it is in use, ENOENT it is not loaded. Never waits. */
int module_unload(void);

#endif /* MODULE_H */
