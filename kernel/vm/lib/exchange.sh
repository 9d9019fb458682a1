# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced after common.sh and cargo.sh: a guest whose memory QEMU exchanges, by the plugin of crates/exchange-qemu.

# exchange_plugin: builds the plugin and prints its file.
exchange_plugin() {
	(cd "$VM/../.." && cargo build --quiet --release --locked -p mega-exchange-qemu) >&2
	echo "$(target_folder)/release/libmega_exchange_qemu.so"
}

# exchange_possible: whether this machine's kernel has UFFDIO_MOVE, by which the plugin exchanges.
exchange_possible() { [[ $(printf '6.8\n%s\n' "$(uname -r)" | sort -V | head -n 1) == 6.8 ]]; }

# need_exchange: or the reason why not (exit 3, as for any missing feature).
need_exchange() {
	exchange_possible && return
	echo "exchanges of guest memory need Linux 6.8 (UFFDIO_MOVE), and this is $(uname -r): run it on a newer kernel" >&2
	exit 3
}

# exchange_options PLUGIN SOCKET [OPTION]: prints the options of kernel/vm/run for it, one on a line; OPTION is one of the plugin's own.
exchange_options() {
	printf '%s\n' --with virtio_pci --qemu -plugin --qemu "file=$1,qmp=$2${3:+,$3}" --qemu -qmp --qemu "unix:$2,server=on,wait=off"
}
