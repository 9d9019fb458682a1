# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced after common.sh and kernel.sh: one run of QEMU, as the options of `run` (CPU, MEMORY, MACHINE, SMP, NODES, APPEND, LIMIT) ask.

BOOT_QEMU="" BOOT_ENDED=""

# What a kernel may take to come up, in seconds: a few at rest, far more on a host that is busy with something else.
BOOT_LIMIT=300

# boot KERNEL INITRAMFS FOLDER: runs the guest to its end. The console goes to FOLDER/console, the report to
# FOLDER/report. Sets BOOT_ENDED to why the guest was ended, or to nothing where it powered itself off.
boot() {
	local kernel=$1 initramfs=$2 folder=$3 deadline=$((SECONDS + BOOT_LIMIT)) up=no seen=0
	# panic, oops: end the guest rather than go on in doubt. devkmsg: no limit on init's lines in the kernel log.
	local command=(qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot
		-machine "$MACHINE" -accel "tcg,thread=multi" -cpu "$CPU" -m "$MEMORY"
		-kernel "$kernel" -initrd "$initramfs"
		-append "console=ttyS0 ignore_loglevel panic=-1 oops=panic printk.devkmsg=on rdinit=/init $KERNEL_APPEND $APPEND"
		-serial "file:$folder/console" -serial "file:$folder/report")
	numa_options command
	"${command[@]}" >"$folder/qemu" 2>&1 &
	BOOT_QEMU=$!
	while kill -0 "$BOOT_QEMU" 2>/dev/null; do
		if ((SECONDS >= deadline)); then
			boot_stop
			[[ $up == yes ]] && BOOT_ENDED="the guest was still running after $LIMIT s" ||
				BOOT_ENDED="the guest was not up after $BOOT_LIMIT s"
			return
		fi
		sleep 0.1
		if [[ $up == no ]] && grep -q '^mega-vm: up ' "$folder/report" 2>/dev/null; then
			up=yes
			deadline=$((SECONDS + LIMIT))
		fi
		seen=$(progress "$folder/report" "$seen")
	done
	progress "$folder/report" "$seen" >/dev/null
	wait "$BOOT_QEMU" || BOOT_ENDED="QEMU failed: $(tail -n 1 "$folder/qemu")"
	BOOT_QEMU=""
	grep -q 'Kernel panic' "$folder/console" && BOOT_ENDED="the kernel panicked"
	return 0
}

# boot_stop: ends the guest if there is one.
boot_stop() {
	[[ -n $BOOT_QEMU ]] || return 0
	kill "$BOOT_QEMU" 2>/dev/null || true
	wait "$BOOT_QEMU" || true
	BOOT_QEMU=""
}

# numa_options ARRAY: spreads memory and CPUs evenly over the nodes, each with a socket of its own: the kernel warns of
# CPUs of one socket on two nodes.
numa_options() {
	local -n options=$1
	local node each cores=$((SMP / NODES))
	options+=(-smp "$((cores * NODES)),sockets=$NODES,cores=$cores,threads=1")
	((NODES > 1)) || return 0
	each=$(($(numfmt --from=iec "$MEMORY") / NODES))
	for ((node = 0; node < NODES; node++)); do
		options+=(-object "memory-backend-ram,id=node$node,size=$each"
			-numa "node,nodeid=$node,memdev=node$node,cpus=$((node * cores))-$((node * cores + cores - 1))")
	done
}

# progress REPORT SEEN: names on standard error the programs that ended since the first SEEN; prints how many did by now.
progress() {
	local ended line
	mapfile -t ended < <(grep -a '^mega-vm: end ' "$1" 2>/dev/null)
	for line in "${ended[@]:$2}"; do
		say "$(sed -E 's/^mega-vm: end ([0-9]+) [0-9.]+ [0-9.]+ (.*)/\2: exit \1/' <<<"${line%$'\r'}")"
	done
	echo "${#ended[@]}"
}
