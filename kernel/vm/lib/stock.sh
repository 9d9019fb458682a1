# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced after common.sh and package.sh: Debian's unmodified kernels and their headers.

# The metapackages that Debian 12 offers for its cloud kernels; each depends on the newest one.
stock_suffix() {
	case $1 in
	stock-6.12) echo 6.12-cloud-amd64 ;;
	stock-6.1) echo cloud-amd64 ;;
	*) die "no stock kernel is called $1; there are stock-7.3, stock-7.2, stock-6.12 and stock-6.1" ;;
	esac
}

# stock_image NAME: prints the folder into which the kernel's packages were unpacked (boot/, lib/modules/).
stock_image() {
	local package version APT_OPTIONS=()
	if [[ $1 == stock-7.[23] ]]; then
		# Debian 13's backports, which has it in parts.
		use_suite trixie-backports
		package=$(newest "^linux-binary-7[.]${1#stock-7.}[.].*-cloud-amd64$")
		version=$(candidate "$package")
		cached "stock/${package}_$version" fetch_image "$package=$version" "${package/binary/modules}=$version" \
			"${package/binary/base}=$version"
		return
	fi
	package=$(dependency "linux-image-$(stock_suffix "$1")" '^linux-image-[0-9].*-cloud-amd64$')
	version=$(candidate "$package")
	cached "stock/${package}_$version" fetch_image "$package=$version"
}

# fetch_image PACKAGE=VERSION... FOLDER
fetch_image() {
	local packages=("${@:1:$#-1}") folder=${!#} release
	say "fetching ${packages[*]}"
	unpack "$folder" "${packages[@]}"
	[[ -d $folder/lib ]] || lay_as_before "$folder"
	release=$(basename "$folder"/lib/modules/*)
	depmod --basedir "$folder" "$release"
}

# lay_as_before FOLDER: Debian 13's packages have all below /usr, the kernel beside its modules, and the modules compressed.
lay_as_before() {
	local image
	ln -s usr/lib "$1/lib"
	image=$(echo "$1"/lib/modules/*/vmlinuz)
	mkdir -p "$1/boot"
	mv "$image" "$1/boot/vmlinuz-$(basename "${image%/vmlinuz}")"
	find "$1/usr/lib/modules" -name '*.ko.xz' -exec xz -d {} +
}

# stock_headers NAME: prints a folder in which `make -C FOLDER M=...` builds a module for that kernel.
stock_headers() {
	local suffix package version APT_OPTIONS=()
	if [[ $1 == stock-7.[23] ]]; then
		use_suite trixie-backports
		package=$(newest "^linux-headers-7[.]${1#stock-7.}[.].*-cloud-amd64$")
		version=$(candidate "$package")
		cached "stock/${package}_$version-$(sha256sum <"$VM/lib/root.mk" | cut -c 1-16)" make_root "$package"
		return
	fi
	suffix=$(stock_suffix "$1")
	package=$(dependency "linux-headers-$suffix" '^linux-headers-[0-9].*-cloud-amd64$')
	version=$(candidate "$package")
	echo "$(cached "stock/${package}_$version" fetch_headers "$package" "$version")/usr/src/$package"
}

# make_root HEADERS FOLDER: the tools of Debian 13, which do not run on 12, in a root file system of their own (root.mk).
make_root() {
	local archive log=$2/log
	need mmdebstrap unshare
	say "fetching $1, and Debian 13's compiler for it"
	archive=$(debian_archive)
	mmdebstrap --quiet --variant=essential --include="$1,make,sparse" trixie "$2/root" "deb $archive trixie main" \
		"deb $archive trixie-backports main" >"$log" 2>&1 || {
		tail -n 5 "$log" >&2
		die "could not make a root file system with $1; is the Debian archive reachable?"
	}
	mkdir "$2/root/module"
	cp "$VM/lib/root.mk" "$2/Makefile"
}

fetch_headers() {
	local package=$1 version=$2 folder=$3 common kbuild destination
	say "fetching $package $version"
	common=$(dependency "$package" '^linux-headers-.*-common$')
	kbuild=$(dependency "$package" '^linux-kbuild-')
	unpack "$folder" "$package=$version" "$common=$version" "$kbuild=$version"
	# The headers' Makefile names its common half by the path it would be installed at: name it where it is instead.
	destination=$MEGA_CACHE/stock/${package}_$version
	grep -rlI --include=Makefile --include=.kernelvariables "/usr/src/linux-headers-" "$folder/usr/src/$package" |
		xargs -r sed -i "s|/usr/src/linux-headers-|$destination/usr/src/linux-headers-|g"
}
