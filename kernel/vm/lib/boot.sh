# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced after common.sh, kernel.sh and check-log.sh: one run of QEMU, as the options of `run` (CPU, MEMORY, MACHINE, SMP,
# NODES, APPEND, LIMIT, ICOUNT, QEMU_ARGUMENTS) ask.

BOOT_QEMU="" BOOT_ENDED=""

# How often a guest is started at most whose kernel complains before init runs.
BOOT_ATTEMPTS=3

# What a kernel may take to come up, in seconds: a few at rest, far more on a host that is busy with something else.
BOOT_LIMIT=1200

# What a kernel that complained has left to say what of, in seconds, where its guest is started anew: some never come up.
BOOT_LAST_WORDS=5

# boot KERNEL INITRAMFS FOLDER: boot_once, and again where the kernel complained before anything of ours ran. The last
# start counts, whatever it says.
boot() {
	local attempt
	for ((attempt = 1; attempt < BOOT_ATTEMPTS; attempt++)); do
		boot_once "$@" complained
		boot_complained "$3" || return 0
		say "start $attempt of $BOOT_ATTEMPTS: the kernel complained before init ran:"
		check_log "$3/console" | sed -n 's/^boot\t/  /p' >&2
	done
	boot_once "$@"
}

# boot_complained FOLDER: whether the kernel warned of something, or died, before init ran. The kernels hold nothing of
# ours by then, so it is the emulator's doing: QEMU's parallel emulation at times runs code that another CPU has just
# changed, or a host too busy stalls a CPU. KASAN and lockdep are not to be trusted from there on.
boot_complained() {
	[[ -e $1/console && -n $(check_log "$1/console" | sed -n '/^boot\t/p') ]]
}

# boot_once KERNEL INITRAMFS FOLDER [complained]: runs the guest to its end, or, with "complained", until the kernel complains
# before init runs. The console goes to FOLDER/console, the report to FOLDER/report. Sets BOOT_ENDED to why the
# guest was ended, or to nothing where it powered itself off.
boot_once() {
	local kernel=$1 initramfs=$2 folder=$3 end_if=${4:-} deadline=$((SECONDS + BOOT_LIMIT)) up=no seen=0
	local complained=no looked=$SECONDS
	# panic, oops: end the guest rather than go on in doubt. devkmsg: no limit on init's lines in the kernel log.
	local accelerator="tcg,thread=multi"
	[[ -z $ICOUNT ]] || accelerator="tcg,thread=single"
	local command=(qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot
		-machine "$MACHINE" -accel "$accelerator" -cpu "$CPU" -m "$MEMORY"
		-kernel "$kernel" -initrd "$initramfs"
		-append "console=ttyS0 ignore_loglevel panic=-1 oops=panic printk.devkmsg=on rdinit=/init $KERNEL_APPEND $APPEND"
		-serial "file:$folder/console" -serial "file:$folder/report")
	[[ -z $ICOUNT ]] || command+=(-icount "shift=$ICOUNT,sleep=off")
	numa_options command
	command+=("${QEMU_ARGUMENTS[@]}")
	# What a start before this one left would be taken for this one's until QEMU opens the files.
	rm -f "$folder"/{console,report}
	BOOT_ENDED=""
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
		if [[ $up$complained == nono && $end_if == complained ]] && ((SECONDS > looked)); then
			looked=$SECONDS
			if boot_complained "$folder"; then
				complained=yes
				deadline=$((SECONDS + BOOT_LAST_WORDS))
			fi
		fi
		if [[ $up == no ]] && grep -q '^mega-vm: up ' "$folder/report" 2>/dev/null; then
			up=yes
			deadline=$((SECONDS + LIMIT))
			if [[ $end_if == complained ]] && boot_complained "$folder"; then
				boot_stop
				return
			fi
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
