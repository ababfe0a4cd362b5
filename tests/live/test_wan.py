# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulated WAN does what it was told: delays, rates, queues, losses, each way of each pair for itself."""
import os
import statistics
import subprocess
import sys
import time
import unittest

import federation
from wan import Link, Places, Wan

PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer.py")
# Payload of TCP in packets of 1500 bytes.
PAYLOAD = 1448 / 1500


class Emulator(unittest.TestCase):
    NAMES = ("a", "b", "c")

    @classmethod
    def setUpClass(cls):
        cls.places = Places("sfw", cls.NAMES)
        cls.addClassCleanup(cls.places.down)
        cls.wan = Wan(cls.places.spaces, {}, federation.built("tests/live/wan"))
        cls.addClassCleanup(cls.wan.down)
        for name in cls.NAMES:
            server = cls.start(name, "serve", cls.wan.address(name))
            cls.addClassCleanup(cls.end, server)
            server.stdout.readline()

    @classmethod
    def start(cls, name, *words):
        return subprocess.Popen([*cls.wan.enter(name), "nice", "-n", "-10", sys.executable, PEER, *words],
                                stdout=subprocess.PIPE, text=True)

    @staticmethod
    def end(child):
        child.kill()
        child.communicate()

    def links(self, **links):
        """ab=Link(…): the way from a to b. All others are wires."""
        everything = {(a, b): Link(0) for a in self.NAMES for b in self.NAMES if a != b}
        self.wan.set(everything | {tuple(pair): link for pair, link in links.items()})
        time.sleep(0.3)

    def ping(self, a, b, count=20):
        said = self.start(a, "ping", self.wan.address(b), str(count)).communicate()[0].split()
        return [None if word == "-" else float(word) for word in said]

    def rtt(self, a, b):
        return statistics.median(self.ping(a, b))

    def rates(self, *pairs, seconds=3):
        """Mbit/s of payload, all at once."""
        children = [self.start(a, "send", self.wan.address(b), str(seconds)) for a, b in pairs]
        return [float(child.communicate()[0]) for child in children]

    def test_a_round_trip_takes_both_delays(self):
        for forth, back in ((0.5, 0.5), (8, 2), (50, 50)):
            self.links(ab=Link(forth), ba=Link(back))
            with self.subTest(forth=forth, back=back):
                self.assertAlmostEqual(self.rtt("a", "b"), forth + back, delta=max(1, 0.05 * (forth + back)))
                self.assertAlmostEqual(self.rtt("b", "a"), forth + back, delta=max(1, 0.05 * (forth + back)))
        self.assertLess(self.rtt("a", "c"), 1, "the other pairs are as they were")

    def test_a_rate_is_that_of_its_way_alone(self):
        for forth, back in ((10, 40), (50, 20), (200, 10)):
            self.links(ab=Link(5, forth), ba=Link(5, back))
            with self.subTest(forth=forth, back=back):
                self.assertAlmostEqual(self.rates("ab")[0], forth * PAYLOAD, delta=0.05 * forth)
        self.links(ab=Link(5, 200), ba=Link(5, 10))
        self.assertAlmostEqual(self.rates("ba")[0], 10 * PAYLOAD, delta=0.5)

    def test_pairs_do_not_disturb_each_other(self):
        self.links(ab=Link(5, 20), bc=Link(10, 40), ca=Link(1, 60))
        found = self.rates("ab", "bc", "ca")
        for rate, mbps in zip(found, (20, 40, 60)):
            self.assertAlmostEqual(rate, mbps * PAYLOAD, delta=0.05 * mbps)

    def test_a_change_is_seen_while_it_runs(self):
        self.links(ab=Link(5, 50), ba=Link(5, 50))
        self.assertAlmostEqual(self.rates("ab", seconds=2)[0], 50 * PAYLOAD, delta=2.5)
        self.links(ab=Link(20, 10), ba=Link(5, 50))
        self.assertAlmostEqual(self.rates("ab")[0], 10 * PAYLOAD, delta=0.5)
        time.sleep(0.5)  # until nothing is queued
        self.assertAlmostEqual(self.rtt("a", "b"), 25, delta=1.3)

    def test_a_queue_is_as_long_as_it_may_be(self):
        self.links(ab=Link(5, 10, queue_ms=80), ba=Link(5))
        back, last = map(float, self.start("a", "burst", self.wan.address("b"), "300").communicate()[0].split())
        fit = 0.080 * 10e6 / 8 / 1028  # packets; some more leave while the others come
        self.assertTrue(0.85 * fit < back < 1.4 * fit, (back, fit))
        self.assertTrue(10 + 60 < last < 10 + 80 + 30, last)

    def test_losses_and_a_cut_link(self):
        self.links(ab=Link(0, loss=0.5))
        lost = [trip is None for trip in self.ping("a", "b", 20)]
        self.assertTrue(2 <= sum(lost) <= 18, lost)  # outside once in 2,500 times
        self.links(ab=Link(0, up=False))
        self.assertEqual(self.ping("a", "b", 2), [None, None])
        self.assertNotIn(None, self.ping("a", "c", 5))

    def test_nonsense_is_one_line(self):
        program = federation.built("tests/live/wan")
        for words, trouble in ((("/nowhere", "far0", "a=/nowhere=10.93.1.1"), "/nowhere"),
                               (("/nowhere", "far0", "a"), "expected PLACE=NAMESPACE=ADDRESS")):
            done = subprocess.run((program, *words), capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(trouble, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
