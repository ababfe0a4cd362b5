# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ranks of train_gpt.py say to each other: messages along a pipeline, and sums over the members of a stage.

Receives are posted before they are needed. A sender of gloo keeps a message until the receiver has said that it has
room, so a receive that is posted late costs a round trip more, and between sites that is long.
"""
import collections

import torch
import torch.distributed as dist


class Pipeline:
    """One process's share of a training step: 1F1B over its micro-batches.

    `stage` computes: forward(index, inputs) gives what goes on, backward(index, gradients) what goes back. Receives
    block and sends do not: with sends that wait for the receiver, two neighbours that send to each other at the same
    moment would never meet. What was sent is kept until the end of the step, where all is waited for.
    """

    def __init__(self, stage, place, shape, count):
        self.stage, self.place, self.shape, self.count = stage, place, shape, count
        self.before = None if place.is_first else place.rank_of(place.stage - 1, place.dp)
        self.after = None if place.is_last else place.rank_of(place.stage + 1, place.dp)
        self.sending = []
        self.post()

    def post(self):
        """Make room for all messages of a step."""
        self.inputs = [self.expect(self.before, 2 * index) for index in range(self.count)]
        self.gradients = [self.expect(self.after, 2 * index + 1) for index in range(self.count)]

    def expect(self, sender, tag):
        if sender is None:
            return None
        values = torch.empty(self.shape)
        return dist.irecv(values, sender, tag=tag), values

    @staticmethod
    def receive(expected):
        if expected is None:
            return None
        work, values = expected
        work.wait()
        return values

    def send(self, values, to, tag):
        if to is not None:
            self.sending.append((dist.isend(values, to, tag=tag), values))

    def forward(self, index):
        inputs, self.inputs[index] = self.receive(self.inputs[index]), None
        self.send(self.stage.forward(index, inputs), self.after, 2 * index)

    def backward(self, index):
        gradients, self.gradients[index] = self.receive(self.gradients[index]), None
        self.send(self.stage.backward(index, gradients), self.before, 2 * index + 1)

    def step(self, more):
        """All micro-batches there and back. `more`: another step follows, whose messages may come at any time."""
        self.settle()
        in_flight = collections.deque()
        for index in range(self.count):
            self.forward(index)
            in_flight.append(index)
            if len(in_flight) == self.place.depth:
                self.backward(in_flight.popleft())
        while in_flight:
            self.backward(in_flight.popleft())
        if more:
            self.post()
        else:
            self.settle()

    def settle(self):
        for work, _ in self.sending:
            work.wait()
        self.sending.clear()


class SumOverSites:
    """The sum over a stage's members as the plan reckons it: members at one site add up at the first of them, these go
    round between the sites in the plan's order, reduce-scatter and all-gather, and then every site has it."""

    def __init__(self, place, plan, size):
        stage = plan["stages"][place.stage]
        at = {slot["dp"]: slot["site"] for slot in stage["slots"]}
        members = {site: [dp for dp in sorted(at) if at[dp] == site] for site in at.values()}
        first, *others = (place.rank_of(place.stage, dp) for dp in members[at[place.dp]])
        self.leader, self.others = first, [] if first != place.rank else others
        self.ring = [place.rank_of(place.stage, members[site][0]) for site in stage["ring"]]
        self.total = torch.zeros(size)
        if place.rank != first:
            self.ring = []
        self.at = self.ring.index(place.rank) if self.ring else 0
        self.chunks = self.total.tensor_split(max(len(self.ring), 1))
        self.post()

    def post(self):
        """Make room for all messages of a sum; of a ring's second half they come to where they belong."""
        sites = len(self.ring)
        self.parts = [torch.empty_like(self.total) for _ in self.others]
        self.joining = [dist.irecv(part, rank) for part, rank in zip(self.parts, self.others)]
        self.rounds = []
        for turn in range(2 * (sites - 1)):
            chunk = self.chunks[(self.at - turn - 1) % sites]
            values = torch.empty_like(chunk) if turn < sites - 1 else chunk
            self.rounds.append((dist.irecv(values, self.ring[self.at - 1], tag=turn), values))

    def __call__(self, tensors, more):
        self.total.copy_(torch.cat([values.flatten() for values in tensors]))
        self.add_up()
        if more:
            self.post()
        for values, part in zip(tensors, self.total.split([values.numel() for values in tensors])):
            values.copy_(part.view_as(values))

    def add_up(self):
        if not self.ring:
            dist.send(self.total, self.leader)
            dist.recv(self.total, self.leader, tag=1)
            return
        for work, part in zip(self.joining, self.parts):
            work.wait()
            self.total += part
        self.go_round()
        for work in [dist.isend(self.total, rank, tag=1) for rank in self.others]:
            work.wait()

    def go_round(self):
        sites, sending = len(self.ring), []
        for turn, (work, values) in enumerate(self.rounds):
            chunk = self.chunks[(self.at - turn) % sites]
            sending.append(dist.isend(chunk, self.ring[(self.at + 1) % sites], tag=turn))
            work.wait()
            if turn < sites - 1:
                self.chunks[(self.at - turn - 1) % sites].add_(values)
        for work in sending:
            work.wait()


class Sum:
    """The same without a plan: gloo's own."""

    def __init__(self, place):
        # Every rank must take part in making every group.
        groups = [dist.new_group([place.rank_of(stage, dp) for dp in range(place.dp_size)])
                  for stage in range(place.stages)]
        self.group = groups[place.stage]

    def __call__(self, tensors, more):
        del more
        flat = torch.cat([values.flatten() for values in tensors])
        dist.all_reduce(flat, group=self.group)
        for values, part in zip(tensors, flat.split([values.numel() for values in tensors])):
            values.copy_(part.view_as(values))


def sum_of(place, plan, size):
    """What adds `size` values up over the members of this process's stage; None where it has but one."""
    if place.dp_size == 1:
        return None
    return SumOverSites(place, plan, size) if plan else Sum(place)
