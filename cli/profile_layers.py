# SPDX-License-Identifier: GPL-3.0-or-later
"""Time one layer and the vocabulary head of a model on this node, for `spiderflow profile`.

Standard input is one JSON object: the model's shape as SpiderFlow has read it, and what to run. Standard
output is another: the seconds, and what they were measured on. Anything wrong is one line on standard error.
With tp > 1 one GPU's share of a slot is run, as tensor parallelism deals it out, without the all-reduces.
"""
import json
import os
import statistics
import sys
import time

NO_TORCH = 3  # exit status: another Python may have it
try:
    import torch
    from torch import nn
    from torch.nn import functional
    from torch.utils.checkpoint import checkpoint
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(NO_TORCH)

WARM_UP = 3  # runs that are not counted: kernels are chosen and memory is taken in them
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


class RmsNorm(nn.Module):
    def __init__(self, width, place):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, **place))

    def forward(self, x):
        if hasattr(functional, "rms_norm"):
            return functional.rms_norm(x, self.weight.shape, self.weight, 1e-6)
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).type_as(x) * self.weight


def make_norm(shape, place):
    return RmsNorm(shape["hidden"], place) if shape["gated_mlp"] else nn.LayerNorm(shape["hidden"], **place)


def attend(q, k, v):
    """Causal attention, by PyTorch's fused kernel if it has one (from 2.0 on)."""
    if hasattr(functional, "scaled_dot_product_attention"):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = q @ k.transpose(2, 3) * q.shape[3] ** -0.5
    future = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(dim=3) @ v


class Rotary(nn.Module):
    """Turns queries and keys by their position."""

    def __init__(self, width, length, place):
        super().__init__()
        speeds = 10000.0 ** (-torch.arange(0, width, 2) / width)
        angles = torch.outer(torch.arange(length), torch.cat((speeds, speeds))[:width])
        self.register_buffer("cos", angles.cos().to(**place))
        self.register_buffer("sin", angles.sin().to(**place))

    def forward(self, x):
        low, high = x.chunk(2, dim=3)
        return x * self.cos + torch.cat((-high, low), dim=3) * self.sin


class Attention(nn.Module):
    def __init__(self, shape, tp, length, place):
        super().__init__()
        self.width = shape["head_dim"]
        self.heads = shape["heads"] // tp
        self.kv_heads = max(shape["kv_heads"] // tp, 1)
        biased = not shape["gated_mlp"]  # GPT-2 has all biases
        self.qkv = nn.Linear(shape["hidden"], (self.heads + 2 * self.kv_heads) * self.width,
                             bias=biased or shape["query_key_value_bias"], **place)
        self.out = nn.Linear(self.heads * self.width, shape["hidden"], bias=biased or shape["output_bias"],
                             **place)
        self.q_norm = RmsNorm(self.width, place) if shape["query_key_norm"] else nn.Identity()
        self.k_norm = RmsNorm(self.width, place) if shape["query_key_norm"] else nn.Identity()
        self.turn = nn.Identity() if shape["positions"] else Rotary(self.width, length, place)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.qkv(x).view(batch, length, -1, self.width).transpose(1, 2)
        q, k, v = heads.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        q, k = self.turn(self.q_norm(q)), self.turn(self.k_norm(k))
        if self.kv_heads < self.heads:
            k, v = (each.repeat_interleave(self.heads // self.kv_heads, dim=1) for each in (k, v))
        return self.out(attend(q, k, v).transpose(1, 2).reshape(batch, length, -1))


class Mlp(nn.Module):
    def __init__(self, shape, tp, place):
        super().__init__()
        self.gated = shape["gated_mlp"]
        width, biased = shape["intermediate"] // tp, not self.gated or shape["mlp_bias"]
        self.up = nn.Linear(shape["hidden"], 2 * width if self.gated else width, bias=biased, **place)
        self.down = nn.Linear(width, shape["hidden"], bias=biased, **place)

    def forward(self, x):
        if not self.gated:
            return self.down(functional.gelu(self.up(x), approximate="tanh"))
        gate, up = self.up(x).chunk(2, dim=2)
        return self.down(functional.silu(gate) * up)


class Layer(nn.Module):
    def __init__(self, shape, tp, length, place):
        super().__init__()
        parts = Attention(shape, tp, length, place), Mlp(shape, tp, place)
        self.parts = nn.ModuleList(parts)
        self.before = nn.ModuleList(make_norm(shape, place) for _ in parts)
        after = shape["norms"] > len(parts)  # Gemma 2 and 3 also have norms behind the parts
        self.after = nn.ModuleList(make_norm(shape, place) if after else nn.Identity() for _ in parts)

    def forward(self, x):
        for before, part, after in zip(self.before, self.parts, self.after):
            x = x + after(part(before(x)))
        return x


class Head(nn.Module):
    """The final norm, the projection to the vocabulary and the loss."""

    def __init__(self, shape, tp, tokens, place):
        super().__init__()
        columns = -(-shape["vocab"] // tp)
        self.norm = make_norm(shape, place)
        self.project = nn.Linear(shape["hidden"], columns, bias=False, **place)
        self.register_buffer("targets", torch.randint(columns, (tokens,), device=place["device"]))

    def forward(self, x):
        logits = self.project(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1).float(), self.targets)


def measure(run, example, repeat):
    """Median seconds of forward and backward. Gradients of weights add up, as over micro-batches."""
    wait = torch.cuda.synchronize if example.is_cuda else lambda: None
    caller, seconds = os.getppid(), []
    for _ in range(WARM_UP + repeat):
        if os.getppid() != caller:
            sys.exit("the command that wants this has ended")
        x = example.detach().requires_grad_()
        wait()
        start = time.perf_counter()
        y = run(x)
        wait()
        middle = time.perf_counter()
        gradient = torch.randn_like(y)
        wait()
        turn = time.perf_counter()
        y.backward(gradient)
        wait()
        seconds.append((middle - start, time.perf_counter() - turn))
    return [statistics.median(each) for each in zip(*seconds[WARM_UP:])]


def parameters(module):
    return sum(each.numel() for each in module.parameters())


def pick_device(request):
    """What to run on, and its name."""
    has_cuda = torch.cuda.is_available()
    device = request["device"] or ("cuda" if has_cuda else "cpu")
    if device == "cuda" and not has_cuda:
        sys.exit(f"PyTorch {torch.__version__} sees no CUDA device on this node")
    if device == "cpu" and not request["gpu"]:
        sys.exit("on the CPU give --gpu TYPE, the type that the times are meant for")
    return device, torch.cuda.get_device_name() if device == "cuda" else "the CPU"


def pick_type(request, device, name):
    dtype = request["dtype"] or ("bf16" if device == "cuda" else "fp32")
    nvidia = device == "cuda" and torch.version.hip is None
    if dtype == "bf16" and nvidia and torch.cuda.get_device_capability()[0] < 8:
        sys.exit(f"{name} has no bf16; give --dtype fp16")
    return dtype


def measure_layer(request, example, place):
    layer = Layer(request["model"], request["tp"], request["sequence"], place)
    run = layer
    if request["recompute"] == "full":
        def run(x):
            return checkpoint(layer, x, use_reentrant=False, preserve_rng_state=False)
    forward, backward = measure(run, example, request["repeat"])
    return {"layer_forward_seconds": forward, "layer_backward_seconds": backward,
            "layer_parameters": parameters(layer)}


def measure_head(request, example, place):
    head = Head(request["model"], request["tp"], request["micro_batch"] * request["sequence"], place)
    forward, backward = measure(head, example, request["repeat"])
    return {"head_forward_seconds": forward, "head_backward_seconds": backward,
            "head_parameters": parameters(head)}


def profile(request):
    device, name = pick_device(request)
    dtype = pick_type(request, device, name)
    place = {"device": device, "dtype": TYPES[dtype]}
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True  # as fp32 training runs
    example = torch.randn(request["micro_batch"], request["sequence"], request["model"]["hidden"], **place)
    return {"device": name, "torch": torch.__version__, "dtype": dtype,
            **measure_layer(request, example, place), **measure_head(request, example, place)}


def reason(error):
    """One line for what PyTorch says in many."""
    text = str(error) or type(error).__name__
    if isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text:
        return "out of memory; give a smaller --mbs or --seq, or a larger --tp"
    if "not implemented for" in text:
        return f"this PyTorch cannot do it: {text.splitlines()[0]}; give another --dtype"
    return text.splitlines()[0]


def main():
    try:
        print(json.dumps(profile(json.load(sys.stdin))))
    except (MemoryError, RuntimeError) as error:
        sys.exit(reason(error))


if __name__ == "__main__":
    main()
