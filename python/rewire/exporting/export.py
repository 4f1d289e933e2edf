"""Brings a PyTorch module in: `net.rir`, `net.safetensors` and a report."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn

from rewire import command
from rewire.errors import RewireError
from rewire.exporting import ops  # noqa: F401, registers the lowerings
from rewire.exporting.joins import Join, choose, find_joins
from rewire.exporting.lower import Lowering, arg
from rewire.exporting.program import DependsOnBatch, Program, Value, text_of
from rewire.exporting.trace import ExportError, Trace, is_random, line_of, of_exported, op_name, quiet, trace
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
    check: bool = True,
) -> Report:
    """Writes `path` (net.rir) and its weights next to it (net.safetensors), and returns what was written.

    `example_inputs` have the batch as their first axis. `joins` changes the list of joins that was found:
    "-blocks.3.attn" drops one, "+add_7" makes the addition of that name in the graph one. `check` runs the network by
    the command, at another batch, and compares it with the module. Throws ExportError, in one line or one for each op
    that is not supported.
    """
    inputs = _checked_inputs(example_inputs)
    path = Path(path)
    if path.suffix != ".rir":
        raise ExportError(f"{path}: the file of a network is named *.rir")
    own_name = name or path.stem
    notes: list[str] = []
    other: Lowered | None = None
    if isinstance(module, torch.export.ExportedProgram):
        traced = of_exported(module, None, inputs[0].shape[0], False)
        first = _lower(traced, module=None, name=own_name, changes=joins, inits={})
        notes.append("a .pt2 file has one trace: the batch is fixed, and its batch norms train")
    else:
        module = _in_single_precision(module, notes)
        inputs = tuple(value.float() if value.is_floating_point() else value for value in inputs)
        first, other = _traced(module, inputs, own_name, joins, notes)
    text = _text(first, other, notes)
    any_batch = "[batch" in text.split("func @forward", 1)[1].split("->", 1)[0]
    made = first.lowering.tensors
    tensors = {name: made[name] for name in first.program.parameters if name in made}
    fixed = [n for n, tensor in first.trace.tensors.items() if n in tensors and _is_frozen(tensor)]
    if fixed:
        notes.append(f"{len(fixed)} weights have requires_grad=False and are not trained, such as {fixed[0]}")
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder) / path.name, text, tensors)
        if check:
            _check(module, inputs, Path(folder) / path.name, first.program, any_batch, notes)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, text, tensors)
    except OSError as error:
        raise ExportError(f"{path}: {error.strerror}") from None
    count = sum(tensor.numel() for name, tensor in tensors.items() if first.program.parameters[name].trainable)
    weights = str(path.with_suffix(".safetensors"))
    return Report(str(path), weights, count, [_row(join) for join in first.joins], any_batch, notes)


@dataclass
class Lowered:
    """A trace and what was made of it."""

    trace: Trace
    program: Program
    lowering: Lowering
    joins: list[Join]


def _checked_inputs(example_inputs: Any) -> tuple[torch.Tensor, ...]:
    inputs = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else example_inputs
    if not isinstance(inputs, (tuple, list)) or not all(isinstance(value, torch.Tensor) for value in inputs):
        raise ExportError("example_inputs: it is a tensor, or a tuple of tensors")
    if not inputs or any(value.dim() == 0 or value.shape[0] == 0 for value in inputs):
        raise ExportError("example_inputs: each needs the batch as its first axis")
    if len({value.shape[0] for value in inputs}) > 1:
        raise ExportError("example_inputs: their first axes differ; each needs the batch as its first axis")
    return tuple(inputs)


def _is_frozen(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, nn.Parameter) and not tensor.requires_grad


def _write(path: Path, text: str, tensors: dict[str, torch.Tensor]) -> None:
    from safetensors.numpy import save_file

    arrays = {name: tensor.contiguous().numpy() for name, tensor in tensors.items()}
    save_file(arrays, str(path.with_suffix(".safetensors")), metadata={"format": "pt"})
    path.write_text(text)


def _check(
    module: Any, inputs: tuple[torch.Tensor, ...], path: Path, program: Program, any_batch: bool, notes: list[str]
) -> None:
    """Holds the written network against the module, in evaluation. Without the command, a note says that it was not."""
    import numpy

    try:
        command.find()
    except RewireError:
        notes.append("not checked: the command rewire was not found")
        return
    size = 5 if any_batch else program.batch
    generator = torch.Generator().manual_seed(1)
    given: list[tuple[str, Path, torch.Tensor]] = []
    for argument, value in zip(program.arguments, inputs):
        row = _with_batch(value, size)
        noisy = row + 0.1 * torch.randn(row.shape, generator=generator) if row.is_floating_point() else row
        file = path.parent / f"{len(given)}.npy"
        numpy.save(file, noisy.numpy())
        given.append((argument.name.removeprefix("%").strip('"'), file, noisy))
    words = [word for name, file, _ in given for word in ("--input", f"{name}={file}")]
    output = path.parent / "out.npy"
    weights = path.with_suffix(".safetensors")
    command.run("run", path, "--weights", weights, *words, "--output", output, "--quiet")
    callable_module = module.module() if isinstance(module, torch.export.ExportedProgram) else module
    with torch.no_grad(), quiet(), _evaluating(callable_module):
        wanted = callable_module(*(value for _, _, value in given)).float().numpy()
    got = numpy.load(output)
    if got.shape != wanted.shape:
        raise ExportError(f"the network gives {list(got.shape)}, the module {list(wanted.shape)}, at a batch of {size}")
    error = float(numpy.abs(got - wanted).max() / max(float(numpy.abs(wanted).max()), 1e-30))
    if not error <= LARGEST_ERROR:
        raise ExportError(
            f"the network differs from the module by {error:.1e} of the largest number, at a batch of {size}: "
            "an op means something else here than in PyTorch"
        )


LARGEST_ERROR = 1e-3  # single precision against single precision, in networks of any condition


@contextlib.contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    if not isinstance(module, nn.Module):
        yield
        return
    modes = {child: child.training for child in module.modules()}
    with contextlib.suppress(NotImplementedError):  # what torch.export gives has no modes
        module.eval()
    try:
        yield
    finally:
        for child, mode in modes.items():
            child.training = mode


def _in_single_precision(module: nn.Module, notes: list[str]) -> nn.Module:
    others = {tensor.dtype for tensor in module.state_dict().values() if tensor.is_floating_point()} - {torch.float32}
    if others:
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in others))
        notes.append(f"weights in {names} become float32; train.dtype chooses the precision of training")
        module = copy.deepcopy(module).float()
    return module


def _traced(
    module: nn.Module, inputs: tuple[torch.Tensor, ...], name: str, joins: Sequence[str], notes: list[str]
) -> tuple[Lowered, Lowered | None]:
    """Traces the module in evaluation and in training. The form for training is taken if it is the other but for
    dropout, drop path and batch norms; its ops do nothing random in evaluation."""
    batches = [tuple(_with_batch(value, size) for value in inputs) for size in BATCHES]
    evaluated = trace(module, batches[0], False)
    if any(_draws(node) for node in evaluated.graph.nodes):
        notes.append("dropout that the module has in evaluation too is one of training alone here")
    trained: Trace | None = None
    try:
        trained = trace(module, batches[0], True)
    except ExportError as problem:
        notes.append(f"its form for evaluation is used, without dropout: {str(problem).splitlines()[0]}")
    frozen = _frozen_norms(trained) if trained is not None else set()
    lower = functools.partial(_lower, module=module, name=name, changes=joins, inits={})
    first = lower(evaluated, frozen=frozen)
    if trained is not None:
        spells = any(_attention_dropout(node) > 0 for node in trained.graph.nodes)
        try:
            with_noise = lower(trained)
            plain = lower(evaluated, frozen=frozen, spells=True) if spells else first
            noisy = lower(trained, spells=True) if spells else with_noise
            if _without_noise(plain.program) == _without_noise(noisy.program):
                first = with_noise
            else:
                notes.append("the module computes something else in training; its form for evaluation is used")
        except ExportError as problem:
            notes.append(f"its form for evaluation is used, without dropout: {' '.join(str(problem).split())[:200]}")
    try:
        again = trace(module, batches[1], first.trace.training)
        return first, lower(again, frozen=frozen)
    except ExportError as problem:
        notes.append(f"the batch is fixed: {str(problem).splitlines()[0]}")
        return first, None


BATCHES = (2, 7)


def _with_batch(value: torch.Tensor, size: int) -> torch.Tensor:
    return value[:1].expand(size, *value.shape[1:]).contiguous()


def _draws(node: fx.Node) -> bool:
    return node.op == "call_function" and is_random(node) and op_name(node) != "aten.scaled_dot_product_attention"


def _attention_dropout(node: fx.Node) -> float:
    if op_name(node) != "aten.scaled_dot_product_attention":
        return 0.0
    return float(arg(node, 4, "dropout_p", 0.0))


def _frozen_norms(trained: Trace) -> set[str]:
    """Returns the running means of the batch norms that do not train."""
    return {
        trained.names[node.args[3]]
        for node in trained.graph.nodes
        if op_name(node) == "aten.batch_norm" and isinstance(node.args[3], fx.Node) and not node.args[5]
    }


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
        if op.name == "constant" and op.results[0].dtype == "i1" and not op.results[0].shape:
            continue  # whether a batch norm trains
        attributes = {key: value for key, value in op.attributes.items() if key != "last_weight"}
        operands = [numbers.get(value.name) for value in op.operands if value.dtype != "i1" or op.name != "batch_norm"]
        rows.append(
            (op.name, operands, sorted(attributes.items(), key=lambda pair: pair[0]), [v.shape for v in op.results])
        )
        for place, value in enumerate(op.results):
            numbers[value.name] = 4 * len(rows) + place
    return [row[:2] + (str(row[2]),) + row[3:] for row in rows]


def _lower(
    traced: Trace,
    *,
    module: nn.Module | None,
    name: str,
    changes: Sequence[str],
    inits: dict[str, str],
    frozen: set[str] | None = None,
    spells: bool = False,
) -> Lowered:
    found = choose(find_joins(traced), traced, list(changes))
    lowering = Lowering(traced, name, _input_names(traced), Description(module, traced, found, inits))
    lowering.frozen, lowering.spells_attention = frozen or set(), spells
    by_node = {join.node: (index, join) for index, join in enumerate(found)}

    def residual(node: fx.Node) -> Value | None:
        if node not in by_node:
            return None
        index, join = by_node[node]
        return _residual(lowering, join, index, len(found))

    lowering.replace = residual
    return Lowered(traced, lowering.run(), lowering, found)


def _input_names(traced: Trace) -> dict[str, str]:
    """The first input of numbers is 'image', the first of two axes of integers 'tokens', as data sets name them; other
    arguments keep their names."""
    names: dict[str, str] = {}
    for node, kind in traced.kinds.items():
        value = node.meta.get("val")
        if kind != "input" or not isinstance(value, torch.Tensor):
            continue
        usual = "image" if value.is_floating_point() else "tokens" if value.dim() == 2 else ""
        own = traced.names[node]
        taken = set(names.values())
        names[own] = usual if usual and usual not in taken else own if own not in taken else f"{own}.{len(names)}"
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


def _text(first: Lowered, other: Lowered | None, notes: list[str]) -> str:
    if other is not None:
        try:
            _require_same_tables(first, other)
            return text_of(first.program, other.program)
        except DependsOnBatch as difference:
            notes.append(f"the batch is fixed at {first.program.batch}: {difference}")
    return text_of(first.program, None)


def _require_same_tables(first: Lowered, other: Lowered) -> None:
    for name in first.program.parameters:
        one, two = first.lowering.tensors.get(name), other.lowering.tensors.get(name)
        if one is not None and (two is None or one.shape != two.shape or not torch.equal(one, two)):
            raise DependsOnBatch(f"the table {name} is another at a batch of {other.program.batch}")


def _row(join: Join) -> dict[str, Any]:
    return {
        "name": join.name,
        "node": join.node.name,
        "site": join.site,
        "stage": join.stage,
        "shape": [int(extent) for extent in join.node.meta["val"].shape[1:]],
        "line": line_of(join.node),
    }
