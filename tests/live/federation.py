# SPDX-License-Identifier: GPL-3.0-or-later
"""What the live tests share: two real sites with the plugin, a broker, an ordinary user; LiveTest, which sees to it
that each test leaves no job alive and every node idle; and OwnSites, a LiveTest on sites of its own."""
import json
import os
import pathlib
import re
import shutil
import sys
import time
import unittest

from broker import Broker
from testbed import Testbed

USER, OTHER = "sfalice", "sfbob"
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 256, "n_positions": 64, "n_embd": 32,
         "n_layer": 8, "n_head": 4, "tie_word_embeddings": False}
SMALL = "model=config.json,gbs=8,mbs=2,tp=1,sites=s1+s2"
SPEC = SMALL + ",pp=4,dp=2"  # every GPU of both sites
ROOT = "/tmp/spiderflow-live"
ENDED = ("done", "failed", "cancelled")

installed = None
bed = None
broker = None
beds = []


def begin(stage, shared=True):
    global bed, broker, installed
    installed = stage
    if not shared:
        return
    bed = Testbed(ROOT, "sfl", "10.80")
    broker = set_up(bed, {"count": 2, "nodes": 2, "gpus": 2})


def built(name):
    """A file of the build folder, in which the stage is."""
    return os.path.join(os.path.dirname(installed), name)


def set_up(new, sites, home="s1", **configuration):
    """Bring sites up, with the plugin, a broker, and in the user's home a model and a trainer; the broker."""
    beds.append(new)
    new.down()  # what a killed run may have left
    new.up(**sites)
    made = Broker(new, installed, home)
    if configuration:
        made.configure(**configuration)
    made.install_plugin()
    made.start()
    folder = new.home(USER)
    with open(folder + "/config.json", "w", encoding="ascii") as file:
        json.dump(MODEL, file)
    shutil.copytree(os.path.join(TOP, "examples", "train_gpt"), folder + "/train_gpt")
    own(folder)
    return made


def own(path, user=USER):
    """Give the path, and all below it, to the user."""
    for folder, _, files in os.walk(path):
        for name in (folder, *(os.path.join(folder, file) for file in files)):
            shutil.chown(name, user, user)


def end():
    for each in beds:
        each.down()


def tell_logs(broker):
    if broker and os.path.exists(broker.log):
        with open(broker.log, encoding="utf-8", errors="replace") as file:
            print("  broker's log ends:\n    " + "    ".join(file.readlines()[-15:]), file=sys.stdout, flush=True)


def wait_for(what, seconds, predicate, step=0.2):
    """The first true value of predicate(), or an AssertionError that says what (a text, or a function that makes
    one at the end) did not come."""
    end_time = time.monotonic() + seconds
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > end_time:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(step)


def losses(text):
    return [float(value) for value in re.findall(r"^step \d+ loss (\S+)$", text, re.MULTILINE)]


class LiveTest(unittest.TestCase):
    """A test on the shared federation. `self.folder` is the user's fresh directory, with config.json in it."""
    counter = 0
    alone = {}  # steps -> losses of one process
    bed = property(lambda self: bed)
    broker = property(lambda self: broker)

    def setUp(self):
        LiveTest.counter += 1
        self.folder = f"{self.bed.home(USER)}/t{LiveTest.counter}"
        os.mkdir(self.folder)
        shutil.copy(self.bed.home(USER) + "/config.json", self.folder)
        own(self.folder)
        self.known = {job["id"] for job in self.broker.jobs()}

    def tearDown(self):
        """Whatever was tested: nothing is left, and no node was drained."""
        try:
            if self.broker.alive:
                for job in self.new_jobs():
                    if job["state"] not in ENDED:
                        self.broker.call("DELETE", "/v1/jobs/" + job["id"])
            for site, number, _, comment in self.queue():
                if "spiderflow=" not in comment:  # a plain job that this test used to fill a site
                    self.bed.run(site, ["scancel", number], timeout=20)
            wait_for("an empty queue at every site", 45, lambda: not self.queue())
            for site in self.bed.sites:
                self.bed.wait_idle(site, 20)
        finally:
            for site in self.bed.sites:
                self.bed.run(site, ["scancel", "-u", USER], timeout=20)

    # -- doing

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        shutil.chown(path, USER, USER)
        return path

    def sh(self, site, *argv, user=USER, **keywords):
        return self.bed.run(site, list(argv), user=user, cwd=keywords.pop("cwd", self.folder), **keywords)

    def sbatch(self, *words, spec=SPEC, **keywords):
        option = [f"--spiderflow={spec}"] if spec is not None else []
        return self.sh(self.broker.home, "sbatch", *option, *words, **keywords)

    def again(self):
        """Forget the job so far and what it wrote."""
        self.known = {job["id"] for job in self.broker.jobs()}
        for path in (*self.files("*.out"), *self.files("task.*")):
            path.unlink()

    def run_job(self, script, *words, state="done", seconds=90, **keywords):
        """Submit the script and wait for the end of the federated job; the job."""
        self.write("job.sh", script)
        done = self.sbatch("--output=%N-%j.out", *words, "job.sh", **keywords)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.ended(state, seconds)

    def train(self, spec, steps, seconds=120, times=1):
        """Train the example's model, `times` one after the other, and compare each with one process; the job."""
        words = ["--gbs", "8", "--mbs", "1", "--steps", str(steps)]
        folder = self.bed.home(USER) + "/train_gpt"
        trainer = folder + "/train_gpt.py"
        script = "#!/bin/bash\n" + f"srun /usr/bin/python3 {trainer} {' '.join(words)} || exit\n" * times
        job = self.run_job(script, "--mem-per-cpu=500M", seconds=seconds,
                           spec=f"model={folder}/config.json,seq=64,gbs=8,mbs=1,tp=1,{spec}")
        if steps not in LiveTest.alone:
            one = self.sh(self.broker.home, "/usr/bin/python3", trainer, *words, timeout=60)
            self.assertEqual(one.returncode, 0, one.stderr)
            LiveTest.alone[steps] = losses(one.stdout)
        over_sites = losses(self.output())
        self.assertEqual(len(over_sites), times * steps, self.output())
        for loss, one in zip(over_sites, LiveTest.alone[steps] * times):
            self.assertAlmostEqual(loss, one, delta=1e-4)
        return job

    def cli(self, *words, user=USER):
        return self.sh(self.broker.home, self.broker.client, "--socket", self.broker.socket, *words, user=user)

    def known_to_be_free(self, *sites, gpus=4):
        """Wait until the broker has seen so many free GPUs at each: what it saw decides which part is released first."""
        def free():
            return {site["name"]: site["free_gpus"] for site in self.broker.call("GET", "/v1/sites")[1]["sites"]}

        wait_for("the broker's view", 20, lambda: all(free()[site] == gpus for site in sites))

    # -- looking

    def new_jobs(self):
        return [job for job in self.broker.jobs() if job["id"] not in self.known]

    def job(self):
        """The one federated job of this test."""
        jobs = self.new_jobs()
        self.assertEqual(len(jobs), 1, jobs)
        return self.broker.job(jobs[0]["id"])

    def wait_state(self, *states, seconds=60):
        def what():
            job = self.job()
            return f"state {' or '.join(states)}; now {job['state']}: {job['reason']}\n{self.output()}"

        return wait_for(what, seconds, lambda: (job := self.job())["state"] in states and job)

    def ended(self, state="done", seconds=90):
        job = self.wait_state(*ENDED, seconds=seconds)
        self.assertEqual(job["state"], state, job["reason"] + "\n" + self.output())
        return job

    def queue(self):
        """(site, job id, state, comment) of every job that is not over."""
        rows = []
        for site in self.bed.sites:
            text = self.bed.run(site, ["squeue", "-h", "-o", "%i|%T|%k"], timeout=20).stdout
            rows += [(site.name, *line.split("|", 2)) for line in text.splitlines()]
        return rows

    def scontrol_node(self, site, node, field):
        text = self.bed.run(site, ["scontrol", "show", "node", node]).stdout
        return re.search(rf"\b{field}=(\S+)", text)[1]

    def files(self, pattern):
        return sorted(pathlib.Path(self.folder).glob(pattern))

    def output(self):
        texts = []
        for name in sorted(os.listdir(self.folder)):
            if name.endswith((".out", ".log")):
                with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
                    texts.append(f"== {name}\n{file.read()}")
        return "\n".join(texts)

    def ranks(self):
        """What the tasks printed: {rank: {variable: value}} from lines "T name=value …"."""
        found = {}
        for line in re.findall(r"^T (.*)$", self.output(), re.MULTILINE):
            values = dict(word.split("=", 1) for word in line.split())
            self.assertNotIn(int(values["RANK"]), found, "a rank came twice:\n" + self.output())
            found[int(values["RANK"])] = values
        return found

    def tasks(self):
        """The environment of each task that ran DUMP."""
        return [self.environment(path) for path in self.files("task.*")]

    @staticmethod
    def environment(path):
        """What `env -0` wrote."""
        return dict(item.split("=", 1) for item in path.read_text().split("\0") if item)

    def check_tasks(self, job):
        """Each slot of the plan has its ranks, once, at its site, and rank 0 is where MASTER_ADDR says: what the
        tasks of DUMP say against the plan; their environments by rank."""
        plan, tasks = job["plan"], self.tasks()
        tp, dp = plan["parallel"]["tp"], plan["parallel"]["dp"]
        expected = {(str(part + tp * (member + dp * stage)), site["site"], str(stage), str(member), str(part))
                    for site in plan["sites"] for stage, member in site["slots"] for part in range(tp)}
        names = ("RANK", "SPIDERFLOW_SITE", "SPIDERFLOW_STAGE", "SPIDERFLOW_DP_RANK", "SPIDERFLOW_TP_RANK")
        self.assertEqual({tuple(task[name] for name in names) for task in tasks}, expected, self.output())
        self.assertEqual(len(tasks), len(expected))
        nodes = {}
        for task in tasks:
            self.assertIn(task["SLURMD_NODENAME"], self.bed.site(task["SPIDERFLOW_SITE"]).names)
            self.assertEqual(task["WORLD_SIZE"], str(len(tasks)))
            nodes.setdefault(task["SLURMD_NODENAME"], []).append(task)
        for on_node in nodes.values():
            self.assertEqual(sorted(task["LOCAL_RANK"] for task in on_node), [str(n) for n in range(len(on_node))])
            self.assertEqual({task["LOCAL_WORLD_SIZE"] for task in on_node}, {str(len(on_node))})
        self.assertEqual(len({task["NODE_RANK"] for task in tasks}), len(nodes))
        by_rank = {int(task["RANK"]): task for task in tasks}
        self.assertEqual({task["MASTER_ADDR"] for task in tasks}, {self.address(by_rank[0])})
        self.assertEqual(len({task["MASTER_PORT"] for task in tasks}), 1)
        return by_rank

    def address(self, task):
        """Of the node where the task ran, a number."""
        site = self.bed.site(task["SPIDERFLOW_SITE"])
        return next(node.address for node in site.nodes if node.name == task["SLURMD_NODENAME"])

    def nothing_left(self, seconds=10):
        wait_for(f"an empty queue; there is {self.queue()}", seconds, lambda: not self.queue())


class OwnSites(LiveTest):
    """A test on sites of its own, which live as long as its class. sites: what Testbed.up() takes."""
    sites = {}
    home = "s1"
    configuration = {}  # what Broker.configure() takes

    @classmethod
    def setUpClass(cls):
        cls.bed = Testbed(ROOT + "-own", "sfo", "10.82")
        cls.addClassCleanup(cls.bed.down)
        cls.broker = set_up(cls.bed, cls.sites, cls.home, **cls.configuration)


DUMP = "env -0 >task.$SLURM_SPIDERFLOW_SITE.$SLURMD_NODENAME.$SLURM_STEP_ID.$SLURM_LOCALID"
PRINT_RANK = ("#!/bin/bash\n"
              "srun /bin/bash -c 'echo T RANK=$RANK WORLD=$WORLD_SIZE LOCAL=$LOCAL_RANK SITE=$SPIDERFLOW_SITE "
              "STAGE=$SPIDERFLOW_STAGE DP=$SPIDERFLOW_DP_RANK LAYERS=$SPIDERFLOW_FIRST_LAYER-$SPIDERFLOW_LAST_LAYER "
              "NODE=$SLURMD_NODENAME MASTER=$MASTER_ADDR PORT=$MASTER_PORT IF=$GLOO_SOCKET_IFNAME MINE=$MINE'\n")
