# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with one site, and what comes of it: parts there go on and count as running, the site is marked stale
with its reason, nothing new goes there, and jobs elsewhere do not notice. When it is over, the job ends done.

Some faults of site s3 are real; others come from a fake slurmrestd in front of the real one (proxy.py). In
`make check-faults` each of them lasts for a minute, otherwise they are short."""
import contextlib
import os
import re
import signal
import time

import netns
from federation import ENDED, OwnSites, wait_for
from proxy import Proxy
from series import LIMITS, spec
from testbed import write

LONG = os.environ.get("LONG") == "1"
# Who is free to choose takes s3: only the fault keeps him from it.
LINKS = [{"from": "s1", "to": "s3", "bandwidth_gbps": 10, "rtt_ms": 1},
         {"from": "s1", "to": "s2", "bandwidth_gbps": 2, "rtt_ms": 40},
         {"from": "s2", "to": "s3", "bandwidth_gbps": 2, "rtt_ms": 40}]
# The job goes on until it is told to stop, so that a fault may last.
UNTIL_TOLD = """#!/bin/bash
echo $SLURM_SPIDERFLOW_SITE >>started.$SLURM_SPIDERFLOW_JOB
srun bash -c 'until [ -e stop.{word} ]; do sleep 0.2; done'
"""
FREE = spec(("s1", "s3")).replace(",sites=s1+s3", "")


class Faults(OwnSites):
    sites = {"count": 3, "nodes": 2, "gpus": 2}
    configuration = {"broker": {"poll_nodes": 1, "poll_jobs": 0.5}, "links": LINKS}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.proxy = Proxy(cls.bed, "s3")

    # -- doing

    def submit(self, chosen, word):
        """A job that runs until stop(word): its name."""
        self.write(f"{word}.sh", UNTIL_TOLD.format(word=word))
        done = self.sbatch(*LIMITS, "--output=%x-%N-%j.out", f"{word}.sh", spec=chosen)
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.search(r"\bjob (s1-\d+): ", done.stderr)[1]

    def stop(self, word):
        self.write("stop." + word, "")

    def state(self, name, *states, seconds=60):
        def what():
            job = self.broker.job(name)
            return (f"{name} {' or '.join(states)}; it is {job['state']}: {job['reason']}; {job['parts']}\n"
                    + self.output())

        return wait_for(what, seconds, lambda: (job := self.broker.job(name))["state"] in states and job)

    def started(self, name):
        """The sites where the user's script began, as often as it did."""
        with contextlib.suppress(FileNotFoundError), open(f"{self.folder}/started.{name}", encoding="ascii") as file:
            return sorted(file.read().split())
        return []

    def running(self, chosen, word, sites):
        name = self.submit(chosen, word)
        wait_for(f"{name} to run", 60, lambda: self.started(name) == sites)
        return name

    def site(self, name):
        return next(site for site in self.broker.call("GET", "/v1/sites")[1]["sites"] if site["name"] == name)

    def stale(self, reason, seconds=25):
        """The site is stale for this reason, and no other site is."""
        wait_for(lambda: f"s3 stale for {reason}: {self.site('s3')}", seconds,
                 lambda: (site := self.site("s3"))["stale"] and re.search(reason, site["trouble"]))
        self.assertEqual([self.site(name)["stale"] for name in ("s1", "s2")], [False, False])

    def fresh(self, seconds=40):
        wait_for(lambda: f"s3 to answer again: {self.site('s3')}", seconds, lambda: not self.site("s3")["stale"])

    def through_proxy(self):
        self.proxy.set("pass")
        self.broker.configure(**(self.configuration | {"sites": {"s3": {"url": self.proxy.url}}}))
        self.broker.reload()
        self.addCleanup(self.directly)
        wait_for("s3 to be seen through the proxy", 20, lambda: self.site("s3")["free_nodes"] == 2)

    def directly(self):
        self.proxy.set("pass")
        self.broker.configure(**self.configuration)
        self.broker.reload()

    # -- looking

    def part_of(self, name, site="s3"):
        return next(part for part in self.broker.job(name)["parts"] if part["site"] == site)

    def still_running(self, name):
        """The job runs, and its part at the site in trouble counts as running."""
        wait_for(lambda: f"the part at s3 to be unknown: {self.part_of(name)}", 20,
                 lambda: self.part_of(name)["state"].startswith("UNKNOWN"))
        self.assertEqual(self.broker.job(name)["state"], "running")

    def nothing_new_there(self):
        done = self.sbatch(*LIMITS, "--wrap", "true", spec=spec(("s1", "s3")))
        self.assertNotEqual(done.returncode, 0, done.stderr)
        self.assertIn("s3", done.stderr)

    def others_do_without(self, word):
        """Who leaves the choice to the planner does not get s3, and is done while the fault lasts."""
        name = self.running(FREE, word, ["s1", "s2"])
        self.stop(word)
        self.state(name, "done")

    @contextlib.contextmanager
    def jobs_around(self, tag=""):
        """One job over s1+s3 and one over s1+s2 run before the fault in the body; they are told to stop there."""
        through = self.running(spec(("s1", "s3")), "through" + tag, ["s1", "s3"])
        aside = self.running(spec(("s1", "s2")), "aside" + tag, ["s1", "s2"])
        yield through, aside
        self.assertEqual(self.state(through, *ENDED)["state"], "done", self.broker.job(through)["reason"])
        self.assertEqual(self.started(through), ["s1", "s3"])

    # -- faults: (name, how it begins, how it ends, what the broker says of it)

    def bear(self, through, begin, reason):
        """The fault begins, and is seen."""
        began = time.monotonic()
        begin()
        self.stale(reason)
        self.still_running(through)
        self.nothing_new_there()
        return began

    def bear_to_the_end(self, fault, seconds, through, aside, tag=""):
        """A fault of so many seconds, in which both jobs and a third one come to their ends."""
        _, begin, end, reason = fault
        began = self.bear(through, begin, reason)
        self.stop("aside" + tag)
        self.state(aside, "done")
        self.others_do_without("free" + tag)
        self.stop("through" + tag)
        time.sleep(max(0.0, seconds - (time.monotonic() - began)))
        self.assertEqual(self.broker.job(through)["state"], "running")
        end()
        self.fresh()

    def bear_all(self, faults, seconds=0):
        """Each for a minute, with jobs of its own; or in short one after the other, only the last to the end, for so
        many seconds."""
        if LONG:
            for fault in faults:
                with self.subTest(fault=fault[0]), self.jobs_around("-" + fault[0]) as jobs:
                    self.bear_to_the_end(fault, 60, *jobs, "-" + fault[0])
            return
        with self.jobs_around() as (through, aside):
            for name, begin, end, reason in faults[:-1]:
                with self.subTest(fault=name):
                    self.bear(through, begin, reason)
                    end()
                    self.fresh()
                    wait_for("its part to be seen again", 20, lambda: self.part_of(through)["state"].startswith("RUNN"))
            self.bear_to_the_end(faults[-1], seconds, through, aside)

    def test_a_slurmrestd_that_answers_nonsense_or_nothing(self):
        self.through_proxy()
        faults = [(mode, lambda mode=mode: self.proxy.set(mode), lambda: self.proxy.set("pass"), reason)
                  for mode, reason in (("html", "HTTP|JSON|answer"), ("error500", "slurmctld is down"),
                                       ("half", "bad answer"), ("refuse", "bad answer|cannot connect"),
                                       ("hang", "no answer within"))]
        self.bear_all(faults)

    def test_a_site_without_slurmrestd_or_token_or_network_or_slurmctld(self):
        file = self.broker.token_file("s3")
        with open(file, encoding="ascii") as token:
            good = token.read()
        expired = self.bed.token("s3", "slurm", life=-60)
        self.addCleanup(write, file, good, 0o600, "sfbroker")
        self.addCleanup(self.cable, "up")
        self.bear_all([
            ("slurmrestd", lambda: self.bed.stop("s3", "slurmrestd", signal.SIGKILL),
             lambda: self.bed.start("s3", "slurmrestd"), "cannot connect"),
            ("token", lambda: write(file, expired, 0o600, "sfbroker"), lambda: write(file, good, 0o600, "sfbroker"),
             "token"),
            ("network", lambda: self.cable("down"), lambda: self.cable("up"), "cannot connect|no answer"),
            ("slurmctld", self.stop_slurmctld, lambda: self.bed.start("s3", "slurmctld"),
             "no answer|slurmctld is down")], 8)

    def cable(self, word):
        netns.plug(self.bed.prefix, self.bed.site("s3"), word)

    def stop_slurmctld(self):
        if LONG:  # what a slurmctld that is killed has not yet written is lost with it: SAVE_MAX_WAIT is 5 s
            time.sleep(6)
        self.bed.stop("s3", "slurmctld", signal.SIGKILL if LONG else signal.SIGTERM)

    def test_a_submission_whose_answer_is_lost_leaves_nothing(self):
        self.through_proxy()
        modes = ("lost POST", "half POST", "html POST", "error500 POST", "refuse POST", "hang POST")
        for mode in modes if LONG else modes[:2]:
            with self.subTest(mode=mode):
                self.proxy.set("pass")
                self.fresh()
                self.known = {job["id"] for job in self.broker.jobs()}
                self.proxy.set(mode)
                done = self.sbatch(*LIMITS, "--wrap", "echo RAN", spec=spec(("s1", "s3")), timeout=70)
                self.assertNotEqual(done.returncode, 0, done.stdout)
                self.assertIn("site s3", done.stderr)
                self.assertIn(self.wait_state(*ENDED)["state"], ("failed", "cancelled"))
                self.nothing_left(40)
        self.proxy.set("pass")
        self.fresh()
        self.assertNotIn("RAN", self.output())

    def test_a_slow_slurmrestd_is_waited_for(self):
        self.through_proxy()
        self.proxy.set("slow 1.5" if LONG else "slow 0.5")
        name = self.submit(spec(("s1", "s3")), "slow")
        self.stop("slow")
        self.assertEqual(self.state(name, *ENDED, seconds=90)["state"], "done")
        self.assertEqual(self.started(name), ["s1", "s3"])

    def set_clock(self, ahead):
        """Start the daemons of s3 again, with a clock that is so many seconds ahead; None: as it is."""
        site = self.bed.site("s3")
        for daemon in ("slurmrestd", *site.names, "slurmctld", "munged"):
            self.bed.stop(site, daemon)
        self.bed.clocks = {} if ahead is None else {"s3": ahead}
        began = time.monotonic()
        self.bed.start_all([site], began, began + 60, lambda _: None)

    def test_clocks_are_ten_minutes_apart(self):
        self.addCleanup(self.set_clock, None)
        for ahead in (600, -600) if LONG else (600,):
            with self.subTest(ahead=ahead):
                self.again()
                self.set_clock(ahead)
                self.fresh()
                word = f"clock{ahead}"
                name = self.running(spec(("s1", "s3")), word, ["s1", "s3"])
                self.stop(word)
                self.assertEqual(self.state(name, *ENDED)["state"], "done")
                self.nothing_left(10)
