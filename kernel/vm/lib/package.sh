# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced: Debian packages, fetched and unpacked without installing them.

# What apt is told beside: nothing for the archive that this machine has; see use_suite.
APT_OPTIONS=()

# debian_archive: where this machine has Debian's packages from.
debian_archive() {
	local archive
	archive=$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' 'Created-By: Packages' | head -n 1)
	[[ -n $archive ]] || die "apt knows no archive labelled Debian here; run kernel/vm/deps on Debian 12"
	echo "$archive"
}

# use_suite SUITE: from here on apt looks into that suite of Debian's archive alone, with lists of its own. What the machine
# itself installs stays as it is.
use_suite() {
	local folder=$MEGA_CACHE/apt/$1 archive
	archive=$(debian_archive)
	mkdir -p "$folder"/{lists,cache}
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $1 main" >"$folder/sources.list"
	APT_OPTIONS=(-o "Dir::Etc::sourcelist=$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null
		-o "Dir::State::lists=$folder/lists" -o "Dir::Cache=$folder/cache" -o APT::Sandbox::User=root)
	[[ -n $(ls "$folder/lists"/*_Packages* 2>/dev/null) ]] || apt-get "${APT_OPTIONS[@]}" update -qq >&2
}

# newest PATTERN: of the packages whose name matches the extended regular expression PATTERN, the one of the highest version.
newest() {
	local name
	name=$(apt-cache "${APT_OPTIONS[@]}" pkgnames | grep -E -- "$1" | sort -V | tail -n 1)
	[[ -n $name ]] || die "apt knows no package like $1; the archive has moved on"
	echo "$name"
}

# candidate PACKAGE: the version that apt would install.
candidate() {
	local version
	version=$(apt-cache "${APT_OPTIONS[@]}" policy "$1" | sed -n 's/^  Candidate: //p')
	[[ -n $version && $version != "(none)" ]] ||
		die "apt knows no package $1; run kernel/vm/deps, which refreshes the package lists (Debian 12 with its security archive)"
	echo "$version"
}

# dependency PACKAGE PATTERN: the first dependency of PACKAGE whose name matches the extended regular expression PATTERN.
dependency() {
	local name
	name=$(apt-cache "${APT_OPTIONS[@]}" depends --no-recommends --no-suggests "$1" |
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
		apt-get "${APT_OPTIONS[@]}" download -qq -o APT::Sandbox::User=root "$@" 2>/dev/null || {
			say "refreshing the package lists (apt-get update)"
			apt-get "${APT_OPTIONS[@]}" update -qq
			apt-get "${APT_OPTIONS[@]}" download -qq -o APT::Sandbox::User=root "$@"
		}
	) || die "could not download $*; is the Debian archive reachable?"
	for archive in "$downloads"/*.deb; do
		dpkg-deb -x "$archive" "$folder"
	done
	rm -r "$downloads"
}
