"""Norms."""

from __future__ import annotations

import math
from typing import Any

import torch

from rewire.exporting.lower import (
    Lowering,
    Unsupported,
    arg,
    lowers,
)
from rewire.exporting.program import Value


@lowers("layer_norm")
def _layer_norm(l: Lowering, node: Any) -> Any:
    x, extents = l.get(node.args[0]), tuple(node.args[1])
    shape, count = x.shape, len(extents)
    weight, bias = (arg(node, 2, "weight"), arg(node, 3, "bias"))
    epsilon = float(arg(node, 4, "eps", 1e-5))
    if count > 1:
        x = l.reshape(x, (*shape[:-count], math.prod(extents)))
    operands = [x]
    if weight is not None:
        operands.append(l.reshape(l.get(weight), (x.shape[-1],)))
    elif bias is not None:
        operands.append(l.scalar(1.0, (x.shape[-1],)))
    if bias is not None:
        operands.append(l.reshape(l.get(bias), (x.shape[-1],)))
    return l.reshape(l.emit("layer_norm", operands, x.shape, epsilon=epsilon), shape)


@lowers("rms_norm")
def _rms_norm(l: Lowering, node: Any) -> Any:
    x, count = l.get(node.args[0]), len(tuple(node.args[1]))
    shape, epsilon = x.shape, arg(node, 3, "eps")
    epsilon = torch.finfo(torch.float32).eps if epsilon is None else float(epsilon)
    if count > 1:
        x = l.reshape(x, (*shape[:-count], math.prod(shape[-count:])))
    weight = arg(node, 2, "weight")
    operands = [x] if weight is None else [x, l.reshape(l.get(weight), (x.shape[-1],))]
    return l.reshape(l.emit("rms_norm", operands, x.shape, epsilon=epsilon), shape)


@lowers("group_norm")
def _group_norm(l: Lowering, node: Any) -> Any:
    epsilon = float(arg(node, 4, "eps", 1e-5))
    return _grouped(l, l.get(node.args[0]), node.args[1], arg(node, 2, "weight"), arg(node, 3, "bias"), epsilon)


def _grouped(l: Lowering, x: Value, groups: int, weight: Any, bias: Any, epsilon: float) -> Value:
    shape = x.shape
    y = l.reshape(x, (shape[0], groups, math.prod(shape[1:]) // groups))
    y = l.reshape(l.emit("layer_norm", [y], y.shape, epsilon=epsilon), shape)
    per_channel = (1, shape[1]) + (1,) * (len(shape) - 2)
    for op, what in (("mul", weight), ("add", bias)):
        if what is not None:
            y = l.binary(op, y, l.reshape(l.get(what), per_channel), shape)
    return y


@lowers("instance_norm")
def _instance_norm(l: Lowering, node: Any) -> Any:
    x, weight, bias, _, _, own_statistics, _, epsilon = node.args[:8]
    if not own_statistics:
        raise Unsupported("aten.instance_norm by running statistics")
    value = l.get(x)
    return _grouped(l, value, value.shape[1], weight, bias, float(epsilon))


@lowers("batch_norm")
def _batch_norm(l: Lowering, node: Any) -> Any:
    x, (weight, bias, mean, variance) = l.get(node.args[0]), node.args[1:5]
    training, momentum, epsilon = node.args[5:8]
    channels = (x.shape[1],)
    if mean is None:
        return _normalised(l, x, weight, bias, float(epsilon))
    # A traced evaluation does not show whether a batch norm trains.
    trains = training if l.trace.training else l.trace.names.get(mean) not in l.frozen
    operands = [
        x,
        l.scalar(1.0, channels) if weight is None else l.get(weight),
        l.scalar(0.0, channels) if bias is None else l.get(bias),
        l.get(mean),
        l.get(variance),
        l.training() if trains else l.scalar(0.0, (), "i1"),
    ]
    types = [(x.shape, "f32"), (channels, "f32"), (channels, "f32")]
    attributes = {"axis": 1, "epsilon": float(epsilon), "momentum": float(momentum)}
    y, *running = l.program.add("batch_norm", operands, types, l.place, **attributes)
    if trains:
        for statistic, value in zip((mean, variance), running):
            l.values[statistic] = l.updates[l.trace.names[statistic]] = value
    return y


def _normalised(l: Lowering, x: Value, weight: Any, bias: Any, epsilon: float) -> Value:
    """Normalises over all axes but the second, without running statistics."""
    axes = [axis for axis in range(len(x.shape)) if axis != 1]
    centred = l.binary("sub", x, l.mean(x, axes), x.shape)
    variance = l.plus(l.mean(l.emit("mul", [centred, centred], x.shape), axes), epsilon)
    y = l.binary("mul", centred, l.emit("rsqrt", [variance], variance.shape), x.shape)
    for op, what in (("mul", weight), ("add", bias)):
        if what is not None:
            y = l.binary(op, y, l.reshape(l.get(what), variance.shape), x.shape)
    return y
