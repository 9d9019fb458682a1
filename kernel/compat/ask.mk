# SPDX-License-Identifier: GPL-2.0
# Included by the Kbuild of a module. What differs between kernels is asked of their headers,
# not of their version: probes.c is compiled once for each name, and HAVE_NAME is defined where
# it can be.
questions := HEADERS PMDP_GET PMDP_GET_LOCKLESS PTE_DEVMAP MEMDESC_FLAGS \
	     LARGE_MAPCOUNT DOUBLE_MAP MOVABLE_OPS PAGE_ZSMALLOC MM_USER_NS \
	     FOLIO_BATCH_H PAGEVEC_RELEASE SYSTEM_PERCPU_WQ TRACE_ISOLATE \
	     TRACE_MIGRATE_THP TRACE_MIGRATE_LARGE TRACE_MIGRATE_REASON \
	     INSERT_DEVMAP_PMD INSERT_FOLIO_PMD CREATE_EXCLUSIVE \
	     MKDIR_DENTRY D_MAKE_PERSISTENT CONTIG_TO HUGE_EXCHANGE

# Four at a time.
ask_all = for name in $(questions); do \
		{ $(CC) $(NOSTDINC_FLAGS) $(LINUXINCLUDE) $(KBUILD_CPPFLAGS) \
			$(KBUILD_CFLAGS) $(KBUILD_CFLAGS_MODULE) -fsyntax-only \
			-Werror=implicit-function-declaration \
			-Werror=incompatible-pointer-types \
			-DKBUILD_MODNAME='"probe"' -DASK_$$name \
			$(src)/compat/probes.c >/dev/null 2>&1 && \
			echo -DHAVE_$$name; } & \
		asked="$$asked ."; [ "$$asked" != " . . . ." ] || { wait; asked=; }; \
	done; wait

# Asked at the first use only: not by make clean, nor once for each file.
answers = $(eval answers := $(sort $(shell $(ask_all))))$(answers)
ccflags-y += $(answers)
