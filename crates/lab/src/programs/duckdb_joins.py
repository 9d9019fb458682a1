"""DuckDB with two tables in memory. Says `ready` once they are there. Each line of standard input is the number of a part of the orders,
from 0: it joins that part to its items, and says whether what it found is `right`.

Arguments: bytes of memory, number of parts.
"""

import os
import sys

import duckdb

ITEMS_PER_ORDER = 2
# Both tables have this much for each order, once it has been joined to its items.
BYTES_PER_ORDER = 72


def main():
    size, parts = int(sys.argv[1]), int(sys.argv[2])
    in_part = max(size // BYTES_PER_ORDER // parts, 1)
    database = duckdb.connect(":memory:")
    # It would be on standard output, among the answers.
    database.execute("SET enable_progress_bar = false")
    # It would take all CPUs of the machine, whichever it may run on.
    database.execute(f"SET threads = {len(os.sched_getaffinity(0))}")
    orders = in_part * parts
    database.execute(
        f"CREATE TABLE orders AS SELECT i AS id, hash(i) % 1000003 AS customer, i % 100 AS amount FROM range({orders}) r(i)"
    )
    # The items of a part are in no order.
    database.execute(
        f"""CREATE TABLE items AS
            SELECT (i // {in_part * ITEMS_PER_ORDER} * {in_part} + hash(i) % {in_part})::BIGINT AS order_id, i % 7 AS number
            FROM range({orders * ITEMS_PER_ORDER}) r(i)"""
    )
    say("ready")
    for line in sys.stdin:
        first = int(line) * in_part
        (joined,) = database.execute(
            """SELECT count(*) FROM items JOIN orders ON items.order_id = orders.id
               WHERE orders.id >= ? AND orders.id < ? AND amount * number >= 0""",
            [first, first + in_part],
        ).fetchone()
        say("right" if joined == in_part * ITEMS_PER_ORDER else f"{joined} items of {in_part * ITEMS_PER_ORDER}")


def say(line):
    print(line, flush=True)


main()
