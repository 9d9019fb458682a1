"""Counts events in a table that has a place for each number there may be. Numbers come in clusters, so that one page in 16 of the
table is used at all.

Arguments: bytes of the table, seed.
"""

import sys
import time

import numpy

PAGE_WORDS = 4096 // 8
SPARSE = 16
BATCH = 1 << 18


def main():
    size, seed = int(sys.argv[1]), int(sys.argv[2])
    random = numpy.random.default_rng(seed)
    table = numpy.zeros(size // 8, dtype=numpy.uint64)
    clusters = len(table) // (PAGE_WORDS * SPARSE)
    # The page of each cluster: one of its 16.
    pages = numpy.arange(clusters) * SPARSE + random.integers(0, SPARSE, clusters)
    table[pages * PAGE_WORDS] += numpy.uint64(1)
    counted = clusters
    say_ready("sparse_table", seed)
    end = end_of_input()
    started = time.monotonic()
    while not end.is_set():
        events = pages[random.integers(0, clusters, BATCH)] * PAGE_WORDS + random.integers(0, PAGE_WORDS, BATCH)
        numpy.add.at(table, events, numpy.uint64(1))
        counted += BATCH
    elapsed = time.monotonic() - started
    # Only what was used: a sum over all would touch all.
    found = int(table.reshape(-1, PAGE_WORDS)[pages].sum())
    say_done(elapsed, counted, [], found, found == counted)


main()
