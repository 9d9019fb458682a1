# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced after common.sh and package.sh: kernels built from Debian's source package with configuration fragments.

# debian_source: prints a folder with Debian's linux-source-6.12, unpacked.
debian_source() {
	local version
	version=$(candidate linux-source-6.12)
	cached "source/linux-6.12_$version" fetch_source "$version"
}

# fetch_source VERSION FOLDER
fetch_source() {
	say "fetching linux-source-6.12 $1 (150 MB)"
	# Beside the source, which has a folder usr of its own.
	mkdir "$2/package"
	unpack "$2/package" "linux-source-6.12=$1"
	say "unpacking the kernel's source"
	tar -C "$2" --strip-components 1 -xf "$2/package/usr/src/linux-source-6.12.tar.xz"
	rm -r "$2/package"
}

# built_kernel NAME SOURCE FRAGMENT...: prints the build folder of the kernel NAME: SOURCE, allnoconfig with the fragments,
# of which a later one overrides an earlier.
built_kernel() {
	local name=$1 source=$2 key
	shift 2
	need make gcc flex bison bc
	# The source's folder is named by its version and what was done to it. A changed comment builds the same kernel.
	key=$( (basename "$source"; grep -hvE '^ *#( |$)' "$VM/lib/build-kernel.sh"; fragment_options "$@"; gcc --version) |
		sha256sum | cut -c 1-16)
	cached "kernel/${name}_$key" build_kernel "$name" "$source" "$@"
}

# fragment_options FRAGMENT...: the lines that set an option or switch it off, each option once, the last line that does.
fragment_options() {
	awk '/^CONFIG_[A-Z0-9_]+=/ { split($0, part, "="); line[part[1]] = $0 }
		/^# CONFIG_[A-Z0-9_]+ is not set$/ { line[$2] = $0 }
		END { for (option in line) print line[option] }' "$@" | LC_ALL=C sort
}

# configure NAME SOURCE BUILD FRAGMENT...: allnoconfig with the fragments. An option that the kernel's own rules turned down
# or on is an error: a check that is silently absent finds nothing.
configure() {
	local name=$1 source=$2 folder=$3 line refused=()
	shift 3
	fragment_options "$@" >"$folder/options"
	make -s -C "$source" O="$folder" KCONFIG_ALLCONFIG="$folder/options" allnoconfig >/dev/null
	while read -r line; do
		case $line in
		CONFIG_*) grep -qxF "$line" "$folder/.config" || refused+=("$line") ;;
		"# CONFIG_"*)
			line=${line#\# }
			! grep -q "^${line%% *}=" "$folder/.config" || refused+=("${line%% *}=n")
			;;
		esac
	done <"$folder/options"
	((${#refused[@]} == 0)) || die "the fragments of $name ask for what this kernel does not give: ${refused[*]}"
}

# build_kernel NAME SOURCE FRAGMENT... FOLDER: compiles, quietly, with a line of progress now and then.
build_kernel() {
	local name=$1 source=$2 folder=${*: -1} objects=0 line started=$SECONDS said=0
	configure "$name" "$source" "$folder" "${@:3:$#-3}"
	say "building $name (about 5 minutes on 2 cores)"
	while IFS= read -r line; do
		case $line in *" CC "* | *" AS "*) objects=$((objects + 1)) ;; *error:* | *Error*) say "$line" ;; esac
		if ((SECONDS - started - said >= 20)); then
			said=$((SECONDS - started))
			say "building $name: $objects files compiled, $said s"
		fi
	done < <(nice make -C "$source" O="$folder" -j"$(nproc)" bzImage modules 2>&1 || echo "Error: make failed")
	[[ -s $folder/arch/x86/boot/bzImage && -s $folder/Module.symvers ]] ||
		die "$name did not build; see above, or run make in $folder.part with V=1"
	say "built $name in $((SECONDS - started)) s"
	# The objects have served; what a module build and a boot need stays.
	find "$folder" -not -path "$folder/scripts/*" -not -path "$folder/tools/*" \
		'(' -name '*.o' -o -name '*.a' -o -name '.*.cmd' -o -name '.tmp_vmlinux*' ')' -type f -delete
}
