#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Train a small GPT on the bytes of a text, as a pipeline over whatever ranks SpiderFlow gives.

Which layers a process holds, how many micro-batches it keeps in flight, who comes before and after it and who shares
its gradients is taken from the SPIDERFLOW_* variables, and under torchrun from RANK too. Without them one process
trains the whole model. The losses do not depend on the layout: parameters come from a seed per layer, batches from a
seed per step.
"""
import argparse
import dataclasses
import datetime
import json
import os
import socket
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # many ranks may share a few cores
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

import emulation
import exchange


@dataclasses.dataclass(frozen=True)
class Place:
    """Where this process stands. rank = dp + dp_size * stage, as tensor parallelism is 1 here."""
    rank: int = 0
    world: int = 1
    stage: int = 0
    stages: int = 1
    dp: int = 0
    dp_size: int = 1
    first: int = 0
    last: int = 0
    depth: int = 1  # micro-batches in flight
    site: str = "local"

    def rank_of(self, stage, dp):
        return dp + self.dp_size * stage

    @property
    def is_first(self):
        return self.stage == 0

    @property
    def is_last(self):
        return self.stage == self.stages - 1


# Where srun has started this process itself, each has its variable.
NUMBERS = {"rank": "RANK", "world": "WORLD_SIZE", "stage": "SPIDERFLOW_STAGE", "stages": "SPIDERFLOW_NSTAGES",
           "dp": "SPIDERFLOW_DP_RANK", "dp_size": "SPIDERFLOW_DP_SIZE", "first": "SPIDERFLOW_FIRST_LAYER",
           "last": "SPIDERFLOW_LAST_LAYER"}


def place_by_rank(env):
    """The variables that torchrun's workers lack: it gives them RANK, and the plan's stages are blocks of ranks."""
    try:
        rank, tp, dp = int(env["RANK"]), int(env.get("SPIDERFLOW_TP_SIZE", "1")), int(env["SPIDERFLOW_DP_SIZE"])
        stage = rank // (tp * dp)
        first, last = env["SPIDERFLOW_LAYERS"].split(",")[stage].split("-")
    except (KeyError, IndexError, ValueError, ZeroDivisionError) as error:
        raise ValueError("no place for this rank in RANK, SPIDERFLOW_DP_SIZE, SPIDERFLOW_TP_SIZE and"
                         f" SPIDERFLOW_LAYERS: {type(error).__name__}: {error}") from error
    return {"SPIDERFLOW_STAGE": str(stage), "SPIDERFLOW_DP_RANK": str(rank // tp % dp),
            "SPIDERFLOW_FIRST_LAYER": first, "SPIDERFLOW_LAST_LAYER": last}


def read_depth(env, stage, stages):
    """Micro-batches in flight at this stage: the plan's, else as many as there are stages from here on."""
    text = env.get("SPIDERFLOW_DEPTHS") or ",".join(str(stages - index) for index in range(stages))
    depths = [int(part) if part.isdigit() else 0 for part in text.split(",")]
    # A stage that waits for more forwards than the stage before it sends would wait for ever.
    if len(depths) != stages or depths[-1] < 1 or depths != sorted(depths, reverse=True):
        raise ValueError(f"SPIDERFLOW_DEPTHS={text}: not {stages} numbers that never rise and end above 0")
    return depths[stage]


def read_place(env, layers):
    """The place from the environment, or a one-line reason why it cannot be."""
    if "SPIDERFLOW_STAGE" not in env and "SPIDERFLOW_LAYERS" in env and "RANK" in env:
        env = {**env, **place_by_rank(env)}
    if "SPIDERFLOW_STAGE" not in env:
        copies = max(int(env.get(name) or 1) for name in ("WORLD_SIZE", "SLURM_NTASKS"))
        if copies > 1:
            raise ValueError(f"{copies} tasks but no SPIDERFLOW_STAGE: not a SpiderFlow job; run one task")
        return Place(last=layers - 1)
    if env.get("SPIDERFLOW_TP_SIZE", "1") != "1":
        raise ValueError(f"the plan has tp={env['SPIDERFLOW_TP_SIZE']}, this trainer only does tp=1")
    for name in NUMBERS.values():
        if not env.get(name, "").isdigit():
            raise ValueError(f"{name}={env.get(name, '')}: not a number")
    numbers = {field: int(env[name]) for field, name in NUMBERS.items()}
    if not numbers["stage"] < numbers["stages"]:
        raise ValueError(f"there is no stage {numbers['stage']} of {numbers['stages']}")
    depth = read_depth(env, numbers["stage"], numbers["stages"])
    place = Place(site=env.get("SPIDERFLOW_SITE", "?"), depth=depth, **numbers)
    if env.get("SPIDERFLOW_NLAYERS", str(layers)) != str(layers):
        raise ValueError(f"the plan is for {env['SPIDERFLOW_NLAYERS']} layers, the model has {layers}")
    if place.world != place.stages * place.dp_size or place.rank != place.rank_of(place.stage, place.dp):
        raise ValueError(f"rank {place.rank} of {place.world} is not stage {place.stage} of {place.stages},"
                         f" pipeline {place.dp} of {place.dp_size}")
    at_ends = (place.first == 0) == place.is_first and (place.last == layers - 1) == place.is_last
    if not place.first <= place.last < layers or not at_ends:
        raise ValueError(f"layers {place.first}-{place.last} of {layers} are not stage {place.stage}"
                         f" of {place.stages}")
    return place


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["n_embd"]
        inner = config.get("n_inner") or 4 * width
        self.heads = config["n_head"]
        self.norm_1 = nn.LayerNorm(width, eps=config["layer_norm_epsilon"])
        self.qkv = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.norm_2 = nn.LayerNorm(width, eps=config["layer_norm_epsilon"])
        self.up = nn.Linear(width, inner)
        self.mlp_out = nn.Linear(inner, width)

    def forward(self, x):
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(self.norm_1(x)).split(width, dim=2))
        scores = q @ k.transpose(2, 3) / shape[3] ** 0.5
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        attention = scores.masked_fill(future, float("-inf")).softmax(dim=3) @ v
        x = x + self.attention_out(attention.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp_out(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Embedding(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.token = nn.Embedding(config["vocab_size"], config["n_embd"])
        self.position = nn.Embedding(config["n_positions"], config["n_embd"])

    def forward(self, tokens):
        return self.token(tokens) + self.position(torch.arange(tokens.shape[1]))


class Head(nn.Module):
    """The final norm and the projection to the vocabulary, its weights not tied to the embedding's."""

    def __init__(self, config):
        super().__init__()
        self.norm = nn.LayerNorm(config["n_embd"], eps=config["layer_norm_epsilon"])
        self.project = nn.Linear(config["n_embd"], config["vocab_size"], bias=False)

    def forward(self, x):
        return self.project(self.norm(x))


def initialise(module, seed, config):
    """GPT-2's initial values, from a seed of this layer's own: the same whichever process holds the layer."""
    chance = torch.Generator().manual_seed(seed)
    spread = config["initializer_range"]
    with torch.no_grad():
        for name, values in module.named_parameters():
            if name.endswith("bias"):
                values.zero_()
            elif "norm" in name:
                values.fill_(1)
            else:  # what is added to the residual stream is scaled down by its depth
                scale = (2 * config["n_layer"]) ** -0.5 if "_out." in name else 1
                values.normal_(0, spread * scale, generator=chance)
    return module


def build_stage(config, place, seed):
    layers = config["n_layer"]
    parts = [(1 + layer, Block) for layer in range(place.first, place.last + 1)]
    if place.is_first:
        parts.insert(0, (0, Embedding))
    if place.is_last:
        parts.append((1 + layers, Head))
    return nn.Sequential(*(initialise(kind(config), seed * 1000003 + index, config) for index, kind in parts))


class Batches:
    """Step -> the micro-batches of one pipeline. All pipelines cut theirs out of the same global batch."""

    def __init__(self, text, seed, options, place):
        self.text = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        self.seed, self.length, self.size, self.micro = seed, options.seq, options.gbs, options.mbs
        self.count = options.gbs // options.mbs // place.dp_size
        self.skip = place.dp * self.count

    def __call__(self, step):
        chance = torch.Generator().manual_seed(self.seed * 7919 + step)
        starts = torch.randint(len(self.text) - self.length, (self.size,), generator=chance)
        window = torch.arange(self.length + 1)
        parts = self.text[starts[:, None] + window].long().split(self.micro)
        return [(part[:, :-1], part[:, 1:]) for part in parts[self.skip:self.skip + self.count]]


class Stage:
    """The layers of this process, and what of their micro-batches is under way."""

    def __init__(self, layers, place, parts):
        self.layers, self.place, self.parts = layers, place, parts
        self.under_way = {}

    def begin(self, batch):
        self.batch, self.loss = batch, 0.0

    def forward(self, index, inputs):
        tokens, targets = self.batch[index]
        inputs = tokens if inputs is None else inputs.requires_grad_()
        outputs = self.layers(inputs)
        if self.place.is_last:
            # Its share of the mean over the global batch: micro-batches and pipelines only have to be added.
            outputs = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten()) / self.parts
            self.loss += outputs.item()
        self.under_way[index] = inputs, outputs
        return outputs.detach().contiguous()

    def backward(self, index, gradients):
        inputs, outputs = self.under_way.pop(index)
        outputs.backward(gradients)
        return inputs.grad


def join(place, seconds):
    """Meet the other ranks."""
    if place.world > 1:
        dist.init_process_group("gloo", rank=place.rank, world_size=place.world,
                                timeout=datetime.timedelta(seconds=seconds))


def leave(place):
    if place.world > 1:
        dist.barrier()  # nobody hangs up on a rank that still works
        dist.destroy_process_group()


def read_plan(env, place):
    """The plan, where SpiderFlow gives it; else nothing."""
    path = env.get("SPIDERFLOW_PLAN_FILE")
    if not path:
        return None
    with open(path, encoding="utf-8") as file:
        plan = json.load(file)
    try:
        stage = plan["stages"][place.stage]
        at = {slot["dp"]: slot["site"] for slot in stage["slots"]}
        fits = at[place.dp] == place.site and len(at) == place.dp_size and set(stage["ring"]) == set(at.values())
    except (KeyError, IndexError, TypeError):
        fits = False
    if not fits:
        raise ValueError(f"{path}: no plan in which pipeline {place.dp} of {place.dp_size} has stage {place.stage} at"
                         f" {place.site}, with a ring over the sites of that stage")
    return plan


def train(config, place, plan, options):
    join(place, options.timeout)
    layers = build_stage(config, place, options.seed)
    parameters = list(layers.parameters())
    with open(options.text, "rb") as text:
        batches = Batches(text.read(), options.seed, options, place)
    stage = Stage(layers, place, options.gbs // options.mbs)
    pipeline = exchange.Pipeline(stage, place, (options.mbs, options.seq, config["n_embd"]), batches.count)
    add_up = exchange.sum_of(place, plan, 1 + sum(values.numel() for values in parameters))
    optimizer = torch.optim.AdamW(parameters, lr=options.lr, betas=(0.9, 0.95), weight_decay=0.1)
    tells = place.is_last and place.dp == 0
    before = time.monotonic()
    for step in range(1, options.steps + 1):
        optimizer.zero_grad()
        stage.begin(batches(step))
        pipeline.step(more=step < options.steps)
        loss = torch.tensor([stage.loss])
        if add_up:
            add_up([loss, *(values.grad for values in parameters)], more=step < options.steps)
        optimizer.step()
        now = time.monotonic()
        if tells:
            print(f"step {step} seconds {now - before:.3f}\nstep {step} loss {loss.item():.6f}", flush=True)
        before = now
    leave(place)


def emulate(model, place, plan, options):
    """A training of which only the messages are real. Each rank tells by the clock of its machine when it began a step,
    ended its last backward and had the sum, and how much longer than it should it slept in between."""
    join(place, options.timeout)
    gpus = {site["site"]: site["gpu"] for site in plan["sites"]} if plan else {}
    stage = emulation.Stage(model, place, gpus.get(place.site))
    count = options.gbs // options.mbs // place.dp_size
    pipeline = exchange.Pipeline(stage, place, stage.message.shape, count)
    add_up = exchange.sum_of(place, plan, stage.gradients.numel())
    if place.world > 1:
        dist.barrier()  # connections are there, and the first step begins together
    for step in range(1, options.steps + 1):
        began, late = time.monotonic(), stage.late
        pipeline.step(more=step < options.steps)
        ended = time.monotonic()
        if add_up:
            add_up([stage.gradients], more=step < options.steps)
        now = time.monotonic()
        # One write: the ranks of a node may share their output.
        sys.stdout.write(f"rank {place.rank} step {step} began {began:.4f} ended {ended:.4f} summed {now:.4f}"
                         f" late {stage.late - late:.4f}\n")
        sys.stdout.flush()
    leave(place)


def check_batch(place, options):
    if min(options.mbs, options.gbs) < 1 or options.gbs % (options.mbs * place.dp_size):
        raise ValueError(f"--gbs {options.gbs}: not a multiple of --mbs {options.mbs} x dp {place.dp_size}")


def check(config, options):
    size = os.stat(options.text).st_size
    if config.get("vocab_size") != 256 or config.get("tie_word_embeddings", True):
        raise ValueError(f"{options.config}: needs vocab_size 256 (bytes) and tie_word_embeddings false")
    if not 1 <= options.seq <= config["n_positions"]:
        raise ValueError(f"--seq {options.seq}: the model has {config['n_positions']} positions")
    if size <= options.seq:
        raise ValueError(f"{options.text}: {size} bytes, a sequence needs {options.seq + 1}")


def arguments():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--config", default=here + "/config.json", help="Hugging Face config.json of a GPT-2")
    parser.add_argument("--text", default="/usr/share/common-licenses/GPL-3", help="what to learn")
    parser.add_argument("--steps", type=int, default=20, help="optimizer steps")
    parser.add_argument("--gbs", type=int, default=8, help="sequences per step")
    parser.add_argument("--mbs", type=int, default=1, help="sequences per micro-batch")
    parser.add_argument("--seq", type=int, help="bytes per sequence; as many as the model has positions")
    parser.add_argument("--lr", type=float, default=3e-3, help="learning rate")
    parser.add_argument("--seed", type=int, default=1, help="of parameters and batches")
    parser.add_argument("--emulate", metavar="MODEL", help="sleep instead of computing, for the times and with messages"
                        " and gradients of the sizes in this file of explicit costs, spiderflow-model(5)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds to wait for another rank")
    return parser.parse_args()


def read_model(options):
    """(what is trained or emulated, its number of layers)"""
    if options.emulate:
        model = emulation.read_model(options.emulate)
        return model, model["layers"]
    with open(options.config, encoding="utf-8") as file:
        config = json.load(file)
    options.seq = options.seq or config["n_positions"]
    return config, config["n_layer"]


def main():
    options = arguments()
    try:
        model, layers = read_model(options)
        place = read_place(os.environ, layers)
        check_batch(place, options)
        if not options.emulate:
            check(model, options)
        plan = read_plan(os.environ, place)
    except (OSError, ValueError) as error:
        sys.exit(f"train_gpt: {error}")
    except KeyError as error:
        sys.exit(f"train_gpt: {options.config}: no {error}")
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    print(f"rank {place.rank} of {place.world}: site {place.site} node {node} stage {place.stage}"
          f" layers {place.first}-{place.last} dp {place.dp} local {os.environ.get('LOCAL_RANK', 0)}", flush=True)
    (emulate if options.emulate else train)(model, place, plan, options)


if __name__ == "__main__":
    main()
