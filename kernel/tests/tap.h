/* SPDX-License-Identifier: GPL-2.0 */
/* TAP version 13 on stdout: one line for each thing found to be so, or not. */
#ifndef TAP_H
#define TAP_H

#include <stdbool.h>

/* Says whether ok holds; the name is printf's. Returns ok. */
bool tap_ok(bool ok, const char *name, ...) __attribute__((format(printf, 2, 3)));

/* tap_ok() that also says, when they differ, what both values are. */
bool tap_equal(long long is, long long should, const char *name, ...)
	__attribute__((format(printf, 3, 4)));

/* tap_ok() of a call that was to fail with error; result is what it returned. */
bool tap_fails(long result, int error, const char *name, ...)
	__attribute__((format(printf, 3, 4)));

/* A test that cannot run here. Under CI=true that is a failure. */
void tap_skip(const char *name, const char *reason);

/* A remark. */
void tap_note(const char *text, ...) __attribute__((format(printf, 1, 2)));

/* A precondition that does not hold: prints a bail out and exits. */
void tap_bail(const char *what, ...)
	__attribute__((format(printf, 1, 2), noreturn));

/*
 * What the kernel logs as a warning is meant until this program ends: "kills" by the OOM killer, or "failed
 * allocations". The VM lab's check of the log is told.
 */
void tap_expect(const char *what);

/* Prints the plan. Returns main()'s exit status: 0 if all was so, else 1. */
int tap_end(void);

#endif /* TAP_H */
