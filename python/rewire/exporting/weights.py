"""What the text form says of a parameter: how it starts, whether it decays, what it is for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from rewire.exporting.joins import Join
from rewire.exporting.trace import Trace

ROLES = {"fc1": "fc1", "fc2": "fc2", "qkv": "qkv", "proj": "proj", "head": "head", "fc": "head", "classifier": "head"}


class Description:
    """Answers for the parameters of one module. `inits` keeps what their numbers say, for other traces of it."""

    def __init__(self, module: nn.Module | None, trace: Trace, joins: Sequence[Join], inits: dict[str, str]) -> None:
        tensors = trace.tensors
        self.owners = dict(module.named_modules()) if module is not None else {}
        self.tensors = tensors
        self.inits = inits
        exempt = getattr(module, "no_weight_decay", None)
        self.exempt = set(exempt()) if callable(exempt) else set()
        self.joins: dict[str, Join] = {}
        for join in joins:
            for name in join.weights:
                self.joins.setdefault(name, join)
        self.layers = _layers(trace, joins)

    def __call__(self, name: str) -> dict[str, Any]:
        tensor = self.tensors[name]
        path, _, own = name.rpartition(".")
        if name not in self.inits:
            self.inits[name] = init_of(tensor)
        attributes: dict[str, Any] = {"init": self.inits[name], "role": self._role(path, own)}
        # timm's rule: vectors, biases and what the module itself exempts do not decay.
        if tensor.dim() <= 1 or own == "bias" or name in self.exempt or any(name.endswith(e) for e in self.exempt):
            attributes["decay"] = False
        if (join := self.joins.get(name)) is not None:
            attributes |= {"block": join.block, "site": join.site}
        if (layer := self.layers.get(name)) is not None:
            attributes["layer"] = layer
        return attributes

    def _role(self, path: str, own: str) -> str:
        owner = self.owners.get(path)
        if owner is not None and "norm" in type(owner).__name__.lower():
            return "norm"
        if own in ("cls_token", "pos_embed", "dist_token", "reg_token"):
            return own
        if path.startswith(("patch_embed", "stem", "conv1")):
            return "patch_embed"
        last = path.rsplit(".", 1)[-1]
        return ROLES.get(last, last if last and not last.isdigit() else own)


def _layers(trace: Trace, joins: Sequence[Join]) -> dict[str, int]:
    """Returns the depth of each parameter: 0 before the first join, then its block's or that of the block before, and
    one more for what follows the last join."""
    if not joins:
        return {}
    order = {node: index for index, node in enumerate(trace.graph.nodes)}
    ends = sorted((order[join.node], join.block + 1) for join in joins)
    starts = min(order[node] for node in joins[0].nodes)
    layers = {}
    for node, kind in trace.kinds.items():
        uses = [order[user] for user in node.users]
        if kind != "parameter" or not uses:
            continue
        use = min(uses)
        if use < starts:
            layers[trace.names[node]] = 0
        elif use > ends[-1][0]:
            layers[trace.names[node]] = ends[-1][1] + 1
        else:
            layers[trace.names[node]] = next(layer for end, layer in ends if end >= use)
    return layers


def init_of(tensor: torch.Tensor) -> str:
    """Returns a distribution that fits the numbers: a constant, PyTorch's uniform one, a normal one."""
    flat = tensor.detach().double().flatten()
    if flat.numel() == 0 or bool((flat == flat[0]).all()):
        value = float(flat[0]) if flat.numel() else 0.0
        return {0.0: "zeros", 1.0: "ones"}.get(value, f"constant({value!r})")
    mean, spread = float(flat.mean()), float(flat.std())
    if abs(mean) > 3 * spread:
        return init_of(torch.tensor([float(f"{mean:.2g}")]))
    if tensor.dim() > 1:
        bound = 1 / math.sqrt(math.prod(tensor.shape[1:]))
        if float(flat.abs().max()) <= bound * 1.0001 and abs(spread * math.sqrt(3) / bound - 1) < 0.1:
            return f"uniform({-bound!r}, {bound!r})"
    elif float(flat.abs().max()) <= 1.8 * spread:
        bound = float(f"{spread * math.sqrt(3):.2g}")
        return f"uniform({-bound!r}, {bound!r})"
    return f"normal({float(f'{spread:.2g}')!r})"
