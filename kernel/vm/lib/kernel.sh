# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced after common.sh, package.sh and stock.sh: from a kernel's name to its files.

# Every kernel's command line: patience with CPUs and tasks that make no progress, because the host may run an emulated
# one seldom. A kernel that tries whether its timer ticks gives it some milliseconds only, and panics.
PATIENT_APPEND="watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=300 workqueue.watchdog_thresh=600"
PATIENT_APPEND+=" sysctl.kernel.hung_task_timeout_secs=1200 no_timer_check"

# The debug kernels' beside: whose a page is, recorded from the start; every fault that KASAN finds, not the first alone.
DEBUG_APPEND="page_owner=on kasan_multi_shot"

# unpack_kernel PACKAGE FOLDER
unpack_kernel() {
	dpkg-deb -x "$1" "$2"
	depmod --basedir "$2" "$(basename "$2"/lib/modules/*)"
}

# kernel_find NAME: sets KERNEL_IMAGE (a bzImage), KERNEL_APPEND (what its command line needs), KERNEL_MODULES (the folder
# that has lib/modules) and KERNEL_RELEASE (the last two are empty where the kernel has no modules of its own).
kernel_find() {
	local folder
	KERNEL_APPEND=$PATIENT_APPEND KERNEL_MODULES="" KERNEL_RELEASE=""
	case $1 in
	stock-*)
		need apt-get dpkg-deb
		folder=$(stock_image "$1")
		KERNEL_IMAGE=$(echo "$folder"/boot/vmlinuz-*)
		KERNEL_RELEASE=${KERNEL_IMAGE##*/vmlinuz-}
		KERNEL_MODULES=$folder
		;;
	debug-6.12 | trident-*6.12 | plain-*6.12)
		folder=$("$VM/kernels/build" "$1")
		KERNEL_IMAGE=$folder/arch/x86/boot/bzImage
		[[ $1 != *debug-6.12 ]] || KERNEL_APPEND+=" $DEBUG_APPEND"
		;;
	*.deb)
		[[ -f $1 ]] || die "there is no package $1"
		folder=$(cached "unpacked/$(sha256sum <"$1" | cut -c 1-16)" unpack_kernel "$1")
		KERNEL_IMAGE=$(echo "$folder"/boot/vmlinuz-*)
		KERNEL_RELEASE=${KERNEL_IMAGE##*/vmlinuz-}
		KERNEL_MODULES=$folder
		;;
	*)
		[[ -f $1 ]] ||
			die "there is no kernel $1: name stock-7.3, stock-7.2, stock-6.12, stock-6.12-deb13, stock-6.1, one of kernel/vm/kernels/build, a package or a bzImage"
		KERNEL_IMAGE=$1
		;;
	esac
}
