"""A network as Rewire's text form (`.rir`), for one batch or for any.

A network is traced at two batches. Each trace becomes a `Program`; `text_of` compares both, and writes an extent that
grows with the batch as `batch` or `16*batch`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int, ...]
PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


@dataclass(frozen=True)
class Value:
    """A tensor of a program: the result of an op, or an argument."""

    name: str
    shape: Shape
    dtype: str = "f32"


@dataclass
class Op:
    name: str
    operands: list[Value]
    attributes: dict[str, Any]
    results: list[Value]
    place: str = ""


@dataclass
class Parameter:
    """A weight or a state; `attributes` are those of `param` and `state` in the text form."""

    name: str
    shape: Shape
    trainable: bool = True
    dtype: str = "f32"
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Program:
    """The function `forward` of a module, at one batch."""

    name: str
    batch: int
    arguments: list[Value] = field(default_factory=list)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    results: dict[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._count = 0
        self._reads: dict[str, Value] = {}

    def argument(self, name: str, shape: Sequence[int], dtype: str) -> Value:
        value = Value(f"%{_quoted(name)}", tuple(shape), dtype)
        self.arguments.append(value)
        return value

    def add(
        self,
        op: str,
        operands: Sequence[Value],
        types: Sequence[tuple[Sequence[int], str]],
        place: str = "",
        /,
        **attributes: Any,
    ) -> list[Value]:
        """Adds an op with results of these types (shape, dtype)."""
        results = []
        for shape, dtype in types:
            results.append(Value(f"%{self._count}", tuple(int(extent) for extent in shape), dtype))
            self._count += 1
        self.ops.append(Op(op, list(operands), attributes, results, place))
        return results

    def emit(
        self,
        op: str,
        operands: Sequence[Value],
        shape: Sequence[int],
        place: str = "",
        dtype: str = "f32",
        /,
        **attributes: Any,
    ) -> Value:
        """Adds an op with one result."""
        return self.add(op, operands, [(shape, dtype)], place, **attributes)[0]

    def read(self, parameter: Parameter, place: str = "") -> Value:
        """Returns the value of a parameter, which is read once, where it is first used."""
        if parameter.name not in self._reads:
            self.parameters[parameter.name] = parameter
            self._reads[parameter.name] = self.emit(
                "param", [], parameter.shape, place, parameter.dtype, name=parameter.name
            )
        return self._reads[parameter.name]

    def drop_unused(self) -> None:
        """Drops ops of which nothing reads a result, and parameters that no op reads."""
        needed = {value.name for value in self.results.values()}
        kept = []
        for op in reversed(self.ops):
            if any(result.name in needed for result in op.results):
                needed.update(operand.name for operand in op.operands)
                kept.append(op)
        self.ops = kept[::-1]
        read = {op.attributes["name"] for op in self.ops if op.name == "param"}
        self.parameters = {name: parameter for name, parameter in self.parameters.items() if name in read}


class DependsOnBatch(Exception):
    """The network is not the same for two batches; the message says where."""


def _quoted(name: str) -> str:
    if PLAIN_NAME.match(name):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _double(number: float) -> str:
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    if math.isnan(number):
        return "nan"
    text = repr(float(number))
    return text if any(c in text for c in ".en") else text + ".0"


class _Extents:
    """Writes the numbers of one or two programs: equal ones as they are, others as multiples of the batch."""

    def __init__(self, one: int, other: int | None) -> None:
        self.one, self.other = one, other

    def integer(self, a: int, b: int) -> str:
        if a == b:
            return str(a)
        times, rest = divmod(a, self.one)
        if self.other is None or rest != 0 or times * self.other != b:
            raise DependsOnBatch(f"the number {a} becomes {b} at a batch of {self.other}")
        return "batch" if times == 1 else f"{times}*batch"

    def shape(self, a: Shape, b: Shape) -> str:
        if len(a) != len(b):
            raise DependsOnBatch(f"a tensor of {len(a)} axes has {len(b)} at a batch of {self.other}")
        return "[" + ",".join(self.integer(x, y) for x, y in zip(a, b)) + "]"

    def value(self, a: Any, b: Any) -> str:
        if isinstance(a, bool):
            if a != b:
                raise DependsOnBatch("a choice")
            return "true" if a else "false"
        if isinstance(a, str):
            if a != b:
                raise DependsOnBatch(f"'{a}' becomes '{b}'")
            return _string(a)
        if isinstance(a, int):
            return self.integer(a, b)
        if isinstance(a, float):
            if a != b and not (math.isnan(a) and math.isnan(b)):
                raise DependsOnBatch(f"the number {a} becomes {b} at a batch of {self.other}")
            return _double(a)
        if len(a) != len(b):
            raise DependsOnBatch(f"a list of {len(a)} has {len(b)} at a batch of {self.other}")
        return "[" + ", ".join(self.value(x, y) for x, y in zip(a, b)) + "]"

    def attributes(self, a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
        if not a:
            return ""
        return " {" + ", ".join(f"{_quoted(key)} = {self.value(a[key], b[key])}" for key in sorted(a)) + "}"


def text_of(program: Program, other: Program | None, facts: Mapping[str, Any] | None = None) -> str:
    """Returns the module's text. With `other`, the same network traced at another batch, the text is for any batch.
    Throws DependsOnBatch if it cannot be."""
    same = other or program
    extents = _Extents(program.batch, other.batch if other else None)
    lines = [f"module @{_quoted(program.name)} {{"]
    for name, value in sorted((facts or {}).items()):
        lines.append(f"  attribute {_quoted(name)} = {extents.value(value, value)}")
    for parameter in program.parameters.values():
        kind = "param" if parameter.trainable else "state"
        attributes = extents.attributes(parameter.attributes, parameter.attributes)
        kept = parameter.dtype + extents.shape(parameter.shape, parameter.shape)
        lines.append(f"  {kind} @{_quoted(parameter.name)} : {kept}{attributes}")
    if len(program.ops) != len(same.ops):
        raise DependsOnBatch(f"{len(program.ops)} operations are {len(same.ops)} at a batch of {same.batch}")

    def types(a: Iterable[Value], b: Iterable[Value]) -> str:
        return ", ".join(x.dtype + extents.shape(x.shape, y.shape) for x, y in zip(a, b))

    def named(a: Iterable[tuple[str, Value]], b: Iterable[tuple[str, Value]]) -> str:
        return ", ".join(f"{name}: {types([x], [y])}" for (name, x), (_, y) in zip(a, b))

    arguments = named(((v.name, v) for v in program.arguments), ((v.name, v) for v in same.arguments))
    results = named(
        ((_quoted(n), v) for n, v in program.results.items()), ((_quoted(n), v) for n, v in same.results.items())
    )
    lines += ["", f"  func @forward({arguments}) -> ({results}) {{"]
    for op, twin in zip(program.ops, same.ops):
        if op.name != twin.name:
            raise DependsOnBatch(f"{op.name} of {op.place or 'the network'} becomes {twin.name}")
        try:
            left = ", ".join(result.name for result in op.results)
            operands = (" " + ", ".join(operand.name for operand in op.operands)) if op.operands else ""
            attributes = extents.attributes(op.attributes, twin.attributes)
            place = f" loc({_string(op.place)})" if op.place else ""
            lines.append(f"    {left} = {op.name}{operands}{attributes} : {types(op.results, twin.results)}{place}")
        except DependsOnBatch as difference:
            raise DependsOnBatch(f"{op.place or op.name}: {difference}") from None
    returned = ", ".join(f"{_quoted(name)} = {value.name}" for name, value in program.results.items())
    return "\n".join(lines + [f"    return {returned}", "  }", "}", ""])
