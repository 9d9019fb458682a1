# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced by every script here: where things are kept, and how a script speaks.

# A step that fails ends the script, also inside $( ).
shopt -s inherit_errexit

# Everything that is downloaded or built is kept here, outside the tree, each part keyed by what it was made from.
MEGA_CACHE=${MEGA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mega}

# say TEXT: what goes on, to standard error; standard output carries data only.
say() { echo "vm: $*" >&2; }

# die TEXT: what was attempted, why it failed, what to do.
die() {
	say "$*"
	exit 1
}

# need TOOL...: every tool is on the PATH, or the step that installs it is named (exit 3, as for any missing feature).
need() {
	local tool
	for tool; do
		command -v "$tool" >/dev/null || {
			say "$tool is missing; run kernel/vm/deps"
			exit 3
		}
	done
}

# cached NAME COMMAND...: prints the cache folder NAME. Where it does not exist yet, COMMAND fills an empty folder, its
# last argument, which becomes NAME only if COMMAND succeeds. A lock makes a second caller wait, then use the first's.
cached() {
	local folder=$MEGA_CACHE/$1 lock part
	shift
	if [[ ! -d $folder ]]; then
		mkdir -p "${folder%/*}"
		exec {lock}>"$folder.lock"
		flock "$lock"
		if [[ ! -d $folder ]]; then
			part=$folder.part
			rm -rf "$part"
			mkdir "$part"
			"$@" "$part" >&2 {lock}>&-
			mv -T "$part" "$folder"
		fi
		exec {lock}>&-
	fi
	echo "$folder"
}
