# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal is lost: what the sites know brings the jobs back, or ends them."""
import glob
import os
import time

from federation import USER, LiveTest, wait_for

SLEEP = "#!/bin/bash\nsrun sleep 30\n"


class Recover(LiveTest):
    def submit(self):
        self.write("job.sh", SLEEP)
        done = self.sbatch("--output=%N-%j.out", "job.sh")
        self.assertEqual(done.returncode, 0, done.stderr)

    def stop(self):
        self.broker.stop()
        self.addCleanup(lambda: self.broker.alive or self.broker.start())

    def lose_journal(self):
        files = glob.glob(self.broker.journal + "*")
        self.assertIn(self.broker.journal, files)
        for file in files:
            os.unlink(file)

    def recover(self):
        """The lines that it prints."""
        done = self.broker.recover()
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def fill(self, site):
        """A plain job on every node of the site."""
        done = self.sh(site, "sbatch", "--parsable", "--exclusive", f"--nodes={len(self.bed.site(site).nodes)}",
                       "--partition=train", "--output=/dev/null", "--wrap=sleep 300")
        self.assertEqual(done.returncode, 0, done.stderr)
        number = done.stdout.strip()
        wait_for("the plain job to run", 20, lambda: (site, number, "RUNNING") in [row[:3] for row in self.queue()])

    @staticmethod
    def number(job):
        return int(job["id"].rsplit("-", 1)[1])

    def test_a_running_job_goes_on_and_numbers_too(self):
        self.submit()
        before = self.wait_state("running")
        wait_for("the word at both sites", 20, lambda: all(" go=" in row[3] for row in self.queue()))
        self.stop()
        self.lose_journal()
        lines = self.recover()
        self.assertEqual(len(lines), 2, lines)
        self.assertTrue(lines[0].startswith(f"{before['id']} of {USER}: running: site s1: job "), lines)
        self.assertEqual(lines[1], "recovered 1 jobs: 1 running, 0 to be cancelled; next number "
                                   f"{self.number(before) + 1}")
        self.assertEqual(self.recover(), ["recovered 0 jobs: 0 running, 0 to be cancelled; next number "
                                          f"{self.number(before) + 1}"])
        self.assertEqual(os.stat(self.broker.journal).st_mode & 0o777, 0o600)
        self.broker.start()
        job = self.job()
        self.assertEqual((job["id"], job["user"], job["state"]), (before["id"], USER, "running"))
        self.assertEqual([(part["site"], part["job"]) for part in job["parts"]],
                         [(part["site"], part["job"]) for part in before["parts"]])
        shown = self.cli("status", job["id"])
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("running", shown.stdout)
        self.ended("done")
        self.again()
        self.submit()
        self.assertEqual(self.number(self.wait_state("running")), self.number(before) + 1)
        self.ended("done")

    def test_a_job_that_waits_is_cancelled(self):
        self.fill("s2")
        self.submit()
        before = self.wait_state("holding", "releasing", "rendezvous")
        self.stop()
        self.lose_journal()
        lines = self.recover()
        self.assertTrue(lines[0].startswith(f"{before['id']} of {USER}: to be cancelled: "), lines)
        self.assertIn("recovered 1 jobs: 0 running, 1 to be cancelled; ", lines[-1])
        parts = {(part["site"], str(part["job"])) for part in before["parts"]}
        self.assertTrue(parts <= {row[:2] for row in self.queue()}, "recovery itself cancels nothing")
        self.broker.start()
        job = self.ended("failed")
        self.assertEqual(job["reason"], "its plan was lost with the journal")
        wait_for("the end of its parts", 20, lambda: not parts & {row[:2] for row in self.queue()})

    def test_it_is_refused_while_the_broker_runs_or_a_site_does_not_answer(self):
        done = self.broker.recover()
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("a spiderflowd answers there", done.stderr)
        self.stop()
        self.addCleanup(self.broker.configure)
        self.broker.configure(sites={"s2": {"url": "http://127.0.0.1:1"}})
        before = os.stat(self.broker.journal).st_mtime_ns
        time.sleep(0.01)
        done = self.broker.recover()
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("site s2: ", done.stderr)
        self.assertNotIn("site s1: ", done.stderr)
        self.assertEqual(os.stat(self.broker.journal).st_mtime_ns, before)
        self.broker.configure()
        self.broker.start()
