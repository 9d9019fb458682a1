# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced after common.sh: guests that keep memory from the kernel for hzmem.ko.

# hzmem_guest NODES: sets HZMEM_GUEST, options of `run` for a guest of 2 GiB that keeps 128 MiB, evenly over its nodes; and
# HZMEM_PARAMETERS, what the module is to be told of that.
hzmem_guest() {
	case $1 in
	1) HZMEM_PARAMETERS="memory=128M@256M" ;;
	2) HZMEM_PARAMETERS="memory=64M@256M,64M@1280M" ;;
	*) die "hzmem's tests run on 1 or 2 nodes, not on $1" ;;
	esac
	local ranges=${HZMEM_PARAMETERS#memory=}
	# The kernel's option has a $ where the module's has an @.
	HZMEM_GUEST=(--memory 2G --append "memmap=${ranges//@/\$}")
}

# hzmem_large_guest MIB: the same for a pool of so many MiB, at least 512, in sections of an eighth of it, on one node: above
# 4 GiB, where a PC has the memory that does not fit below 3 GiB.
hzmem_large_guest() {
	local section=$(($1 / 16 * 2))
	HZMEM_PARAMETERS="memory=$1M@4G section=$((section << 20))"
	HZMEM_GUEST=(--memory "$((3072 + $1 + 256))M" --append "memmap=$1M\$4G")
}
