# SPDX-License-Identifier: GPL-2.0
# What Linux's own tests of memory management found, out of a guest's report: for each program, and for each thing that it
# tested, a line: its name, a tab, pass, fail, skip, or killed. What has the same name gets a number.

function found(name, result) {
	gsub(/[[:space:]]+/, " ", name)
	sub(/^ /, "", name)
	sub(/ $/, "", name)
	times[name]++
	if (times[name] > 1)
		name = name " (" times[name] ")"
	print name "\t" result
}

# khugepaged's own report: what it tests, and then a word for each thing that was so or not.
function end_khugepaged() {
	if (checked != "")
		found(program ": " checked, bad ? "fail" : "pass")
	checked = ""
}

function end_program(result) {
	end_khugepaged()
	# Its exit status is the number of failures, of which 4 would be a skip.
	if (program ~ /khugepaged/ && failures)
		result = "fail"
	found(program, result)
	program = ""
}

# test_result: of a line of TAP. What was not tested has its directive before its name, or behind.
function test_result() {
	if (/# SKIP/)
		return "skip"
	return /^not/ ? "fail" : "pass"
}

# test_name: what is left of a line of TAP.
function test_name(line) {
	sub(/^(not )?ok [0-9]+ *-? */, "", line)
	if (!sub(/^# (SKIP|XFAIL|XPASS|error) /, "", line))
		sub(/ *# (SKIP|XFAIL|TODO|exit=).*/, "", line)
	# A count of pagemap_ioctl's that is another one each time.
	sub(/ Extra pages [0-9]+ .*/, " Extra pages", line)
	return line
}

{
	gsub(/\r|\033\[[0-9;]*m/, "")
	# run_vmtests.sh speaks of its programs without the mark that their own lines get.
	own = !sub(/^(# )+/, "")
}

/^mega-vm: end / {
	# A program during which its category ended was killed.
	if (program != "")
		end_program("killed")
	next
}
/^running / {
	program = substr($0, 9)
	checked = part = ""
	failures = bad = 0
	next
}
program == "" { next }
own && /^(not )?ok [0-9]+/ {
	end_program(/# exit=137/ ? "killed" : test_result())
	next
}
# Many say first what the next ones are about.
/^\[RUN\] / {
	part = substr($0, 7) ": "
	next
}
/^Run test: / {
	end_khugepaged()
	checked = substr($0, 11)
	bad = 0
	next
}
program ~ /khugepaged/ && / (Fail|Timeout)/ {
	bad = 1
	failures++
}
/^Testing .*\.\.\. (done|failed|skipped)/ {
	result = /\.\.\. done/ ? "pass" : /\.\.\. failed/ ? "fail" : "skip"
	sub(/^Testing /, "")
	sub(/\.\.\. (done|failed|skipped).*/, "")
	found(program ": " $0, result)
	next
}
/^(not )?ok [0-9]+/ { found(program ": " part test_name($0), test_result()) }
