# SPDX-License-Identifier: GPL-3.0-or-later
"""What the live tests share: two real sites with the plugin, a broker, an ordinary user; and LiveTest, which sees to it
that each test leaves no job alive and every node idle."""
import json
import os
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

bed = None
broker = None


def begin(stage):
    global bed, broker
    bed = Testbed(ROOT, "sfl", "10.80")
    bed.down()  # what a killed run may have left
    bed.up(2, nodes=2, gpus=2)
    broker = Broker(bed, stage)
    broker.install_plugin()
    broker.start()
    home = bed.home(USER)
    with open(home + "/config.json", "w", encoding="ascii") as file:
        json.dump(MODEL, file)
    shutil.copytree(os.path.join(TOP, "examples", "train_gpt"), home + "/train_gpt")
    for folder, _, files in os.walk(home):
        for name in (folder, *(os.path.join(folder, file) for file in files)):
            shutil.chown(name, USER, USER)


def end():
    if bed:
        bed.down()


def tell_logs():
    if broker and os.path.exists(broker.log):
        with open(broker.log, encoding="utf-8", errors="replace") as file:
            print("  broker's log ends:\n    " + "    ".join(file.readlines()[-15:]), file=sys.stdout, flush=True)


def wait_for(what, seconds, predicate, step=0.2):
    """The first true value of predicate(), or an AssertionError that says what did not come."""
    end_time = time.monotonic() + seconds
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > end_time:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(step)


class LiveTest(unittest.TestCase):
    """A test on the shared federation. `self.folder` is the user's fresh directory, with config.json in it."""
    counter = 0

    def setUp(self):
        LiveTest.counter += 1
        self.folder = f"{bed.home(USER)}/t{LiveTest.counter}"
        os.mkdir(self.folder)
        shutil.copy(bed.home(USER) + "/config.json", self.folder)
        for name in ("", "config.json"):
            shutil.chown(os.path.join(self.folder, name), USER, USER)
        self.known = {job["id"] for job in broker.jobs()}

    def tearDown(self):
        """Whatever was tested: nothing is left, and no node was drained."""
        try:
            if broker.alive:
                for job in self.new_jobs():
                    if job["state"] not in ENDED:
                        broker.call("DELETE", "/v1/jobs/" + job["id"])
            for site, number, _, comment in self.queue():
                if "spiderflow=" not in comment:  # a plain job that this test used to fill a site
                    bed.run(site, ["scancel", number], timeout=20)
            wait_for("an empty queue at both sites", 45, lambda: not self.queue())
            for site in bed.sites:
                bed.wait_idle(site, 20)
        finally:
            for site in bed.sites:
                bed.run(site, ["scancel", "-u", USER], timeout=20)

    # -- doing

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        shutil.chown(path, USER, USER)
        return path

    def sh(self, site, *argv, user=USER, **keywords):
        return bed.run(site, list(argv), user=user, cwd=keywords.pop("cwd", self.folder), **keywords)

    def sbatch(self, *words, spec=SPEC, **keywords):
        option = [f"--spiderflow={spec}"] if spec is not None else []
        return self.sh("s1", "sbatch", *option, *words, **keywords)

    def cli(self, *words, user=USER):
        return self.sh("s1", broker.client, "--socket", broker.socket, *words, user=user)

    # -- looking

    def new_jobs(self):
        return [job for job in broker.jobs() if job["id"] not in self.known]

    def job(self):
        """The one federated job of this test."""
        jobs = self.new_jobs()
        self.assertEqual(len(jobs), 1, jobs)
        return broker.job(jobs[0]["id"])

    def wait_state(self, *states, seconds=60):
        return wait_for(f"state {' or '.join(states)}; now {self.job()['state']}: {self.job()['reason']}", seconds,
                        lambda: (job := self.job())["state"] in states and job)

    def ended(self, state="done", seconds=90):
        job = self.wait_state(*ENDED, seconds=seconds)
        self.assertEqual(job["state"], state, job["reason"] + "\n" + self.output())
        return job

    def queue(self):
        """(site, job id, state, comment) of every job that is not over."""
        rows = []
        for site in bed.sites:
            text = bed.run(site, ["squeue", "-h", "-o", "%i|%T|%k"], timeout=20).stdout
            rows += [(site.name, *line.split("|", 2)) for line in text.splitlines()]
        return rows

    def scontrol_node(self, site, node, field):
        text = bed.run(site, ["scontrol", "show", "node", node]).stdout
        return re.search(rf"\b{field}=(\S+)", text)[1]

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

    def nothing_left(self, seconds=10):
        wait_for(f"an empty queue; there is {self.queue()}", seconds, lambda: not self.queue())


PRINT_RANK = ("#!/bin/bash\n"
              "srun /bin/bash -c 'echo T RANK=$RANK WORLD=$WORLD_SIZE LOCAL=$LOCAL_RANK SITE=$SPIDERFLOW_SITE "
              "STAGE=$SPIDERFLOW_STAGE DP=$SPIDERFLOW_DP_RANK LAYERS=$SPIDERFLOW_FIRST_LAYER-$SPIDERFLOW_LAST_LAYER "
              "NODE=$SLURMD_NODENAME MASTER=$MASTER_ADDR PORT=$MASTER_PORT IF=$GLOO_SOCKET_IFNAME MINE=$MINE'\n")
