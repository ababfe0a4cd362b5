#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Some hundred short federated jobs in a row, up to three at once, over four real Slurm sites: all end done, and
spiderflowd has at the end the memory, the descriptors and the journal that it had after the first of them. Needs root.
Status 1 when anything is wrong."""
import collections
import itertools
import os
import re
import sys
import threading
import time

sys.dont_write_bytecode = True
import series  # noqa: E402
from federation import wait_for  # noqa: E402

SITES = {"count": 4, "nodes": 2, "gpus": 2}
KEPT = 50  # ended jobs that the broker keeps: after so many nothing may grow any more
CONFIGURATION = {"broker": {"poll_jobs": 0.3, "keep_ended": KEPT}}
OVER = [("s1", *others) for count in (1, 2, 3) for others in itertools.combinations(("s2", "s3", "s4"), count)]
AT_ONCE = 3
EVERY = 20  # jobs between two looks
JOB_SECONDS = 120  # that one job may take
GROWTH = 0.1  # of memory and journal, from the first look with KEPT jobs behind it to the last
SLACK = {"memory": 4096, "descriptors": 4, "journal": 256}  # kB; and connections that happen to be open

Look = collections.namedtuple("Look", "jobs memory descriptors journal")  # kB, count, kB


class Soak:
    def __init__(self, bed, broker):
        self.bed, self.broker = bed, broker
        self.jobs = series.Series(bed, broker, "soak")
        self.watch = series.Watch(bed)
        self.lock = threading.Lock()
        self.ended = 0
        self.looks = []
        self.problems = []

    def look(self):
        pid = self.broker.process["pid"]
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            memory = int(re.search(r"^VmRSS:\s+(\d+)", file.read(), re.MULTILINE)[1])
        journal = sum(os.path.getsize(self.broker.journal + end) for end in ("", "-wal")
                      if os.path.exists(self.broker.journal + end))
        self.looks.append(Look(self.ended, memory, len(os.listdir(f"/proc/{pid}/fd")), journal // 1024))
        print("%5d jobs: memory %d kB, %d descriptors, journal %d kB" % self.looks[-1], flush=True)

    def work(self, sites):
        """Submit one job after the other and see each to its end."""
        for over in sites:
            done = self.jobs.submit(over)
            name = self.jobs.name_of(done)
            try:
                if done.returncode:
                    raise AssertionError(f"sbatch: {done.stderr.strip()}")
                job = wait_for(f"{name} over {'+'.join(over)} to end", JOB_SECONDS, lambda name=name: self.over(name))
                if job["state"] != "done":
                    raise AssertionError(f"{name} over {'+'.join(over)} {job['state']}: {job['reason']}")
            except AssertionError as error:
                self.problems.append(str(error))
                print(f"WRONG: {error}\n{self.evidence(name)}", flush=True)
            with self.lock:
                self.ended += 1
                if self.ended % EVERY == 0:
                    self.look()

    def evidence(self, name):
        """What the broker said of the job, and what is left of it at the sites."""
        with open(self.broker.log, encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip() for line in file if f" job {name}:" in line]
        for site, number, _, comment in self.watch.marked():
            if f"spiderflow={name}/" in comment:
                lines += [site, *self.bed.run(site, ["scontrol", "show", "job", str(number)]).stdout.splitlines()]
        return "\n".join("    " + line for line in lines)

    def over(self, name):
        job = self.broker.job(name)
        return job if job["state"] in ("done", "failed", "cancelled") else None

    def run(self, count):
        began = time.monotonic()
        self.look()
        work = iter([OVER[index % len(OVER)] for index in range(count)])
        shared = iter(lambda: self.take(work), None)
        threads = [threading.Thread(target=self.work, args=(shared,)) for _ in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"{self.ended} jobs in {time.monotonic() - began:.0f} s", flush=True)
        self.judge()

    def take(self, work):
        with self.lock:
            return next(work, None)

    def judge(self):
        if not self.watch.wait(lambda: not self.watch.marked(), 60):
            self.problems.append(f"left over: {self.watch.marked()}")
        self.problems += [f"{part} was there as {ids}" for part, ids in self.watch.doubles().items()]
        self.problems += self.jobs.twice()
        self.bed.wait_idle()
        settled = [look for look in self.looks if look.jobs > KEPT]
        if len(settled) > 1:
            self.problems += [f"{name} grew from {getattr(settled[0], name)} at {settled[0].jobs} jobs to "
                              f"{getattr(settled[-1], name)} at {settled[-1].jobs}"
                              for name, slack in SLACK.items()
                              if getattr(settled[-1], name) > getattr(settled[0], name) * (1 + GROWTH) + slack]
        self.watch.stop()
        for problem in self.problems:
            print("WRONG: " + problem)
        print(f"{len(self.problems)} problems")


def run(bed, broker, wanted):
    soak = Soak(bed, broker)
    soak.run(wanted.jobs)
    return 1 if soak.problems else 0


def main():
    parser = series.parser(__doc__, "-soak", "sfk", "10.84")
    parser.add_argument("--jobs", type=int, default=200, help="how many (%(default)s)")
    wanted = parser.parse_args()
    series.on_sites(wanted, SITES, lambda bed, broker: run(bed, broker, wanted), **CONFIGURATION)


if __name__ == "__main__":
    main()
