#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge what SpiderFlow gives to trainers by what the trainers' own code makes of it.

The input has one case a line: {"plan": a plan's JSON, "launch": {trainer: {"args", "files"}},
"ranks": [[rank, stage, dp, tp], …]}. The trainers' code is taken out of the checkouts that the options name; a
trainer without one is skipped.
"""
import argparse
import collections
import json
import os
import sys
import tempfile

from trainers import Deepspeed, Megatron, Pytorch, Torchtitan

# Megatron's names of communicators, and the axes that their members differ in. Those of experts are made for any model.
COMMUNICATORS = {"tp": "tp", "cp": "cp", "dp": "dp", "dp_cp": "dp-cp", "pp": "pp", "mp": "tp-pp", "embd": "pp",
                 "tp_dp": "tp-dp", "tp_dp_cp": "tp-dp-cp", "tp_cp": "tp-cp", "ep": "ep", "ep_tp": "tp", "ep_dp": "dp",
                 "tp_ep_mp": "tp-ep", "tp_ep_pp": "tp-ep-pp", "intra_dist_opt_instance": "tp-dp-pp"}
# These may be named as well: one rank only, or made for options that SpiderFlow does not give.
IDLE_COMMUNICATORS = {"pos_embd": "pp", "intra_dp_cp": "dp-cp", "intra_ep_dp": "dp", "tp_ep_gtp_remat_pp": "tp-ep-pp"}


class Case:
    def __init__(self, line):
        value = json.loads(line)
        self.plan, self.launch = value["plan"], value["launch"]
        parallel = self.plan["parallel"]
        self.tp, self.pp, self.dp = parallel["tp"], parallel["pp"], parallel["dp"]
        self.microbatch, self.microbatches = parallel["microbatch"], parallel["microbatches"]
        self.stages = [list(range(stage["first_layer"], stage["last_layer"] + 1)) for stage in self.plan["stages"]]
        self.depths = [stage["depth"] for stage in self.plan["stages"]]
        self.layers = sum(len(stage) for stage in self.stages)
        self.rank_of = {(stage, dp, tp): rank for rank, stage, dp, tp in value["ranks"]}
        self.site_of = {self.rank_of[stage["stage"], slot["dp"], tp]: slot["site"]
                        for stage in self.plan["stages"] for slot in stage["slots"] for tp in range(self.tp)}

    def options(self, trainer):
        """The trainer's arguments: flag -> the words after it."""
        found, flag = {}, None
        for word in self.launch[trainer]["args"]:
            if word.startswith("--"):
                flag = word
                if flag in found:
                    raise ValueError(f"{flag} comes twice")
                found[flag] = []
            elif flag is None:
                raise ValueError(f"{word} comes before any flag")
            else:
                found[flag].append(word)
        return found

    def file(self, trainer, flag):
        """The text of the file that a flag names, or None where the flag is not given."""
        words = self.options(trainer).get(flag)
        if words is None:
            return None
        named = [text for name, text in self.launch[trainer].get("files", {}).items() if name in words[0]]
        if len(words) != 1 or len(named) != 1:
            raise ValueError(f"{flag} {' '.join(words)}: not one of the files")
        return named[0]


def same(what, ours, theirs):
    if ours != theirs:
        raise ValueError(f"{what}: {ours}, but the trainer has {theirs}")


def known(case, trainer, flags):
    unknown = [flag for flag in case.options(trainer) if flag not in flags]
    if unknown:
        raise ValueError(f"the trainer has no {', '.join(unknown)}")


def numbers(case, trainer, expected):
    options = case.options(trainer)
    for flag, value in expected.items():
        same(flag, options.get(flag), [str(value)])


def megatron_flags(case, megatron):
    known(case, "megatron", megatron.flags)
    numbers(case, "megatron", {
        "--tensor-model-parallel-size": case.tp, "--pipeline-model-parallel-size": case.pp,
        "--micro-batch-size": case.microbatch,
        "--global-batch-size": case.microbatch * case.microbatches * case.dp})


def megatron_layout(case, megatron):
    options = case.options("megatron")
    layout = options.get("--pipeline-model-parallel-layout")
    if layout is None:
        return same("stages without a layout", case.pp, 1)
    stages, chunks = megatron.layers(layout[0], case.pp, case.layers)
    if chunks == 1:
        same("layers of the stages", case.stages, stages)
    else:
        same("number of layers of the stages", [len(stage) for stage in case.stages], [len(stage) for stage in stages])
    group = options.get("--microbatch-group-size-per-virtual-pipeline-stage")
    same("a group size is given", group is not None, chunks > 1)
    if group:
        megatron.refuse(case.pp, case.microbatches, int(group[0]))
    if group or all(depth <= case.pp - stage for stage, depth in enumerate(case.depths)):
        megatron_depths(case, megatron, layout[0], chunks, int(group[0]) if group else case.pp)


def megatron_depths(case, megatron, text, chunks, group):
    """Megatron has at least as many micro-batches in flight as the plan counts on; chunks count by their layers."""
    layout = megatron.Layout(text, case.pp)
    for stage, depth in enumerate(case.depths):
        flights = megatron.in_flight(stage, case.pp, case.microbatches, chunks, group)
        counts = [layout.get_num_layers_to_build(vp_stage=chunk, pp_rank=stage) for chunk in range(chunks)]
        held = sum(count * flight for count, flight in zip(counts, flights))
        if held < min(depth, case.microbatches) * sum(counts):
            raise ValueError(f"stage {stage}: depth {depth}, but the trainer has {held / sum(counts):.1f}")


def megatron_ranks(case, megatron):
    axes = {"pp": range(case.pp), "dp": range(case.dp), "tp": range(case.tp)}
    for axis in axes:
        ours = collections.defaultdict(list)
        for place, rank in sorted(case.rank_of.items()):
            ours[tuple(value for name, value in zip(axes, place) if name != axis)].append(rank)
        theirs = megatron.groups(case.tp, case.dp, case.pp, axis)
        same(f"groups of {axis}", sorted(ours.values()), sorted(theirs))


def megatron_networks(case, megatron):
    """Groups that cross sites use sockets, and no other group does."""
    text = case.file("megatron", "--nccl-communicator-config-path")
    configured = read_yaml(text or "")
    axes_of = COMMUNICATORS | IDLE_COMMUNICATORS
    for name, values in configured.items():
        if name not in megatron.group_names or name not in axes_of:
            raise ValueError(f"the trainer has no communicator {name}")
        same(f"net_name of {name}", values.get("net_name"), megatron.nccl_options(name, configured).config.net_name)
    for name, axes in axes_of.items():
        groups = megatron.groups(case.tp, case.dp, case.pp, axes)
        if name == "embd":
            groups = [megatron.embedding_ranks(group) for group in groups]
        crosses = any(len({case.site_of[rank] for rank in group}) > 1 for group in groups)
        if crosses != (name in configured) and (name in configured or name in COMMUNICATORS):
            raise ValueError(f"{name} {'crosses' if crosses else 'does not cross'} sites, and the file says otherwise")


def read_yaml(text):
    """As much of YAML as such a file needs: `group:` lines, and below each of them indented `key: value` lines."""
    found, group = {}, None
    for line in filter(str.strip, text.splitlines()):
        key, colon, value = (part.strip() for part in line.partition(":"))
        if line.startswith("#"):
            continue
        if not colon or line[0] == " " and group is None or (line[0] == " ") != bool(value):
            raise ValueError(f"line of the communicators' file: {line}")
        if value:
            group[key] = value
        else:
            group = found[key] = {}
    return found


def torchtitan_flags(case, torchtitan):
    known(case, "torchtitan", torchtitan.flags)
    numbers(case, "torchtitan", {"--parallelism.pipeline_parallel_degree": case.pp,
                                 "--parallelism.tensor_parallel_degree": case.tp,
                                 "--parallelism.context_parallel_degree": 1})
    if case.pp > 1:
        numbers(case, "torchtitan", {"--parallelism.num_pp_microbatches": case.microbatches})


def torchtitan_ranks(case, torchtitan):
    options = case.options("torchtitan")
    replicas, shards = (int(options[f"--parallelism.data_parallel_{kind}_degree"][0])
                        for kind in ("replicate", "shard"))
    mesh = torchtitan.mesh(case.pp, replicas, shards, case.tp)
    for (stage, dp, tp), rank in case.rank_of.items():
        shard = dp % shards
        theirs = mesh.rank(pp=stage, dp_replicate=dp // shards, dp_shard=shard, tp=tp)
        same(f"rank of stage {stage}, pipeline {dp}, tp {tp}", rank, theirs)
        first = mesh.rank(pp=stage, dp_replicate=dp // shards, tp=tp)
        same("site of the first member of a sharded group", case.site_of[first], case.site_of[rank])


def torchtitan_modules(case, torchtitan):
    words = case.options("torchtitan").get("--parallelism.module_fqns_per_model_part")
    if words is None:
        return same("stages without modules", case.pp, 1)
    parts = [word.split(",") for word in words]
    same("modules", [name for part in parts for name in part], torchtitan.modules(case.layers))
    same("layers of the stages", case.stages,
         [[int(name.split(".")[1]) for name in part if name.startswith("layers.")] for part in parts])


def torchtitan_schedule(case, pytorch):
    text = case.file("torchtitan", "--parallelism.pipeline_parallel_schedule_csv")
    if text is None:
        return same("stages without a schedule", case.pp, 1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "schedule.csv")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        order = pytorch.load(path, case.pp, case.microbatches)
    for stage, actions in order.items():
        same("stages of a row", {stage}, {action.stage_index for action in actions if action})
        same(f"micro-batches in flight at stage {stage}", min(case.depths[stage], case.microbatches),
             pytorch.in_flight(actions))


def deepspeed_ranks(case, deepspeed):
    topology = deepspeed.Topology(num_pp=case.pp, num_mp=case.tp, num_dp=case.dp)
    for (stage, dp, tp), rank in case.rank_of.items():
        same(f"rank of stage {stage}, pipeline {dp}, tp {tp}", rank, topology.get_rank(pipe=stage, data=dp, model=tp))


def deepspeed_bounds(case, deepspeed):
    """Stages that are even, the first ones larger by one where it does not come out, are DeepSpeed's own."""
    counts = [len(stage) for stage in case.stages]
    if counts == sorted(counts, reverse=True) and counts[0] - counts[-1] <= 1:
        same("layers of even stages", case.stages, deepspeed.layers_by_type(case.layers, case.pp))


CHECKS = [("megatron", "megatron", check) for check in
          (megatron_flags, megatron_layout, megatron_ranks, megatron_networks)]
CHECKS += [("torchtitan", "torchtitan", check) for check in (torchtitan_flags, torchtitan_ranks, torchtitan_modules)]
CHECKS += [("pytorch", "torchtitan", torchtitan_schedule)]
CHECKS += [("deepspeed", "deepspeed", check) for check in (deepspeed_ranks, deepspeed_bounds)]
TRAINERS = {"megatron": Megatron, "torchtitan": Torchtitan, "deepspeed": Deepspeed, "pytorch": Pytorch}


def judge(lines, trainers):
    cases, failures = collections.Counter(), collections.defaultdict(list)
    for number, line in enumerate(lines, 1):
        case = Case(line)
        for source, trainer, check in CHECKS:
            if source not in trainers or trainer not in case.launch:
                continue
            cases[check] += 1
            try:
                check(case, trainers[source])
            except Exception as error:  # whatever the trainer's code raises is its answer: it does not take this
                failures[check].append(f"case {number}: {type(error).__name__}: {str(error)[:300]}")
    return cases, failures


def report(trainers, cases, failures):
    failed = False
    print(f"{'part':22}{'cases':>8}{'failures':>10}")
    for source, _, check in CHECKS:
        name = check.__name__.replace("_", " ")
        if source not in trainers:
            print(f"{name:22} skipped: no sources, give {source.upper()}=DIR")
            continue
        print(f"{name:22}{cases[check]:8}{len(failures[check]):10}")
        for line in failures[check][:3]:
            print("    " + line)
        if not cases[check]:
            print("    no case for it: nothing was judged")
        failed = failed or bool(failures[check]) or not cases[check]
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in TRAINERS:
        parser.add_argument(f"--{name}", metavar="DIR", help="its sources")
    parser.add_argument("cases", help="JSON lines; - for standard input")
    options = parser.parse_args()
    try:
        trainers = {name: kind(getattr(options, name)) for name, kind in TRAINERS.items() if getattr(options, name)}
        with sys.stdin if options.cases == "-" else open(options.cases, encoding="utf-8") as lines:
            cases, failures = judge(lines, trainers)
    except (OSError, LookupError, ValueError) as error:
        sys.exit(f"judge: {type(error).__name__}: {error}")
    return 1 if report(trainers, cases, failures) else 0


if __name__ == "__main__":
    sys.exit(main())
