# SPDX-License-Identifier: GPL-3.0-or-later
"""All parts start together or give their GPUs back. With LONG=1: with the long waits."""
import os
import re
import sqlite3
import subprocess
import time

from federation import ENDED, SPEC, OwnSites, wait_for

LONG = os.environ.get("LONG") == "1"
PATIENCE = 6  # longer than a part rests
QUICK = {"patience": PATIENCE, "backoff": 1, "backoff_most": 4, "margin": 2, "retry_delay": 1, "lost_after": 3}
MARK = "#!/bin/bash\nsrun /bin/bash -c 'echo R $RANK attempt $SPIDERFLOW_ATTEMPT on $SLURMD_NODENAME'\n"


class Coalloc(OwnSites):
    """Two sites, with a broker that is quick to lose its patience."""
    sites = {"count": 2, "nodes": 2, "gpus": 2}
    configuration = {"broker": QUICK}

    def setUp(self):
        super().setUp()
        self.known_to_be_free("s1", "s2")

    def set(self, top, **keywords):
        self.broker.configure(top, **keywords)
        self.broker.reload()
        time.sleep(0.3)

    def submit(self, *words, script=MARK, **keywords):
        """The federated job's home part: its id."""
        self.write("job.sh", script)
        done = self.sbatch("--output=%N-%j.out", *words, "job.sh", **keywords)
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout.split()[3])

    def fill(self, site, seconds, *words):
        """A plain job on all nodes of the site, running."""
        done = self.sh(site, "sbatch", "--parsable", "-N2", "--gres=gpu:2", "--exclusive", "--output=/dev/null", *words,
                       "--wrap", f"sleep {seconds}")
        self.assertEqual(done.returncode, 0, done.stderr)
        number = done.stdout.strip()
        wait_for("a full site", 20, lambda: (site, number, "RUNNING") in {row[:3] for row in self.queue()})
        self.known_to_be_free(site, gpus=0)
        return number

    def partition(self, site, state):
        """DOWN: its nodes look free, jobs are taken, and none starts."""
        self.bed.run(site, ["scontrol", "update", "PartitionName=train", f"State={state}"], check=True)

    def partition_down(self, site):
        self.partition(site, "DOWN")
        self.addCleanup(self.partition, site, "UP")

    def parts(self):
        """Site -> state of our parts, as the sites say."""
        return {row[0]: row[2] for row in self.queue() if "spiderflow=" in row[3]}

    def stays(self, seconds, predicate, what):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.assertTrue(predicate(), f"{what}: {self.queue()}")
            time.sleep(0.2)

    def all_wait(self):
        return set(self.parts().values()) <= {"PENDING"}

    def ran_once(self, job, attempt=1):
        """Each rank of the plan said its line, once."""
        plan = job["plan"]["parallel"]
        found = sorted(int(rank) for rank in re.findall(rf"^R (\d+) attempt {attempt} ", self.output(), re.MULTILINE))
        self.assertEqual(found, list(range(plan["tp"] * plan["pp"] * plan["dp"])), self.output())


class Patience(Coalloc):
    def test_gpus_are_given_back_and_the_job_keeps_its_parts(self):
        self.partition_down("s2")
        home = self.submit()
        wait_for("the home part to wait for the other", 20, lambda: self.parts().get("s1") == "RUNNING")
        began = time.monotonic()
        wait_for("a reason", 3, lambda: "given back at" in (reason := self.job()["reason"]) and "site s2" in reason)
        job = self.job()
        wait_for("the home part to be held again", PATIENCE + 6, lambda: self.parts().get("s1") == "PENDING")
        idle = time.monotonic() - began
        self.assertLess(idle, PATIENCE + 4)
        self.bed.wait_idle("s1", 10)  # others have the nodes
        wait_for("turns", 5, lambda: self.job()["turns"] == 1)
        self.stays(3, lambda: self.parts().get("s1") == "PENDING", "the home part is held while s2 waits")
        self.partition("s2", "UP")
        done = self.ended("done", 40)
        self.assertEqual([part["job"] for part in done["parts"]], [part["job"] for part in job["parts"]])
        self.assertEqual(done["parts"][0]["job"], home)
        self.ran_once(done)
        gpus = done["parts"][0]["gpus"]
        self.assertGreater(done["idle_gpu_seconds"], PATIENCE * gpus * 0.8)
        print(f"  idle {done['idle_gpu_seconds']:.0f} GPU-seconds on {gpus} GPUs, patience {PATIENCE} s, "
              f"given back {done['turns']} times")

    def test_a_full_site_costs_the_free_one_at_most_its_patience(self):
        self.fill("s2", 60 if LONG else 12)
        self.submit()
        longest, since = 0, None
        while self.job()["state"] not in ("running", *ENDED):
            runs = self.parts().get("s1") == "RUNNING"
            since = (since or time.monotonic()) if runs else None
            longest = max(longest, time.monotonic() - since if runs else 0)
            time.sleep(0.2)
        job = self.ended("done", 60)
        self.ran_once(job)
        self.assertLess(longest, PATIENCE + 3)
        print(f"  s1 idled {longest:.1f} s at a stretch, {job['idle_gpu_seconds']:.0f} GPU-seconds in all")

    def test_two_jobs_that_hold_what_the_other_waits_for_both_finish(self):
        """Each gets the site that the other lacks: the younger gives way at once."""
        self.set(QUICK | {"patience": 60})
        self.addCleanup(self.set, QUICK)
        fillers = {site: self.fill(site, 100) for site in ("s1", "s2")}
        self.submit()
        first = self.wait_state("releasing", "rendezvous")
        wait_for("the parts in both queues", 20, lambda: all(part["state"].startswith("PENDING") and "Held" not in part["state"]
                                                             for part in self.job()["parts"]))
        self.known.add(first["id"])
        self.submit()
        second = self.wait_state("releasing", "rendezvous")
        wait_for("its parts in both queues", 20, lambda: all("Held" not in part["state"] for part in self.job()["parts"]))
        number = str(second["parts"][1]["job"])
        self.bed.run("s2", ["scontrol", "update", f"JobId={number}", "nice=-1000"], check=True)  # before the first's
        for site, filler in fillers.items():
            self.bed.run(site, ["scancel", filler])
        older = wait_for("the older job", 40, lambda: (job := self.broker.job(first["id"]))["state"] in ENDED and job)
        self.assertEqual(older["state"], "done", older)
        younger = self.ended("done", 40)
        self.assertTrue(any("older" in line["why"] for line in younger["history"]), younger["history"])

    def test_a_job_at_every_site_before_ours(self):
        self.set(QUICK | {"patience": 12})
        self.addCleanup(self.set, QUICK)
        self.fill("s1", 6)
        self.fill("s2", 10)
        self.submit()
        wait_for("a reason", 10, lambda: "Resources" in (reason := self.job()["reason"]) and "site s" in reason)
        self.ran_once(self.ended("done", 60))


class UsersWord(Coalloc):
    def test_hold_is_for_all_parts(self):
        home = self.submit("--hold")
        self.stays(4, self.all_wait, "held")
        self.assertIn(f"scontrol release {home}", self.job()["reason"])
        self.sh("s1", "scontrol", "release", str(home))
        self.ran_once(self.ended("done", 40))

    def test_begin_and_dependency_are_for_all_parts(self):
        for words in (["--begin=now+6"], None):
            with self.subTest(words=words or "--dependency"):
                if words is None:
                    other = self.sh("s1", "sbatch", "--parsable", "-n1", "--output=/dev/null", "--wrap", "sleep 6").stdout.strip()
                    words = [f"--dependency=afterok:{other}"]
                self.submit(*words)
                self.stays(4, lambda: "RUNNING" not in {row[2] for row in self.queue() if "spiderflow=" in row[3]}, words)
                self.assertIn("BeginTime" if "--begin" in words[0] else "Dependency", self.job()["reason"])
                self.ran_once(self.ended("done", 40))
                self.again()

    def test_a_later_hold_of_the_home_part_stops_the_others(self):
        self.set(QUICK | {"patience": 60})
        self.addCleanup(self.set, QUICK)
        self.partition_down("s1")
        home = self.submit()
        wait_for("the other part to wait for the home part", 20, lambda: self.parts().get("s2") == "RUNNING")
        self.sh("s1", "scontrol", "hold", str(home))
        wait_for("the other part to be held, too", 12, lambda: self.parts().get("s2") == "PENDING")
        self.partition("s1", "UP")
        self.stays(4, self.all_wait, "held")
        self.sh("s1", "scontrol", "release", str(home))
        self.ran_once(self.ended("done", 40))


class Ends(Coalloc):
    def test_retry_begins_anew_with_all_parts(self):
        script = ("#!/bin/bash\necho restart=$SLURM_RESTART_COUNT mine=$MINE\n"
                  "srun /bin/bash -c 'echo R $RANK attempt $SPIDERFLOW_ATTEMPT port $MASTER_PORT; "
                  "[ $SPIDERFLOW_ATTEMPT = 2 ] || [ $RANK != 5 ]'\n")
        self.submit(script=script, spec=SPEC + ",on_failure=retry", env={"MINE": "hello"})
        job = self.ended("done", 60)
        self.assertEqual(job["attempt"], 2)
        self.ran_once(job, 1)
        self.ran_once(job, 2)
        text = self.output()
        self.assertEqual(text.count("restart=1 mine=hello"), 2, text)
        self.assertEqual(len(set(re.findall(r"port (\d+)", text))), 2, text)
        self.assertEqual(self.journal_rows("requests"), 0)

    def journal_rows(self, table):
        with sqlite3.connect(f"file:{self.broker.journal}?mode=ro", uri=True) as journal:
            return journal.execute(f"SELECT count(*) FROM {table}").fetchone()[0]

    def test_attempts_have_a_limit(self):
        self.submit(script="#!/bin/bash\nsrun false\n", spec=SPEC + ",on_failure=retry,attempts=2")
        job = self.ended("failed", 60)
        self.assertEqual(job["attempt"], 2)
        self.nothing_left()

    def test_a_user_s_cancel_is_no_failure(self):
        home = self.submit(script="#!/bin/bash\nsrun sleep 100\n", spec=SPEC + ",on_failure=retry")
        self.wait_state("running")
        self.sh("s1", "scancel", str(home))
        self.assertEqual(self.ended("cancelled", 30)["attempt"], 1)
        self.nothing_left()

    def test_replan_does_without_a_site_that_cannot(self):
        """One node of the home site is taken, so the plan needs s2, which lacks the plugin."""
        filler = self.sh("s1", "sbatch", "--parsable", "-N1", "--gres=gpu:2", "--exclusive", "--output=/dev/null", "--wrap",
                         "sleep 100").stdout.strip()
        wait_for("one node taken", 20, lambda: ("s1", filler, "RUNNING") in {row[:3] for row in self.queue()})
        self.known_to_be_free("s1", gpus=2)
        self.bed.plugstack("s2", [])
        self.addCleanup(self.broker.install_plugin)
        self.submit(spec="model=config.json,gbs=8,mbs=2,tp=1,pp=4,dp=1,on_failure=replan")
        self.assertEqual({part["site"] for part in self.job()["parts"]}, {"s1", "s2"})
        wait_for("the second attempt", 40, lambda: self.job()["attempt"] == 2)
        self.bed.run("s1", ["scancel", filler])
        job = self.ended("done", 60)
        self.assertEqual([part["site"] for part in job["parts"]], ["s1"])
        self.ran_once(job, 2)


class Configuration(Coalloc):
    def tearDown(self):
        self.set(QUICK)
        super().tearDown()

    def test_drain_stops_new_parts_and_running_ones_go_on(self):
        self.submit(script="#!/bin/bash\nsrun sleep 8\n")
        first = self.wait_state("running")
        self.set(QUICK, sites={"s2": {"state": "DRAIN"}})
        done = self.sbatch("--output=%N-%j.out", "job.sh")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("s2", done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertEqual(self.broker.wait_job(first["id"], ENDED, 30)["state"], "done")

    def test_a_site_that_leaves_the_file_is_kept_while_a_part_runs_there(self):
        self.submit(script="#!/bin/bash\nsrun sleep 6\n")
        self.wait_state("running")
        with open(self.broker.config, encoding="utf-8") as file:
            blocks = file.read().split("\n[")
        with open(self.broker.config, "w", encoding="utf-8") as file:
            file.write("\n[".join(block for block in blocks if 'name = "s2"' not in block and not block.startswith("[link")))
        self.broker.reload()
        self.ended("done", 30)


class JournalTrouble(Coalloc):
    def refused(self, word):
        self.write("job.sh", MARK)
        done = self.sbatch("--output=%N-%j.out", "job.sh")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn("journal", done.stderr)
        self.assertIn(word, done.stderr)
        self.assertEqual(self.broker.call("GET", "/readyz")[0], 503)

    def test_while_it_is_locked_what_runs_is_followed_and_new_work_is_refused(self):
        self.submit(script="#!/bin/bash\nsrun sleep 6\n")
        first = self.wait_state("running")
        lock = sqlite3.connect(self.broker.journal, isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
        try:
            self.refused("locked")
            self.assertEqual(self.cli("status", first["id"]).returncode, 0)
            self.assertEqual(self.broker.wait_job(first["id"], ENDED, 30)["state"], "done")
        finally:
            lock.execute("ROLLBACK")
            lock.close()
        wait_for("a journal that is written again", 15, lambda: self.broker.call("GET", "/readyz")[0] == 204)
        self.known.add(first["id"])
        self.submit()
        self.ended()

    def test_on_a_full_disk(self):
        """The journal on a small tmpfs, which is filled while a job runs."""
        folder = self.broker.folder + "/small"
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=0777", "tmpfs", folder], check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", folder], check=True)
        self.broker.stop()
        self.broker.configure(QUICK | {"journal": folder + "/journal.db"})
        self.broker.start()

        def restore():
            self.broker.stop()
            self.broker.configure(QUICK)
            self.broker.start()

        self.addCleanup(restore)
        self.known = set()
        self.submit(script="#!/bin/bash\nsrun sleep 6\n")
        first = self.wait_state("running")
        with open(folder + "/ballast", "wb", buffering=0) as ballast:
            try:
                while ballast.write(b"\0" * 4096):
                    pass
            except OSError:
                pass
        self.refused("full")
        self.assertEqual(self.broker.wait_job(first["id"], ENDED, 30)["state"], "done")
        os.unlink(folder + "/ballast")
        wait_for("a journal that is written again", 15, lambda: self.broker.call("GET", "/readyz")[0] == 204)
        self.known.add(first["id"])
        self.submit()
        self.ended()


class LostSite(OwnSites):
    sites = {"count": 3, "nodes": 1, "gpus": 2}
    configuration = {"broker": QUICK}

    def test_replan_goes_on_without_it_and_cancels_there_when_it_answers(self):
        script = ("#!/bin/bash\nsrun /bin/bash -c 'echo R $RANK attempt $SPIDERFLOW_ATTEMPT on $SLURMD_NODENAME; "
                  "[ $SPIDERFLOW_ATTEMPT = 2 ] && exit; [ $SPIDERFLOW_SITE = s1 ] || sleep 300; "
                  f"until [ -e {self.folder}/fail ]; do sleep 0.2; done; exit 1'\n")
        self.write("job.sh", script)
        done = self.sbatch("--output=%N-%j.out", "job.sh", spec="model=config.json,gbs=8,mbs=2,tp=1,pp=4,dp=1,on_failure=replan")
        self.assertEqual(done.returncode, 0, done.stderr)
        job = self.wait_state("running")
        lost = job["parts"][1]
        wait_for("all ranks", 20, lambda: self.output().count(" attempt 1 on ") == 4)
        self.bed.stop(lost["site"], "slurmrestd")
        self.addCleanup(lambda: self.bed.alive(lost["site"], "slurmrestd") or self.bed.start(lost["site"], "slurmrestd"))
        self.write("fail", "")
        job = self.ended("done", 60)
        self.assertEqual(job["attempt"], 2)
        self.assertNotIn(lost["site"], {part["site"] for part in job["parts"]})
        self.assertEqual(self.output().count(" attempt 2 on "), 4, self.output())
        self.assertIn((lost["site"], str(lost["job"]), "RUNNING"), {row[:3] for row in self.queue()})
        self.bed.start(lost["site"], "slurmrestd")
        self.nothing_left(45)
