# SPDX-License-Identifier: GPL-3.0-or-later
"""What the long runs share: sites of their own with a broker, many short jobs, a watch over every queue, and what the
scripts wrote when they started. The runs are programs of their own: kills.py, soak.py, skew.py."""
import argparse
import collections
import os
import re
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
import federation  # noqa: E402
import processes  # noqa: E402
from federation import USER  # noqa: E402
from testbed import Testbed, TestbedError  # noqa: E402

ONE_EACH = "model=config.json,gbs=8,mbs=2,tp=1,dp=1"  # with LIMITS: one GPU at each site
LIMITS = ("--nodes=1", "--gres=gpu:1")
MARK = re.compile(r"(?:^|\s)spiderflow=([\w.-]+)/(\d+)")
OVER = {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
        "OUT_OF_MEMORY"}

# Each script and each rank says that it starts, in one short line of a file that all share. The sites of a testbed have
# one file system; a line this short is appended at once.
SCRIPT = """#!/bin/bash
echo "part $SLURM_SPIDERFLOW_JOB/$SLURM_SPIDERFLOW_ATTEMPT $SLURM_SPIDERFLOW_SITE" >>{starts}
srun bash -c 'echo "rank $SLURM_SPIDERFLOW_JOB/$SLURM_SPIDERFLOW_ATTEMPT $RANK $WORLD_SIZE $(date +%s.%N)" >>{starts}
sleep {seconds}'
"""


def spec(sites):
    """One GPU at each of these sites, all in one pipeline."""
    return f"{ONE_EACH},sites={'+'.join(sites)},pp={len(sites)}"


class Watch:
    """Looks at the queue of each site all the time: which Slurm jobs each part of each attempt ever had, and which of
    them are alive. One shell loop at each site prints; a thread for each reads."""
    LOOP = "while :; do echo +; squeue -h -t all -o '%i|%T|%k' && echo -; sleep 0.2; done"

    def __init__(self, bed):
        self.bed = bed
        self.changed = threading.Condition()
        self.parts = collections.defaultdict(set)  # (job, attempt, site) -> ids at Slurm
        self.alive = {}  # site -> {id: (state, comment)}
        self.looked = {}  # site -> when the last look began
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.loops = [bed.popen(site, ["bash", "-c", self.LOOP], **pipes) for site in bed.sites]
        self.threads = [threading.Thread(target=self.read, args=pair, daemon=True)
                        for pair in zip(bed.sites, self.loops)]
        for thread in self.threads:
            thread.start()

    def read(self, site, loop):
        began, rows = 0, []
        for line in loop.stdout:
            if line == "+\n":
                began, rows = time.monotonic(), []
            elif line == "-\n":
                self.take(site.name, began, rows)
            elif line.count("|") >= 2:
                rows.append(line.rstrip("\n").split("|", 2))

    def take(self, site, began, rows):
        with self.changed:
            for number, _, comment in rows:
                if mark := MARK.search(comment):
                    self.parts[mark[1], int(mark[2]), site].add(int(number))
            self.alive[site] = {int(number): (state, comment) for number, state, comment in rows if state not in OVER}
            self.looked[site] = began
            self.changed.notify_all()

    def wait(self, predicate, seconds):
        """Wait until predicate() is true of what was seen after now, at every site; False when it did not come."""
        began = time.monotonic()
        with self.changed:
            return self.changed.wait_for(lambda: len(self.looked) == len(self.bed.sites)
                                         and min(self.looked.values()) > began and predicate(), seconds)

    def marked(self):
        """(site, id, state, comment) of each live part of a federated job."""
        with self.changed:
            return [(site, number, *row) for site, jobs in self.alive.items() for number, row in jobs.items()
                    if MARK.search(row[1])]

    def lives(self, site, number):
        with self.changed:
            return number in self.alive.get(site, {})

    def doubles(self):
        """Parts that were at their site more than once in one attempt."""
        with self.changed:
            return {part: sorted(ids) for part, ids in self.parts.items() if len(ids) > 1}

    def stop(self):
        for thread, loop in zip(self.threads, self.loops):
            if loop.poll() is None:
                os.killpg(loop.pid, signal.SIGKILL)
                loop.wait()
                thread.join()
                loop.stdout.close()


class Series:
    """Short federated jobs of one user, all from one script."""

    def __init__(self, bed, broker, name="series", seconds=1):
        self.bed, self.broker = bed, broker
        self.folder = f"{bed.home(USER)}/{name}"
        self.starts = self.folder + "/starts"
        os.makedirs(self.folder)
        with open(bed.home(USER) + "/config.json", encoding="ascii") as model:
            self.write("config.json", model.read())
        self.write("job.sh", SCRIPT.format(starts=self.starts, seconds=seconds))
        self.write("starts", "")
        federation.own(self.folder)

    def write(self, name, text):
        with open(f"{self.folder}/{name}", "w", encoding="ascii") as file:
            file.write(text)

    def submit(self, sites, more="", timeout=90):
        """sbatch, to its end: what subprocess.run() gives. more: ",key=value" for SPEC."""
        argv = ["sbatch", f"--spiderflow={spec(sites)}{more}", *LIMITS, "--output=%x-%N-%j.out", "--time=5", "job.sh"]
        return self.bed.run(self.broker.home, argv, user=USER, cwd=self.folder, timeout=timeout)

    def name_of(self, done):
        """The federated job that sbatch told of, or None."""
        return (re.search(rf"\bjob ({self.broker.home.name}-\d+)\b", done.stderr) or [None, None])[1]

    def started(self):
        """What the scripts wrote: {(job, attempt, site): times}, {(job, attempt): {rank: [moments]}}, world sizes."""
        parts, ranks, worlds = collections.Counter(), collections.defaultdict(dict), {}
        with open(self.starts, encoding="ascii") as file:
            for kind, mark, *rest in map(str.split, file):
                job, _, attempt = mark.partition("/")
                if kind == "part":
                    parts[job, int(attempt), rest[0]] += 1
                else:
                    ranks[job, int(attempt)].setdefault(int(rest[0]), []).append(float(rest[2]))
                    worlds[job, int(attempt)] = int(rest[1])
        return parts, ranks, worlds

    def twice(self):
        """What started more than once."""
        parts, ranks, _ = self.started()
        scripts = [f"the script of {job}/{attempt} at {site}" for (job, attempt, site), times in parts.items()
                   if times > 1]
        return scripts + [f"rank {rank} of {job}/{attempt}" for (job, attempt), each in ranks.items()
                          for rank, moments in each.items() if len(moments) > 1]

    def incomplete(self, done):
        """Of these jobs, which are said to be done, those of whose last attempt a rank never started."""
        _, ranks, worlds = self.started()
        wrong = []
        for job in done:
            key = job["id"], job["attempt"]
            ran = sorted(ranks.get(key, ()))
            if not ran or ran != list(range(worlds[key])):
                wrong.append(f"{job['id']} is done, but of attempt {job['attempt']} only these ranks ran: {ran}")
        return wrong


def parser(text, suffix, prefix, subnet):
    """Arguments that every long run takes; its sites are its own."""
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--stage", required=True, help="where `make install` put SpiderFlow")
    made.add_argument("--root", default=federation.ROOT + suffix, help="folder of the sites (%(default)s)")
    made.add_argument("--prefix", default=prefix, help="of the sites' names (%(default)s)")
    made.add_argument("--subnet", default=subnet, help="first half of their addresses (%(default)s)")
    return made


def on_sites(wanted, sites, run, **configuration):
    """Call run(bed, broker) on sites that come up for it and go away whatever happens; its status is the program's."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(143))
    program = os.path.basename(sys.argv[0])
    try:
        with processes.locked("run " + wanted.root, seconds=0):
            federation.installed = os.path.abspath(wanted.stage)
            bed = Testbed(wanted.root, wanted.prefix, wanted.subnet)
            try:
                sys.exit(run(bed, federation.set_up(bed, sites, **configuration)))
            finally:
                bed.down()
    except TimeoutError as error:
        sys.exit(f"{program}: {error}")
    except TestbedError as error:
        sys.exit(f"{program}: {error}")
