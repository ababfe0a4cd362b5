# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong, and what is left of it: nothing."""
import os
import shutil
import signal
import subprocess
import time

import federation
from federation import OTHER, SPEC, USER, LiveTest, wait_for

SLEEP = "#!/bin/bash\nsrun sleep 100\n"


def argument_lists():
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found.add(file.read())
        except OSError:
            pass  # it has ended
    return found


class Refusals(LiveTest):
    def refused(self, *words, status=1, **keywords):
        """One line on standard error, nothing submitted anywhere; the line."""
        done = self.sbatch(*words, **keywords)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("spiderflow: ") or "spiderflow" in lines[0], lines)
        self.assertEqual(self.queue(), [])
        return lines[0]

    def setUp(self):
        super().setUp()
        self.write("job.sh", "#!/bin/bash\ntrue\n")

    def test_bad_specs(self):
        self.write("broken.json", '{"model_type": "gpt2", ')
        self.write("big.json", '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16384, '
                   '"intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128, '
                   '"num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": false}')
        self.write("spec.toml", 'model = "config.json"\ngbs = 8\ncolour = "red"\n')
        secret = self.write("secret.json", "{}")
        os.chown(secret, 0, 0)
        os.chmod(secret, 0o600)
        for spec, words in (("modl=config.json,gbs=8", ("modl", "model")),
                            ("model=config.json,gbs=lots", ("gbs", "lots")),
                            ("model=config.json,gbs=8,trainer=magic", ("trainer", "magic", "plain")),
                            ("model=config.json,gbs=8,on_failure=again", ("on_failure", "again", "retry")),
                            ("model=missing.json,gbs=8", ("missing.json", "No such file")),
                            ("model=secret.json,gbs=8", ("secret.json", "Permission denied")),
                            ("model=broken.json,gbs=8", ("broken.json",)),
                            ("model=big.json,gbs=8", ("h100", "GB")),
                            ("model=config.json,gbs=8,sites=s1+mars", ("mars", "s1", "s2")),
                            ("spec.toml", ("spec.toml:3", "colour"))):
            with self.subTest(spec=spec):
                line = self.refused("job.sh", spec=spec)
                for word in words:
                    self.assertIn(word, line)

    def test_jobs_of_a_kind_that_cannot_be_federated(self):
        self.assertIn("array", self.refused("--array=0-1", "job.sh"))
        done = self.sbatch("-n1", ":", "-n1", "job.sh")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("heterogeneous", done.stderr)
        self.assertEqual(self.queue(), [])

    def test_salloc_and_srun_outside_a_job(self):
        for command in ("salloc", "srun"):
            done = self.sh("s1", command, f"--spiderflow={SPEC}", "true")
            self.assertEqual(done.returncode, 1, done.stderr)
            lines = done.stderr.strip().splitlines()
            self.assertEqual(len(lines), 1, lines)
            self.assertIn("sbatch", lines[0])
        self.assertEqual(self.queue(), [])

    def test_a_dead_broker_fails_sbatch_within_5_seconds(self):
        federation.broker.stop()
        self.addCleanup(lambda: federation.broker.alive or federation.broker.start())
        began = time.monotonic()
        line = self.refused("job.sh")
        self.assertLess(time.monotonic() - began, 5)
        self.assertIn("spiderflowd", line)
        federation.broker.start()

    def test_a_hung_broker_fails_sbatch_within_5_seconds(self):
        pid = federation.broker.process["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            line = self.refused("job.sh")
            self.assertLess(time.monotonic() - began, 5.5)
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertIn("broker", line)
        # The request it finds when it wakes up may plan: nobody follows, and the plan expires.
        wait_for("no live plan", 40, lambda: all(job["state"] in federation.ENDED for job in self.new_jobs()))

    def quoted(self, words, *options):
        done = self.sbatch(*options, "job.sh")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        told = [line for line in done.stderr.splitlines() if "site s2" in line and "every part was cancelled" in line]
        self.assertEqual(len(told), 1, done.stderr)
        self.assertIn(words, told[0])
        self.nothing_left(10)
        self.assertEqual(self.job()["state"], "failed")

    def test_a_remote_site_that_knows_no_such_partition_is_quoted(self):
        federation.broker.configure(sites={"s2": {"partition": "nosuch"}})
        federation.broker.reload()
        self.addCleanup(lambda: (federation.broker.configure(), federation.broker.reload()))
        time.sleep(0.5)
        self.quoted("nvalid partition name")

    def test_a_remote_site_that_takes_no_jobs_is_quoted(self):
        federation.bed.run("s2", ["scontrol", "update", "PartitionName=train", "State=DRAIN"], check=True)
        self.addCleanup(lambda: federation.bed.run("s2", ["scontrol", "update", "PartitionName=train", "State=UP"], check=True))
        self.quoted("partition not available")


class Cancels(LiveTest):
    def submit(self, script=SLEEP):
        self.write("job.sh", script)
        done = self.sbatch("--output=%N-%j.out", "job.sh")
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout.split()[-1])

    def test_scancel_of_the_home_part(self):
        job = self.submit()
        self.wait_state("running")
        self.sh("s1", "scancel", str(job))
        self.nothing_left(10)
        self.assertIn("was cancelled", self.ended("cancelled")["reason"])

    def test_scancel_of_a_remote_part(self):
        self.submit()
        remote = self.wait_state("running")["parts"][1]
        self.sh("s2", "scancel", str(remote["job"]))
        self.nothing_left(10)
        self.ended("cancelled")

    def test_spiderflow_cancel(self):
        self.submit()
        job = self.wait_state("running")
        self.assertEqual(self.cli("cancel", job["id"]).returncode, 0)
        self.nothing_left(10)
        self.assertIn(USER, self.ended("cancelled")["reason"])
        again = self.cli("cancel", job["id"])
        self.assertEqual(again.returncode, 1)
        self.assertIn("already", again.stderr)

    def test_during_the_wait_for_the_word(self):
        """The nodes of s2 look free and start nothing: the home part waits in its batch step."""
        def partition(state):
            federation.bed.run("s2", ["scontrol", "update", "PartitionName=train", f"State={state}"], check=True)

        partition("DOWN")
        self.addCleanup(partition, "UP")
        for how in ("home", "remote", "cli"):
            with self.subTest(how=how):
                self.known = {job["id"] for job in federation.broker.jobs()}
                self.known_to_be_free("s1", "s2")
                home = self.submit()
                job = self.wait_state("rendezvous")
                wait_for("the home part to run", 30,
                         lambda: self.job()["parts"][0]["state"].startswith("RUNNING"))
                time.sleep(1.5)  # its batch step is looking for the word
                if how == "home":
                    self.sh("s1", "scancel", str(home))
                elif how == "remote":
                    self.sh("s2", "scancel", str(self.job()["parts"][1]["job"]))
                else:
                    self.cli("cancel", job["id"])
                mine = {str(part["job"]) for part in job["parts"]}
                wait_for("no part left", 10, lambda: not [row for row in self.queue() if "spiderflow=" in row[3]])
                self.assertTrue(mine)
                self.ended("cancelled")


class Plugin(LiveTest):
    def test_missing_at_a_remote_site_never_runs_copies_without_ranks(self):
        federation.bed.plugstack("s2", [])
        self.addCleanup(federation.broker.install_plugin)
        self.write("job.sh", "#!/bin/bash\necho RAN\nsrun bash -c 'echo T RANK=$RANK'\n")
        done = self.sbatch("--output=%N-%j.out", "job.sh")
        self.assertEqual(done.returncode, 0, done.stderr)
        job = self.ended("failed")
        self.assertIn("site s2", job["reason"])
        self.assertIn("plugin", job["reason"])
        self.nothing_left(10)
        text = self.output()
        self.assertEqual(text.count("the plugin spiderflow did not act"), 1, text)
        # Home may have got its word, when the part at s2 was seen running for the moment that it took to end.
        for line in text.splitlines():
            if line.startswith("T "):
                self.assertRegex(line, r"^T RANK=[0-3]$")
        self.assertLessEqual(text.count("RAN\n"), 1, text)

    def test_a_job_without_the_option_is_as_without_the_plugin(self):
        # What differs from run to run is left out; everything else must be equal.
        show = ["srun", "-n1", "bash", "-c",
                "env | grep -v -E '^(SLURM_(JOBID|JOB_ID|STEP_LAUNCHER_PORT|SRUN_COMM_PORT|LAUNCH_NODE_IPADDR|TASK_PID)|_)=' | sort"]
        with_plugin = self.sh("s1", *show)
        federation.bed.plugstack("s1", [])
        self.addCleanup(federation.broker.install_plugin)
        without = self.sh("s1", *show)
        self.assertEqual(with_plugin.returncode, 0, with_plugin.stderr)
        self.assertIn("SLURM_PROCID=0", with_plugin.stdout)
        self.assertEqual(with_plugin.stdout, without.stdout)
        self.assertEqual(with_plugin.stderr, without.stderr)

    def test_a_job_without_the_option_calls_nobody(self):
        trace = self.folder + "/called"
        helper = self.write("helper", f"#!/bin/sh\necho \"$*\" >>{trace}\nexec {federation.broker.client} \"$@\"\n")
        os.chmod(helper, 0o755)
        federation.bed.plugstack("s1", [f"optional {federation.broker.plugin} helper={helper} socket={federation.broker.socket}"])
        self.addCleanup(federation.broker.install_plugin)
        done = self.sh("s1", "sbatch", "--wait", "--output=plain.out", "--wrap", "srun env")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(os.path.exists(trace))
        with open(self.folder + "/plain.out", encoding="utf-8") as file:
            self.assertNotIn("SPIDERFLOW", file.read().upper().replace(self.folder.upper(), "").replace("SPIDERFLOW-LIVE", ""))
        self.write("job.sh", "#!/bin/bash\ntrue\n")
        self.assertEqual(self.sbatch("--test-only", "job.sh").returncode, 0)  # the same trap springs when it should
        self.assertTrue(os.path.exists(trace))

    def test_h01_another_slurm_release_is_harmless_when_optional(self):
        wrong = self.folder + "/wrong.so"
        shutil.copy(federation.broker.plugin, wrong)
        self.patch_version(wrong)
        federation.bed.plugstack("s1", [f"optional {wrong}"])
        self.addCleanup(federation.broker.install_plugin)
        self.assertEqual(self.sh("s1", "srun", "true").returncode, 0)
        federation.bed.plugstack("s1", [f"required {wrong}"])
        done = self.sh("s1", "srun", "true")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Incompatible Slurm plugin", done.stderr)

    @staticmethod
    def patch_version(path):
        """plugin_version of another release: found by its symbol, changed in place."""
        table = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout
        address = next(int(line.split()[0], 16) for line in table.splitlines() if line.endswith(" plugin_version"))
        for line in subprocess.run(["objdump", "-h", path], capture_output=True, text=True, check=True).stdout.splitlines():
            words = line.split()
            if len(words) == 7 and words[0].isdigit():
                size, start, offset = int(words[2], 16), int(words[3], 16), int(words[5], 16)
                if start <= address < start + size:
                    with open(path, "r+b") as file:
                        file.seek(offset + address - start)
                        assert file.read(4) == (0x160508).to_bytes(4, "little")
                        file.seek(offset + address - start)
                        file.write((0x150800).to_bytes(4, "little"))
                    return
        raise AssertionError("plugin_version not found")

    def test_h02_loaded_twice_is_silent(self):
        line = f"optional {federation.broker.plugin} helper={federation.broker.client} socket={federation.broker.socket}"
        link = self.folder + "/again.so"
        os.symlink(federation.broker.plugin, link)
        for second in (federation.broker.plugin, link):
            federation.bed.plugstack("s1", [line, line.replace(federation.broker.plugin, second, 1)])
            self.addCleanup(federation.broker.install_plugin)
            done = self.sh("s1", "sbatch", "--output=/dev/null", "--wrap", "true")
            self.assertEqual((done.returncode, done.stderr), (0, ""), second)

    def test_h03_a_corrupt_plan_fails_the_job_and_drains_no_node(self):
        federation.bed.plugstack("s1", [line.replace("optional", "required") for line in [
            f"optional {federation.broker.plugin} helper={federation.broker.client} socket={federation.broker.socket}"]])
        self.addCleanup(federation.broker.install_plugin)
        for name, value in (("SLURM_SPIDERFLOW_SLOTS", "garbage"), ("SLURM_SPIDERFLOW_TP", "-3")):
            env = {"SLURM_SPIDERFLOW_JOB": "s1-999", "SLURM_SPIDERFLOW_ATTEMPT": "1", "SLURM_SPIDERFLOW_SITE": "s1",
                   "SLURM_SPIDERFLOW_WORLD": "2", "SLURM_SPIDERFLOW_TP": "1", "SLURM_SPIDERFLOW_PP": "2",
                   "SLURM_SPIDERFLOW_DP": "1", "SLURM_SPIDERFLOW_NODE_RANKS": "0", "SLURM_SPIDERFLOW_NNODES": "1", "SLURM_SPIDERFLOW_DEPTHS": "2,1", "SLURM_SPIDERFLOW_MICROBATCH": "1", "SLURM_SPIDERFLOW_MICROBATCHES": "4", "SLURM_SPIDERFLOW_SLOTS": "0.0,1.0", "SLURM_SPIDERFLOW_LAYERS": "0-3,4-7",
                   "SLURM_SPIDERFLOW_SUBMIT": "s1-999", name: value}
            done = self.sh("s1", "sbatch", "-W", "-n2", "--output=h03-%j.out", "--comment=spiderflow=s1-999/1", "--wrap", "srun true", env=env)
            self.assertNotEqual(done.returncode, 0, name)
            self.assertIn(name, self.output())
            federation.bed.wait_idle("s1", 20)

    def test_cost_of_srun_true_with_and_without(self):
        """A measurement, printed; what is asserted is only that both work."""
        def once():
            began = time.monotonic()
            self.assertEqual(self.sh("s1", "srun", "true").returncode, 0)
            return time.monotonic() - began

        self.addCleanup(federation.broker.install_plugin)
        times = {"with": [], "without": []}
        for _ in range(8):
            federation.broker.install_plugin()
            times["with"].append(once())
            federation.bed.plugstack("s1", [])
            times["without"].append(once())
        for name, values in times.items():
            values.sort()
            print(f"  srun true {name} the plugin: min {values[0] * 1e3:.0f} ms, median {values[len(values) // 2] * 1e3:.0f} ms")


class Rights(LiveTest):
    def test_a_user_sees_and_cancels_only_his_own_jobs(self):
        self.write("job.sh", SLEEP)
        self.assertEqual(self.sbatch("job.sh").returncode, 0)
        job = self.wait_state("running")
        self.assertEqual(federation.broker.call_as(OTHER, "GET", "/v1/jobs?all=1")[1]["jobs"], [])
        for method in ("GET", "DELETE"):
            self.assertEqual(federation.broker.call_as(OTHER, method, "/v1/jobs/" + job["id"])[0], 404)
        stranger = self.cli("cancel", job["id"], user=OTHER)
        self.assertEqual(stranger.returncode, 1)
        self.assertEqual(self.job()["state"], "running")
        self.assertEqual(federation.broker.call("DELETE", "/v1/jobs/" + job["id"])[0], 200)  # root is an operator
        self.nothing_left(10)

    def test_no_secret_is_in_the_log_or_in_an_argument_list(self):
        secrets = [b"s3cr3t-value"]
        for site in federation.bed.sites:
            with open(federation.bed.token_file(site), "rb") as file:
                secrets.append(file.read().strip())
        self.write("job.sh", "#!/bin/bash\nsrun true\n")
        words = ["sbatch", f"--spiderflow={SPEC}", "--export=ALL,KEY=typed-s3cr3t", "job.sh"]
        sbatch = federation.bed.popen("s1", words, user=USER, cwd=self.folder, env={"MY_TOKEN": "s3cr3t-value"},
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seen = set()
        while sbatch.poll() is None:
            seen |= argument_lists()
        self.assertEqual(sbatch.returncode, 0)
        while self.job()["state"] not in federation.ENDED:
            seen |= argument_lists()
        self.ended()
        self.assertTrue([line for line in seen if b"\0hook\0" in line], "the helper was not seen: nothing was looked at")
        for secret in (*secrets, b"typed-s3cr3t"):  # the last one is in sbatch's own list: the user put it there
            self.assertFalse([line for line in seen if secret in line and b"--export" not in line])
            for path in (federation.broker.log, federation.broker.journal, federation.broker.journal + "-wal"):
                with open(path, "rb") as file:
                    self.assertNotIn(secret, file.read(), path)


class Restart(LiveTest):
    def test_a_killed_broker_takes_its_jobs_up_again(self):
        self.write("job.sh", "#!/bin/bash\nsrun sleep 8\n")
        self.assertEqual(self.sbatch("job.sh").returncode, 0)
        self.wait_state("running")
        federation.broker.kill()
        federation.broker.start()
        self.ended("done", 60)

    def test_a_bad_reload_keeps_the_old_settings(self):
        with open(federation.broker.config, encoding="utf-8") as file:
            good = file.read()
        with open(federation.broker.config, "a", encoding="utf-8") as file:
            file.write("\n[[link]]\nfrom = 3\n")
        federation.broker.reload()
        wait_for("the complaint in the log", 10, lambda: "the old settings stay in force" in open(federation.broker.log, encoding="utf-8").read())
        self.assertEqual(len(federation.broker.call("GET", "/v1/sites")[1]["links"]), 2)
        with open(federation.broker.config, "w", encoding="utf-8") as file:
            file.write(good)


class Commands(LiveTest):
    def site(self, name):
        return next(site for site in federation.broker.call("GET", "/v1/sites")[1]["sites"] if site["name"] == name)

    def test_a_site_that_does_not_answer_keeps_its_old_view_and_is_marked_stale(self):
        wait_for("a first view of both", 20, lambda: not self.site("s1")["stale"] and not self.site("s2")["stale"])
        before = self.site("s2")
        federation.bed.stop("s2", "slurmrestd")
        self.addCleanup(lambda: federation.bed.alive("s2", "slurmrestd") or federation.bed.start("s2", "slurmrestd"))
        wait_for("s2 marked stale", 20, lambda: self.site("s2")["stale"])
        stale = self.site("s2")
        self.assertTrue(stale["trouble"])
        self.assertEqual(stale["gpus"], before["gpus"])
        self.assertFalse(self.site("s1")["stale"])
        federation.bed.start("s2", "slurmrestd")
        wait_for("s2 fresh again", 20, lambda: not self.site("s2")["stale"])

    def test_sites_and_status_for_people_and_programs(self):
        text = self.cli("sites").stdout
        for word in ("s1", "s2", "h100"):
            self.assertIn(word, text)
        self.assertEqual(self.cli("status", "s1-99999").returncode, 1)

    def test_submit_does_what_sbatch_does(self):
        self.write("job.sh", federation.PRINT_RANK)
        done = self.cli("submit", f"--spiderflow={SPEC}", "--output=%N-%j.out", "job.sh")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Submitted batch job", done.stdout)
        self.ended()
        plan = self.job()["plan"]["parallel"]
        self.assertEqual(sorted(self.ranks()), list(range(plan["tp"] * plan["pp"] * plan["dp"])))
