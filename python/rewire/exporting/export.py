"""Brings a PyTorch module in: `net.rir`, `net.safetensors` and a report."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn

from rewire.exporting import ops  # noqa: F401, registers the lowerings
from rewire.exporting.joins import Join, choose, find_joins
from rewire.exporting.lower import Lowering
from rewire.exporting.program import DependsOnBatch, Program, Value, text_of
from rewire.exporting.trace import ExportError, Trace, of_exported, trace
from rewire.exporting.weights import Description

RANDOM_OPS = frozenset(("dropout", "drop_path"))


@dataclass
class Report:
    """What an export wrote. `joins` are rows (name, site, stage, shape, ...); `notes` are lines for the user."""

    module: str
    weights: str
    parameters: int
    joins: list[dict[str, Any]]
    any_batch: bool
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{self.module}: {self.parameters:,} weights, {len(self.joins)} joins, "
            f"{'any batch' if self.any_batch else 'a fixed batch'}"
        ]
        width = max((len(join["name"]) for join in self.joins), default=0)
        for join in self.joins:
            shape = "×".join(str(extent) for extent in join["shape"])
            lines.append(f"  {join['name']:<{width}}  {shape:<12}  {join['line']}")
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])


def export(
    module: nn.Module | torch.export.ExportedProgram,
    example_inputs: torch.Tensor | Sequence[torch.Tensor],
    path: str | os.PathLike[str],
    *,
    joins: Sequence[str] = (),
    name: str | None = None,
) -> Report:
    """Writes `path` (net.rir) and its weights next to it (net.safetensors), and returns what was written.

    `example_inputs` have the batch as their first axis. `joins` changes the list of joins that was found:
    "-blocks.3.attn" drops one, "+add_7" makes the addition of that name in the graph one. Throws ExportError, one line
    or one for each op that is not supported.
    """
    inputs = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else tuple(example_inputs)
    path = Path(path)
    if path.suffix != ".rir":
        raise ExportError(f"{path}: the file of a network is named *.rir")
    own_name = name or path.stem
    notes: list[str] = []
    if isinstance(module, torch.export.ExportedProgram):
        batch = int(_example_batch(inputs))
        first = of_exported(module, None, batch, False)
        lowered = _lower(first, None, own_name, joins)
        program, lowering, found = lowered
        other = None
        notes.append("the batch is fixed: a .pt2 file has one trace")
    else:
        module = _in_single_precision(module, notes)
        program, lowering, found, other = _traced(module, inputs, own_name, joins, notes)
    text, any_batch = _text(program, other, notes)
    from safetensors.numpy import save_file

    tensors = {key: lowering.tensors[key].contiguous().numpy() for key in program.parameters if key in lowering.tensors}
    weights = path.with_suffix(".safetensors")
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, str(weights), metadata={"format": "pt"})
    path.write_text(text)
    rows = [_row(join) for join in found]
    count = sum(value.size for key, value in tensors.items() if program.parameters[key].trainable)
    return Report(str(path), str(weights), int(count), rows, any_batch, notes)


def _example_batch(inputs: Sequence[torch.Tensor]) -> int:
    if not inputs or any(value.dim() == 0 for value in inputs):
        raise ExportError("example_inputs: each needs the batch as its first axis")
    return inputs[0].shape[0]


def _in_single_precision(module: nn.Module, notes: list[str]) -> nn.Module:
    others = {tensor.dtype for tensor in module.state_dict().values() if tensor.is_floating_point()} - {torch.float32}
    if others:
        import copy

        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in others))
        notes.append(f"weights in {names} become float32; train.dtype chooses the precision of training")
        module = copy.deepcopy(module).float()
    return module


def _traced(
    module: nn.Module, inputs: tuple[torch.Tensor, ...], name: str, joins: Sequence[str], notes: list[str]
) -> tuple[Program, Lowering, list[Join], Program | None]:
    inputs = tuple(value.float() if value.is_floating_point() else value for value in inputs)
    _example_batch(inputs)
    batches = [tuple(_with_batch(value, size) for value in inputs) for size in (2, 3)]
    evaluated = _lower(trace(module, batches[0], False), module, name, joins)
    training, chosen = False, evaluated
    if _is_random(module):
        try:
            trained = _lower(trace(module, batches[0], True), module, name, joins)
            if _without_noise(trained[0]) == _without_noise(evaluated[0]):
                training, chosen = True, trained
            else:
                notes.append("the module computes something else in training; its form for evaluation is used")
        except ExportError as problem:
            notes.append(f"dropout and drop path are left out: {str(problem).splitlines()[0]}")
    try:
        other = _lower(trace(module, batches[1], training), module, name, joins)[0]
    except ExportError as problem:
        notes.append(f"the batch is fixed: {str(problem).splitlines()[0]}")
        other = None
    return (*chosen, other)


def _with_batch(value: torch.Tensor, size: int) -> torch.Tensor:
    return value[:1].expand(size, *value.shape[1:]).contiguous()


def _is_random(module: nn.Module) -> bool:
    """True if forward may draw numbers in training."""
    for child in module.modules():
        if any(
            isinstance(getattr(child, key, None), float) and getattr(child, key) > 0
            for key in ("p", "drop_prob", "dropout")
        ):
            return True
        kind = type(child).__name__
        if "Drop" in kind or kind in ("StochasticDepth", "MultiheadAttention"):
            return True
    return False


def _without_noise(program: Program) -> list[tuple[Any, ...]]:
    """Returns the ops without those that draw numbers, in a form that two programs can be compared in."""
    numbers: dict[str, int] = {value.name: -1 - i for i, value in enumerate(program.arguments)}
    rows: list[tuple[Any, ...]] = []
    for op in program.ops:
        if op.name in RANDOM_OPS:
            numbers[op.results[0].name] = numbers[op.operands[0].name]
            continue
        if op.name == "is_training" or (op.name == "param" and op.attributes["name"] in ("rng.seed", "train.step")):
            continue
        attributes = {key: value for key, value in op.attributes.items() if key != "last_weight"}
        operands = [numbers.get(value.name) for value in op.operands if value.dtype != "i1" or op.name != "batch_norm"]
        rows.append(
            (op.name, operands, sorted(attributes.items(), key=lambda pair: pair[0]), [v.shape for v in op.results])
        )
        for place, value in enumerate(op.results):
            numbers[value.name] = 4 * len(rows) + place
    return [row[:2] + (str(row[2]),) + row[3:] for row in rows]


def _lower(
    traced: Trace, module: nn.Module | None, name: str, changes: Sequence[str]
) -> tuple[Program, Lowering, list[Join]]:
    found = choose(find_joins(traced), traced, list(changes))
    inputs = _input_names(traced)
    lowering = Lowering(traced, name, inputs, Description(module, traced, found))
    by_node = {join.node: (index, join) for index, join in enumerate(found)}

    def residual(node: fx.Node) -> Value | None:
        if node not in by_node:
            return None
        index, join = by_node[node]
        return _residual(lowering, join, index, len(found))

    lowering.replace = residual
    return lowering.run(), lowering, found


def _input_names(traced: Trace) -> dict[str, str]:
    """A data set's images are 'image', its token ids 'tokens'; other arguments keep their names."""
    names: dict[str, str] = {}
    for node, kind in traced.kinds.items():
        value = node.meta.get("val")
        if kind != "input" or not isinstance(value, torch.Tensor):
            continue
        usual = (
            "image"
            if value.dim() == 4 and value.is_floating_point()
            else "tokens"
            if value.dim() == 2 and not value.is_floating_point()
            else None
        )
        names[traced.names[node]] = usual if usual and usual not in names.values() else traced.names[node]
    return names


def _residual(lowering: Lowering, join: Join, index: int, count: int) -> Value | None:
    shape = lowering.shape_of(join.node)
    shortcut, branch = (lowering.broadcast(lowering.get(node), shape) for node in (join.shortcut, join.branch))
    entry = lowering.get(join.entry)
    heads = next((extent for n in join.nodes if (extent := _heads(lowering, n)) > 0), 0)
    attributes: dict[str, Any] = {
        "block": join.block,
        "site": join.site,
        "stage": join.stage,
        "join_index": index,
        "join_count": count,
        "token_axis": join.axes[0],
        "channel_axis": join.axes[1],
        "last_weight": join.last_weight,
    }
    if heads:
        attributes["heads"] = heads
    operands = [shortcut, branch, entry, shortcut, branch]
    return lowering.program.emit("residual", operands, shape, join.name, **attributes)


def _heads(lowering: Lowering, node: fx.Node) -> int:
    if getattr(node.target, "_opname", "") == "scaled_dot_product_attention":
        shape = lowering.shape_of(node)
        return shape[1] if len(shape) == 4 else 0
    return 0


def _text(program: Program, other: Program | None, notes: list[str]) -> tuple[str, bool]:
    if other is not None:
        try:
            return text_of(program, other), True
        except DependsOnBatch as difference:
            notes.append(f"the batch is fixed at {program.batch}: {difference}")
    return text_of(program, None), False


def _row(join: Join) -> dict[str, Any]:
    from rewire.exporting.trace import line_of

    return {
        "name": join.name,
        "node": join.node.name,
        "site": join.site,
        "stage": join.stage,
        "shape": [int(extent) for extent in join.node.meta["val"].shape[1:]],
        "line": line_of(join.node),
    }


def write_report(report: Report, file: str | os.PathLike[str]) -> None:
    Path(file).write_text(json.dumps(report.__dict__, indent=2) + "\n")
