"""Ops element by element, and what draws random numbers."""

from __future__ import annotations

from typing import Any

from torch import fx

from rewire.exporting.lower import (
    Lowering,
    Noise,
    Unsupported,
    arg,
    dtype_of,
    lowers,
)
from rewire.exporting.trace import op_name


@lowers("add", "sub", "rsub", "mul", "div", "maximum", "minimum")
def _arithmetic(l: Lowering, node: Any) -> Any:
    name = op_name(node).removeprefix("aten.").rstrip("_")
    a, b = node.args[0], node.args[1]
    if name in ("mul", "div") and _noise(l, a, b) is not None:
        return _times_noise(l, name, a, b)
    if node.kwargs.get("rounding_mode") is not None:
        raise Unsupported(f"aten.div, rounding_mode {node.kwargs['rounding_mode']}")
    dtype = dtype_of(node.meta["val"])
    x, y = (l.cast(l.get(v), dtype) for v in (a, b))
    alpha = arg(node, 2, "alpha", 1)
    if dtype == "i1":
        if name not in ("add", "mul", "maximum", "minimum") or alpha != 1:
            raise Unsupported(f"aten.{name} of booleans")
        return l.binary("logical_or" if name in ("add", "maximum") else "logical_and", x, y, l.shape_of())
    if name == "rsub":
        return l.binary("sub", y, x if alpha == 1 else l.times(x, alpha), l.shape_of())
    if alpha != 1:
        y = l.times(y, alpha)
    return l.binary(name, x, y, l.shape_of())


def _noise(l: Lowering, *operands: Any) -> Noise | None:
    found = [l.values.get(v) for v in operands if isinstance(v, fx.Node)]
    return next((v for v in found if isinstance(v, Noise)), None)


def _times_noise(l: Lowering, name: str, a: Any, b: Any) -> Any:
    """x times noise of one number a sample is drop_path."""
    noise = _noise(l, a, b)
    assert noise is not None
    other = b if isinstance(a, fx.Node) and l.values.get(a) is noise else a
    if isinstance(other, (int, float)):
        return Noise(noise.keep, noise.shape, noise.scale * other if name == "mul" else noise.scale / other)
    x = l.get(other)
    if name != "mul" or any(extent != 1 for extent in noise.shape[1:]) or noise.shape[0] != x.shape[0]:
        raise Unsupported("random numbers other than dropout's and one a sample")
    dropped = l.drop("drop_path", x, 1 - noise.keep)
    scale = noise.scale * noise.keep
    return dropped if abs(scale - 1) < 1e-6 else l.times(dropped, scale)


@lowers("bernoulli")
def _bernoulli(l: Lowering, node: Any) -> Any:
    keep = arg(node, 1, "p")
    if not isinstance(keep, float):
        raise Unsupported("aten.bernoulli of probabilities that are a tensor")
    return Noise(keep, l.shape_of())


@lowers("dropout", "feature_dropout", "native_dropout")
def _dropout(l: Lowering, node: Any) -> Any:
    if op_name(node) == "aten.feature_dropout" and node.args[2] and node.args[1] > 0:
        raise Unsupported("aten.feature_dropout")
    return l.drop("dropout", l.get(node.args[0]), float(node.args[1])) if node.args[2] else l.get(node.args[0])


@lowers("pow")
def _pow(l: Lowering, node: Any) -> Any:
    base, power = node.args[0], node.args[1]
    if isinstance(power, (int, float)):
        x = l.cast(l.get(base), dtype_of(node.meta["val"]))
        if power == 2:
            return l.emit("mul", [x, x], x.shape)
        if power in (0.5, -0.5):
            return l.emit("sqrt" if power > 0 else "rsqrt", [x], x.shape)
        return l.emit("pow", [x, l.scalar(power, x.shape)], x.shape)
    return l.binary("pow", l.get(base), l.get(power), l.shape_of())


def _unary(torch_name: str, name: str) -> None:
    @lowers(torch_name)
    def lower(l: Lowering, node: Any) -> Any:
        x = l.get(node.args[0])
        if name == "logical_not":
            return l.emit(name, [l.cast(x, "i1")], x.shape)
        return l.emit(name, [l.cast(x, dtype_of(node.meta["val"]))], x.shape)


for _name in "relu silu sigmoid tanh exp log sqrt rsqrt neg erf sin cos abs floor logical_not".split():
    _unary(_name, _name)


@lowers("square")
def _square(l: Lowering, node: Any) -> Any:
    x = l.get(node.args[0])
    return l.emit("mul", [x, x], x.shape)


@lowers("reciprocal")
def _reciprocal(l: Lowering, node: Any) -> Any:
    x = l.get(node.args[0])
    return l.binary("div", l.scalar(1.0, x.shape), x, x.shape)


@lowers("gelu")
def _gelu(l: Lowering, node: Any) -> Any:
    x = l.get(node.args[0])
    return l.emit("gelu", [x], x.shape, **({"approximate": "tanh"} if node.kwargs.get("approximate") == "tanh" else {}))


@lowers("leaky_relu")
def _leaky_relu(l: Lowering, node: Any) -> Any:
    x, slope = l.get(node.args[0]), arg(node, 1, "negative_slope", 0.01)
    low = l.times(l.emit("minimum", [x, l.scalar(0.0, x.shape)], x.shape), slope)
    return l.binary("add", l.emit("relu", [x], x.shape), low, x.shape)


@lowers("elu")
def _elu(l: Lowering, node: Any) -> Any:
    x, alpha = l.get(node.args[0]), arg(node, 1, "alpha", 1.0)
    if arg(node, 2, "scale", 1) != 1 or arg(node, 3, "input_scale", 1) != 1:
        raise Unsupported("aten.elu with a scale")
    low = l.plus(l.emit("exp", [l.emit("minimum", [x, l.scalar(0.0, x.shape)], x.shape)], x.shape), -1.0)
    return l.binary("add", l.emit("relu", [x], x.shape), l.times(low, alpha), x.shape)


@lowers("softplus")
def _softplus(l: Lowering, node: Any) -> Any:
    x = l.get(node.args[0])
    if node.target._opname == "softplus" and (arg(node, 1, "beta", 1) != 1 or arg(node, 2, "threshold", 20) < 20):
        raise Unsupported("aten.softplus, beta other than 1 or a threshold below 20")
    # max(x, 0) + log(1 + e^-|x|), which is finite for every x
    tail = l.emit("log", [l.plus(l.emit("exp", [l.times(l.emit("abs", [x], x.shape), -1.0)], x.shape), 1.0)], x.shape)
    return l.binary("add", l.emit("relu", [x], x.shape), tail, x.shape)


@lowers("mish")
def _mish(l: Lowering, node: Any) -> Any:
    x = l.get(node.args[0])
    soft = _softplus(l, node)
    return l.binary("mul", x, l.emit("tanh", [soft], x.shape), x.shape)


@lowers("prelu")
def _prelu(l: Lowering, node: Any) -> Any:
    x, slope = l.get(node.args[0]), l.get(node.args[1])
    slope = l.reshape(slope, (1, slope.shape[0]) + (1,) * (len(x.shape) - 2)) if slope.shape[0] > 1 else slope
    low = l.binary("mul", l.emit("minimum", [x, l.scalar(0.0, x.shape)], x.shape), slope, x.shape)
    return l.binary("add", l.emit("relu", [x], x.shape), low, x.shape)


@lowers("clamp", "clamp_min", "clamp_max", "hardtanh", "relu6")
def _clamp(l: Lowering, node: Any) -> Any:
    name, x = op_name(node).rstrip("_"), l.cast(l.get(node.args[0]), dtype_of(node.meta["val"]))
    bounds = {
        "aten.clamp": lambda: (arg(node, 1, "min"), arg(node, 2, "max")),
        "aten.clamp_min": lambda: (node.args[1], None),
        "aten.clamp_max": lambda: (None, node.args[1]),
        "aten.hardtanh": lambda: (arg(node, 1, "min_val", -1.0), arg(node, 2, "max_val", 1.0)),
        "aten.relu6": lambda: (0.0, 6.0),
    }[name]()
    low, high = (None if bound is None else l.number(bound) for bound in bounds)
    return l.clamp(x, low, high)


@lowers("hardswish", "hardsigmoid")
def _hard(l: Lowering, node: Any) -> Any:
    x = l.get(node.args[0])
    gate = l.times(l.clamp(l.plus(x, 3.0), 0.0, 6.0), 1 / 6)
    return l.binary("mul", x, gate, x.shape) if "hardswish" in op_name(node) else gate


@lowers("addcmul")
def _addcmul(l: Lowering, node: Any) -> Any:
    product = l.binary("mul", l.get(node.args[1]), l.get(node.args[2]), l.shape_of())
    if (value := node.kwargs.get("value", 1)) != 1:
        product = l.times(product, value)
    return l.binary("add", l.get(node.args[0]), product, l.shape_of())


@lowers("lerp")
def _lerp(l: Lowering, node: Any) -> Any:
    a, b = l.get(node.args[0]), l.get(node.args[1])
    weight = l.get(node.args[2])
    step = l.binary("mul", l.binary("sub", b, a, l.shape_of()), weight, l.shape_of())
    return l.binary("add", a, step, l.shape_of())


def _compare(name: str, direction: str) -> None:
    @lowers(name)
    def lower(l: Lowering, node: Any) -> Any:
        a, b = l.get(node.args[0]), l.get(node.args[1])
        kind = "f32" if "f32" in (a.dtype, b.dtype) else a.dtype if isinstance(node.args[0], fx.Node) else b.dtype
        a, b = (l.broadcast(l.cast(v, kind), l.shape_of()) for v in (a, b))
        return l.emit("compare", [a, b], l.shape_of(), "i1", direction=direction)


for _name, _direction in (("lt", "lt"), ("le", "le"), ("gt", "gt"), ("ge", "ge"), ("eq", "eq"), ("ne", "ne")):
    _compare(_name, _direction)


@lowers("where")
def _where(l: Lowering, node: Any) -> Any:
    shape = l.shape_of()
    condition = l.broadcast(l.cast(l.get(node.args[0]), "i1"), shape)
    dtype = dtype_of(node.meta["val"])
    yes, no = (l.broadcast(l.cast(l.get(v), dtype), shape) for v in node.args[1:])
    return l.emit("select", [condition, yes, no], shape, dtype)


@lowers("masked_fill")
def _masked_fill(l: Lowering, node: Any) -> Any:
    shape = l.shape_of()
    x, mask = l.get(node.args[0]), l.cast(l.get(node.args[1]), "i1")
    value = l.number(node.args[2])
    return l.emit(
        "select", [l.broadcast(mask, shape), l.scalar(value, shape, x.dtype), l.broadcast(x, shape)], shape, x.dtype
    )
