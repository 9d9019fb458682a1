// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <fcntl.h>
#include <glob.h>
#include <linux/pci_regs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "host.h"
#include "kernel.h"
#include "tap.h"

#define DEVICE "/sys/bus/pci/drivers/mega_exchange/*:*/"
/* Seconds for which the device is waited for. */
#define PATIENCE 120

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
	for (int i = 0; i < PATIENCE; i++, sleep(1)) {
		if (host_count("requests") >= 0)
			return true;
		find_host_exchanger();
	}
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

void find_host_exchanger(void)
{
	set_file("/sys/bus/pci/rescan", "1");
}

/* ---- The slot ----------------------------------------------------------- */

static uint16_t read_register(int config, off_t at)
{
	uint16_t value;

	if (pread(config, &value, sizeof(value), at) != sizeof(value))
		tap_bail("read a port's register 0x%lx", at);
	return value;
}

/* Where the configuration space has the registers of PCIe; 0 where it has none, as in a bridge of PCI. */
static off_t find_pcie(int config)
{
	off_t at = read_register(config, PCI_CAPABILITY_LIST) & 0xff;

	while (at && (read_register(config, at) & 0xff) != PCI_CAP_ID_EXP)
		at = read_register(config, at) >> 8;
	return at;
}

/* The configuration space of the port; -1 without one. */
static int open_port(void)
{
	glob_t found;
	int config;

	if (glob("/sys/bus/pci/devices/*/pci_bus/../config", 0, NULL, &found))
		return -1;
	config = open(found.gl_pathv[0], O_RDWR | O_CLOEXEC);
	globfree(&found);
	return config;
}

void power_host_slot(bool on)
{
	uint16_t power = PCI_EXP_SLTCTL_PCC | PCI_EXP_SLTCTL_PIC, control;
	int config = open_port();
	off_t pcie = config < 0 ? 0 : find_pcie(config);

	if (pcie) {
		control = read_register(config, pcie + PCI_EXP_SLTCTL) & ~power;
		control |= on ? PCI_EXP_SLTCTL_PWR_ON | PCI_EXP_SLTCTL_PWR_IND_ON :
				PCI_EXP_SLTCTL_PWR_OFF | PCI_EXP_SLTCTL_PWR_IND_OFF;
		if (pwrite(config, &control, sizeof(control), pcie + PCI_EXP_SLTCTL) != sizeof(control))
			tap_bail("write a port's register");
	}
	if (config >= 0)
		close(config);
}
