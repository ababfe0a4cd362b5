# SPDX-License-Identifier: GPL-3.0-or-later
"""DeepSpeed's PipelineModule with the stages of a SpiderFlow plan, which may differ in size.

    model = SpiderFlowPipe(layers=[embedding, *blocks, norm, head], topology=plan_topology(), loss_fn=loss)

No partition_method of DeepSpeed can say such bounds: this class takes them from SPIDERFLOW_LAYERS.
"""
import os

from deepspeed.pipe import PipelineModule


def bounds_of(text, specs, before=1):
    """The bounds of the stages in a list of `specs` layer specifications, of which `before` come before the plan's
    layers: "0-2,3-7", 11 -> [0, 4, 11]. What comes before belongs to the first stage, what comes after to the last.
    """
    try:
        stages = [tuple(int(end) for end in part.split("-")) for part in text.split(",")]
        chained = all(last + 1 == first for (_, last), (first, _) in zip(stages, stages[1:]))
        if stages[0][0] != 0 or not chained or any(first > last for first, last in stages):
            raise ValueError("stages do not follow each other")
    except ValueError as error:
        raise ValueError(f"SPIDERFLOW_LAYERS={text}: {error}") from None
    count = stages[-1][1] + 1
    if before + count > specs:
        raise ValueError(f"SPIDERFLOW_LAYERS={text}: {count} layers, but only {specs - before} specifications for them")
    return [0] + [before + first for first, _ in stages[1:]] + [specs]


def plan_topology(env=os.environ):
    """The plan's sizes as DeepSpeed's axes; its ranks are then the plan's."""
    from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology
    return PipeModelDataParallelTopology(num_pp=int(env["SPIDERFLOW_NSTAGES"]), num_mp=int(env["SPIDERFLOW_TP_SIZE"]),
                                         num_dp=int(env["SPIDERFLOW_DP_SIZE"]))


class SpiderFlowPipe(PipelineModule):
    """Outside a SpiderFlow job an ordinary PipelineModule. `before`: specifications before the first layer."""

    def __init__(self, layers, *options, before=1, **named):
        self.specs_before = before
        super().__init__(layers, *options, **named)

    def _partition_layers(self, method="uniform"):
        text = os.environ.get("SPIDERFLOW_LAYERS")
        if not text:
            super()._partition_layers(method=method)
            return
        self.parts = bounds_of(text, len(self._layer_specs), self.specs_before)
        if len(self.parts) != self.num_stages + 1:
            raise ValueError(f"SPIDERFLOW_LAYERS={text}: {len(self.parts) - 1} stages, the model has {self.num_stages}")
        self._set_bounds(start=self.parts[self.stage_id], stop=self.parts[self.stage_id + 1])
