# SPDX-License-Identifier: GPL-3.0-or-later
"""train_gpt.py --emulate: a training whose computing is slept and whose messages are real.

The model is a file of explicit costs, spiderflow-model(5). An operation takes what it says of the stage's layers, and
messages and gradients have as many bytes as it says. So what remains to be measured is how the plan's messages fare on
the network, and a laptop has as many GPUs as it can start processes.
"""
import json
import time

import torch

LATE = 0.001  # an operation that begins so soon after the one before follows it at once: sleeping is no more precise


class Stage:
    """Stands for the layers of this process. An operation ends at its begin plus its time, by the clock: what one
    sleeps too long is not added to the next."""

    def __init__(self, model, place, gpu):
        seconds = model.get("gpus", {}).get(gpu, model)
        layers = slice(place.first, place.last + 1)
        self.forward_seconds = sum(of_layers(model, seconds["forward_seconds"])[layers])
        self.backward_seconds = sum(of_layers(model, seconds["backward_seconds"])[layers])
        self.message = values(model.get("boundary_bytes", 0))
        self.gradients = values(sum(of_layers(model, model["gradient_bytes"])[layers]))
        self.until = self.late = 0.0

    def work(self, seconds):
        now = time.monotonic()
        self.until = (self.until if now < self.until + LATE else now) + seconds
        time.sleep(max(self.until - now, 0))
        self.late += max(time.monotonic() - self.until, 0)

    def forward(self, index, inputs):
        del index, inputs
        self.work(self.forward_seconds)
        return self.message

    def backward(self, index, gradients):
        del index, gradients
        self.work(self.backward_seconds)
        return self.message


def values(size):
    return torch.zeros(max(int(size) // 4, 1))


def of_layers(model, value):
    """A value for each layer: one number is that of all layers."""
    return value if isinstance(value, list) else [value] * model["layers"]


def read_model(path):
    """The costs in the file. A plan was made of them, so they are known to be right if they are there."""
    with open(path, encoding="utf-8") as file:
        model = json.load(file)
    model = model.get("explicit") if isinstance(model, dict) else None
    for name in ("layers", "forward_seconds", "backward_seconds", "gradient_bytes"):
        if not isinstance(model, dict) or name not in model:
            raise ValueError(f"{path}: explicit: no {name}; --emulate needs explicit costs, see spiderflow-model(5)")
    return model
