"""Lowers a traced graph to a `Program`. rewire.exporting.ops has a function for each op of PyTorch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from rewire.exporting.program import Parameter, Program, Shape, Value
from rewire.exporting.trace import (
    RUNNING,
    Constants,
    ExportError,
    Trace,
    is_in_place,
    is_view,
    line_of,
    module_path,
    op_name,
)

MASKED = -1e30  # a logit that is masked out: infinity minus infinity would be NaN


class Unsupported(Exception):
    """An op, or a use of it, that has no counterpart."""


@dataclass
class Noise:
    """What aten.bernoulli draws: ones with this probability, of this shape, times `scale`."""

    keep: float
    shape: Shape
    scale: float = 1.0


LOWERINGS: dict[str, Callable[[Lowering, Any], Any]] = {}


def lowers(*names: str) -> Callable[[Callable[[Lowering, Any], Any]], Callable[[Lowering, Any], Any]]:
    def register(function: Callable[[Lowering, Any], Any]) -> Callable[[Lowering, Any], Any]:
        for name in names:
            LOWERINGS["aten." + name if "." not in name and name != "getitem" else name] = function
        return function

    return register


def dtype_of(tensor: torch.Tensor) -> str:
    if tensor.is_floating_point():
        return "f32"
    return {torch.bool: "i1", torch.int32: "i32", torch.uint8: "u8"}.get(tensor.dtype, "i64")


class Lowering:
    """One pass over a graph. `describe` gives the attributes of a parameter by its name."""

    def __init__(self, trace: Trace, name: str, inputs: dict[str, str], describe: Callable[[str], dict[str, Any]]):
        self.trace, self.describe = trace, describe
        self.program = Program(name, trace.batch)
        self.known = Constants(trace)
        self.frozen: set[str] = set()  # running means of batch norms that do not train
        self.spells_attention = False
        self.updates: dict[str, Value] = {}  # of running statistics
        self.values: dict[fx.Node, Any] = {}
        self.missing: list[str] = []
        self.tensors: dict[str, torch.Tensor] = {}  # of the parameters and tables that the program reads
        self.replace: Callable[[fx.Node], Value | None] = lambda node: None
        self.node: Any
        self._streams: dict[str, int] = {}
        self._order = {node: index for index, node in enumerate(trace.graph.nodes)}
        self._inputs = inputs

    def run(self) -> Program:
        """Lowers all nodes. Throws ExportError that lists everything that is not supported."""
        for node in self.trace.graph.nodes:
            self.node = node
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "call_function" and not self._is_constant(node):
                self._call(node)
        if self.missing:
            places = "\n  ".join(dict.fromkeys(self.missing))
            raise ExportError(f"not supported ({len(self.missing)}):\n  {places}")
        result = self.get(self.trace.output)
        self.program.results["logits"] = result
        for name, value in self.updates.items():
            self.program.results[f"update.{name}"] = value
        self.program.drop_unused()
        return self.program

    # Values --------------------------------------------------------------------------------------------------

    def get(self, what: Any) -> Value:
        """Returns the value of a node, a table of constants, or a number."""
        if isinstance(what, fx.Node):
            if what not in self.values and self.trace.kinds.get(what) == "parameter":
                self.values[what] = self.parameter(self.trace.names[what])
            if what in self.values:
                value = self.values[what]
                if isinstance(value, Value):
                    return value
                raise Unsupported(f"{op_name(what)} here")
            if what in self.known:
                self.values[what] = self.table(what)
                return self.values[what]  # type: ignore[no-any-return]
        if isinstance(what, (int, float)):
            return self.scalar(float(what), ())
        raise Unsupported(f"an operand {type(what).__name__}")

    def table(self, node: Any) -> Value:
        tensor = self.known[node]
        if not isinstance(tensor, torch.Tensor):
            return self.scalar(float(tensor), ())
        name = self.trace.names.get(node)
        return self.constant(tensor, name)

    def constant(self, tensor: torch.Tensor, name: str | None = None) -> Value:
        """Returns a table. A large one of floating-point numbers is a state, kept in the file of weights."""
        dtype = dtype_of(tensor)
        flat = tensor.detach().flatten()
        if tensor.numel() > 0 and bool((flat == flat[0]).all()):
            return self.program.emit("constant", [], tensor.shape, self.place, dtype, value=float(flat[0]))
        shape = tuple(tensor.shape)
        if shape and shape[0] == self.program.batch > 1 and bool((tensor == tensor[:1]).all()):
            return self.broadcast(self.constant(tensor[:1], name), shape)  # one row for every sample
        if dtype != "f32" or tensor.numel() <= 16:
            values = [float(number) for number in flat.double().tolist()]
            return self.program.emit("constant", [], tensor.shape, self.place, dtype, values=values)
        if name is None:
            name = base = f"{self.place}.constant_table" if self.place else "constant_table"
            name = next(
                n for n in itertools.chain([name], (f"{base}{i}" for i in itertools.count(1))) if n not in self.tensors
            )
        self.tensors[name] = tensor.detach().float().clone()
        return self.program.read(
            Parameter(name, tuple(tensor.shape), False, attributes={"kind": "statistic", "decay": False})
        )

    def scalar(self, number: float, shape: Sequence[int], dtype: str = "f32") -> Value:
        return self.program.emit("constant", [], shape, self.place, dtype, value=float(number))

    def number(self, what: Any) -> float:
        """Returns a number that does not depend on the input."""
        if isinstance(what, fx.Node):
            if what not in self.known or math.prod(getattr(self.known[what], "shape", ())) != 1:
                raise Unsupported("a bound that is a tensor")
            what = self.known[what]
        return float(what)

    def parameter(self, name: str, trainable: bool = True, **more: Any) -> Value:
        tensor = self.trace.tensors[name]
        self.tensors[name] = tensor.detach().float()
        is_fixed = isinstance(tensor, torch.nn.Parameter) and not tensor.requires_grad
        trainable = trainable and not is_fixed
        attributes = self.describe(name) if trainable else {"decay": False, **more}
        return self.program.read(Parameter(name, tuple(tensor.shape), trainable, attributes=attributes), self.place)

    @property
    def place(self) -> str:
        return module_path(self.node)

    def shape_of(self, node: Any | None = None) -> Shape:
        value = (node or self.node).meta["val"]
        return tuple(int(extent) for extent in value.shape)

    def stream(self, kind: str) -> str:
        """Returns a name for random numbers: the module's place, numbered if it is not the first there."""
        name = self.place or kind
        count = self._streams.get(name, 0)
        self._streams[name] = count + 1
        return name if count == 0 else f"{name}.{count}"

    # Ops that many lowerings use -----------------------------------------------------------------------------

    def emit(
        self, op: str, operands: Sequence[Value], shape: Sequence[int], dtype: str | None = None, /, **more: Any
    ) -> Value:
        if dtype is None:
            dtype = operands[0].dtype if operands else "f32"
        return self.program.emit(op, operands, shape, self.place, dtype, **more)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        shape = tuple(shape)
        return x if x.shape == shape else self.emit("reshape", [x], shape)

    def broadcast(self, x: Value, shape: Sequence[int]) -> Value:
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if not x.shape and x.name.startswith("%"):
            for op in reversed(self.program.ops):
                if op.results[0] == x:
                    if op.name == "constant" and "value" in op.attributes:
                        return self.scalar(op.attributes["value"], shape, x.dtype)
                    break
        x = self.reshape(x, (1,) * (len(shape) - len(x.shape)) + x.shape)
        return x if x.shape == shape else self.emit("broadcast", [x], shape)

    def binary(self, name: str, a: Value, b: Value, shape: Sequence[int], dtype: str | None = None) -> Value:
        kind = a.dtype if a.dtype == b.dtype else "f32"
        a, b = (self.cast(v, kind) for v in (a, b))
        return self.emit(name, [self.broadcast(a, shape), self.broadcast(b, shape)], shape, dtype)

    def cast(self, x: Value, dtype: str) -> Value:
        return x if x.dtype == dtype else self.emit("cast", [x], x.shape, dtype)

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        axes = [axis % len(x.shape) for axis in permutation]
        if axes == sorted(axes):
            return x
        return self.emit("transpose", [x], [x.shape[axis] for axis in axes], permutation=axes)

    def slice(self, x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
        extent = x.shape[axis]
        if (start, stop, step) == (0, extent, 1):
            return x
        starts, limits = [0] * len(x.shape), list(x.shape)
        starts[axis], limits[axis] = start, stop
        more = {"strides": [step if i == axis else 1 for i in range(len(x.shape))]} if step != 1 else {}
        shape = list(x.shape)
        shape[axis] = max(0, -(-(stop - start) // step))
        return self.emit("slice", [x], shape, starts=starts, limits=limits, **more)

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return self.emit("concat", parts, shape, axis=axis)

    def sum(self, x: Value, axes: Sequence[int], name: str = "sum") -> Value:
        """Sums over axes, which keep extent 1."""
        shape = [1 if axis in axes else extent for axis, extent in enumerate(x.shape)]
        return self.emit(name, [x], shape, axes=list(axes))

    def times(self, x: Value, number: float) -> Value:
        return self.binary("mul", x, self.scalar(number, x.shape), x.shape)

    def plus(self, x: Value, number: float) -> Value:
        return self.binary("add", x, self.scalar(number, x.shape), x.shape)

    def mean(self, x: Value, axes: Sequence[int]) -> Value:
        return self.times(self.sum(x, axes), 1.0 / math.prod(x.shape[axis] for axis in axes))

    def clamp(self, x: Value, low: float | None, high: float | None) -> Value:
        if low is not None:
            x = self.emit("maximum", [x, self.scalar(low, x.shape, x.dtype)], x.shape)
        if high is not None:
            x = self.emit("minimum", [x, self.scalar(high, x.shape, x.dtype)], x.shape)
        return x

    def linear(self, x: Value, weight: Value, bias: Value | None) -> Value:
        shape = (*x.shape[:-1], weight.shape[0])
        y = self.emit("matmul", [x, weight], shape, transpose_b=True)
        return y if bias is None else self.binary("add", y, bias, shape)

    def training(self) -> Value:
        return self.emit("is_training", [], (), "i1")

    def drop(self, op: str, x: Value, probability: float) -> Value:
        if probability <= 0:
            return x
        seed = self.program.read(Parameter("rng.seed", (), False, "i64", {"decay": False, "kind": "random"}))
        step = self.program.read(Parameter("train.step", (), False, "i64", {"decay": False, "kind": "counter"}))
        operands = [x, seed, step, self.training()]
        probability = float(f"{probability:.6g}")  # timm computes rates in single precision
        return self.emit(op, operands, x.shape, probability=probability, stream=self.stream(op))

    # The graph -----------------------------------------------------------------------------------------------

    def _placeholder(self, node: Any) -> None:
        kind, name = self.trace.kinds[node], self.trace.names[node]
        if kind == "input":
            tensor = node.meta.get("val")
            if not isinstance(tensor, torch.Tensor):
                return
            self.values[node] = self.program.argument(
                self._inputs.get(name, name), self.shape_of(node), dtype_of(tensor)
            )
        elif kind == "parameter":
            pass  # it is read where it is used first
        elif name.rsplit(".", 1)[-1] in RUNNING and node.users:
            self.values[node] = self.parameter(name, False, kind="statistic", init=_init_of_statistic(name))

    def _is_constant(self, node: fx.Node) -> bool:
        """Computes the node if it is constant. A table that an op in place changes loses its old value."""
        try:
            if not self.known.compute(node):
                return False
        except Exception as error:  # whatever PyTorch throws
            reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
            self.missing.append(f"{op_name(node)}: {reason}{' at ' + line_of(node) if line_of(node) else ''}")
            self.values[node] = self._stand_in(node)
            return True
        if is_in_place(node):
            for other in self.known.sharing(node):
                self.values.pop(other, None)
        return True

    def _is_written(self, node: fx.Node) -> None:
        """Data are written into a table: from here on it is none."""
        target: Any = node.args[0]
        if target in self.known:
            for other in self.known.sharing(target):
                self.values[other] = self.table(other)
                del self.known.known[other]

    def _call(self, node: Any) -> None:
        name = op_name(node)
        if is_in_place(node):
            self._is_written(node)
        joined = self.replace(node)
        if joined is not None:
            self.values[node] = joined
            if is_in_place(node):
                self._write_back(node)
            return
        lowering = LOWERINGS.get(name) or LOWERINGS.get(name.removesuffix("_"))
        try:
            if lowering is None:
                raise Unsupported(name)
            self.values[node] = lowering(self, node)
            if is_in_place(node) and isinstance(self.values[node], Value):
                self._write_back(node)
        except Unsupported as problem:
            line = line_of(node)
            self.missing.append(f"{problem}{' in ' + self.place if self.place else ''}{' at ' + line if line else ''}")
            self.values[node] = self._stand_in(node)

    def _stand_in(self, node: Any) -> Any:
        """Stands for a value that could not be made, so that all problems are found in one pass."""
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            return Value("%?", tuple(int(extent) for extent in value.shape), dtype_of(value))
        if isinstance(value, (list, tuple)):
            return [
                Value("%?", tuple(int(e) for e in v.shape), dtype_of(v)) for v in value if isinstance(v, torch.Tensor)
            ]
        return None

    def _write_back(self, node: Any) -> None:
        """After an op in place: its operand, and the tensors of which that is a view, have new values."""
        view = node.args[0]
        if not isinstance(view, fx.Node):
            return
        chain = [view]
        while is_view(chain[-1]):
            chain.append(chain[-1].args[0])  # type: ignore[arg-type]
        family = set(chain)
        for other in self.trace.graph.nodes:
            if is_view(other) and other.args[0] in family:
                family.add(other)
        # What was made from the tensor before now has old values; it must not be used any more.
        for relative in family - set(chain):
            if self._order[relative] < self._order[node] and self._is_used_after(relative, node):
                raise Unsupported(f"{op_name(node)}: it writes into a tensor that is used under another name")
        self.values[view] = self.values[node]
        for depth in range(1, len(chain)):
            if any(self._is_used_after(whole, node) for whole in chain[depth:]):
                self.values[chain[depth]] = self._with_part(chain[depth - 1], chain[depth])

    def _is_used_after(self, tensor: fx.Node, node: fx.Node) -> bool:
        return any(self._order[user] > self._order[node] for user in tensor.users)

    def _with_part(self, part: fx.Node, whole: fx.Node) -> Value:
        """Returns the value of `whole` with that of its view `part` put in its place."""
        new, old, name = self.get(part), self.get(whole), op_name(part)
        if (name == "aten.slice" and arg(part, 4, "step", 1) == 1) or name == "aten.select":
            axis = arg(part, 1, "dim", 0) % len(old.shape)
            extent = old.shape[axis]
            start = arg(part, 2, "start") or 0
            start = max(0, start + extent) if start < 0 else min(start, extent)
            if name == "aten.select":
                new = self.reshape(new, (*old.shape[:axis], 1, *old.shape[axis + 1 :]))
            stop = start + new.shape[axis]
            pieces = [self.slice(old, axis, 0, start), new, self.slice(old, axis, stop, extent)]
            return self.concat([piece for piece in pieces if piece.shape[axis] > 0], axis)
        if (axes := permutation_of(part, len(old.shape))) is not None:
            return self.transpose(new, [axes.index(axis) for axis in range(len(axes))])
        if name in RESHAPES and math.prod(new.shape) == math.prod(old.shape):
            return self.reshape(new, old.shape)
        raise Unsupported(f"a write into {name} of a tensor that is used later")


RESHAPES = frozenset(
    "aten.view aten.reshape aten.flatten aten.unsqueeze aten.squeeze aten.unflatten aten.view_as aten.reshape_as "
    "aten.alias aten.detach aten.contiguous aten.to".split()
)


def permutation_of(node: Any, rank: int) -> list[int] | None:
    """Returns the axes of a transposition in PyTorch's order of the result; None for another op."""
    name, axes = op_name(node), list(range(rank))
    if name == "aten.permute":
        return [axis % rank for axis in node.args[1]]
    if name == "aten.numpy_T":
        return axes[::-1]
    if name == "aten.movedim":
        given = [[value] if isinstance(value, int) else list(value) for value in node.args[1:3]]
        source, to = ([axis % rank for axis in part] for part in given)
        rest = iter(axis for axis in axes if axis not in source)
        places = dict(zip(to, source))
        return [places[axis] if axis in places else next(rest) for axis in axes]
    if name in ("aten.transpose", "aten.swapaxes"):
        first, second = node.args[1] % rank, node.args[2] % rank
    elif name in ("aten.t", "aten.mT", "aten.adjoint"):
        if rank < 2:
            return axes
        first, second = rank - 2, rank - 1
    else:
        return None
    axes[first], axes[second] = axes[second], axes[first]
    return axes


def _init_of_statistic(name: str) -> str:
    return "ones" if name.endswith("running_var") else "zeros"


def arg(node: Any, index: int, name: str, default: Any = None) -> Any:
    """Returns an argument by place or by name."""
    if len(node.args) > index:
        return node.args[index]
    return node.kwargs.get(name, default)


def pair(value: Any, default: int = 0) -> list[int]:
    if value is None or (isinstance(value, (list, tuple)) and not value):
        return [default, default]
    if isinstance(value, int):
        return [value, value]
    return list(value) * (2 // len(value))


def axes_of(value: Any, rank: int) -> list[int]:
    if value is None or (isinstance(value, (list, tuple)) and not value):
        return list(range(rank))
    axes = [value] if isinstance(value, int) else list(value)
    return sorted(axis % rank for axis in axes)
