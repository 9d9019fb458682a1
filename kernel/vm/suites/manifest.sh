# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034  # the manifests set them, `run` reads them
# Sourced: what a manifest of a suite may say. All folders are below kernel/.

# manifest SUITE: reads it, into these variables.
manifest() {
	# Where it runs if nobody says otherwise, and further options of kernel/vm/run.
	kernel=stock-6.12 nodes=1 options=()

	# The modules that are built and loaded, in this order: FOLDER/NAME.ko. For each by its name what make is told, and its
	# parameters.
	modules=()
	declare -gA made_with=() parameters=()

	# Memory that the kernel leaves to a module, SIZE@ADDRESS[,SIZE@ADDRESS]: on one node, on two, and so on. The module
	# (kept_for) is told in its parameter `memory`; its tests have all of its parameters in the variable MODULE_PARAMETERS.
	kept=() kept_for=""

	# The folders of test programs. Of the first all run, but on a kernel that looks for faults not those of not_on_debug, and
	# nowhere those of alone, which want a guest of their own: another manifest's, or one that --only asks for. Of the others
	# those run that are named.
	tests=() alone=() not_on_debug=()
	# Programs, with arguments, that come before all others or after them; or all that run, in this order.
	first=() last=() programs=()

	# In place of programs, for suites of what uses the modules: tests of Rust's own harness, "CRATE NAME [ARGUMENT]..."; which
	# of mega and mega-lab those start; and commands of mega.
	live=() brings=() commands=()

	# shellcheck source=/dev/null
	. "$VM/suites/$1.suite"
}
