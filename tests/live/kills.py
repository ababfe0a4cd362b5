#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ends spiderflowd some hundred times at points of its own code, over real Slurm sites, and looks what is left: every
job complete or gone, no part left over, none there twice. Needs root.

One life after the other: a job is submitted while the broker is set to die at point 1, 2, 3, … of its life. Then a
storm: jobs come all the time, and every broker that is started dies at a point of its own. The points are those of
journal_kill.cc. Ends with a table; status 1 when anything is wrong."""
import collections
import http.client
import itertools
import os
import re
import sys
import threading
import time

sys.dont_write_bytecode = True
import processes  # noqa: E402
import series  # noqa: E402
from federation import ENDED, wait_for  # noqa: E402
from testbed import TestbedError  # noqa: E402

SITES = {"count": 3, "nodes": 2, "gpus": 2}
# Short waits: what is left alone is found soon, and in the storm, where jobs want more GPUs than there are, some give
# theirs back and try again.
CONFIGURATION = {"broker": {"poll_jobs": 0.3, "plan_ttl": 5, "patience": 10, "margin": 2, "backoff": 1,
                            "backoff_most": 4, "retry_delay": 1}}
PAIRS = (("s1", "s2"), ("s1", "s3"), ("s1", "s2", "s3"))
LEFT_OVER = 60  # seconds after which a part that nobody wants is an orphan
LIFE = 120  # seconds that one job with one kill may take
KILLED = "-- spiderflowd killed"  # begins the lines of this program in the broker's log
MOST_TOLD = 20  # problems that are told in full
QUIET = 20  # seconds without a point after which the clock ends the broker


class Kills:
    """Kills of one broker. Problems are kept as text, each with its evidence."""

    def __init__(self, bed, broker, library, report=print):
        self.bed, self.broker, self.library, self.report = bed, broker, library, report
        if not os.path.exists(library):
            raise TestbedError(f"{library} is missing: make tests/live/journal_kill.so")
        self.jobs = series.Series(bed, broker, "kills")
        self.watch = series.Watch(bed)
        self.passed = broker.folder + "/run/points"
        self.places = collections.Counter()  # what the broker was about, of each kill
        self.numbers = set()
        self.by_clock = 0
        self.submitted = []  # what sbatch answered
        self.problems = []
        self.orphans, self.doubles, self.lost = 0, 0, 0

    # -- one broker

    @property
    def kills(self):
        return sum(self.places.values())

    def start(self, point=None):
        """Start the broker, to die at this point; wait until it answers or has died. Whether it lives."""
        if os.path.exists(self.passed):
            os.unlink(self.passed)
        self.point = point
        at = {} if point is None else {"SPIDERFLOW_KILL_AT": str(point)}
        self.broker.launch({"LD_PRELOAD": self.library, "SPIDERFLOW_KILL_COUNT": self.passed} | at)
        wait_for("spiderflowd to answer or to die", 30, lambda: self.broker.ready() or not self.broker.alive, 0.02)
        return self.broker.alive

    def points(self):
        """The lines of journal_kill of this broker: "17 after fdatasync journal.db-wal"."""
        try:
            with open(self.passed, encoding="ascii") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def count_kill(self):
        """The broker is dead: by its point, or something is wrong with it."""
        self.broker.end(0, 5)  # no signal; leaves no zombie
        points = self.points()
        if self.point is None or len(points) < self.point:
            self.wrong(f"spiderflowd ended by itself after point {len(points)} of {self.point}")
            return
        number, place = points[self.point - 1].split(" ", 1)
        self.numbers.add(int(number))
        self.places[re.sub(r"\d+\.\d+\.\d+\.\d+: |/\d+(?=$| )", "", place)] += 1
        with open(self.broker.log, "a", encoding="utf-8") as log:
            log.write(f"{KILLED} at point {number}: {place}\n")

    def again(self):
        """Count the kill and start the broker as ever."""
        self.count_kill()
        if not self.start():
            self.count_kill()
            raise TestbedError(f"spiderflowd does not start again; {processes.tail(self.broker.log)}")

    def wrong(self, what, job=None):
        """Keep a problem with what the broker said last, or said of the job, and where it was ended meanwhile."""
        with open(self.broker.log, encoding="utf-8", errors="replace") as file:
            log = file.readlines()
        if job:
            about = [index for index, line in enumerate(log) if f" job {job}:" in line]
            log = log[about[0]:about[-1] + 2] if about else []
            log = [line for line in log if f" job {job}:" in line or line.startswith(KILLED)]
        log = log if len(log) <= 30 else log[:15] + log[-15:] if job else log[-30:]
        self.problems.append("\n".join([what, *("    " + line.rstrip() for line in log)]))
        self.report(f"WRONG: {what}")

    def progress(self, point):
        self.report(f"{time.strftime('%H:%M:%S')} {self.kills + self.by_clock} kills, point {point}, "
                    f"{len(self.submitted)} jobs asked for, {len(self.problems)} problems")

    # -- one job, one kill

    def life(self, point):
        """A job under a broker that dies at this point and is started again. Whether it died."""
        if not self.start(point):
            self.again()
        known = len(self.submitted)
        sbatch = threading.Thread(target=self.submit, args=(PAIRS[point % 2],))
        sbatch.start()
        died = self.point is None
        end = time.monotonic() + LIFE
        while sbatch.is_alive() or self.open_jobs():
            if not self.broker.alive:
                self.again()
                died = True
            if time.monotonic() > end:
                self.wrong(f"after a kill at point {point} jobs are not over: {self.open_jobs()}")
                break
            time.sleep(0.05)
        sbatch.join()
        if self.broker.alive and not died:
            self.broker.kill()
        elif not self.broker.alive:
            self.again()
            died = True
        self.look_for_orphans(f"a kill at point {point} ({self.submitted[known]})")
        if self.broker.alive:
            self.broker.stop()
        return died

    def submit(self, sites, more=""):
        done = self.jobs.submit(sites, more)
        name = self.jobs.name_of(done)
        self.submitted.append((name, done.returncode, done.stderr.strip().splitlines()[-1:]))
        return done

    def open_jobs(self):
        """Federated jobs that are not over; "unknown" when the broker does not answer."""
        try:
            status, answer = self.broker.call("GET", "/v1/jobs", timeout=5)
        except (OSError, http.client.HTTPException):
            return ["unknown"]
        return [job["id"] for job in answer["jobs"]] if status == 200 else ["unknown"]

    def look_for_orphans(self, after):
        if self.watch.wait(lambda: not self.watch.marked(), LEFT_OVER):
            return
        for site, number, state, comment in self.watch.marked():
            self.orphans += 1
            self.wrong(f"orphan after {after}: site {site}: job {number} is {state}, {comment}",
                       series.MARK.search(comment)[1])
            self.bed.run(site, ["scancel", str(number)])

    def lives(self, points, most):
        """A life for each of the points, until two lives came to their ends; the points of a whole life."""
        survived, whole = 0, 0
        for point in itertools.islice(points, most):
            if self.life(point):
                survived = 0
            else:
                survived, whole = survived + 1, max(whole, len(self.points()))
            if point % 20 == 0:
                self.progress(point)
            if survived == 2:
                break
        return whole

    def births(self):
        """Kills while the journal is made: each point from nothing until the broker answers."""
        for point in itertools.count(1):
            for end in ("", "-wal", "-shm", "-journal"):
                if os.path.exists(self.broker.journal + end):
                    os.unlink(self.broker.journal + end)
            lives = self.start(point)
            if lives:
                self.broker.kill()
                return
            self.again()
            self.broker.kill()

    # -- a storm

    def storm(self, points, most, workers=6):
        """Jobs all the time, `workers` at once; the broker dies at each of the points in turn. Half of the jobs want a
        further attempt when a site refuses them."""
        stop = threading.Event()
        threads = [threading.Thread(target=self.keep_submitting, args=(PAIRS[index % len(PAIRS)], stop))
                   for index in range(workers)]
        for thread in threads:
            thread.start()
        try:
            for point in points:
                if self.kills + self.by_clock >= most:
                    break
                self.start(point)
                self.die()
                if (self.kills + self.by_clock) % 25 == 0:
                    self.progress(point)
        finally:
            stop.set()
            if not self.broker.alive and not self.start():
                self.count_kill()
            for thread in threads:
                thread.join()

    def die(self):
        """Wait for the broker's death at its point; when no point comes for long, it dies by the clock."""
        passed, end = -1, time.monotonic() + QUIET
        while self.broker.alive and time.monotonic() < end:
            if (now := len(self.points())) != passed:
                passed, end = now, time.monotonic() + QUIET
            time.sleep(0.05)
        if self.broker.alive:
            self.broker.kill()
            self.by_clock += 1
        else:
            self.count_kill()

    def keep_submitting(self, sites, stop):
        more = itertools.cycle(("", ",on_failure=retry"))
        while not stop.is_set():
            done = self.submit(sites, next(more))
            number = re.search(r"Submitted batch job (\d+)", done.stdout)
            if done.returncode or not number:
                time.sleep(0.5)
                continue
            self.watch.wait(lambda home=int(number[1]): not self.watch.lives(self.broker.home.name, home), LIFE)

    # -- the end

    def judge(self):
        """All jobs over, nothing left, nothing twice, nodes idle."""
        if not self.broker.alive:
            self.start()
        try:
            wait_for("the end of all jobs", LIFE, lambda: not self.open_jobs())
        except AssertionError:
            for job in self.open_jobs():
                self.wrong(f"not over after {LIFE} s: {job}", job)
        self.look_for_orphans("all")
        for (job, attempt, site), ids in self.watch.doubles().items():
            self.doubles += 1
            self.wrong(f"double: {job}/{attempt} was at site {site} as jobs {ids}", job)
        for what in self.jobs.twice():
            self.doubles += 1
            self.wrong(f"started twice: {what}")
        jobs = {job["id"]: job for job in self.broker.jobs()}
        for what in self.jobs.incomplete(job for job in jobs.values() if job["state"] == "done"):
            self.wrong(what)
        for name, status, _ in self.submitted:
            job = jobs.get(name, {"state": "unknown", "reason": "the broker has no such job"})
            if status == 0 and job["state"] != "done":
                self.lost += 1
                self.wrong(f"lost: sbatch had placed {name}, and it is {job['state']}: {job['reason']}", name)
        try:
            self.bed.wait_idle(seconds=30)
        except TestbedError as error:
            self.wrong(str(error))
        self.watch.stop()
        self.tell(jobs)
        return not self.problems

    def tell(self, jobs):
        states = collections.Counter(job["state"] for job in jobs.values())
        refused = [name for name, status, _ in self.submitted if status]
        refused_yet_done = [name for name in refused if name in jobs and jobs[name]["state"] == "done"]
        report = self.report
        report(f"\nkills      {self.kills + self.by_clock} ({self.by_clock} of them by the clock)")
        report(f"points     {len(self.numbers)} different, at {len(self.places)} places:")
        for place, times in self.places.most_common():
            report(f"           {times:5} {place}")
        report("jobs       " + ", ".join(f"{states[state]} {state}" for state in ENDED)
               + f"; sbatch refused {len(refused)} of {len(self.submitted)}")
        for why, times in collections.Counter(re.sub(r"\d+", "N", job["reason"]) for job in jobs.values()
                                              if job["state"] != "done").most_common():
            report(f"           {times:5} {why}")
        report(f"           {len(refused_yet_done)} that sbatch refused ran to the end")
        report(f"orphans    {self.orphans}\ndoubles    {self.doubles}\nlost       {self.lost}")
        report(f"problems   {len(self.problems)}")
        for problem in self.problems[:MOST_TOLD]:
            report("\n" + problem)


def spread(whole):
    """Points all over three lives of so many points, for ever, none next to the one before."""
    return (1 + index * 101 % (3 * whole + 2) for index in itertools.count())


def run(bed, broker, wanted):
    broker.stop()
    began = time.monotonic()
    kills = Kills(bed, broker, os.path.abspath(wanted.library), lambda text: print(text, flush=True))
    kills.births()
    whole = kills.lives(itertools.count(1), wanted.kills)
    print(f"{kills.kills} kills, one in each life; a whole life has {whole} points; "
          f"{time.monotonic() - began:.0f} s; now the storm", flush=True)
    kills.storm(spread(whole), wanted.kills)
    good = kills.judge()
    print(f"{time.monotonic() - began:.0f} s")
    return 0 if good else 1


def main():
    parser = series.parser(__doc__, "-kills", "sfk", "10.84")
    parser.add_argument("--library", required=True, help="journal_kill.so")
    parser.add_argument("--kills", type=int, default=500, help="how many in all (%(default)s)")
    wanted = parser.parse_args()
    series.on_sites(wanted, SITES, lambda bed, broker: run(bed, broker, wanted), **CONFIGURATION)


if __name__ == "__main__":
    main()
