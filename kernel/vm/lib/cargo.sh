# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced after common.sh: what cargo builds for the guests.

# target_folder: prints the folder in which cargo builds.
target_folder() {
	need cargo jq
	(cd "$VM/../.." && cargo metadata --format-version 1 --no-deps) | jq -r .target_directory
}

# test_executables: builds every integration test and what it starts, and prints a line for each: the crate's folder,
# test or bin, its name, the executable. It is the whole workspace, as in `cargo test --workspace`: a part of it would be
# built again with other features.
test_executables() {
	need cargo jq
	(cd "$VM/../.." && cargo test --quiet --locked --no-run --workspace --test '*' --message-format=json) |
		jq -r 'select(.reason == "compiler-artifact" and .executable != null)
			| [(.manifest_path | split("/")[-2]), .target.kind[0], .target.name, .executable] | join(" ")'
}

# libtest_program FOLDER NAME EXECUTABLE [ARGUMENTS]: prints FOLDER/NAME, a program that prints TAP in a guest: tests of Rust's own harness.
libtest_program() {
	printf '#!/bin/sh\nexec /mega/libtest %s %s\n' "$3" "${4:-}" >"$1/$2"
	chmod +x "$1/$2"
	echo "$1/$2"
}
