#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Predicted iteration times against measured ones, over an emulated WAN. Needs root, and python3-torch.

Plans of many shapes are made for sites whose links are those of published measurements, made slower, and each is run:
real gloo, real TCP, real messages; only computing is slept. A table says what was predicted and measured, and whether of
two plans for one job the better was better."""
import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import signal
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import emulated  # noqa: E402
from wan import Link, Places, Wan  # noqa: E402

DATA = os.path.join(emulated.TOP, "tests", "data", "topologies")
MBPS, RTT = (10, 200), (1, 100)  # what the emulator can do on a small machine


@dataclasses.dataclass(frozen=True)
class Matrix:
    """Sites of a published matrix, all bandwidths times `scale`, within MBPS; round trips within RTT."""
    topology: str
    scale: float
    sites: tuple

    def links(self):
        with open(os.path.join(DATA, self.topology + ".json"), encoding="utf-8") as file:
            data = json.load(file)
        return {(self.name(a), self.name(b)): Link(clamp(data["rtt_ms"][a][b], RTT) / 2,
                                                   clamp(data["bw_gbps"][a][b] * 1000 * self.scale, MBPS))
                for a, b in itertools.permutations(self.sites, 2)}

    @staticmethod
    def name(index):
        return f"s{index + 1}"

    def names(self):
        return [self.name(index) for index in self.sites]


def clamp(value, bounds):
    return round(min(max(value, bounds[0]), bounds[1]), 3)


def model(milliseconds, boundary, gradient, layers=16):
    """Costs of equal layers: of a forward; backward is twice that."""
    return {"explicit": {"layers": layers, "forward_seconds": milliseconds / 1000, "backward_seconds": milliseconds / 500,
                         "boundary_bytes": boundary, "gradient_bytes": gradient}}


@dataclasses.dataclass(frozen=True)
class Job:
    """A model over sites, with the shapes in which it is planned: pipeline, data, and more words for the planner."""
    matrix: Matrix
    model: dict
    gbs: int
    gpus: int  # of each site
    shapes: tuple


# Gradients are far larger than what sockets hold: the kernel sends that while the next iteration computes already.
FITTED, STAGES = "--depth fitted", "--depth stages"
TWO = Matrix("dtfm_case3_two_universities", 0.05, (0, 1))
THREE = Matrix("fluidstack_3region", 0.05, (0, 1, 2))
FOUR = Matrix("dtfm_case5_worldwide", 0.1, (0, 1, 2, 5))
CLOUDS = Matrix("skyplane_8", 0.012, tuple(range(8)))
WORLD = Matrix("dtfm_case5_worldwide", 0.1, tuple(range(8)))
JOBS = (
    Job(TWO, model(5, 400000, 240000), 16, 2, (
        ("2 sites, two stages", f"--pp 2 --dp 1 {STAGES}"), ("2 sites, two stages", f"--pp 2 --dp 1 {FITTED}"),
        ("2 sites, two pipelines", "--pp 1 --dp 2"), ("2 sites, 4 x 1", f"--pp 4 --dp 1 {FITTED}"),
        ("2 sites, 2 x 2", f"--pp 2 --dp 2 {FITTED}"), ("2 sites, four pipelines", "--pp 1 --dp 4"))),
    Job(THREE, model(5, 200000, 200000), 24, 2, (
        ("3 sites, three stages", f"--pp 3 --dp 1 {STAGES}"), ("3 sites, three stages", f"--pp 3 --dp 1 {FITTED}"),
        ("3 sites, three pipelines", "--pp 1 --dp 3"), ("3 sites, 3 x 2", f"--pp 3 --dp 2 {FITTED}"))),
    Job(FOUR, model(8, 300000, 160000), 16, 1, (
        ("4 sites, four stages", f"--pp 4 --dp 1 {STAGES}"), ("4 sites, four stages", f"--pp 4 --dp 1 {FITTED}"),
        ("4 sites, 2 x 2", f"--pp 2 --dp 2 {FITTED}"), ("4 sites, four pipelines", "--pp 1 --dp 4"))),
    Job(CLOUDS, model(12, 150000, 180000), 16, 1, (
        ("8 sites, eight stages", f"--pp 8 --dp 1 {STAGES}"), ("8 sites, eight stages", f"--pp 8 --dp 1 {FITTED}"),
        ("8 sites, 4 x 2", f"--pp 4 --dp 2 {FITTED}"), ("8 sites, 2 x 4", f"--pp 2 --dp 4 {FITTED}"),
        ("8 sites, eight pipelines", "--pp 1 --dp 8"))),
    Job(WORLD, model(12, 150000, 180000), 16, 1, (
        ("8 sites, eight stages", f"--pp 8 --dp 1 {FITTED}"), ("8 sites, 4 x 2", f"--pp 4 --dp 2 {FITTED}"),
        ("8 sites, 2 x 4", f"--pp 2 --dp 4 {STAGES}"))),
)
QUICK = (Job(TWO, model(5, 400000, 120000), 16, 1, (
    ("2 sites, two stages", f"--pp 2 --dp 1 {FITTED}"), ("2 sites, two pipelines", "--pp 1 --dp 2"))),)
MEDIAN, WORST, APART = 0.10, 0.20, 0.10
OVERLOADED = 0.9  # share of the machine's processors: then the machine is measured, not the plan
TRIES = 3


@dataclasses.dataclass
class Row:
    """One plan: what was said of it, what was seen."""
    job: int
    label: str
    words: str
    depths: list
    predicted: float
    measured: float
    busy: float
    tries: int

    @property
    def error(self):
        return self.predicted / self.measured - 1


class Bench:
    """Runs jobs one after the other, each behind a WAN of its own."""

    def __init__(self, stage, program, folder, measure, steps):
        self.stage, self.program, self.folder = stage, program, folder
        self.measure, self.steps = measure, steps
        self.planner = emulated.Planner(stage, folder)

    @contextlib.contextmanager
    def wan(self, job):
        """The WAN of a job, and its federation file: as the sites' agents measure the links, or as they were set."""
        names, links = job.matrix.names(), job.matrix.links()
        with Places("sfp", names) as places, Wan(places.spaces, links, self.program, net="10.94") as wan:
            known = self.measured(wan) if self.measure else emulated.as_set(links)
            yield wan, self.planner.write("federation.json", emulated.federation(names, known, job.gpus))

    def measured(self, wan):
        agents = emulated.Agents(wan, self.stage, self.folder)
        try:
            time.sleep(0.5)
            return agents.measure()
        finally:
            agents.down()

    def plan(self, job, federation, words):
        return self.planner.plan(federation, self.planner.write("model.json", job.model), "--gbs", str(job.gbs), "--mbs", "1",
                                 "--tp", "1", *words.split())

    def run(self, job, wan, plan, label, words, number=0):
        plan_file = self.planner.write("plan.json", plan)
        for tries in range(1, TRIES + 1):
            seen = emulated.run(self.planner, plan_file, os.path.join(self.folder, "model.json"), wan, job.gbs, self.steps)
            if seen.busy < OVERLOADED:
                break
        return Row(number, label, words, [stage["depth"] for stage in plan["stages"]], plan["iteration"]["seconds"],
                   seen.period, seen.busy, tries)

    def rows(self, jobs):
        for number, job in enumerate(jobs):
            with self.wan(job) as (wan, federation):
                for label, words in job.shapes:
                    row = self.run(job, wan, self.plan(job, federation, f"--sites {','.join(job.matrix.names())} {words}"),
                                   label, words, number)
                    print(f"{row.label:25} {row.words:32} {row.predicted:9.3f} {row.measured:9.3f} {100 * row.error:+7.1f} %"
                          f" {100 * row.busy:5.0f} %" + (f"  run {row.tries} times" if row.tries > 1 else ""), flush=True)
                    yield row


def wrong_pairs(rows):
    """Of two plans for one job, predicted apart: those of which the better one was not better."""
    pairs = [(a, b) for a, b in itertools.permutations(rows, 2)
             if a.job == b.job and b.predicted > (1 + APART) * a.predicted]
    return pairs, [(a, b) for a, b in pairs if a.measured >= b.measured]


def verdict(rows):
    errors = sorted(abs(row.error) for row in rows)
    pairs, wrong = wrong_pairs(rows)
    print(f"{len(rows)} plans: error {100 * statistics.median(errors):.1f} % in the median, {100 * errors[-1]:.1f} % at worst; "
          f"{len(pairs)} pairs over {100 * APART:.0f} % apart, {len(wrong)} the wrong way round")
    for a, b in wrong:
        print(f"  {a.label} {a.words} was not better than {b.label} {b.words}")
    return statistics.median(errors) <= MEDIAN and errors[-1] <= WORST and not wrong


def compare(bench, planners, gbs=32):
    """The same job on the eight clouds by each planner, its plan really run; shapes are the planner's own."""
    job = dataclasses.replace(JOBS[3], gbs=gbs)
    print(f"\n{'planner':10} {'shape':12} {'planning':>10} {'predicted':>10} {'measured':>10}")
    rows = []
    with bench.wan(job) as (wan, federation):
        for name in planners:
            plan = bench.plan(job, federation, f"--planner {name}")
            parallel = plan["parallel"]
            row = bench.run(job, wan, plan, name, f"pp {parallel['pp']} dp {parallel['dp']}")
            print(f"{name:10} {row.words:12} {plan['search']['seconds']:8.2f} s {row.predicted:8.3f} s {row.measured:8.3f} s",
                  flush=True)
            rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", required=True, help="where `make install DESTDIR=` put SpiderFlow")
    parser.add_argument("--wan", required=True, help="the emulator, tests/live/wan of the build")
    parser.add_argument("--quick", action="store_true", help="two plans only")
    parser.add_argument("--as-set", action="store_true", help="plan on the links as they were set, not as agents measure them")
    parser.add_argument("--planners", help="names, with commas between: compare these planners instead")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--json", help="write the rows to this file")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(os.path.abspath(wanted.stage), os.path.abspath(wanted.wan), folder, not wanted.as_set, wanted.steps)
        if wanted.planners:
            rows, good = compare(bench, wanted.planners.split(",")), True
        else:
            print(f"{'plan':25} {'options':32} {'predicted':>9} {'measured':>9} {'error':>9} {'busy':>7}")
            rows = list(bench.rows(QUICK if wanted.quick else JOBS))
            good = verdict(rows)
    if wanted.json:
        with open(wanted.json, "w", encoding="utf-8") as file:
            json.dump([dataclasses.asdict(row) for row in rows], file, indent=1)
    return 0 if good else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and leave nothing behind
    try:
        sys.exit(main())
    except emulated.RunError as trouble:
        sys.exit(f"predict: {trouble}")
