// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <stdlib.h>
#include "kernel.h"
#include "loopback.h"
#include "tap.h"

#define PARAMETERS "/sys/module/exchange_loopback/parameters/"

void loopback_set(const char *mode)
{
	set_file(PARAMETERS "mode", mode);
}

long loopback_count(const char *name)
{
	char path[128];
	long value;
	FILE *file;

	snprintf(path, sizeof(path), PARAMETERS "%s", name);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%ld", &value) != 1)
		tap_bail("%s", path);
	fclose(file);
	return value;
}
