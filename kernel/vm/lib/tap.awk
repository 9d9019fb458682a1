# SPDX-License-Identifier: GPL-2.0
# Turns what the guest reported into one TAP stream, one test per program with the program's own lines as its subtest.
# A program passes when it exited with 0, none of its own tests failed, its plan (if it printed one) was kept, and the
# kernel logged no warning meanwhile.
# Variables: tests (planned programs), log_file (warnings, each after the name of the program it came under and a tab),
# ci ("true": a skipped test is a failure), ended (how QEMU ended, where that was not a clean power off).

BEGIN {
	FS = " "
	while ((getline line < log_file) > 0) {
		tab = index(line, "\t")
		warnings[substr(line, 1, tab - 1)] = warnings[substr(line, 1, tab - 1)] "    # kernel: " substr(line, tab + 1) "\n"
	}
	print "TAP version 13"
	result = 0
}

function begin(name) {
	current = name
	plan = -1
	passed = failed = skipped = 0
	print "# Subtest: " name
}

function outcome(name, why, seconds) {
	count++
	if (name in warnings) {
		printf "%s", warnings[name]
		why = why (why == "" ? "" : ", ") "kernel warning"
	}
	if (why == "")
		print "ok " count " - " name " # " seconds " s"
	else {
		print "not ok " count " - " name " # " why
		result = 1
	}
	delete warnings[name]
	current = ""
}

function verdict(status,   why) {
	if (status == 137)
		why = "killed: it ran too long, or out of memory"
	else if (status > 128)
		why = "killed by signal " (status - 128)
	else if (status == 4)
		why = ci == "true" ? "skipped itself" : ""
	else if (status != 0)
		why = "exit " status
	if (failed)
		why = why (why == "" ? "" : ", ") failed " failed"
	if (plan >= 0 && plan != passed + failed)
		why = why (why == "" ? "" : ", ") "planned " plan " tests, ran " passed + failed
	if (skipped && ci == "true")
		why = why (why == "" ? "" : ", ") skipped " skipped"
	return why
}

{ sub(/\r$/, "") }

/^mega-vm: up / { print "# Linux " $3; next }
/^mega-vm: begin / { begin(substr($0, 16)); next }
/^mega-vm: end / {
	match($0, /^mega-vm: end [0-9]+ [0-9.]+ [0-9.]+ /)
	outcome(substr($0, RLENGTH + 1), verdict($3), sprintf("%.1f", $5 - $4))
	next
}
/^mega-vm: done$/ { finished = 1; next }
/^$/ { next }
{
	if ($0 ~ /^1\.\.[0-9]+/)
		plan = substr($1, 4) + 0
	else if ($0 ~ /^not ok/ && $0 !~ /# (TODO|SKIP)/)
		failed++
	else if ($0 ~ /^(not )?ok/)
		passed++
	if ($0 ~ /^(not )?ok.*# SKIP/)
		skipped++
	print "    " $0
}

END {
	if (current != "")
		outcome(current, "did not return", 0)
	# What the kernel said while no program ran: at boot, between programs, at the end.
	for (name in warnings) {
		if (warnings[name] == "")
			continue
		printf "%s", warnings[name]
		count++
		print "not ok " count " - kernel log (" name ") # kernel warning"
		result = 1
	}
	if (ended != "" || !finished) {
		print "Bail out! " (ended != "" ? ended : "the guest powered off before its last test")
		exit 1
	}
	print "1.." count
	exit result
}
