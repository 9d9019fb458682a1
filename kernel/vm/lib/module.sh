# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced after common.sh: builds a module against a kernel, leaving nothing in its source folder.

# build_module KERNEL SOURCE FOLDER: copies the module's SOURCE folder into FOLDER and builds it there.
build_module() {
	local headers log=$3.log
	need make gcc
	headers=$("$VM/headers" --kernel "$1")
	rm -rf "$3"
	mkdir -p "${3%/*}"
	cp -r "$2" "$3"
	make -C "$headers" M="$3" modules >"$log" 2>&1 || {
		cat "$log" >&2
		die "could not build $2 against $1"
	}
	# The compiler's warnings are worth reading even when it went on.
	grep -E 'warning:' "$log" >&2 || true
}
