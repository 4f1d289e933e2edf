"""Sums, means, maxima and softmax."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from rewire.exporting.lower import (
    Lowering,
    Unsupported,
    arg,
    axes_of,
    dtype_of,
    lowers,
)
from rewire.exporting.trace import op_name


@lowers("sum", "mean", "amax", "amin", "max", "min", "linalg_vector_norm", "norm", "var", "std", "logsumexp", "prod")
def _reduce(l: Lowering, node: Any) -> Any:
    name = op_name(node).removeprefix("aten.")
    x = l.get(node.args[0])
    if x.dtype == "i1":
        x = l.cast(x, "f32")
    if name in ("max", "min") and isinstance(arg(node, 1, "other"), fx.Node):
        return l.binary("maximum" if name == "max" else "minimum", x, l.get(node.args[1]), l.shape_of())
    if name in ("linalg_vector_norm", "norm"):
        if arg(node, 1, "p" if name == "norm" else "ord", 2) not in (2, 2.0):
            raise Unsupported(f"aten.{name} other than 2")
        axes = axes_of(arg(node, 2, "dim"), len(x.shape))
    else:
        given = arg(node, 1, "dim")
        axes = axes_of(None if isinstance(given, bool) else given, len(x.shape))
    value = node.meta["val"]
    shape = tuple(int(e) for e in (value[0] if isinstance(value, (tuple, list)) else value).shape)
    if name == "sum":
        y = l.sum(x, axes)
    elif name == "mean":
        y = l.mean(x, axes)
    elif name in ("amax", "max"):
        y = l.sum(x, axes, "max")
    elif name in ("amin", "min"):
        y = l.times(l.sum(l.times(x, -1.0), axes, "max"), -1.0)
    elif name in ("linalg_vector_norm", "norm"):
        y = l.sum(l.emit("mul", [x, x], x.shape), axes)
        y = l.emit("sqrt", [y], y.shape)
    elif name in ("var", "std"):
        centred = l.binary("sub", x, l.mean(x, axes), x.shape)
        count = math.prod(x.shape[axis] for axis in axes)
        y = l.times(l.sum(l.emit("mul", [centred, centred], x.shape), axes), 1.0 / (count - _correction(node)))
        if name == "std":
            y = l.emit("sqrt", [y], y.shape)
    elif name == "logsumexp":
        top = l.emit("stop_gradient", [l.sum(x, axes, "max")], [1 if i in axes else e for i, e in enumerate(x.shape)])
        total = l.sum(l.emit("exp", [l.binary("sub", x, top, x.shape)], x.shape), axes)
        y = l.binary("add", l.emit("log", [total], total.shape), top, total.shape)
    else:
        raise Unsupported(f"aten.{name}")
    y = l.reshape(y, shape)
    if isinstance(value, (tuple, list)):  # max over an axis, with the indices
        ordered = l.times(x, -1.0) if name == "min" else x
        index = l.emit("argmax", [ordered], [1 if i in axes else e for i, e in enumerate(x.shape)], "i32", axis=axes[0])
        return [y, l.cast(l.reshape(index, shape), "i64")]
    return y


def _correction(node: Any) -> float:
    """What var and std subtract from the count: `correction`, or 1 unless `unbiased` is false."""
    if (correction := node.kwargs.get("correction")) is not None:
        return float(correction)
    unbiased = node.args[2] if len(node.args) > 2 else node.args[1] if len(node.args) > 1 else True
    unbiased = node.kwargs.get("unbiased", unbiased if isinstance(unbiased, bool) else True)
    return 1 if unbiased else 0


@lowers("var_mean")
def _var_mean(l: Lowering, node: Any) -> Any:
    x = l.get(node.args[0])
    given = arg(node, 1, "dim")
    axes = axes_of(None if isinstance(given, bool) else given, len(x.shape))
    shape = tuple(int(e) for e in node.meta["val"][0].shape)
    mean = l.mean(x, axes)
    centred = l.binary("sub", x, mean, x.shape)
    count = math.prod(x.shape[axis] for axis in axes) - _correction(node)
    variance = l.times(l.sum(l.emit("mul", [centred, centred], x.shape), axes), 1.0 / count)
    return [l.reshape(variance, shape), l.reshape(mean, shape)]


@lowers("softmax", "_softmax")
def _softmax(l: Lowering, node: Any) -> Any:
    x = l.cast(l.get(node.args[0]), dtype_of(node.meta["val"]))
    return l.emit("softmax", [x], x.shape, axis=node.args[1] % len(x.shape))


@lowers("log_softmax", "_log_softmax")
def _log_softmax(l: Lowering, node: Any) -> Any:
    x = l.get(node.args[0])
    axis = node.args[1] % len(x.shape)
    top = l.sum(x, [axis], "max")
    top = l.emit("stop_gradient", [top], top.shape)
    shifted = l.binary("sub", x, top, x.shape)
    total = l.sum(l.emit("exp", [shifted], x.shape), [axis])
    return l.binary("sub", shifted, l.emit("log", [total], total.shape), x.shape)


@lowers("cumsum")
def _cumsum(l: Lowering, node: Any) -> Any:
    x = l.cast(l.get(node.args[0]), "f32")  # integers are exact up to 2^24
    axis = node.args[1] % len(x.shape)
    order = [i for i in range(len(x.shape)) if i != axis] + [axis]
    moved = l.transpose(x, order)
    extent = x.shape[axis]
    summed = l.linear(moved, l.constant(torch.tril(torch.ones(extent, extent))), None)
    return l.cast(l.transpose(summed, [order.index(i) for i in range(len(order))]), dtype_of(node.meta["val"]))
