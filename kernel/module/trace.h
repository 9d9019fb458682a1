/* SPDX-License-Identifier: GPL-2.0 */
/* One tracepoint for each request, at its end: what was asked, what came of it. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM mega

#if !defined(MEGA_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define MEGA_TRACE_H

#include <linux/tracepoint.h>
#include "mega_ioctl.h"

TRACE_EVENT(mega_scan_task,
	TP_PROTO(const struct mega_scan_task *request, int error),
	TP_ARGS(request, error),
	TP_STRUCT__entry(
		__field(u64, start)
		__field(u64, length)
		__field(u64, next)
		__field(u64, tables)
		__field(u64, cleared)
		__field(u64, nanoseconds)
		__field(u32, flags)
		__field(u32, count)
		__field(u32, result)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->start = request->start;
		__entry->length = request->length;
		__entry->next = request->next;
		__entry->tables = request->tables;
		__entry->cleared = request->cleared;
		__entry->nanoseconds = request->nanoseconds;
		__entry->flags = request->flags;
		__entry->count = request->count;
		__entry->result = request->result;
		__entry->error = error;
	),
	TP_printk("start=0x%llx length=0x%llx flags=0x%x next=0x%llx count=%u tables=%llu cleared=%llu result=0x%x ns=%llu error=%d",
		  __entry->start, __entry->length, __entry->flags,
		  __entry->next, __entry->count, __entry->tables,
		  __entry->cleared, __entry->result, __entry->nanoseconds,
		  __entry->error)
);

TRACE_EVENT(mega_scan_blocks,
	TP_PROTO(const struct mega_scan_blocks *request, int error),
	TP_ARGS(request, error),
	TP_STRUCT__entry(
		__field(u64, start_frame)
		__field(u64, nanoseconds)
		__field(u32, flags)
		__field(u32, count)
		__field(u32, done)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->start_frame = request->start_frame;
		__entry->nanoseconds = request->nanoseconds;
		__entry->flags = request->flags;
		__entry->count = request->count;
		__entry->done = request->done;
		__entry->error = error;
	),
	TP_printk("start_frame=0x%llx count=%u flags=0x%x done=%u ns=%llu error=%d",
		  __entry->start_frame, __entry->count, __entry->flags,
		  __entry->done, __entry->nanoseconds, __entry->error)
);

TRACE_EVENT(mega_compact,
	TP_PROTO(const struct mega_compact *request, int error),
	TP_ARGS(request, error),
	TP_STRUCT__entry(
		__field(u64, frame)
		__field(u64, blocker)
		__field(u64, occupied)
		__field(u64, scanned)
		__field(u64, isolated)
		__field(u64, migrated)
		__field(u64, failed)
		__field(u64, nanoseconds)
		__field(u32, flags)
		__field(u32, order)
		__field(u32, stop)
		__field(u32, attempts)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->frame = request->frame;
		__entry->blocker = request->blocker;
		__entry->occupied = request->occupied;
		__entry->scanned = request->scanned;
		__entry->isolated = request->isolated;
		__entry->migrated = request->migrated;
		__entry->failed = request->failed;
		__entry->nanoseconds = request->nanoseconds;
		__entry->flags = request->flags;
		__entry->order = request->order;
		__entry->stop = request->stop;
		__entry->attempts = request->attempts;
		__entry->error = error;
	),
	TP_printk("frame=0x%llx order=%u flags=0x%x stop=%s blocker=0x%llx occupied=%llu scanned=%llu isolated=%llu migrated=%llu failed=%llu attempts=%u ns=%llu error=%d",
		  __entry->frame, __entry->order, __entry->flags,
		  __print_symbolic(__entry->stop,
				   { MEGA_STOP_DONE, "done" },
				   { MEGA_STOP_ALREADY_FREE, "already_free" },
				   { MEGA_STOP_UNMOVABLE, "unmovable" },
				   { MEGA_STOP_PINNED, "pinned" },
				   { MEGA_STOP_BUSY, "busy" },
				   { MEGA_STOP_NO_MEMORY, "no_memory" },
				   { MEGA_STOP_HUGE, "huge" },
				   { MEGA_STOP_SIGNAL, "signal" },
				   { MEGA_STOP_WOULD, "would" }),
		  __entry->blocker, __entry->occupied, __entry->scanned,
		  __entry->isolated, __entry->migrated, __entry->failed,
		  __entry->attempts, __entry->nanoseconds, __entry->error)
);

TRACE_EVENT(mega_promote,
	TP_PROTO(const struct mega_promote *request, int error),
	TP_ARGS(request, error),
	TP_STRUCT__entry(
		__field(u64, start)
		__field(u64, frame)
		__field(u64, nanoseconds)
		__field(u32, flags)
		__field(u32, stop)
		__field(u32, in_place)
		__field(u32, moved)
		__field(u32, attempts)
		__field(int, kernel_error)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->start = request->start;
		__entry->frame = request->frame;
		__entry->nanoseconds = request->nanoseconds;
		__entry->flags = request->flags;
		__entry->stop = request->stop;
		__entry->in_place = request->in_place;
		__entry->moved = request->moved;
		__entry->attempts = request->attempts;
		__entry->kernel_error = request->error;
		__entry->error = error;
	),
	TP_printk("start=0x%llx flags=0x%x stop=%s frame=0x%llx in_place=%u moved=%u attempts=%u ns=%llu kernel_error=%d error=%d",
		  __entry->start, __entry->flags,
		  __print_symbolic(__entry->stop,
				   { MEGA_PROMOTE_DONE, "done" },
				   { MEGA_PROMOTE_ALREADY, "already" },
				   { MEGA_PROMOTE_NOT_ELIGIBLE, "not_eligible" },
				   { MEGA_PROMOTE_NOT_HUGE, "not_huge" },
				   { MEGA_PROMOTE_BUSY, "busy" },
				   { MEGA_PROMOTE_NO_CHUNK, "no_chunk" },
				   { MEGA_PROMOTE_SIGNAL, "signal" },
				   { MEGA_PROMOTE_WOULD_MOVE, "would_move" }),
		  __entry->frame, __entry->in_place, __entry->moved,
		  __entry->attempts, __entry->nanoseconds,
		  __entry->kernel_error, __entry->error)
);

TRACE_EVENT(mega_demote,
	TP_PROTO(const struct mega_demote *request, int error),
	TP_ARGS(request, error),
	TP_STRUCT__entry(
		__field(u64, start)
		__field(u64, nanoseconds)
		__field(u32, flags)
		__field(u32, stop)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->start = request->start;
		__entry->nanoseconds = request->nanoseconds;
		__entry->flags = request->flags;
		__entry->stop = request->stop;
		__entry->error = error;
	),
	TP_printk("start=0x%llx flags=0x%x stop=%s ns=%llu error=%d",
		  __entry->start, __entry->flags,
		  __print_symbolic(__entry->stop,
				   { MEGA_DEMOTE_DONE, "done" },
				   { MEGA_DEMOTE_NOT_GIANT, "not_giant" }),
		  __entry->nanoseconds, __entry->error)
);

TRACE_EVENT(mega_free_zero,
	TP_PROTO(const struct mega_free_zero *request, int error),
	TP_ARGS(request, error),
	TP_STRUCT__entry(
		__field(u64, start)
		__field(u64, nanoseconds)
		__field(u32, looked)
		__field(u32, zero)
		__field(u32, freed)
		__field(u32, busy)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->start = request->start;
		__entry->nanoseconds = request->nanoseconds;
		__entry->looked = request->looked;
		__entry->zero = request->zero;
		__entry->freed = request->freed;
		__entry->busy = request->busy;
		__entry->error = error;
	),
	TP_printk("start=0x%llx looked=%u zero=%u freed=%u busy=%u ns=%llu error=%d",
		  __entry->start, __entry->looked, __entry->zero,
		  __entry->freed, __entry->busy, __entry->nanoseconds,
		  __entry->error)
);

TRACE_EVENT(mega_exchange,
	TP_PROTO(const struct mega_exchange *request, int error),
	TP_ARGS(request, error),
	TP_STRUCT__entry(
		__field(u64, nanoseconds)
		__field(u32, count)
		__field(u32, exchanged)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->nanoseconds = request->nanoseconds;
		__entry->count = request->count;
		__entry->exchanged = request->exchanged;
		__entry->error = error;
	),
	TP_printk("pairs=%u exchanged=%u ns=%llu error=%d", __entry->count,
		  __entry->exchanged, __entry->nanoseconds, __entry->error)
);

#endif /* MEGA_TRACE_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
