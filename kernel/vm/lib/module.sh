# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced after common.sh: modules and test programs, built from folders in the tree and kept in the cache.

# built_module KERNEL SOURCE [VARIABLE=VALUE]...: prints a folder with the module of the folder SOURCE, built against KERNEL
# with those variables of make.
built_module() {
	local headers key
	need make gcc
	headers=$("$VM/kernels/headers" --kernel "$1")
	# A kernel named by its file may be built again in the same folder.
	key=$( (echo "$headers" "${@:3}"; [[ ! -f $1 ]] || sha256sum <"$1"; module_sources "$2"; gcc --version) |
		sha256sum | cut -c 1-16)
	cached "modules/$(basename "$2")-$key" make_module "$headers" "$2" "${@:3}"
}

# module_sources FOLDER: the names and the text of a module's files; its test programs are none of them.
module_sources() { (cd "$1" && find . -type f -not -path './tests/*' | LC_ALL=C sort | xargs -d '\n' sha256sum); }

# make_module HEADERS SOURCE [VARIABLE=VALUE]... FOLDER: nothing is left in the source folder.
make_module() {
	local folder=${*: -1} log
	log=$folder/build.log
	cp -rL "$2/." "$folder"
	make -C "$1" M="$folder" "${@:3:$#-3}" modules >"$log" 2>&1 || {
		cat "$log" >&2
		die "could not build $2 against $1"
	}
	# The compiler's warnings are worth reading even when it went on.
	grep -E 'warning:' "$log" >&2 || true
}

# built_tests [SOURCE]: prints a folder with the programs of kernel/tests, or of another folder that shares parts of it.
built_tests() {
	local source=${1:-$VM/../tests} key
	need make gcc
	key=$( (for folder in "$source" "$VM/../tests" "$VM/../linux-6.12/tests" "$VM/../module"; do contents "$folder"; done
		gcc --version) | sha256sum | cut -c 1-16)
	cached "tests/$key" make_tests "$source"
}

make_tests() { make -s -C "$1" OUT="$2" >&2 || die "could not build the test programs of $1"; }

# contents FOLDER: the names and the text of all its files.
contents() { (cd "$1" && find . -type f | LC_ALL=C sort | xargs -d '\n' sha256sum); }
