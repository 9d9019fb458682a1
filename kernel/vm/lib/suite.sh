# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced: one TAP stream out of several commands that print TAP. They run two at a time, because one guest seldom keeps
# more than one CPU busy; their results are printed in the order in which they were started.

suite_jobs=2
suite_count=0 suite_ended=0 suite_failures=0 suite_printed=0
suite_names=()

suite_begin() {
	suite_folder=$(mktemp -d)
	echo "TAP version 13"
}

# suite_part NAME COMMAND...: runs the command as the subtest NAME, which passes if it exits with 0.
suite_part() {
	local name=$1 part=$suite_count
	shift
	while ((suite_count - suite_ended >= suite_jobs)); do suite_wait; done
	(
		SECONDS=0
		status=0
		"$@" >"$suite_folder/$part.tap" </dev/null || status=$?
		# Whole from the moment it is there.
		echo "$status $SECONDS" >"$suite_folder/$part.new"
		mv "$suite_folder/$part.new" "$suite_folder/$part.status"
	) &
	suite_names+=("$name")
	suite_count=$((suite_count + 1))
}

# suite_wait: until one more has ended; prints those whose turn has come.
suite_wait() {
	wait -n || true
	suite_ended=$((suite_ended + 1))
	while [[ -e $suite_folder/$suite_printed.status ]]; do suite_print_next; done
}

suite_print_next() {
	local part=$suite_printed status seconds
	read -r status seconds <"$suite_folder/$part.status"
	echo "# Subtest: ${suite_names[part]}"
	sed '/^TAP version /d; s/^/    /' "$suite_folder/$part.tap"
	suite_printed=$((part + 1))
	if ((status == 0)); then
		echo "ok $suite_printed - ${suite_names[part]} # $seconds s"
	else
		echo "not ok $suite_printed - ${suite_names[part]} # exit $status"
		suite_failures=$((suite_failures + 1))
	fi
}

# suite_end: what is left, and the plan; fails if a part did.
suite_end() {
	while ((suite_ended < suite_count)); do suite_wait; done
	rm -rf "$suite_folder"
	echo "1..$suite_count"
	((suite_failures == 0 && suite_printed == suite_count))
}
