# make help lists the targets.
CARGO ?= cargo
# A build from nothing takes a third less CPU time. Who changes a line and builds again calls cargo.
export CARGO_INCREMENTAL ?= 0
RELEASE := $(or $(CARGO_TARGET_DIR),target)/release
MEGA := $(RELEASE)/mega

PREFIX ?= /usr/local
UNITS ?= $(PREFIX)/lib/systemd/system
ZSH ?= $(PREFIX)/share/zsh/site-functions
TO = $(DESTDIR)$(PREFIX)
MODULES := $(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' kernel/module/dkms.conf)
ETC = $(DESTDIR)/etc/mega

.DEFAULT_GOAL := build
.PHONY: help tools package-tools image-tools build demo lab-programs fleet-programs test test-user test-vm test-long test-kernel test-series test-giant test-weekly test-rpm test-packages test-dkms test-image test-kubernetes test-reproducible kernel kernel-deb pictures check bench experiments deb rpm image install install-mega install-lab install-mega-dkms install-hzmem-dkms clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

tools:
	@scripts/install-build-tools

package-tools:
	@scripts/install-build-tools packages

image-tools: package-tools
	@scripts/install-build-tools image

build: tools ## build mega and mega-lab (in target/release)
	$(CARGO) build --release --locked -p mega -p mega-lab

fleet-programs:
	@scripts/install-lab-programs fleet

lab-programs:
	@scripts/install-lab-programs

demo: build ## the same program with base pages, THP always and mega, side by side (about a minute)
	$(MEGA) demo

test: test-user test-vm ## what needs no kernel build and takes no minutes by itself (some 9 minutes on 2 cores from nothing)

test-user: tools lab-programs
	$(CARGO) test --workspace --locked

test-vm: tools
	kernel/vm/deps
	kernel/vm/test stock

test-long: tools lab-programs ## what takes minutes by itself: every experiment, live and simulated, the demo, a whole calibration, promises over real servers, damo on what mega exports, the stock layer and the module on Debian's kernels
	kernel/vm/deps
	# The whole workspace, as in test-user: a part of it would be built again with other features.
	$(CARGO) test --workspace --locked --no-run
	$(CARGO) test --workspace --locked --lib --test lab --test demo --test doctor --test daemon --test live_profile --test promise --test simulated --test unprivileged -- --ignored --skip common::
	DAMO="$$(kernel/vm/figures/fetch-damo)/opt/damo/damo.py" $(CARGO) test --workspace --locked --test damo_reads -- --ignored
	kernel/vm/test long

test-kernel: tools ## what needs a kernel build: the modules under KASAN and lockdep, static checks, the VM lab itself
	kernel/vm/deps
	kernel/vm/test debug

test-weekly: tools ## what a change seldom breaks alone: the stock layer on Linux 6.12, the modules on 7.2 and both Debians' 6.12 and with one node under KASAN, hzmem with thousands of pages, other depths of page tables, the rest of the giant pages' tests, exchanges of guest memory
	kernel/vm/deps
	kernel/vm/test weekly

test-series: tools ## the core of the giant pages' tests and of what uses them, on a kernel with the series (a quarter of an hour, and its build)
	kernel/vm/deps
	kernel/vm/test series

test-giant: ## the giant pages' tests under KASAN and lockdep, on a kernel of their own (more than an hour)
	kernel/vm/deps
	kernel/vm/test giant

kernel: ## the kernel with transparent 1 GiB pages (kernel/linux-6.12), for the lab; prints where its image is
	@kernel/vm/deps
	@echo "$$(kernel/vm/kernels/build trident-6.12)/arch/x86/boot/bzImage"

kernel-deb: ## Debian packages of that kernel (CONFIG=FILE: another configuration than Debian's cloud kernel's)
	@kernel/vm/deps
	@kernel/vm/kernels/packages $(if $(CONFIG),--config $(CONFIG))

pictures: ## draw the pictures of mega top in docs/pictures, and the screens that its tests expect, anew
	MEGA_BLESS=1 $(CARGO) test --locked -p mega --bin mega top::draw

check: tools ## formatting, lints and documentation
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked --quiet

bench: build ## the figures of mega's own cost, as ratios within one run
	$(CARGO) bench --locked -p mega-lab --bench bars
	$(CARGO) bench --locked -p mega-core --bench step -- adaptive

experiments: build lab-programs ## every experiment with real programs, in mega-lab/ (well over an hour)
	$(MEGA) lab live all

deb: package-tools ## Debian packages of the last commit, in target/deb
	@scripts/build-deb target/deb

rpm: deb ## RPMs of the same, in target/deb
	@scripts/build-rpm target/deb

image: image-tools deb ## an OCI image of the Debian package, as an OCI layout in target/image; asks no registry
	@scripts/build-image target/deb target/image

test-reproducible: package-tools ## build the packages twice, in two places, and compare every byte
	@scripts/test-reproducible

test-rpm: rpm ## install the RPMs into an empty root, run their programs and remove them (as root)
	packaging/test/rpm target/deb

test-packages: deb ## install, use, upgrade, crash and purge the packages in guests of Debian 12 and 13 (about 20 minutes)
	kernel/vm/deps
	packaging/test/run target/deb

test-dkms: deb ## have DKMS build the kernel modules' packages for Debian 12's kernels, 13's and its backports', boot, use, upgrade and remove them, and enrol their key for Secure Boot (as root)
	kernel/vm/deps
	packaging/test/run --dkms target/deb

test-image: image fleet-programs ## run the image by podman beside a program on this machine that it manages
	packaging/test/image target/image target/deb

test-kubernetes: image fleet-programs ## run mega on a Kubernetes node of this machine: API server, kubelet, containerd (the first time well over ten minutes; as root)
	packaging/test/kubernetes target/image target/deb "$$(packaging/test/build-kubernetes)"

install: build ## install everything below $(DESTDIR)$(PREFIX) (/usr/local)
	@$(MAKE) --no-print-directory install-mega install-lab

install-mega:
	install -D -m 755 -t $(TO)/bin $(MEGA)
	install -d $(DESTDIR)$(UNITS) $(TO)/share/man/man1 $(DESTDIR)$(ZSH)
	for unit in $(wildcard packaging/*.service packaging/*.socket packaging/*.timer); do \
		sed 's|/usr/bin/mega|$(PREFIX)/bin/mega|' $$unit >$(DESTDIR)$(UNITS)/$${unit##*/} || exit 1; done
	$(MEGA) man $(TO)/share/man/man1
	rm $(TO)/share/man/man1/mega-lab.1 # mega-lab has its own
	install -D -m 644 -t $(TO)/share/man/man5 packaging/mega.toml.5
	install -d $(TO)/share/bash-completion/completions $(TO)/share/fish/vendor_completions.d
	$(MEGA) completions bash >$(TO)/share/bash-completion/completions/mega
	$(MEGA) completions fish >$(TO)/share/fish/vendor_completions.d/mega.fish
	$(MEGA) completions zsh >$(DESTDIR)$(ZSH)/_mega
	# A configuration that is there stays.
	test -e $(ETC)/mega.toml || install -D -m 644 -t $(ETC) packaging/mega.toml
	test -e $(ETC)/mega.toml.d || install -D -m 644 -t $(ETC)/mega.toml.d packaging/90-large.toml

install-lab:
	install -D -m 755 -t $(TO)/libexec/mega $(RELEASE)/mega-lab
	install -d $(TO)/share/man/man1
	$(RELEASE)/mega-lab man $(TO)/share/man/man1

# The modules' sources, for DKMS to build; its dkms.conf is installed by debian/rules too.
install-mega-dkms:
	$(call install-dkms,mega,module)
install-hzmem-dkms:
	$(call install-dkms,hzmem,hzmem)
define install-dkms
	install -d $(TO)/src/$(1)-$(MODULES) $(TO)/lib/modules-load.d
	install -m 644 -t $(TO)/src/$(1)-$(MODULES) $(addprefix kernel/$(2)/,Kbuild Makefile dkms.conf) kernel/$(2)/*.[ch]
	install -D -m 644 -t $(TO)/src/$(1)-$(MODULES)/compat kernel/compat/*
	echo $(1) >$(TO)/lib/modules-load.d/$(1)-dkms.conf
endef

clean: ## remove what was built here
	$(CARGO) clean
