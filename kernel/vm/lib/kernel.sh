# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced after common.sh, package.sh and stock.sh: from a kernel's name to its files.

# The debug kernel's command line: whose a page is, recorded from the start; and patience with CPUs that make no progress,
# because the host may run an emulated one seldom and its checks make it slow.
DEBUG_APPEND="page_owner=on watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120"

# kernel_find NAME: sets KERNEL_IMAGE (a bzImage), KERNEL_APPEND (what its command line needs), KERNEL_MODULES (the folder
# that has lib/modules) and KERNEL_RELEASE (the last two are empty where the kernel has no modules of its own).
kernel_find() {
	local folder
	KERNEL_APPEND="" KERNEL_MODULES="" KERNEL_RELEASE=""
	case $1 in
	stock-*)
		need apt-get dpkg-deb
		folder=$(stock_image "$1")
		KERNEL_IMAGE=$(echo "$folder"/boot/vmlinuz-*)
		KERNEL_RELEASE=${KERNEL_IMAGE##*/vmlinuz-}
		KERNEL_MODULES=$folder
		[[ -e $folder/lib/modules/$KERNEL_RELEASE/modules.dep ]] || depmod --basedir "$folder" "$KERNEL_RELEASE"
		;;
	debug-6.12)
		folder=$("$VM/debug-kernel")
		KERNEL_IMAGE=$folder/arch/x86/boot/bzImage
		KERNEL_APPEND=$DEBUG_APPEND
		;;
	*)
		[[ -f $1 ]] || die "there is no kernel $1: name stock-6.12, stock-6.1, debug-6.12 or a bzImage"
		KERNEL_IMAGE=$1
		;;
	esac
}
