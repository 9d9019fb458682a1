// SPDX-License-Identifier: GPL-2.0
/* Defines the module's tracepoints. */

#ifndef __CHECKER__
#define CREATE_TRACE_POINTS
#include "trace.h"
#endif
