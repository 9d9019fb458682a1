/* SPDX-License-Identifier: GPL-2.0 */
/* What happens to pages: faults, compression and back, scans, reclaim. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM hzmem

#if !defined(HZMEM_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define HZMEM_TRACE_H

#include <linux/tracepoint.h>
#include "entry.h"

TRACE_EVENT(hzmem_fault,
	TP_PROTO(struct inode *inode, unsigned long index, int how, bool write,
		 int error),
	TP_ARGS(inode, index, how, write, error),
	TP_STRUCT__entry(
		__field(dev_t, device)
		__field(unsigned long, inode)
		__field(unsigned long, index)
		__field(int, how)
		__field(bool, write)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->device = inode->i_sb->s_dev;
		__entry->inode = inode->i_ino;
		__entry->index = index;
		__entry->how = how;
		__entry->write = write;
		__entry->error = error;
	),
	TP_printk("device=%u:%u inode=%lu index=%lu how=%s write=%d error=%d",
		  MAJOR(__entry->device), MINOR(__entry->device),
		  __entry->inode, __entry->index,
		  __print_symbolic(__entry->how,
				   { HZ_FAULTS_ZERO, "zero" },
				   { HZ_FAULTS_RESIDENT, "resident" },
				   { HZ_FAULTS_DECOMPRESS, "decompress" },
				   { HZ_FAULTS_COW, "cow" }),
		  __entry->write, __entry->error)
);

DECLARE_EVENT_CLASS(hzmem_content,
	TP_PROTO(struct hz_entry *content, unsigned int length, int error),
	TP_ARGS(content, length, error),
	TP_STRUCT__entry(
		__field(dev_t, device)
		__field(unsigned long, inode)
		__field(unsigned long, index)
		__field(unsigned int, length)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->device = content->mount->device;
		__entry->inode = content->inode->i_ino;
		__entry->index = content->index;
		__entry->length = length;
		__entry->error = error;
	),
	TP_printk("device=%u:%u inode=%lu index=%lu length=%u error=%d",
		  MAJOR(__entry->device), MINOR(__entry->device),
		  __entry->inode, __entry->index, __entry->length,
		  __entry->error)
);

DEFINE_EVENT(hzmem_content, hzmem_compress,
	TP_PROTO(struct hz_entry *content, unsigned int length, int error),
	TP_ARGS(content, length, error)
);

DEFINE_EVENT(hzmem_content, hzmem_decompress,
	TP_PROTO(struct hz_entry *content, unsigned int length, int error),
	TP_ARGS(content, length, error)
);

TRACE_EVENT(hzmem_scan,
	TP_PROTO(struct hz_mount *mount, int node, unsigned long pages,
		 unsigned long active, unsigned long inactive),
	TP_ARGS(mount, node, pages, active, inactive),
	TP_STRUCT__entry(
		__field(dev_t, device)
		__field(int, node)
		__field(unsigned long, pages)
		__field(unsigned long, active)
		__field(unsigned long, inactive)
	),
	TP_fast_assign(
		__entry->device = mount->device;
		__entry->node = node;
		__entry->pages = pages;
		__entry->active = active;
		__entry->inactive = inactive;
	),
	TP_printk("device=%u:%u node=%d pages=%lu active=%lu inactive=%lu",
		  MAJOR(__entry->device), MINOR(__entry->device),
		  __entry->node, __entry->pages, __entry->active,
		  __entry->inactive)
);

TRACE_EVENT(hzmem_reclaim,
	TP_PROTO(int node, unsigned int tried, bool found),
	TP_ARGS(node, tried, found),
	TP_STRUCT__entry(
		__field(int, node)
		__field(unsigned int, tried)
		__field(bool, found)
	),
	TP_fast_assign(
		__entry->node = node;
		__entry->tried = tried;
		__entry->found = found;
	),
	TP_printk("node=%d tried=%u found=%d", __entry->node, __entry->tried,
		  __entry->found)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
