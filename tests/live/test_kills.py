# SPDX-License-Identifier: GPL-3.0-or-later
"""The broker dies at points of its own code while jobs come; kills.py does it some hundred times."""
from federation import OwnSites, built
from kills import CONFIGURATION, SITES, Kills, spread


class AFewKills(OwnSites):
    sites = SITES
    configuration = CONFIGURATION
    kills = 16  # about 30 s

    @staticmethod
    def say(text):
        print("  " + text.strip().replace("\n", "\n  "))

    def test_a_broker_that_dies_anywhere_leaves_no_part_behind_and_starts_none_twice(self):
        self.broker.stop()
        self.addCleanup(lambda: self.broker.alive or self.broker.start())
        kills = Kills(self.bed, self.broker, built("tests/live/journal_kill.so"), self.say)
        self.addCleanup(kills.watch.stop)
        whole = kills.lives([10 ** 6], 1)  # nothing is so far: it tells how many points there are
        self.assertGreater(whole, 20)
        kills.storm(spread(whole), self.kills)
        self.assertTrue(kills.judge(), kills.problems)
