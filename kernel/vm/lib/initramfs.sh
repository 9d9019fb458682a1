# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced after common.sh: the guest's root file system, a cpio archive of busybox, init and the test programs.

# initramfs_base ROOT: busybox and the scripts that run first.
initramfs_base() {
	local root=$1
	mkdir -p "$root"/{bin,sbin,usr/bin,usr/sbin,lib64,etc,tmp,mega/programs,mega/modules}
	chmod 1777 "$root/tmp"
	install -m 755 "$(command -v busybox)" "$root/bin/busybox"
	ln -s busybox "$root/bin/sh"
	install -m 755 "$VM"/guest/init "$root/init"
	install -m 755 "$VM"/guest/{load-modules,unload-modules,find-leaks} "$root/mega"
	echo root:x:0:0:root:/root:/bin/sh >"$root/etc/passwd"
	echo root:x:0: >"$root/etc/group"
	: >"$root/mega/tests"
	: >"$root/mega/load"
	: >"$root/mega/unload"
	: >"$root/mega/environment"
}

# initramfs_file ROOT SOURCE DESTINATION: copies a file, with the shared libraries that it needs if it is a program.
initramfs_file() {
	local root=$1 source=$2 destination=$3 library
	[[ -f $source ]] || die "cannot put $source into the guest: there is no such file"
	if [[ ! -x $source ]]; then
		install -D -m 644 "$source" "$root$destination"
		return
	fi
	install -D -m 755 "$source" "$root$destination"
	# A script is neither stripped nor linked; a static program needs no library.
	[[ $(head -c 4 "$source") == $'\x7fELF' ]] || return 0
	strip --strip-debug "$root$destination"
	while read -r library; do
		[[ -e $root$library ]] || install -D -m 755 "$library" "$root$library"
	done < <(ldd "$source" 2>/dev/null | grep -oE '/[^ ]+' | sort -u)
}

# initramfs_module ROOT FILE [PARAMETERS]: a module under test, loaded before the tests and unloaded after them.
initramfs_module() {
	local root=$1 file=$2 parameters=${3:-} name
	[[ -f $file ]] || die "there is no module $file; build it first (make -C kernel/module)"
	name=$(basename "$file" .ko)
	install -m 644 "$file" "$root/mega/modules/$name.ko"
	echo "/mega/modules/$name.ko${parameters:+ $parameters}" >>"$root/mega/load"
	echo "$name" >>"$root/mega/unload"
}

# initramfs_needed_modules ROOT MODULES RELEASE FILE: the modules of the kernel itself that a module under test needs.
initramfs_needed_modules() {
	local root=$1 modules=$2 release=$3 file=$4 name
	[[ -f $file ]] || return 0
	for name in $(modinfo --field depends "$file" | tr ',' ' '); do
		initramfs_kernel_module "$root" "$modules" "$release" "$name"
	done
}

# initramfs_kernel_module ROOT MODULES RELEASE NAME: a module of the kernel itself, with what it depends on, out of the
# folder MODULES (that has lib/modules). Nothing is needed where the kernel has it built in, or has no modules at all.
initramfs_kernel_module() {
	local root=$1 modules=$2 release=$3 name=$4 needed verb path
	[[ -n $release ]] || return 0
	needed=$(modprobe --dirname "$modules" --set-version "$release" --show-depends "$name") ||
		die "kernel $release has no module $name"
	while read -r verb path _; do
		[[ $verb == insmod ]] || continue
		grep -qxF "/mega/modules/${path##*/}" "$root/mega/load" && continue
		install -m 644 "$path" "$root/mega/modules/${path##*/}"
		echo "/mega/modules/${path##*/}" >>"$root/mega/load"
	done <<<"$needed"
}

# initramfs_pack ROOT FILE
initramfs_pack() {
	(cd "$1" && find . -print0 | cpio --quiet --null --create --format=newc --owner=0:0) >"$2"
}
