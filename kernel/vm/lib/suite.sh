# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced: one TAP stream out of several commands that print TAP.

suite_count=0 suite_failures=0

suite_begin() { echo "TAP version 13"; }

# suite_part NAME COMMAND...: runs the command with its output as the subtest NAME, which passes if it exits with 0.
suite_part() {
	local name=$1 started=$SECONDS status=0
	shift
	echo "# Subtest: $name"
	"$@" | sed -u '/^TAP version /d; s/^/    /' || status=$?
	suite_count=$((suite_count + 1))
	if ((status == 0)); then
		echo "ok $suite_count - $name # $((SECONDS - started)) s"
	else
		echo "not ok $suite_count - $name # exit $status"
		suite_failures=$((suite_failures + 1))
	fi
}

# suite_end: the plan; fails if a part did.
suite_end() {
	echo "1..$suite_count"
	((suite_failures == 0))
}
