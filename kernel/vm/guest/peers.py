# SPDX-License-Identifier: GPL-2.0
"""One measurement of kernel/vm/figures/damo, in the guest: two programs that know what is hot, and one manager.

usage: peers.py SETTING SECONDS SHIFT PROGRAMS; prints a line `result JSON`.
"""

import array
import fcntl
import json
import os
import re
import struct
import subprocess
import sys
import time

HUGE = 2 << 20
THP = "/sys/kernel/mm/transparent_hugepage/"
# What the lab's mode `khugepaged` sets: as fast as it goes.
EAGER = {"scan_sleep_millisecs": 0, "alloc_sleep_millisecs": 0, "pages_to_scan": 1 << 18}
# What damo's own tests hold as `ethp`, and its author measured: hot is what was accessed in a twentieth of the looks, cold what was not
# for seven seconds and is 2 MiB or more.
HOT = ["--damos_access_rate", "5%", "max", "--damos_sz_region", "min", "max", "--damos_age", "min", "max"]
COLD = ["--damos_access_rate", "0%", "0%", "--damos_sz_region", "2M", "max", "--damos_age", "7s", "max"]
DAMO = {
    "damo-ethp": ["--damos_action", "hugepage", *HOT, "--damos_action", "nohugepage", *COLD],
    "damo-collapse": ["--damos_action", "collapse", *HOT],
    # The intervals tuned to the goal that DAMON's documentation gives.
    "damo-collapse-goal": ["--monitoring_intervals_goal", "4%", "3", "5ms", "10s", "--damos_action", "collapse", *HOT],
}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(str(text))


class Program:
    """A program of mega-lab's, which works until it is told to end."""

    def __init__(self, programs, name, arguments):
        command = [programs + "/mega-lab", "workload", name, "--size", "128MiB", "--until-eof", "--json", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = self.event("ready")

    def event(self, name):
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == name:
                return event
        sys.exit(f"a program ended without saying: {name}")

    def resident(self):
        return int(re.search(r"^Rss: *(\d+)", read(f"/proc/{self.ready['pid']}/smaps_rollup"), re.M)[1]) * 1024

    def huge(self, area):
        """The share of an area that huge pages map (PAGEMAP_SCAN, PAGE_IS_HUGE)."""
        found = array.array("Q", [0] * 3 * 512)
        start, end = area["start"], area["start"] + area["bytes"]
        is_huge = 1 << 6
        request = bytearray(
            struct.pack("12Q", 96, 0, start, end, 0, found.buffer_info()[0], 512, 0, 0, is_huge, 0, is_huge)
        )
        with open(f"/proc/{self.ready['pid']}/pagemap", "rb") as pagemap:
            count = fcntl.ioctl(pagemap, 3 << 30 | 96 << 16 | ord("f") << 8 | 16, request)
        return sum(found[3 * i + 1] - found[3 * i] for i in range(count)) / area["bytes"]

    def end(self):
        self.process.stdin.close()
        done = self.event("done")
        return done["verified"] and self.process.wait() == 0


def on_cpu(pid):
    """Nanoseconds that a process's threads have run."""
    return sum(int(read(f"/proc/{pid}/task/{task}/schedstat").split()[0]) for task in os.listdir(f"/proc/{pid}/task"))


def kernel_threads(name):
    pids = [pid for pid in os.listdir("/proc") if pid.isdigit()]
    return [pid for pid in pids if read(f"/proc/{pid}/comm").startswith(name) and not os.path.exists(f"/proc/{pid}/exe")]


class Khugepaged:
    """Alone; the other managers begin theirs beside it, for the kernel always runs it."""

    advise = ["--advise"]

    def __init__(self, setting, programs, targets):
        if setting == "khugepaged-eager":
            for name, value in EAGER.items():
                write(f"{THP}khugepaged/{name}", value)

    def nanoseconds(self):
        return 0

    def besides(self):
        return f"{read(THP + 'khugepaged/full_scans').strip()} full scans"


class Damo:
    """A kdamond, as damo sets it up."""

    advise = []

    def __init__(self, setting, programs, targets):
        # damo itself is a Python program, which ends once the kdamond runs.
        command = [sys.executable, "/opt/damo/damo.py", "start", *DAMO[setting]]
        for target in targets:
            command += ["--target_pid", str(target.ready["pid"])]
        before = os.times()
        subprocess.run(command, check=True)
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        self.started = int(used * 1e9)

    def nanoseconds(self):
        return self.started + sum(on_cpu(pid) for pid in kernel_threads("kdamond"))

    def besides(self):
        admin = "/sys/kernel/mm/damon/admin/kdamonds/0/"
        write(admin + "state", "update_schemes_stats")
        stats = admin + "contexts/0/schemes/0/stats/"
        return f"{read(stats + 'nr_applied').strip()} regions applied to; {self.started / 1e9:.1f} s of CPU for damo to start it"


class Mega:
    """mega's daemon, by its defaults."""

    advise = []

    def __init__(self, setting, programs, targets):
        self.mega = programs + "/mega"
        os.makedirs("/etc/mega", exist_ok=True)
        write("/etc/mega/mega.toml", f'[[select]]\nname = "programs"\nexecutable = "{programs}/mega-lab"\n')
        self.process = subprocess.Popen([self.mega, "daemon"])

    def nanoseconds(self):
        return on_cpu(self.process.pid)

    def besides(self):
        status = subprocess.run([self.mega, "status", "--json"], check=True, capture_output=True, text=True).stdout
        return f"{json.loads(status)['managers'][0]['groups'][0]['actions']['steps']} observations"


def manager_of(setting):
    if setting in DAMO:
        return Damo
    return {"khugepaged": Khugepaged, "khugepaged-eager": Khugepaged, "mega": Mega}[setting]


def main():
    setting, seconds, shift, programs = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    kind = manager_of(setting)
    hot_cold = Program(programs, "hot-cold", kind.advise)
    sparse = Program(programs, "sparse", kind.advise)
    hot, cold = hot_cold.ready["areas"]
    threads = kernel_threads("khugepaged")
    before = sum(on_cpu(pid) for pid in threads)
    resident = hot_cold.resident() + sparse.resident()
    begun = time.monotonic()
    manager = kind(setting, programs, [hot_cold, sparse])
    done = None
    while time.monotonic() - begun < seconds:
        time.sleep(0.5)
        if done is None and hot_cold.huge(hot) >= 0.95:
            done = round(time.monotonic() - begun, 1)
    used = manager.nanoseconds() + sum(on_cpu(pid) for pid in threads) - before
    result = {
        "setting": setting,
        "hot": hot_cold.huge(hot),
        "cold": hot_cold.huge(cold),
        "done": done,
        "added": hot_cold.resident() + sparse.resident() - resident,
        "instructions": used >> shift,
        "besides": manager.besides(),
    }
    result["kept"] = all([program.end() for program in (hot_cold, sparse)])
    print("result", json.dumps(result), flush=True)


main()
