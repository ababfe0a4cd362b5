# SPDX-License-Identifier: GPL-3.0-or-later
"""sbatch --spiderflow in all its forms: what runs where, with which ranks, environment and options."""
import re
import signal
import subprocess
import time

import federation
from federation import PRINT_RANK, SMALL, SPEC, USER, LiveTest, wait_for


class Ranks(LiveTest):
    def check_ranks(self, mine=None):
        """Every rank once, each on the site, stage and member of the plan."""
        plan = self.job()["plan"]
        world = plan["parallel"]["tp"] * plan["parallel"]["pp"] * plan["parallel"]["dp"]
        ranks = self.ranks()
        self.assertEqual(sorted(ranks), list(range(world)), self.output())
        where = {(stage, dp): site["site"] for site in plan["sites"] for stage, dp in site["slots"]}
        self.assertEqual(len(set(where.values())), 2)
        for rank, values in ranks.items():
            stage, dp = divmod(rank, plan["parallel"]["dp"])
            layers = plan["stages"][stage]
            self.assertEqual((int(values["STAGE"]), int(values["DP"])), (stage, dp))
            self.assertEqual(values["SITE"], where[stage, dp])
            self.assertTrue(values["NODE"].startswith(values["SITE"] + "-"), values)
            self.assertEqual(values["LAYERS"], f"{layers['first_layer']}-{layers['last_layer']}")
            self.assertEqual(int(values["WORLD"]), world)
            if mine is not None:
                self.assertEqual(values["MINE"], mine)
        self.assertEqual(len({(v["MASTER"], v["PORT"]) for v in ranks.values()}), 1)
        address = ranks[0]["MASTER"]
        port = self.scontrol_node("s1", ranks[0]["NODE"], "Port")  # slurmd listens there: the master's node is reached
        for site in federation.bed.sites:
            self.assertEqual(self.sh(site, "bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}").returncode, 0, address)
        self.assertTrue(20000 <= int(ranks[0]["PORT"]) <= 29999)
        return ranks

    def test_a_script_file_gives_every_rank_once_where_the_plan_says(self):
        self.write("job.sh", PRINT_RANK)
        done = self.sbatch("--output=%N-%j.out", "job.sh")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^Submitted batch job \d+\n$")
        self.assertRegex(done.stderr, r"^spiderflow: pp=4 dp=2 tp=1 over s1 .*, s2 .*\nspiderflow: job s1-\d+: .*\n$")
        self.ended()
        ranks = self.check_ranks()
        by_node = {}
        for values in ranks.values():
            by_node.setdefault(values["NODE"], []).append(int(values["LOCAL"]))
        for node, local in by_node.items():
            self.assertEqual(sorted(local), list(range(len(local))), node)

    def test_a_script_on_standard_input(self):
        done = self.sbatch("--output=%N-%j.out", input=PRINT_RANK)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.ended()
        self.check_ranks()

    def test_wrap(self):
        done = self.sbatch("--output=%N-%j.out", "--wrap", PRINT_RANK.split("\n", 1)[1].strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.ended()
        self.check_ranks()

    def test_the_option_in_the_script(self):
        self.write("job.sh", PRINT_RANK.replace("\n", f"\n#SBATCH --spiderflow={SPEC}\n#SBATCH --output=%N-%j.out\n", 1))
        done = self.sbatch("job.sh", spec=None)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.ended()
        text = self.output()
        # Slurm reads #SBATCH lines of the home script; at the other site they are comments, the option was carried.
        self.assertIn("== s1-n1-", text)
        self.assertIn("== s2-n1-", text)
        self.check_ranks()

    def test_export_none_and_a_list(self):
        self.write("job.sh", PRINT_RANK)
        for export, mine in (("NONE", ""), ("MINE", "yes"), ("ALL", "yes"), ("MINE=other", "other")):
            with self.subTest(export=export):
                self.known = {job["id"] for job in federation.broker.jobs()}
                subprocess.run(f"rm -f {self.folder}/*.out", shell=True, check=True)
                done = self.sbatch("--output=%N-%j.out", f"--export={export}", "job.sh", env={"MINE": "yes"})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.ended()
                self.check_ranks(mine)

    def test_arguments_reach_the_script_at_every_site(self):
        self.write("job.sh", "#!/bin/bash\nprintf 'A <%s>' \"$@\"; echo\n")
        self.assertEqual(self.sbatch("--output=%N.out", "job.sh", "one", "two words", "--three").returncode, 0)
        self.ended()
        self.assertEqual(self.output().count("A <one>A <two words>A <--three>"), 2, self.output())

    def test_a_script_that_is_not_for_a_shell(self):
        self.write("job.py", "#!/usr/bin/python3\nimport os, sys\nprint('P', os.environ['SLURM_SPIDERFLOW_SITE'], sys.argv[1])\n")
        self.assertEqual(self.sbatch("--output=%N.out", "job.py", "arg").returncode, 0)
        self.ended()
        self.assertIn("P s1 arg", self.output())
        self.assertIn("P s2 arg", self.output())


class Options(LiveTest):
    def test_what_the_user_asked_reaches_every_part(self):
        self.write("job.sh", "#!/bin/bash\nsleep 30\n")
        done = self.sbatch("--time=7", "--cpus-per-task=2", "--mem-per-cpu=150M", "--job-name=mine", "--output=o-%N.out",
                           "--error=e-%N.out", "--signal=USR1@30", "--comment=my own | text", "job.sh")
        self.assertEqual(done.returncode, 0, done.stderr)
        job = self.wait_state("running")
        for part in job["parts"]:
            shown = federation.bed.run(part["site"], ["scontrol", "show", "job", str(part["job"])]).stdout
            for expected in ("JobName=mine", "TimeLimit=00:07:00", "CPUs/Task=2", "MinMemoryCPU=150M",
                             f"StdOut={self.folder}/o-", f"StdErr={self.folder}/e-", "Requeue=1",
                             "Comment=my own | text spiderflow=" + job["id"]):
                self.assertIn(expected, shown, part["site"])
            self.assertRegex(shown, r"TresPerNode=gres[:/]gpu:h100:2")
        self.assertEqual(self.cli("cancel", job["id"]).returncode, 0)
        self.ended("cancelled")

    def test_parsable_output_is_slurms_own(self):
        self.write("job.sh", "#!/bin/bash\ntrue\n")
        done = self.sbatch("--parsable", "job.sh")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^\d+(;\S+)?\n$")
        self.ended()

    def test_explicit_nodes_and_gres_are_limits(self):
        self.write("job.sh", "#!/bin/bash\nsleep 20\n")
        done = self.sbatch("--nodes=1", "--gres=gpu:1", "job.sh", spec=SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = self.job()
        self.assertEqual([(part["nodes"], part["gpus"]) for part in job["parts"]], [(1, 1), (1, 1)])
        self.wait_state("running")
        self.cli("cancel", job["id"])
        self.ended("cancelled")

    def test_limits_that_no_plan_fits_are_refused_with_the_numbers(self):
        self.write("job.sh", "#!/bin/bash\ntrue\n")
        done = self.sbatch("--nodes=1", "--gres=gpu:1", "job.sh", spec=SMALL + ",pp=4")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertRegex(done.stderr, r"--nodes=1.*--gres=gpu:1")
        self.assertIn("4", done.stderr)
        self.nothing_left()

    def test_wait_gives_the_jobs_own_status(self):
        self.write("good.sh", "#!/bin/bash\nsrun true\n")
        done = self.sbatch("--wait", "good.sh", timeout=90)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.ended()
        self.known = {job["id"] for job in federation.broker.jobs()}
        self.write("bad.sh", "#!/bin/bash\nsrun true\nexit 7\n")
        done = self.sbatch("--wait", "bad.sh", timeout=90)
        self.assertIn(done.returncode, (7, 1), done.stderr)  # 1: the other part ended first and this one was cancelled
        self.assertNotEqual(done.returncode, 0)
        self.ended("failed")

    def test_test_only_prints_the_plan_and_submits_nothing(self):
        self.write("job.sh", "#!/bin/bash\ntrue\n")
        done = self.sbatch("--test-only", "job.sh")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("spiderflow: ", done.stderr)
        self.assertIn("sbatch: Job ", done.stderr)
        self.assertEqual(self.queue(), [])
        time.sleep(2)
        self.assertEqual(self.queue(), [])
        self.assertEqual(self.new_jobs(), [])

    def test_without_forced_sites_the_line_says_what_home_alone_would_do(self):
        self.write("job.sh", PRINT_RANK)
        done = self.sbatch("--output=%N-%j.out", "job.sh", spec="model=config.json,gbs=8,mbs=2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("home alone", done.stderr)
        job = self.ended()
        self.assertEqual([part["site"] for part in job["parts"]], ["s1"])  # this model is too small for a WAN
        self.assertTrue(self.ranks())


class Killed(LiveTest):
    def test_sbatch_ended_right_after_the_submission_leaves_no_held_part(self):
        slow = self.write("slow-helper", "#!/bin/sh\ncase \"$*\" in *place*) exec sleep 300 ;; esac\n"
                          f"exec {federation.broker.client} \"$@\"\n")
        subprocess.run(["chmod", "755", slow], check=True)
        federation.bed.plugstack("s1", [f"optional {federation.broker.plugin} helper={slow} socket={federation.broker.socket}"])
        self.addCleanup(federation.broker.install_plugin)
        self.write("job.sh", "#!/bin/bash\ntrue\n")
        sbatch = federation.bed.popen("s1", ["sbatch", f"--spiderflow={SPEC}", "job.sh"], user=USER, cwd=self.folder,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for("the held home part", 20, self.queue)

        def interrupted():  # one Ctrl-C may come while sbatch still reads slurmctld's answer, and is lost there
            sbatch.send_signal(signal.SIGINT)
            return sbatch.poll() is not None

        wait_for("the end of sbatch", 20, interrupted, step=0.5)
        sbatch.communicate()
        began = time.monotonic()
        self.assertTrue(self.queue(), "the home part should still be there for this test to mean anything")
        wait_for("an empty queue", 60, lambda: not self.queue())
        print(f"  held part cancelled {time.monotonic() - began:.0f} s after the interrupt")
        self.assertEqual(self.job()["state"], "failed")

    def test_a_plan_that_sbatch_does_not_follow_is_dropped(self):
        self.write("job.sh", "#!/bin/bash\ntrue\n")
        done = self.sbatch("--partition=nosuch", "job.sh")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.queue(), [])
        self.wait_state("cancelled", "failed", seconds=60)


class Steps(LiveTest):
    def test_off_is_as_if_the_plugin_were_not_there_and_other_counts_fail_at_once(self):
        self.write("job.sh", "#!/bin/bash\n"
                   "srun --spiderflow=off -N1 -n1 bash -c 'echo OFF rank=${RANK-none} stage=${SPIDERFLOW_STAGE-none}'\n"
                   "srun -n1 true; echo STATUS=$?\n"
                   "srun bash -c 'echo T RANK=$RANK'\n")
        self.assertEqual(self.sbatch("--output=%N-%j.out", "job.sh").returncode, 0)
        self.ended()
        text = self.output()
        self.assertEqual(text.count("OFF rank=none stage=none"), 2, text)
        self.assertEqual(len(re.findall(r"STATUS=[1-9]", text)), 2, text)
        refusals = [line for line in text.splitlines() if line.startswith("spiderflow: ") and "off" in line]
        self.assertEqual(len(refusals), 2, text)
        size = self.job()["parts"][0]["gpus"]
        self.assertRegex(refusals[0], rf"\b1\b.*\b{size}\b|\b{size}\b.*\b1\b")
        self.assertTrue(self.ranks())

    def test_one_rank_that_dies_ends_the_job_everywhere(self):
        self.write("job.sh", "#!/bin/bash\nsrun bash -c 'if [ $RANK = 0 ]; then exit 3; fi; sleep 100'\n")
        self.assertEqual(self.sbatch("--output=%N-%j.out", "job.sh").returncode, 0)
        job = self.ended("failed", 60)
        self.assertRegex(job["reason"], r"site s[12]: job \d+ ended as FAILED .*exit status \d+")
        self.nothing_left(15)


class Training(LiveTest):
    def test_the_losses_over_two_sites_are_those_of_one_process(self):
        folder = federation.bed.home(USER) + "/train_gpt"
        subprocess.run(f"rm -f {folder}/*.out", shell=True, check=True)
        words = ["--seq", "64", "--gbs", "8", "--mbs", "2", "--steps", "20"]
        done = self.sh("s1", "sbatch", "--spiderflow=model=config.json,seq=64,gbs=8,mbs=2,tp=1,sites=s1+s2",
                       "--output=" + self.folder + "/%N-%j.out", "train.sh", *words, cwd=folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.ended(seconds=240)
        text = self.output()
        over_sites = [float(x) for x in re.findall(r"^step \d+ loss (\S+)$", text, re.MULTILINE)]
        alone = self.sh("s1", "/usr/bin/python3", "train_gpt.py", *words, cwd=folder, timeout=180)
        one = [float(x) for x in re.findall(r"^step \d+ loss (\S+)$", alone.stdout, re.MULTILINE)]
        self.assertEqual((len(over_sites), len(one)), (20, 20), text + alone.stderr)
        self.assertLess(max(abs(a - b) for a, b in zip(over_sites, one)), 1e-4)
        self.assertLess(one[-1], one[0])  # it learns
