# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes from the home site to the others: files, options of other plugins, and packets."""
import hashlib
import os
import shutil
import subprocess
import time

from federation import DUMP, SMALL, SPEC, USER, LiveTest, OwnSites, own

STEP = f"#!/bin/bash\nsrun bash -c '{DUMP}'\n"


class Stage(LiveTest):
    """The sites share no directory: s2 works in one of its own."""
    code = ("import hashlib, os, sys\nimport helper\n"
            "print('F', os.environ['SPIDERFLOW_SITE'], os.getcwd(), os.access('run.sh', os.X_OK), helper.word,\n"
            "      *(hashlib.sha256(open(name, 'rb').read()).hexdigest() for name in sys.argv[1:]))\n")

    def setUp(self):
        super().setUp()
        self.there = f"{self.bed.root}/elsewhere-{os.path.basename(self.folder)}"
        os.mkdir(self.there)
        own(self.there)
        self.configure(self.there)
        self.addCleanup(shutil.rmtree, self.there)
        self.addCleanup(lambda: (self.broker.configure(), self.broker.reload()))

    def configure(self, workdir):
        self.broker.configure(sites={"s2": {"workdir": workdir}})
        self.broker.reload()
        time.sleep(0.5)

    def prepare(self, size):
        """Files that are at the home site only; their checksums by name."""
        os.mkdir(self.folder + "/code")
        self.write("code/main.py", self.code)
        self.write("code/helper.py", "word = 'helped'\n")
        os.chmod(self.write("run.sh", "#!/bin/sh\n"), 0o755)
        blob = os.path.join(self.folder, "odd name $(id) 'and so on'.bin")
        with open(blob, "wb") as file:
            file.write(os.urandom(size))
        own(self.folder)
        with open(blob, "rb") as file:
            return os.path.basename(blob), hashlib.sha256(file.read()).hexdigest()

    def test_files_travel_whole_and_a_program_in_them_runs(self):
        name, checksum = self.prepare(100_000)
        self.write("job.sh", '#!/bin/bash\nsrun /usr/bin/python3 code/main.py ./odd*\n')
        done = self.sbatch("--output=out-%N.out", "job.sh", spec=f"{SPEC},stage=code+{name}+run.sh")
        self.assertEqual(done.returncode, 0, done.stderr)
        job = self.ended()
        for folder, site in ((self.folder, "s1"), (self.there, "s2")):
            texts = [self.read(f"{folder}/{file}") for file in os.listdir(folder) if file.startswith(f"out-{site}")]
            self.assertEqual("".join(texts).count(f"F {site} {folder} True helped {checksum}"), 4, texts)
        shown = self.cli("status", job["id"]).stdout
        for folder in (self.folder, self.there):
            self.assertIn(folder + "/out-", shown)

    @staticmethod
    def read(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def test_more_than_the_limit_is_refused_with_the_limit_and_a_way_out(self):
        name, _ = self.prepare(8 << 20)
        self.write("job.sh", "#!/bin/bash\ntrue\n")
        done = self.sbatch("job.sh", spec=f"{SPEC},stage={name}")
        self.assertEqual(done.returncode, 1, done.stderr)
        told = [line for line in done.stderr.splitlines() if "stage" in line]
        self.assertEqual(len(told), 1, done.stderr)
        self.assertRegex(told[0], r"^spiderflow: .*\d MB.*file system that both sites see")
        self.nothing_left()

    def test_paths_that_cannot_travel_are_refused(self):
        os.mkfifo(self.folder + "/pipe")
        self.write("job.sh", "#!/bin/bash\ntrue\n")
        for path in ("nosuch", "../config.json", "/etc/hostname", "pipe"):
            done = self.sbatch("job.sh", spec=f"{SPEC},stage={path}")
            self.assertEqual(done.returncode, 1, f"{path}: {done.stderr}")
            self.assertRegex(done.stderr, r"^spiderflow: [^\n]*stage[^\n]*\n$")
            self.assertIn(path, done.stderr)
        self.assertEqual(self.queue(), [])

    def test_a_directory_of_the_users_and_of_the_jobs_own(self):
        self.configure(self.there + "/%u/%j")
        os.mkdir(f"{self.there}/{USER}")
        own(self.there)
        self.prepare(1000)
        job = self.run_job("#!/bin/bash\nsrun /usr/bin/python3 code/main.py\n", spec=f"{SPEC},stage=code")
        output = next(part["output"] for part in job["parts"] if part["site"] == "s2")
        self.assertTrue(output.startswith(f"{self.there}/{USER}/"), output)
        self.assertEqual(self.read(output).count(f"F s2 {self.there}/{USER}/{job['id']} "), 4, self.read(output))


class Greetings(LiveTest):
    """A SPANK plugin that is not ours, with an option of its own."""
    source = r"""
#include <slurm/spank.h>
#include <stdio.h>
SPANK_PLUGIN(greet, 1);
static char text[256];
static int take(int value, const char *argument, int remote) {
    (void)value, (void)remote;
    return snprintf(text, sizeof text, "%s", argument) < (int)sizeof text ? 0 : -1;
}
static struct spank_option option = {"greeting", "TEXT", "what tasks find in GREETING", 1, 0, take};
int slurm_spank_init(spank_t spank, int count, char **arguments) {
    (void)count, (void)arguments;
    return spank_option_register(spank, &option) == ESPANK_SUCCESS ? 0 : -1;
}
int slurm_spank_task_init(spank_t spank, int count, char **arguments) {
    (void)count, (void)arguments;
    if (*text) spank_setenv(spank, "GREETING", text, 1);
    return 0;
}
"""

    def greetings(self, allowed):
        self.again()
        self.broker.configure({"forward_options": allowed} if allowed else None)
        self.broker.reload()
        time.sleep(0.5)
        self.run_job(STEP, "--greeting=good morning, all")
        return {(task["SPIDERFLOW_SITE"], task.get("GREETING")) for task in self.tasks()}

    def test_an_option_goes_to_every_part_when_the_admin_allows_it(self):
        plugin = self.folder + "/greet.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-o", plugin, self.write("greet.c", self.source)], check=True)
        self.addCleanup(lambda: (self.broker.install_plugin(), self.broker.configure(), self.broker.reload()))
        for site in self.bed.sites:
            self.bed.plugstack(site, [f"optional {plugin}", self.broker.plugstack_line()])
        text = "good morning, all"
        self.assertEqual(self.greetings(["greet:greeting"]), {("s1", text), ("s2", text)})
        for allowed in (["greet:farewell", "other:greeting"], None):
            self.assertEqual(self.greetings(allowed), {("s1", text), ("s2", None)}, allowed)


class Reach(LiveTest):
    def test_a_master_out_of_reach_fails_the_step_in_seconds_with_both_names(self):
        self.bed.cut("s1", "s2")
        try:
            began = time.monotonic()
            job = self.run_job("#!/bin/bash\nsrun sleep 100\n", spec=SMALL + ",pp=4,dp=1", state="failed", seconds=60)
            took = time.monotonic() - began
        finally:
            self.bed.mend("s1", "s2")
        print(f"  no way between the sites: the job failed {took:.1f} s after sbatch")
        self.assertLess(took, 30)
        told = [line for line in self.output().splitlines() if line.startswith("spiderflow: ")]
        self.assertEqual(len(told), 1, self.output())
        for word in ("s1", "s2", "reach"):
            self.assertIn(word, told[0])
        self.assertIn("site s2", job["reason"])

    def test_the_same_sites_mended(self):
        self.check_tasks(self.run_job(STEP, spec=SMALL + ",pp=4,dp=1"))


class HostNames(OwnSites):
    """The nodes have names that only their own site can resolve."""
    sites = {"count": 2, "nodes": 1, "gpus": 2, "addresses": "names"}
    spec = SMALL + ",pp=4,dp=1"

    def test_a_name_that_does_not_resolve_elsewhere_is_told_and_a_table_cures_it(self):
        job = self.run_job(STEP, spec=self.spec, state="failed", seconds=60)
        told = [line for line in self.output().splitlines() if line.startswith("spiderflow: ")]
        self.assertEqual(len(told), 1, self.output())
        self.assertIn("s1-n1.s1.internal", told[0])
        self.assertIn("site s2", job["reason"])
        self.again()
        node = self.bed.site("s1").nodes[0]
        self.broker.configure(sites={"s1": {"addresses": {node.name: node.address}}})
        self.broker.reload()
        time.sleep(0.5)
        self.check_tasks(self.run_job(STEP, spec=self.spec))
