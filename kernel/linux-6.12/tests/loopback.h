/* SPDX-License-Identifier: GPL-2.0 */
/* The exchanger for tests, loopback/: a module that swaps the contents of huge pages in the guest itself. */
#ifndef LOOPBACK_H
#define LOOPBACK_H

/* Has it exchange from now on in this way (see its source), or "off"; bails out where the module is not there. */
void loopback_set(const char *mode);

/* The value of one of its counts. */
long loopback_count(const char *name);

#endif /* LOOPBACK_H */
