#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write down what the trainers' own code answers, for tests that run without it: tests/data/trainers/*.json."""
import argparse
import json
import os
import random
import subprocess

from trainers import Deepspeed, Megatron, Torchtitan

SIZES = [(tp, dp, pp) for tp in (1, 2, 4, 8) for dp in (1, 2, 3) for pp in (1, 2, 3, 5)
         if tp * dp * pp <= 60][:40]
BAD_LAYOUTS = [
    ("ttt|tttL", 2, 6), ("Ettt|ttt", 2, 6), ("Ettt|tttL", 2, 7), ("Ettt|tttL", 2, 5), ("Ettt|ttt|tttL", 2, 9),
    ("Ettt|xttL", 2, 6), ("EEtt|ttL", 2, 4), ("Ett|ttLL", 2, 4), ("tEt|ttL", 2, 4), ("Ett|Ltt", 2, 4),
    ("Ett ttL", 1, 4), ("", 1, 0), ("EL", 1, 1), ("Ett|mL", 2, 2), ("ett|ttl", 2, 4), ("Ett;ttL", 2, 4)]
GOOD_LAYOUTS = [
    ("EttttL", 1, 4), ("Et|tL", 2, 2), ("E|ttL", 2, 2), ("Ett|L", 2, 2), ("Ettt||tttL", 3, 6), ("Ettt|ttt|tttL", 3, 9),
    ("E,ttt|ttt,L", 2, 6), ("Et*3|t*3L", 2, 6), ("E(tt|)*3ttL", 4, 8), ("Ett|tt|||L", 5, 4), ("Ett|tt||L", 2, 4),
    ("Ettt|ttt|ttt|||L", 3, 9), ("Et|t|t|t|t|tL", 3, 6), ("Et|tt|ttt|tL", 2, 7)]


def answer(question):
    try:
        return question()
    except Exception as error:  # a refusal is an answer
        return {"refused": type(error).__name__}


def layouts(megatron):
    chance = random.Random(60)
    for _ in range(30):  # as SpiderFlow writes them, even and uneven, to 16 stages
        stages = chance.randint(2, 16)
        counts = [chance.randint(1, 8) for _ in range(stages)]
        GOOD_LAYOUTS.append(("E" + "|".join("t" * count for count in counts) + "L", stages, sum(counts)))
    for text, stages, count in GOOD_LAYOUTS + BAD_LAYOUTS:
        found = answer(lambda: megatron.layers(text, stages, count))
        yield {"layout": text, "pp": stages, "layers": count} | (
            found if isinstance(found, dict) else {"stages": [len(stage) for stage in found[0]],
                                                   "first": [stage[0] if stage else None for stage in found[0]],
                                                   "chunks": found[1]})


def ranks(megatron, torchtitan, deepspeed):
    for tp, dp, pp in SIZES:
        topology, mesh = deepspeed.Topology(num_pp=pp, num_mp=tp, num_dp=dp), torchtitan.mesh(pp, dp, 1, tp)
        places = [(stage, pipeline, slot) for stage in range(pp) for pipeline in range(dp) for slot in range(tp)]
        yield {"tp": tp, "dp": dp, "pp": pp,
               "megatron_tp_groups": megatron.groups(tp, dp, pp, "tp"),
               "megatron_dp_groups": megatron.groups(tp, dp, pp, "dp"),
               "megatron_pp_groups": megatron.groups(tp, dp, pp, "pp"),
               "deepspeed": [topology.get_rank(pipe=place[0], data=place[1], model=place[2]) for place in places],
               "torchtitan": [mesh.rank(pp=place[0], dp_replicate=place[1], tp=place[2]) for place in places]}


def partitions(deepspeed):
    for layers in (4, 8, 10, 12, 16, 22, 24, 30, 32, 36, 40, 48):
        for stages in (2, 3, 4, 6, 8):
            parts = deepspeed.bounds_by_type(layers, stages)
            yield {"layers": layers, "stages": stages, "specs": parts,
                   "layers_of_stages": [len(stage) for stage in deepspeed.layers_by_type(layers, stages)]}


def source(url, folder, *names):
    commit = subprocess.run(["git", "-C", folder, "log", "-1", "--format=%H %cs"], capture_output=True, text=True)
    return {"repository": url, "commit": commit.stdout.strip() or "?", "functions": names}


def write(path, sources, note, cases):
    with open(path, "w", encoding="utf-8") as file:
        head = json.dumps({"sources": sources, "note": note}, indent=1)[:-2]
        rows = ",\n  ".join(json.dumps(case, separators=(",", ":")) for case in cases)
        file.write(f'{head},\n "cases": [\n  {rows}\n ]\n}}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("megatron", "torchtitan", "deepspeed"):
        parser.add_argument(f"--{name}", metavar="DIR", required=True, help="its checkout")
    parser.add_argument("into", help="where the files go")
    options = parser.parse_args()
    megatron, torchtitan = Megatron(options.megatron), Torchtitan(options.torchtitan)
    deepspeed = Deepspeed(options.deepspeed)
    of_megatron = ("https://github.com/NVIDIA/Megatron-LM", options.megatron)
    of_torchtitan = ("https://github.com/pytorch/torchtitan", options.torchtitan)
    of_deepspeed = ("https://github.com/deepspeedai/DeepSpeed", options.deepspeed)
    write(os.path.join(options.into, "megatron_layouts.json"),
          [source(*of_megatron, "PipelineParallelLayerLayout", "PipelineParallelLayerLayout.validate_layer_layout")],
          "stages: number of decoder layers of each pipeline rank; first: number of the first; chunks: of each rank",
          layouts(megatron))
    write(os.path.join(options.into, "ranks.json"),
          [source(*of_megatron, "RankGenerator.get_ranks"),
           source(*of_deepspeed, "PipeModelDataParallelTopology.get_rank"),
           source(*of_torchtitan, "ParallelDims.build_mesh")],
          "deepspeed and torchtitan: ranks stage by stage, in it pipeline by pipeline, in it by place in the slot",
          ranks(megatron, torchtitan, deepspeed))
    write(os.path.join(options.into, "deepspeed_partitions.json"),
          [source(*of_deepspeed, "partition_balanced")],
          "weights: 0 for the embedding, 1 for each layer, 0 for norm and head; specs: bounds in that list",
          partitions(deepspeed))


if __name__ == "__main__":
    main()
