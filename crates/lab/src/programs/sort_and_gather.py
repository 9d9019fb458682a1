"""Sorts and gathers NumPy arrays until standard input ends. The rates of its last seconds go to a file.

Arguments: bytes of arrays, seed, seconds over which rates are taken, file for the rates.
"""

import json
import sys
import time

import numpy

# Odd, so that every element of the source differs from the others modulo 2**64.
FACTOR = numpy.uint64(0x9E3779B97F4A7C15)


class Work:
    """The arrays: a source of half of the bytes, and an eighth each for places in it, what was found there, what is to
    be sorted and what is sorted."""

    def __init__(self, size, seed):
        elements = size // 8
        random = numpy.random.default_rng(seed)
        self.source = numpy.arange(elements // 2, dtype=numpy.uint64)
        self.source *= FACTOR
        self.places = random.integers(0, elements // 2, elements // 8, dtype=numpy.int64)
        self.found = numpy.empty(elements // 8, dtype=numpy.uint64)
        self.unsorted = random.integers(0, 2**63, elements // 8, dtype=numpy.int64)
        self.sorted = numpy.empty_like(self.unsorted)
        self.sum = self.unsorted.sum()
        self.right = True

    def sort(self):
        self.sorted[:] = self.unsorted
        started = time.monotonic()
        self.sorted.sort()
        return len(self.sorted), time.monotonic() - started

    def gather(self):
        started = time.monotonic()
        numpy.take(self.source, self.places, out=self.found, mode="clip")
        return len(self.found), time.monotonic() - started

    def check(self):
        """The sorted array has the elements of the other in order; each element found is that of its place."""
        in_order = bool((self.sorted[:-1] <= self.sorted[1:]).all())
        gathered = bool((self.found == self.places.astype(numpy.uint64) * FACTOR).all())
        self.right = self.right and in_order and gathered and self.sorted.sum() == self.sum


def main():
    size, seed, measured, file = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    work = Work(size, seed)
    work.sort()
    work.gather()
    say_ready("python", seed)
    end = end_of_input()
    started = time.monotonic()
    runs = []
    while not end.is_set():
        sorted_, sorting = work.sort()
        gathered = gathering = 0
        # As long as the sort, as gathering an eighth is done much sooner.
        while gathering < sorting:
            elements, seconds = work.gather()
            gathered, gathering = gathered + elements, gathering + seconds
        runs.append((time.monotonic(), sorted_, sorting, gathered, gathering))
    over_time = stretches(started, runs)
    elapsed = time.monotonic() - started
    work.check()
    last = [run for run in runs if run[0] >= started + elapsed - measured] or runs[-1:]
    total = [sum(column) for column in zip(*last)][1:]
    with open(file, "w", encoding="utf-8") as rates:
        json.dump({"sorted": total[0] / total[1], "gathered": total[2] / total[3]}, rates)
    operations = sum(run[1] + run[3] for run in runs)
    say_done(elapsed, operations, over_time, int(work.found.sum()), bool(work.right))


def stretches(started, runs):
    """One stretch for each run. An operation is an element sorted and as many gathered as took the same time in the first
    run: the same work, whatever becomes faster."""
    first = runs[0]
    gathered_for_each = first[3] / first[4] * first[2] / first[1]
    found = []
    begun = started
    for ended, sorted_, sorting, gathered, gathering in runs:
        seconds = sorting / sorted_ + gathered_for_each * gathering / gathered
        found.append({"from": begun - started, "to": ended - started, "rate": 1 / seconds})
        begun = ended
    return found


main()
