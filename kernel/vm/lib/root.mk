# SPDX-License-Identifier: GPL-2.0
# The Makefile of a folder that stock_headers made: builds a module against the headers of a kernel whose Debian release is
# newer than this machine's, with that release's own tools, in its root file system (the folder root beside this file).
# The module lies at /module there, for this make alone. What was asked of this make is asked of that one.

root := $(dir $(realpath $(lastword $(MAKEFILE_LIST))))root
headers := $(patsubst $(root)%,%,$(wildcard $(root)/usr/src/linux-headers-*-cloud-amd64))
user := $(if $(filter-out 0,$(shell id -u)),--map-root-user)

.PHONY: modules clean
modules clean:
	+@env -u TMPDIR unshare $(user) --mount sh -e -c ' \
		mount --rbind /proc "$$1/proc"; \
		mount --bind "$$2" "$$1/module"; \
		exec chroot "$$1" make -C "$$3" M=/module $@' sh "$(root)" "$(M)" "$(headers)"
