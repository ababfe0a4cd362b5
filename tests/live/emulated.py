# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan for sites behind an emulated WAN, really run: examples/train_gpt on real gloo, one process for each rank, with
computing that is slept. What comes back is how long its iterations took and where the time went."""
import contextlib
import json
import os
import re
import statistics
import subprocess
import time

from broker import find

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRAINER = os.path.join(TOP, "examples", "train_gpt", "train_gpt.py")
PORT = 29400
WARM = 2  # steps until the windows of the connections are open
LINE = re.compile(r"^rank (\d+) step (\d+) began (\S+) ended (\S+) summed (\S+) late (\S+)$", re.MULTILINE)
# What a link carries of data: 1448 of 1500 bytes of a packet; and for each two of them there comes back an
# acknowledgement of 52 bytes, which takes from the data of the other direction.
PAYLOAD = 1448 / 1500 * (1 - 52 / 3000)


class RunError(Exception):
    """One message for the person who runs this."""


def as_set(links):
    """{(from, to): (Gbit/s of payload, round trip in ms)} of {(from, to): wan.Link}."""
    return {(a, b): (link.mbps * PAYLOAD / 1000, link.delay_ms + links[b, a].delay_ms) for (a, b), link in links.items()}


def federation(sites, known, gpus):
    """The federation file of these sites. known: as of as_set() or Agents.measure(); gpus: of each site."""
    def matrix(which):
        return [[None if a == b else known[a, b][which] for b in sites] for a in sites]

    return {"sites": [{"name": name, "gpu": "h100", "nodes": 1, "gpus_per_node": gpus} for name in sites],
            "bw_gbps": matrix(0), "rtt_ms": matrix(1)}


class Agents:
    """spiderflow-probe at each place of a WAN, for measuring all its links."""

    def __init__(self, wan, stage, folder):
        self.wan, self.program = wan, find(stage, "spiderflow-probe")
        self.key = os.path.join(folder, "probe.key")
        if not os.path.exists(self.key):
            subprocess.run((self.program, "--make-key", self.key), check=True, stdout=subprocess.DEVNULL)
        self.children = []
        for site in wan.places:
            config = os.path.join(folder, f"{site}.conf")
            with open(config, "w", encoding="ascii") as file:
                file.write(f'site = "{site}"\nlisten = "{wan.address(site)}:7711"\nkey_file = "{self.key}"\n'
                           f'allow = ["{wan.net}.0.0/16"]\n')
            with open(os.path.join(folder, f"{site}.probe.log"), "wb") as log:
                self.children.append(subprocess.Popen([*wan.enter(site), self.program, "--config", config],
                                                      stdout=log, stderr=log))

    def down(self):
        for child in self.children:
            child.terminate()
            child.wait()

    def ask(self, pairs, streams=2, seconds=2):
        """{(a, b): what spiderflow-probe --measure prints} of these pairs, all at once."""
        asked = {(a, b): subprocess.Popen(
            [*self.wan.enter(a), self.program, "--measure", f"{self.wan.address(b)}:7711", "--key", self.key,
             "--streams", str(streams), "--seconds", str(seconds), "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for a, b in pairs}
        found = {}
        for (a, b), child in asked.items():
            said, trouble = child.communicate()
            if child.returncode:
                raise RunError(f"{a} -> {b}: {trouble.strip()}")
            found[a, b] = json.loads(said)
        return found

    def measure(self):
        """{(from, to): (Gbit/s, round trip in ms)} of all, as the broker takes them: no two tests share a site."""
        known = {}
        for pairs in rounds(list(self.wan.places)):
            for (a, b), found in self.ask(pairs).items():
                rtt = 1000 * found["rtt_median_seconds"]
                known[a, b] = min(found["forth"]["gbps"], found["forth_both"]["gbps"]), rtt
                known[b, a] = min(found["back"]["gbps"], found["back_both"]["gbps"]), rtt
        return known


def rounds(names):
    """Every pair once, in rounds in which each name has one partner at most (a round-robin tournament)."""
    names = names + [None] * (len(names) % 2)
    for _ in range(len(names) - 1):
        pairs = zip(names[:len(names) // 2], reversed(names[len(names) // 2:]))
        yield [pair for pair in pairs if None not in pair]
        names = [names[0], names[-1], *names[1:-1]]


class Planner:
    """`spiderflow` of a stage, on files in a folder."""

    def __init__(self, stage, folder):
        self.program, self.folder = find(stage, "spiderflow"), folder

    def write(self, name, value):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
        return path

    def ask(self, *words):
        done = subprocess.run((self.program, *words), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RunError(f"spiderflow {' '.join(words)}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def plan(self, federation_file, model_file, *words):
        return self.ask("plan", "--federation", federation_file, "--model", model_file, "--json", *words)

    def ranks(self, plan_file, address):
        """(site, environment) of each rank of the plan, as the plugin would give it. address: site -> address."""
        with open(plan_file, encoding="utf-8") as file:
            sites = [site["site"] for site in json.load(file)["sites"]]
        for site in sites:
            part = self.ask("launch", "--plan", plan_file, "--site", site, "--json")["env"]
            words = {name.removeprefix("SLURM_SPIDERFLOW_"): value for name, value in part.items()}
            for slot in re.split("[,/]", words["SLOTS"]):
                yield site, rank_environment(words, slot, site, plan_file) | {
                    "MASTER_ADDR": address(words["MASTER_SITE"]), "MASTER_PORT": str(PORT)}


def rank_environment(words, slot, site, plan_file):
    """What a task of the slot "stage.pipeline" has in its environment, from the carriers of its part."""
    stage, dp = map(int, slot.split("."))
    first, last = words["LAYERS"].split(",")[stage].split("-")
    return {"RANK": str(dp + int(words["DP"]) * stage), "WORLD_SIZE": words["WORLD"], "SPIDERFLOW_SITE": site,
            "SPIDERFLOW_STAGE": str(stage), "SPIDERFLOW_NSTAGES": words["PP"], "SPIDERFLOW_DP_RANK": str(dp),
            "SPIDERFLOW_DP_SIZE": words["DP"], "SPIDERFLOW_TP_SIZE": words["TP"], "SPIDERFLOW_FIRST_LAYER": first,
            "SPIDERFLOW_LAST_LAYER": last, "SPIDERFLOW_DEPTHS": words["DEPTHS"], "SPIDERFLOW_PLAN_FILE": plan_file,
            "GLOO_SOCKET_IFNAME": "far0", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def busy_and_all():
    """Jiffies of the machine's processors since boot."""
    with open("/proc/stat", encoding="ascii") as file:
        values = [int(word) for word in file.readline().split()[1:9]]
    return sum(values) - values[3] - values[4], sum(values)


@contextlib.contextmanager
def trainers(ranks, enter, words, folder):
    """Start the trainer for each rank; they are gone at the end. enter: site -> words that enter it."""
    children = []
    try:
        for site, env in ranks:
            with open(os.path.join(folder, f"rank{env['RANK']}.log"), "wb") as log:
                children.append(subprocess.Popen([*enter(site), "/usr/bin/python3", TRAINER, *words], env=env,
                                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        yield children
    finally:
        for child in children:
            child.kill()
            child.wait()


def run(planner, plan_file, model_file, wan, gbs, steps, seconds=180):
    """Run `steps` steps of the plan, after the first ones; what was measured."""
    ranks = list(planner.ranks(plan_file, wan.address))
    words = ["--emulate", model_file, "--gbs", str(gbs), "--steps", str(steps + WARM), "--timeout", "60"]
    before = busy_and_all()
    with trainers(ranks, wan.enter, words, planner.folder) as children:
        end = time.monotonic() + seconds
        while any(child.poll() is None for child in children):
            if time.monotonic() > end or any(child.poll() for child in children):
                raise RunError(f"{plan_file}: {tell(planner.folder, len(ranks))}")
            time.sleep(0.05)
    if any(child.returncode for child in children):
        raise RunError(f"{plan_file}: {tell(planner.folder, len(ranks))}")
    after = busy_and_all()
    return Steps(planner.folder, plan_file, steps, (after[0] - before[0]) / (after[1] - before[1]))


def tell(folder, count):
    for rank in range(count):
        with open(os.path.join(folder, f"rank{rank}.log"), encoding="utf-8", errors="replace") as log:
            if lines := [line for line in log.read().splitlines() if not line.startswith("rank ")]:
                return f"rank {rank}: {lines[-1]}"
    return "it takes too long"


class Steps:
    """What the ranks told of the steps after the first ones, in seconds."""

    def __init__(self, folder, plan_file, steps, busy):
        self.busy = busy  # share of the machine's processors meanwhile
        with open(plan_file, encoding="utf-8") as file:
            self.plan = json.load(file)
        self.dp = self.plan["parallel"]["dp"]
        self.moments, self.late = {}, []
        for rank in range(self.dp * self.plan["parallel"]["pp"]):
            with open(os.path.join(folder, f"rank{rank}.log"), encoding="utf-8") as log:
                for _, step, *values in LINE.findall(log.read()):
                    began, ended, summed, late = map(float, values)
                    self.moments[rank, int(step)] = began, ended, summed
                    self.late.append(late)
        self.steps = range(WARM + 1, WARM + steps + 1)
        ends = [max(self.of(step, 2)) for step in range(WARM, WARM + steps + 1)]
        self.periods = [after - before for before, after in zip(ends, ends[1:])]
        self.period = statistics.median(self.periods)

    def of(self, step, which, stage=None):
        ranks = range(self.dp * self.plan["parallel"]["pp"]) if stage is None else \
            range(self.dp * stage, self.dp * (stage + 1))
        return [self.moments[rank, step][which] for rank in ranks]

    def median(self, value):
        return statistics.median(value(step) for step in self.steps)

    @property
    def span(self):
        """From the first stage's begin to the last sum."""
        return self.median(lambda step: max(self.of(step, 2)) - min(self.of(step, 0, 0)))

    def end_of(self, stage):
        """When the stage ends its last backward, after the first stage's begin."""
        return self.median(lambda step: max(self.of(step, 1, stage)) - min(self.of(step, 0, 0)))

    def sum_of(self, stage):
        """How long its gradients take after that."""
        return self.median(lambda step: max(self.of(step, 2, stage)) - max(self.of(step, 1, stage)))
