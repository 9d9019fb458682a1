// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "module.h"

bool module_is_there(void)
{
	return !access(MODULE_FILE, R_OK);
}

int module_load(void)
{
	int file = open(MODULE_FILE, O_RDONLY | O_CLOEXEC);
	int result, error;

	if (file < 0)
		return -1;
	result = syscall(SYS_finit_module, file, "", 0);
	error = errno;
	close(file);
	errno = error;
	return result;
}

int module_unload(void)
{
	return syscall(SYS_delete_module, "mega", O_NONBLOCK);
}
