# SPDX-License-Identifier: GPL-3.0-or-later
"""What the trainers' own code answers. Each class holds the definitions of one checkout and asks them."""
import pathlib
import types

from borrowed import borrow, default_of, fields_of, refusals_of, texts_of


class Megatron:
    def __init__(self, folder):
        core = pathlib.Path(folder, "megatron/core")
        self.virtual = None  # chunks of a stage, as Megatron's global state would say it
        state = types.SimpleNamespace(get_virtual_pipeline_model_parallel_world_size=lambda: self.virtual)
        kinds = borrow(core / "transformer/enums.py", "LayerType").LayerType
        self.Layout = borrow(core / "transformer/pipeline_parallel_layer_layout.py", "PipelineParallelLayerLayout",
                             LayerType=kinds, parallel_state=state,
                             safe_get_rank=lambda: 0).PipelineParallelLayerLayout
        groups = core / "parallel_state.py"
        self.RankGenerator = borrow(groups, "RankGenerator").RankGenerator
        self.order = default_of(groups, "initialize_model_parallel", "order")
        options = types.SimpleNamespace(Options=lambda **_: types.SimpleNamespace(config=types.SimpleNamespace()))
        torch = types.SimpleNamespace(distributed=types.SimpleNamespace(ProcessGroupNCCL=options))
        self.nccl_options = borrow(groups, "get_nccl_options", torch=torch).get_nccl_options
        self.embedding_ranks = borrow(groups, "default_embedding_ranks").default_embedding_ranks
        self.group_names = texts_of(groups)
        schedules = core / "pipeline_parallel/schedules.py"
        self.schedule = borrow(schedules, "get_pp_rank_microbatches", "get_schedule_table")
        self.refusals = refusals_of(schedules, "forward_backward_pipelining_with_interleaving", "microbatch_group_size")
        self.flags = self.known_flags(folder)

    @staticmethod
    def known_flags(folder):
        """Flags that are written out, and those that Megatron makes of the members of its configuration classes."""
        training = pathlib.Path(folder, "megatron/training")
        written = set().union(*(texts_of(path) for path in [*training.glob("*.py"), *training.glob("config/*.py"),
                                                            training.parent / "core/model_parallel_config.py"]))
        members = set().union(*(fields_of(path) for path in
                                [*training.glob("config/*.py"), training.parent / "core/model_parallel_config.py",
                                 training.parent / "core/transformer/transformer_config.py"]))
        return written | {"--" + name.replace("_", "-") for name in members}

    def layers(self, text, stages, count):
        """The layers of each pipeline rank and the number of chunks that it holds them in."""
        layout = self.Layout(text, stages)
        layout.validate_layer_layout(count, None)
        chunks = layout.virtual_pipeline_model_parallel_size
        self.virtual = chunks if chunks > 1 else None
        return [[layer for chunk in range(chunks) for layer in layout.get_layer_id_list(vp_stage=chunk, pp_rank=rank)]
                for rank in range(stages)], chunks

    def refuse(self, stages, microbatches, group):
        """Raises what Megatron's interleaved schedule raises for this size of a group of micro-batches."""
        exec(self.refusals, {"num_microbatches": microbatches, "pipeline_parallel_size": stages,
                             "config": types.SimpleNamespace(microbatch_group_size_per_vp_stage=group)})

    def in_flight(self, rank, stages, microbatches, chunks, group):
        """For each chunk of a stage, the most micro-batches that have been forward and not yet backward."""
        pipeline = types.SimpleNamespace(size=lambda: stages, rank=lambda: rank)
        place = types.SimpleNamespace(pp_group=pipeline,
                                      virtual_pipeline_model_parallel_size=chunks if chunks > 1 else None)
        total, _, warm_up, _ = self.schedule.get_pp_rank_microbatches(microbatches, chunks, group,
                                                                      p2p_communicator=place)
        table = [chunk for _, chunk in self.schedule.get_schedule_table(microbatches, chunks, group)]
        now, most = [0] * chunks, [0] * chunks
        for step in range(total + warm_up):  # a forward, and from the end of the warm-up on a backward, in turn
            if step < total:
                now[table[step]] += 1
                most = [max(pair) for pair in zip(now, most)]
            if step >= warm_up:
                now[chunks - 1 - table[step - warm_up]] -= 1
        return most

    def groups(self, tp, dp, pp, token):
        return self.RankGenerator(tp=tp, ep=1, dp=dp, pp=pp, cp=1, order=self.order).get_ranks(token)


class Mesh:
    """As much of a DeviceMesh as ParallelDims asks for: named axes over all ranks, the last varies fastest."""

    def __init__(self, names, sizes):
        self.sizes = dict(zip(names, sizes))
        self.ndim = len(self.sizes)

    def _unflatten(self, _, sizes, names, backend_override=None):
        return Mesh(names, sizes)

    def __getitem__(self, names):
        names = (names,) if isinstance(names, str) else names
        return Mesh(names, [self.sizes[name] for name in names])

    def _flatten(self, name):
        return Mesh((name,), (self.size(),))

    def size(self):
        product = 1
        for size in self.sizes.values():
            product *= size
        return product

    def rank(self, **place):
        rank = 0
        for name, size in self.sizes.items():
            rank = rank * size + place.pop(name, 0)
        assert not place, f"no such axes: {place}"
        return rank


class Torchtitan:
    def __init__(self, folder):
        package = pathlib.Path(folder, "torchtitan")
        quiet = types.SimpleNamespace(info=lambda *_: None, debug=lambda *_: None)
        self.ParallelDims = borrow(
            package / "distributed/parallel_dims.py", "ParallelDims", DeviceMesh=Mesh, logger=quiet,
            device_type="cpu", init_device_mesh=lambda _, sizes, mesh_dim_names: Mesh(mesh_dim_names, sizes)
        ).ParallelDims
        self.modules_of_parts = borrow(package / "distributed/pipeline_parallel.py",
                                       "_generate_llm_fqn_per_model_part")._generate_llm_fqn_per_model_part
        configs = package / "config/configs.py"
        self.flags = {f"--{section}.{name}" for section, kind in
                      (("parallelism", "ParallelismConfig"), ("training", "TrainingConfig"), ("comm", "CommConfig"))
                      for name in fields_of(configs, kind)}

    def mesh(self, pp, replicas, shards, tp):
        dims = self.ParallelDims(dp_replicate=replicas, dp_shard=shards, cp=1, tp=tp, pp=pp, ep=1,
                                 world_size=pp * replicas * shards * tp)
        dims.build_mesh()
        return dims._global_meshes["dense"]

    def modules(self, layers):
        return self.modules_of_parts(1, layers)[0]


class Deepspeed:
    def __init__(self, folder):
        runtime = pathlib.Path(folder, "deepspeed/runtime")
        self.Topology = borrow(runtime / "pipe/topology.py",
                               "PipeModelDataParallelTopology").PipeModelDataParallelTopology
        parts = borrow(runtime / "utils.py", "partition_balanced", "partition_uniform")
        self.uniform, self.balanced = parts.partition_uniform, parts.partition_balanced

    def bounds_by_type(self, layers, stages):
        """What partition_method 'type:' gives [embedding, layers…, norm, head] where only the layers match."""
        return [int(part) for part in self.balanced([0] + [1] * layers + [0, 0], stages)]

    def layers_by_type(self, layers, stages):
        parts = self.bounds_by_type(layers, stages)
        return [[spec - 1 for spec in range(first, end) if 1 <= spec <= layers]
                for first, end in zip(parts, parts[1:])]


class Pytorch:
    local = ("UNSHARD", "RESHARD", "REDUCE_GRAD")  # of a rank's own shards: the simulation has no word for them

    def __init__(self, folder):
        path = pathlib.Path(folder, "torch/distributed/pipelining/schedules.py")
        self.module = borrow(path, "_PipelineScheduleRuntime", _PipelineSchedule=object)

    def load(self, path, stages, microbatches):
        """A schedule from a CSV as torchtitan loads it: read, validated, lowered to sends and receives, simulated."""
        schedule = object.__new__(self.module._PipelineScheduleRuntime)
        schedule.pipeline_order, schedule._stages = {}, []
        schedule.pp_group_size = schedule._num_stages = stages
        schedule._n_microbatches = microbatches
        schedule.stage_index_to_group_rank = {stage: stage for stage in range(stages)}
        schedule._load_csv(path)
        moves = {rank: [action for action in actions if action.computation_type.name not in self.local]
                 for rank, actions in schedule.pipeline_order_with_comms.items()}
        self.module._simulate_comms_compute(moves, lambda stage: stage, stages)
        return schedule.pipeline_order

    @staticmethod
    def in_flight(actions):
        """The most micro-batches that have been forward and not yet backward."""
        now = most = 0
        for action in filter(None, actions):
            now += {"FORWARD": 1, "FULL_BACKWARD": -1}[action.computation_type.name]
            most = max(most, now)
        return most
