#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far apart a federated job starts, on real Slurm sites: from the moment when the last part has its nodes until the
last rank is in the user's code, and how long the ranks themselves are apart. Needs root.

When a part has its nodes is what the slurmctld of its site says in its log, to the millisecond; when a rank begins is
what the rank says first. All of it is one machine with one clock."""
import re
import statistics
import sys
import time

sys.dont_write_bytecode = True
import series  # noqa: E402
from federation import ENDED, wait_for  # noqa: E402
from testbed import TestbedError  # noqa: E402

ALLOCATED = re.compile(r"^\[([\d.T:-]+)\] .*(?:Allocate|Started) JobId=(\d+)\b", re.MULTILINE)


def allocated(bed, site, number):
    """When slurmctld gave the job its nodes, in seconds since the epoch; the last time, should it have been more."""
    with open(bed.site(site).path("log/slurmctld.log"), encoding="utf-8", errors="replace") as file:
        found = [text for text, job in ALLOCATED.findall(file.read()) if int(job) == number]
    if not found:
        raise TestbedError(f"site {site}: slurmctld.log does not say when job {number} was started")
    whole, _, part = found[-1].partition(".")
    return time.mktime(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float("0." + part)


def measure(bed, broker, jobs, sites):
    """One job over these sites; (last part allocated -> last rank runs, first rank -> last rank), in seconds."""
    done = jobs.submit(sites)
    if done.returncode:
        raise TestbedError(f"sbatch: {done.stderr.strip()}")
    name = jobs.name_of(done)
    job = wait_for(f"the end of {name}", 180, lambda: (job := broker.job(name))["state"] in ENDED and job)
    if job["state"] != "done":
        raise TestbedError(f"{name} {job['state']}: {job['reason']}")
    last = max(allocated(bed, part["site"], part["job"]) for part in job["parts"])
    moments = [each[0] for each in jobs.started()[1][name, job["attempt"]].values()]
    if len(moments) != len(sites):
        raise TestbedError(f"{name}: {len(moments)} ranks ran, not {len(sites)}")
    return max(moments) - last, max(moments) - min(moments)


def run(bed, broker, wanted):
    jobs = series.Series(bed, broker, "skew")
    names = [site.name for site in bed.sites]
    kinds = "last part allocated to last rank running", "first rank running to last"
    print("sites  jobs  seconds                                     min  median     max")
    for count in wanted.sites:
        values = [measure(bed, broker, jobs, names[:count]) for _ in range(wanted.jobs)]
        for text, column in zip(kinds, zip(*values)):
            print(f"{count:5} {len(column):5}  {text:40} {min(column):7.2f} {statistics.median(column):7.2f} "
                  f"{max(column):7.2f}", flush=True)
    return 0


def main():
    parser = series.parser(__doc__, "-skew", "sfk", "10.84")
    parser.add_argument("--jobs", type=int, default=5, help="for each number of sites (%(default)s)")
    parser.add_argument("--sites", type=int, nargs="+", default=[2, 8], help="over how many (%(default)s)")
    wanted = parser.parse_args()
    series.on_sites(wanted, {"count": max(wanted.sites), "nodes": 2, "gpus": 1},
                    lambda bed, broker: run(bed, broker, wanted))


if __name__ == "__main__":
    main()
