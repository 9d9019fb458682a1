# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced after common.sh: talks with QEMU's human monitor and with a program in the guest, through pipes. Who sources it sets
# `scratch` to a folder, PATIENCE to how long an answer may take, in seconds, `guest` to the process that runs QEMU, and QEMU's
# name to $TALK_NAME.

TALK_NAME=mega-exchange-guest

# talk_open: makes the pipes. Each is opened for both ways, so that neither side waits for the other to open its end.
talk_open() {
	mkfifo "$scratch"/{monitor,control}.{in,out}
	exec {to_monitor}<>"$scratch/monitor.in" {from_monitor}<>"$scratch/monitor.out"
	exec {to_guest}<>"$scratch/control.in" {from_guest}<>"$scratch/control.out"
}

# talk_options: prints the options of kernel/vm/run that connect them, one on a line. The guest's end is /dev/ttyS2.
talk_options() {
	printf '%s\n' --qemu -name --qemu "$TALK_NAME" \
		--qemu -chardev --qemu "pipe,id=monitor,path=$scratch/monitor" --qemu -mon --qemu chardev=monitor,mode=readline \
		--qemu -chardev --qemu "pipe,id=control,path=$scratch/control" --qemu -serial --qemu chardev:control
}

# next_line FD: reads a line from there into `line`. Fails where none comes in time, or the guest has ended.
next_line() {
	local waited part
	line=""
	for ((waited = 0; waited < PATIENCE; waited += 5)); do
		if IFS= read -r -t 5 -u "$1" part; then
			line+=$part
			return 0
		fi
		line+=$part
		kill -0 "$guest" 2>/dev/null || return 1
	done
	return 1
}

# monitor COMMAND: has QEMU's human monitor carry it out, and prints what it says.
monitor() {
	local line
	echo "$1" >&"$to_monitor"
	# Its answer ends where it has said the next thing that it is asked.
	echo "info name" >&"$to_monitor"
	while next_line "$from_monitor"; do
		line=${line%$'\r'}
		[[ $line != "$TALK_NAME" ]] || return 0
		# What the monitor echoes stands after its prompt.
		[[ $line == *"(qemu)"* ]] || echo "$line"
	done
	die "QEMU's monitor did not answer to: $1"
}

# hear WORD: waits until the guest says it; what else it says is repeated on standard error.
hear() {
	local line
	while next_line "$from_guest"; do
		line=${line%$'\r'}
		[[ $line != "$1" ]] || return 0
		echo "the guest: $line" >&2
	done
	die "the guest did not say: $1; see its report"
}
