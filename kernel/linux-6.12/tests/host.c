// SPDX-License-Identifier: GPL-2.0
#include <glob.h>
#include <stdio.h>
#include <unistd.h>
#include "host.h"
#include "kernel.h"
#include "tap.h"

#define DEVICE "/sys/bus/pci/drivers/mega_exchange/*:*/"
/* Tenths of a second for which the device is waited for. */
#define PATIENCE 1200

long host_count(const char *name)
{
	char pattern[128];
	long value = -1;
	FILE *file;
	glob_t found;

	snprintf(pattern, sizeof(pattern), DEVICE "mega_exchange/%s", name);
	if (glob(pattern, 0, NULL, &found))
		return -1;
	file = fopen(found.gl_pathv[0], "re");
	globfree(&found);
	if (!file)
		return -1;
	if (fscanf(file, "%ld", &value) != 1)
		value = -1;
	fclose(file);
	return value;
}

bool wait_for_host_exchanger(void)
{
	for (int i = 0; i < PATIENCE; i++, usleep(100000))
		if (host_count("requests") >= 0)
			return true;
	return false;
}

void remove_host_exchanger(void)
{
	glob_t found;

	if (glob(DEVICE "remove", 0, NULL, &found))
		tap_bail("the device is not found");
	set_file(found.gl_pathv[0], "1");
	globfree(&found);
}
