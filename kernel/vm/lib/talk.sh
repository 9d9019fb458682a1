# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced after common.sh: talks with QEMU's human monitor and with a program in the guest, through pipes. Who sources it sets
# `scratch` to a folder, PATIENCE to how long an answer may take, in seconds, and QEMU's name to $TALK_NAME.

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

# monitor COMMAND: has QEMU's human monitor carry it out, and prints what it says.
monitor() {
	local line
	echo "$1" >&"$to_monitor"
	# Its answer ends where it has said the next thing that it is asked.
	echo "info name" >&"$to_monitor"
	while IFS= read -r -t "$PATIENCE" -u "$from_monitor" line; do
		line=${line%$'\r'}
		[[ $line != "$TALK_NAME" ]] || return 0
		# What the monitor echoes stands after its prompt.
		[[ $line == *"(qemu)"* ]] || echo "$line"
	done
	die "QEMU's monitor did not answer to: $1"
}

# hear WORD: waits until the guest says it.
hear() {
	local line
	while IFS= read -r -t "$PATIENCE" -u "$from_guest" line; do
		[[ ${line%$'\r'} != "$1" ]] || return 0
	done
	die "the guest did not say: $1; see its report"
}
