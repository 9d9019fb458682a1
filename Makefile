# make help lists the targets.
CARGO ?= cargo
RELEASE := $(or $(CARGO_TARGET_DIR),target)/release
MEGA := $(RELEASE)/mega

.DEFAULT_GOAL := build
.PHONY: help tools build demo lab-programs test test-user test-vm test-kernel test-giant kernel kernel-deb pictures check bench experiments install clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

tools:
	@scripts/install-build-tools

build: tools ## build mega and mega-lab (in target/release)
	$(CARGO) build --release --locked -p mega -p mega-lab

lab-programs:
	@scripts/install-lab-programs

demo: build ## the same program with base pages, THP always and mega, side by side (about a minute)
	$(MEGA) demo

test: test-user test-vm ## everything that needs no kernel build (under 8 minutes on 2 cores)

test-user: tools lab-programs
	$(CARGO) test --workspace --locked

test-vm: tools
	kernel/vm/deps
	kernel/vm/test stock

test-kernel: tools ## what needs a kernel build: the modules under KASAN and lockdep, static checks, the VM lab itself
	kernel/vm/deps
	kernel/vm/test debug

test-giant: ## the giant pages' tests under KASAN and lockdep, on a kernel of their own (more than an hour)
	kernel/vm/deps
	kernel/vm/test giant

kernel: ## the kernel with transparent 1 GiB pages (kernel/linux-6.12), for the lab; prints where its image is
	@kernel/vm/deps
	@echo "$$(kernel/vm/trident-kernel trident-6.12)/arch/x86/boot/bzImage"

kernel-deb: ## Debian packages of that kernel (CONFIG=FILE: another configuration than Debian's cloud kernel's)
	@kernel/vm/deps
	@kernel/vm/trident-packages $(if $(CONFIG),--config $(CONFIG))

pictures: ## draw the pictures of mega top in docs/pictures, and the screens that its tests expect, anew
	MEGA_BLESS=1 $(CARGO) test --locked -p mega --bin mega top::draw

check: tools ## formatting, lints and documentation
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked --quiet

bench: build ## the figures of mega's own cost, as ratios within one run
	$(CARGO) bench --locked -p mega-lab --bench bars

experiments: build lab-programs ## every experiment with real programs, in mega-lab/ (well over an hour)
	$(MEGA) lab live all

install: build ## install both programs below $(DESTDIR)/usr/local
	install -D -m 755 $(MEGA) $(DESTDIR)/usr/local/bin/mega
	install -D -m 755 $(RELEASE)/mega-lab $(DESTDIR)/usr/local/libexec/mega/mega-lab

clean: ## remove what was built here
	$(CARGO) clean
