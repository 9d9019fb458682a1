// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tap.h"

static int count;
static int failures;

static bool line(bool ok, const char *name, va_list arguments)
{
	count++;
	failures += !ok;
	printf("%s %d - ", ok ? "ok" : "not ok", count);
	vprintf(name, arguments);
	putchar('\n');
	fflush(stdout);
	return ok;
}

bool tap_ok(bool ok, const char *name, ...)
{
	va_list arguments;

	va_start(arguments, name);
	line(ok, name, arguments);
	va_end(arguments);
	return ok;
}

bool tap_equal(long long is, long long should, const char *name, ...)
{
	va_list arguments;

	va_start(arguments, name);
	line(is == should, name, arguments);
	va_end(arguments);
	if (is != should)
		tap_note("is %lld, should be %lld", is, should);
	return is == should;
}

bool tap_fails(long result, int error, const char *name, ...)
{
	int is = result < 0 ? errno : 0;
	va_list arguments;

	va_start(arguments, name);
	line(is == error, name, arguments);
	va_end(arguments);
	if (is != error)
		tap_note("error is %s, should be %s", strerror(is),
			 strerror(error));
	return is == error;
}

void tap_skip(const char *name, const char *reason)
{
	const char *ci = getenv("CI");
	bool failed = ci && !strcmp(ci, "true");

	count++;
	failures += failed;
	printf("%s %d - %s # SKIP %s\n", failed ? "not ok" : "ok", count, name,
	       reason);
	fflush(stdout);
}

void tap_note(const char *text, ...)
{
	va_list arguments;

	printf("# ");
	va_start(arguments, text);
	vprintf(text, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
}

void tap_bail(const char *what, ...)
{
	va_list arguments;
	int error = errno;

	printf("Bail out! ");
	va_start(arguments, what);
	vprintf(what, arguments);
	va_end(arguments);
	printf(" (%s)\n", strerror(error));
	fflush(stdout);
	exit(1);
}

int tap_end(void)
{
	printf("1..%d\n", count);
	fflush(stdout);
	return failures ? 1 : 0;
}

void tap_expect(const char *what)
{
	char line[64];
	int length = snprintf(line, sizeof(line), "mega-vm: %s are expected\n", what);
	int log = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);

	if (log < 0 || write(log, line, length) < 0)
		tap_bail("write /dev/kmsg");
	close(log);
}
