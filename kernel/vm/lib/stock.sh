# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced after common.sh and package.sh: Debian's unmodified kernels and their headers.

# The metapackages that Debian 12 offers for its cloud kernels; each depends on the newest one.
stock_suffix() {
	case $1 in
	stock-6.12) echo 6.12-cloud-amd64 ;;
	stock-6.1) echo cloud-amd64 ;;
	*) die "no stock kernel is called $1; there are stock-7.3, stock-7.2, stock-6.12, stock-6.12-deb13 and stock-6.1" ;;
	esac
}

# stock_suite NAME: the suite of Debian's archive that has a kernel of Debian 13; nothing for the others.
stock_suite() {
	case $1 in
	stock-6.12-deb13) echo trixie ;;
	stock-7.[23]) echo trixie-backports ;;
	esac
}

# stock_newest NAME PART: of Debian 13's packages linux-PART-RELEASE of that kernel the newest.
stock_newest() {
	local series=${1#stock-}
	series=${series%-deb13}
	newest "^linux-$2-${series/./[.]}[.].*-cloud-amd64$"
}

# stock_image NAME: prints the folder into which the kernel's packages were unpacked (boot/, lib/modules/).
stock_image() {
	local suite package version part packages APT_OPTIONS=()
	suite=$(stock_suite "$1")
	[[ -z $suite ]] || use_suite "$suite"
	case $suite in
	"") package=$(dependency "linux-image-$(stock_suffix "$1")" '^linux-image-[0-9].*-cloud-amd64$') ;;
	trixie) package=$(stock_newest "$1" image) ;;
	trixie-backports) package=$(stock_newest "$1" binary) ;;
	esac
	version=$(candidate "$package")
	packages=("$package=$version")
	# The backports have it in parts.
	[[ $package != linux-binary-* ]] ||
		for part in modules base; do packages+=("${package/binary/$part}=$version"); done
	cached "stock/${package}_$version" fetch_image "${packages[@]}"
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

# lay_as_before FOLDER: Debian 13's packages have all below /usr, the backports' the kernel beside its modules, and the modules
# compressed.
lay_as_before() {
	local image
	ln -s usr/lib "$1/lib"
	for image in "$1"/lib/modules/*/vmlinuz; do
		[[ -f $image ]] || continue
		mkdir -p "$1/boot"
		mv "$image" "$1/boot/vmlinuz-$(basename "${image%/vmlinuz}")"
	done
	find "$1/usr/lib/modules" -name '*.ko.xz' -exec xz -d {} +
}

# stock_headers NAME: prints a folder in which `make -C FOLDER M=...` builds a module for that kernel.
stock_headers() {
	local suite suffix package version APT_OPTIONS=()
	suite=$(stock_suite "$1")
	if [[ -n $suite ]]; then
		use_suite "$suite"
		package=$(stock_newest "$1" headers)
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
