# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced: Debian packages, fetched and unpacked without installing them.

# candidate PACKAGE: the version that apt would install.
candidate() {
	local version
	version=$(apt-cache policy "$1" | sed -n 's/^  Candidate: //p')
	[[ -n $version && $version != "(none)" ]] ||
		die "apt knows no package $1; run kernel/vm/deps, which refreshes the package lists (Debian 12 with its security archive)"
	echo "$version"
}

# dependency PACKAGE PATTERN: the first dependency of PACKAGE whose name matches the extended regular expression PATTERN.
dependency() {
	local name
	name=$(apt-cache depends --no-recommends --no-suggests "$1" |
		sed -nE 's/^[ |]*Depends: (.*)/\1/p' | grep -E -m 1 -- "$2") ||
		die "package $1 depends on nothing like $2; the archive's naming has changed"
	echo "$name"
}

# unpack FOLDER PACKAGE=VERSION...: downloads the packages and unpacks them all below FOLDER.
unpack() {
	local folder=$1 downloads archive
	shift
	downloads=$folder/.downloads
	mkdir "$downloads"
	(
		cd "$downloads"
		# Lists older than the archive name versions that it no longer has: refresh them and try once more.
		apt-get download -qq -o APT::Sandbox::User=root "$@" 2>/dev/null || {
			say "refreshing the package lists (apt-get update)"
			apt-get update -qq
			apt-get download -qq -o APT::Sandbox::User=root "$@"
		}
	) || die "could not download $*; is the Debian archive reachable, and is this its release 12?"
	for archive in "$downloads"/*.deb; do
		dpkg-deb -x "$archive" "$folder"
	done
	rm -r "$downloads"
}
