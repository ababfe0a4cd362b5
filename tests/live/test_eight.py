# SPDX-License-Identifier: GPL-3.0-or-later
"""Eight sites train one model, and seven and a half go on when a node is taken away."""
import itertools
import time

import federation
from agents import Agents
from federation import OwnSites, wait_for
from wan import Link, Wan

NEAR, FAR = {"bandwidth_gbps": 40, "rtt_ms": 2}, {"bandwidth_gbps": 2, "rtt_ms": 80}
NAMES = [f"s{number}" for number in range(1, 9)]
GROUPS = (NAMES[:4], NAMES[4:])


def link(one, other):
    near = any(one in group and other in group for group in GROUPS)
    return {"from": one, "to": other} | (NEAR if near else FAR)


class EightSites(OwnSites):
    sites = {"count": 8, "nodes": 2, "gpus": 1, "cpus": 16}
    configuration = {"links": [link(one, other) for one, other in itertools.combinations(NAMES, 2)]}
    steps = 10

    def train_all(self, spec):
        job = self.train(spec, self.steps, seconds=300)
        at = {line["state"]: line["at"] for line in job["history"]}
        print(f"  {job['line']}\n  from the plan to all {len(job['parts'])} parts running: "
              f"{at['running'] - at['planned']:.1f} s; training, {self.steps} steps: {at['done'] - at['running']:.1f} s")
        return job["plan"]

    @staticmethod
    def shape(plan):
        return plan["parallel"]["pp"], plan["parallel"]["dp"], [site["slots"] for site in plan["sites"]]

    def free_nodes(self, name):
        sites = self.broker.call("GET", "/v1/sites")[1]["sites"]
        return next(site["free_nodes"] for site in sites if site["name"] == name)

    def test_pipeline_and_data_parallel_over_eight_sites_and_again_without_a_node(self):
        plan = self.train_all(f"sites={'+'.join(NAMES)},pp=4,dp=4")
        self.assertEqual(sorted(site["site"] for site in plan["sites"]), NAMES)
        rings = [{slot["site"] for slot in stage["slots"]} for stage in plan["stages"]]
        self.assertTrue(any(len(ring) > 1 for ring in rings), rings)
        where = {(stage["stage"], slot["dp"]): slot["site"] for stage in plan["stages"] for slot in stage["slots"]}
        crossed = [slot for slot in where if slot[0] and where[slot] != where[slot[0] - 1, slot[1]]]
        self.assertTrue(crossed, where)
        self.again()
        self.bed.run("s8", ["scontrol", "update", "NodeName=s8-n2", "State=DRAIN", "Reason=test"], check=True)
        try:
            wait_for("the broker to see it", 20, lambda: self.free_nodes("s8") == 1)
            smaller = self.train_all("pp=7,dp=2")
        finally:
            self.bed.run("s8", ["scontrol", "update", "NodeName=s8-n2", "State=RESUME"], check=True)
        self.assertNotEqual(self.shape(smaller), self.shape(plan))
        left = [site for site in smaller["sites"] if site["site"] == "s8"]
        self.assertTrue(all(len(site["slots"]) == 1 for site in left), left)

    def test_every_link_is_measured_and_no_site_is_in_two_tests(self):
        links = {(a, b): Link(2 + 3 * NAMES.index(b), 10 + 5 * NAMES.index(a)) for a, b in itertools.permutations(NAMES, 2)}
        wan = Wan({site.name: site.namespace for site in self.bed.sites}, links, federation.built("tests/live/wan"))
        self.addCleanup(wan.down)
        agents = Agents(self.bed, federation.installed, wan)
        agents.start()
        for site in self.bed.sites:
            self.addCleanup(self.bed.stop, site, "spiderflow-probe")
        self.broker.configure(**self.configuration, sites=agents.sites(), probe=agents.probe(seconds=1, streams=2))
        self.broker.stop()
        self.broker.start()
        began, seen = time.monotonic(), set()
        while len(known := self.measured()) < len(links):
            self.assertLess(time.monotonic() - began, 240, sorted(set(links) - known))
            testing = {frozenset((link["from"], link["to"])) for link in self.links() if link["testing"]}
            self.assertEqual(len(frozenset().union(*testing)), 2 * len(testing), testing)
            seen |= testing
            time.sleep(0.2)
        print(f"  {len(links)} directions between {len(NAMES)} sites were measured in {time.monotonic() - began:.0f} s")
        self.assertGreater(len(seen), 20, "tests were seen under way")
        for site in NAMES:
            with open(agents.log(site), encoding="utf-8") as log:
                self.assertNotIn("busy", log.read())

    def links(self):
        return self.broker.call("GET", "/v1/links")[1]["links"]

    def measured(self):
        return {(link["from"], link["to"]) for link in self.links() if link["samples"] > 0}
