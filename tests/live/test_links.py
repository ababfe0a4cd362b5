# SPDX-License-Identifier: GPL-3.0-or-later
"""Links are measured as they are, known with their age, and used: over an emulated WAN between real sites."""
import itertools
import os
import shutil
import tempfile
import time
import unittest

import emulated
import federation
from agents import Agents
from federation import OwnSites, wait_for
from wan import Link, Places, Wan

PAYLOAD = 1448 / 1500  # of a packet, when nothing comes the other way


class Measured(unittest.TestCase):
    """The agents against what the emulator was told."""
    PAIRS = {("a", "b"): (Link(0.5, 10), Link(0.5, 200)), ("c", "d"): (Link(10, 100), Link(10, 20)),
             ("e", "f"): (Link(50, 50), Link(50, 100)), ("g", "h"): (Link(2, 200), Link(3, 200))}

    def test_round_trips_and_bandwidths_are_those_that_were_set(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        links = {}
        for (a, b), (forth, back) in self.PAIRS.items():
            links |= {(a, b): forth, (b, a): back}
        with Places("sfm", [name for pair in self.PAIRS for name in pair]) as places, \
                Wan(places.spaces, links, federation.built("tests/live/wan"), net="10.95") as wan:
            agents = emulated.Agents(wan, federation.installed, folder)
            self.addCleanup(agents.down)
            time.sleep(0.5)
            pairs = list(self.PAIRS)
            seen = agents.ask(pairs[:2], streams=4, seconds=3) | agents.ask(pairs[2:], streams=4, seconds=3)
            for pair, found in seen.items():
                for way, ends in (("forth", pair), ("back", pair[::-1])):
                    link, mbps = links[ends], 1000 * found[way]["gbps"]
                    with self.subTest(link=ends):
                        self.assertAlmostEqual(mbps, link.mbps * PAYLOAD, delta=0.1 * link.mbps * PAYLOAD)
                rtt = links[pair].delay_ms + links[pair[::-1]].delay_ms
                with self.subTest(rtt=pair):
                    self.assertAlmostEqual(1000 * found["rtt_median_seconds"], rtt, delta=max(2, 0.05 * rtt))


class LinksOverSites(OwnSites):
    sites = {"count": 3, "nodes": 1, "gpus": 1}
    GOOD, FAIR = Link(5, 100), Link(10, 50)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        links = {(a, b): cls.FAIR for a, b in itertools.permutations(("s1", "s2", "s3"), 2)}
        cls.wan = Wan({site.name: site.namespace for site in cls.bed.sites}, links | cls.both("s1", "s2", cls.GOOD),
                      federation.built("tests/live/wan"))
        cls.addClassCleanup(cls.wan.down)
        cls.agents = Agents(cls.bed, federation.installed, cls.wan)
        cls.agents.start()

    @staticmethod
    def both(a, b, link):
        return {(a, b): link, (b, a): link}

    def setUp(self):
        super().setUp()
        self.wan.set({ends: self.FAIR for ends in self.wan.links} | self.both("s1", "s2", self.GOOD))
        self.broker.stop()
        history = os.path.join(os.path.dirname(self.broker.journal), "links.db")
        if os.path.exists(history):
            os.unlink(history)  # what another test had measured
        self.broker.start()

    def begin(self, links=(), sites=None, **probe):
        self.broker.configure(links=list(links), sites=self.agents.sites() if sites is None else sites,
                              probe=self.agents.probe(seconds=1, streams=2, before_plan=0) | probe)
        self.broker.stop()
        self.broker.start()

    def links(self):
        return {(link["from"], link["to"]): link for link in self.broker.call("GET", "/v1/links")[1]["links"]}

    def plan(self, *words):
        done = self.cli("plan", "model=config.json,gbs=8,seq=64,tp=1,pp=2,dp=1", "--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return emulated.json.loads(done.stdout)

    @staticmethod
    def parts(plan):
        return [site["site"] for site in plan["sites"]]

    def test_measured_degraded_used_and_forgotten(self):
        self.begin(interval=8)
        wait_for("all links to be measured twice", 90, lambda: all(link["samples"] >= 2 for link in self.links().values()))
        for ends, link in self.links().items():
            self.assertEqual(link["source"], "probe")
            # Phases of one second, and the lower one of alone and both at once: not more than there is, and not far less.
            self.assertLess(1000 * link["gbps_median"], 1.05 * self.wan.links[ends].mbps)
            self.assertGreater(1000 * link["gbps_median"], 0.6 * self.wan.links[ends].mbps)
            self.assertAlmostEqual(link["rtt_ms"], 2 * self.wan.links[ends].delay_ms, delta=2)
        plan = self.plan()
        self.assertEqual(self.parts(plan), ["s1", "s2"])
        used = {(link["from"], link["to"]) for link in plan["links"] if link["used"]}
        self.assertEqual(used, {("s1", "s2"), ("s2", "s1")})
        self.degrade()
        self.reserve()
        self.forget()

    def test_a_job_looks_at_its_links_and_is_planned_anew(self):
        """The way between compute nodes gets slow after it was measured: only the job itself can see that."""
        addresses = {site.name: {"addresses": {site.nodes[0].name: self.wan.address(site.name)}} for site in self.bed.sites}
        now = int(time.time())
        self.begin(sites=addresses, max_age=3600)
        file = self.write("known.csv", "from,to,gbps,rtt_ms,at\n" + "".join(
            f"{a},{b},{0.09 if {a, b} == {'s1', 's2'} else 0.04},{10 if {a, b} == {'s1', 's2'} else 20},{now}\n"
            for a, b in itertools.permutations(("s1", "s2", "s3"), 2)))
        self.assertEqual(self.cli("links", "import", file, user="root").returncode, 0)
        self.wan.set(self.both("s1", "s2", self.GOOD))
        self.assertEqual(self.looked("warn"), (["s1", "s2"], 1, ""))
        self.wan.set(self.both("s1", "s2", Link(5, 10)))
        sites, attempt, said = self.looked("warn")
        self.assertEqual((sites, attempt), (["s1", "s2"], 1))
        self.assertRegex(said, r"warning: the link s1 -> s2 carries 0\.0\d+ Gbit/s, and the plan counts on 0\.09")
        sites, attempt, said = self.looked("replan")
        self.assertEqual((sites, attempt), (["s1", "s3"], 2), said)
        self.assertIn("this attempt ends before it began", said)
        self.assertEqual(self.links()["s1", "s2"]["source"], "job")
        self.assertLess(self.links()["s1", "s2"]["gbps"], 0.02)

    def looked(self, how):
        """Where a job with check_links=how ran, in which attempt, and what it said of its links."""
        self.again()
        job = self.run_job("#!/bin/bash\nsrun true\n", seconds=150,
                           spec=f"model=config.json,gbs=8,seq=64,tp=1,pp=2,dp=1,check_links={how}")
        lines = [line for path in self.files("*.out") for line in path.read_text().splitlines() if "spiderflow:" in line]
        return [part["site"] for part in job["parts"]], job["attempt"], "\n".join(lines)

    def degrade(self):
        """Within one cycle of the prober the next plan goes another way, and explain says why."""
        self.wan.set(self.both("s1", "s2", Link(5, 4)))
        began = time.monotonic()
        wait_for("the slow link to be seen", 30, lambda: self.links()["s1", "s2"]["gbps"] < 0.006)
        print(f"  a degraded link was seen after {time.monotonic() - began:.0f} s; a cycle is 8 s")
        self.assertEqual(self.parts(self.plan()), ["s1", "s3"])
        done = self.cli("explain", "model=config.json,gbs=8,seq=64,tp=1,pp=2,dp=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"carry much less than usual:\n  s1 -> s2  0\.00\d+ Gbit/s")

    def reserve(self):
        """What a running job sends is taken from its links, and given back at its end."""
        used = ("s1", "s3")
        self.assertEqual(self.links()[used]["reserved_gbps"], 0)
        self.write("job.sh", "#!/bin/bash\nsrun sleep 600\n")
        done = self.sbatch("job.sh", spec="model=config.json,gbs=8,seq=64,tp=1,pp=2,dp=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.wait_state("running")
        self.assertGreater(self.links()[used]["reserved_gbps"], 0)
        self.assertEqual(self.links()["s2", "s3"]["reserved_gbps"], 0)
        self.cli("cancel", self.job()["id"])
        self.ended("cancelled")
        self.assertEqual(self.links()[used]["reserved_gbps"], 0)

    def forget(self):
        """Without agents the links get old, and are then unknown; what a human knows can be imported or pinned."""
        self.begin(sites={}, max_age=2)
        time.sleep(2.5)
        for link in self.links().values():
            self.assertEqual((link["gbps"], link["rtt_ms"], link["source"]), (0, 0, ""))
            self.assertRegex(link["trouble"], r"^last measured .* ago, older than max_age")
        table = self.cli("links").stdout.splitlines()
        self.assertRegex(table[1], r"^s\d +s\d +- +- +- +- ")
        done = self.cli("plan", "model=config.json,gbs=8,seq=64,tp=1,pp=2,dp=1")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("links that are not known: s1 -> s2 (last measured", done.stderr)
        self.begin(sites={}, max_age=3600)
        now = int(time.time())
        file = self.write("known.csv", f"from,to,gbps,rtt_ms,at\ns1,s3,2,9,{now}\ns3,s1,2,9,{now}\n")
        done = self.cli("links", "import", file)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("only operators", done.stderr)
        done = self.cli("links", "import", file, user="root")
        self.assertEqual((done.returncode, done.stdout), (0, "2 measurements taken\n"), done.stderr)
        self.assertEqual(self.links()["s1", "s3"]["source"], "probe", "what an agent saw is trusted more")
        self.begin(links=[{"from": "s1", "to": "s2", "bandwidth_gbps": 40, "rtt_ms": 1}], sites={}, max_age=3600)
        plan = self.plan()
        self.assertEqual(self.parts(plan), ["s1", "s2"])
        self.assertEqual({link["source"] for link in plan["links"] if link["used"]}, {"pinned"})
        self.assertRegex(self.links()["s1", "s2"]["trouble"], r"^pinned; 0\.0\d* Gbit/s were measured")
