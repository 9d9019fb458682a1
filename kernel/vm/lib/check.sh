# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced: checks that are commands, as TAP. Who sources it sets `scratch` to a folder, prints the version and the plan, and ends
# by whether there are failures.

count=0 failures=0

# check NAME COMMAND...: fails where the command does, and shows what it printed. A command that ends the script ends itself only.
check() {
	local name=$1 result=ok
	shift
	count=$((count + 1))
	("$@") >"$scratch/log" 2>&1 || result="not ok" failures=$((failures + 1))
	echo "$result $count - $name"
	[[ $result == ok ]] || sed 's/^/# /' "$scratch/log"
}
