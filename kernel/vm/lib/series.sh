# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced after common.sh: a kernel's source with the series of kernel/linux-6.12.

SERIES=$VM/../linux-6.12

# patched_source SOURCE: prints a folder with the source and the series applied to it.
patched_source() {
	local key
	key=$(cat "$SERIES"/patches/*.patch | sha256sum | cut -c 1-16)
	cached "source/$(basename "$1")_trident_$key" patch_source "$1"
}

# apply_patch SOURCE PATCH: patch writes a new file and never into an old, so files that no patch touches may be shared.
apply_patch() { patch --directory "$1" --strip 1 --force --fuzz 0 --no-backup-if-mismatch --input "$2"; }

# patch_source SOURCE FOLDER: files that no patch touches are the same ones.
patch_source() {
	local patch log=$2.log
	cp -al "$1/." "$2"
	for patch in "$SERIES"/patches/*.patch; do
		apply_patch "$2" "$patch" >"$log" 2>&1 || {
			cat "$log" >&2
			die "$(basename "$patch") does not apply to $1"
		}
	done
	rm "$log"
}
