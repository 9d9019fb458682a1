# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced: finds the kernel's warnings in a console log.

# check_log CONSOLE: prints every line that matches lib/kernel-warnings and the few after it that explain it, each after
# the name of the program that ran then (or "boot", "between tests") and a tab. Where the OOM killer says how it was called is no
# warning from when the program logged "mega-vm: kills are expected" to its end, nor where the allocator says who found no page after
# "mega-vm: failed allocations are expected".
check_log() {
	awk -v patterns="$VM/lib/kernel-warnings" '
		BEGIN {
			while ((getline line < patterns) > 0)
				if (line != "" && line !~ /^#/)
					pattern = pattern (pattern == "" ? "" : "|") line
			program = "boot"
		}
		{ sub(/\r$/, "") }
		/mega-vm: begin / { program = substr($0, index($0, "mega-vm: begin ") + 15); following = kills = failures = 0; next }
		/mega-vm: end / { program = "between tests"; following = kills = failures = 0; next }
		/mega-vm: kills are expected/ { kills = 1; next }
		/mega-vm: failed allocations are expected/ { failures = 1; next }
		/mega-vm: / { next }
		kills && / invoked oom-killer: / { told = 1 }
		failures && /: page allocation failure: / { told = 1; next }
		told && /Call Trace:/ { told = 0; next }
		$0 ~ pattern { following = 40 }
		/---\[ end trace / && following > 0 { following = 1 }
		following > 0 { following--; print program "\t" $0 }
	' "$1"
}
