# How the lab's programs in Python speak: as `mega workload` does, a line of JSON when their memory is there, another when standard
# input has ended. This stands before the text of each.

import json
import os
import sys
import threading


def say_ready(workload, seed):
    say({"event": "ready", "pid": os.getpid(), "workload": workload, "seed": seed, "areas": []})


def say_done(seconds, operations, over_time, checksum, verified):
    say({
        "event": "done",
        "seconds": seconds,
        "operations": operations,
        "operations_per_second": operations / seconds,
        "steady_operations_per_second": operations / seconds,
        "operations_per_second_over_time": over_time,
        "checksum": f"{checksum:016x}",
        "verified": verified,
        "resident_bytes": in_memory("Rss:"),
        "huge_bytes": in_memory("AnonHugePages:"),
        "first_touch": None,
    })


def say(event):
    print(json.dumps(event), flush=True)


def end_of_input():
    """An event that is set once standard input has ended."""
    end = threading.Event()
    threading.Thread(target=wait_for_end, args=(end,), daemon=True).start()
    return end


def wait_for_end(end):
    while sys.stdin.buffer.read(64):
        pass
    end.set()


def in_memory(name):
    """The bytes of a line `Name: 123 kB` of what is in memory; 0 where there is none."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as lines:
        for line in lines:
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


