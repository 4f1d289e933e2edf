"""Pooling, resizing and windows of maps."""

from __future__ import annotations

import math
from typing import Any

import torch

from rewire.exporting.lower import (
    Lowering,
    Unsupported,
    arg,
    lowers,
    pair,
)
from rewire.exporting.program import Value
from rewire.exporting.trace import op_name


@lowers("max_pool2d", "avg_pool2d")
def _pool(l: Lowering, node: Any) -> Any:
    name, x, shape = op_name(node), l.get(node.args[0]), l.shape_of()
    if len(shape) != 4:
        raise Unsupported(f"{name} without a batch")
    kernel = pair(node.args[1])
    strides, padding = pair(arg(node, 2, "stride") or kernel), pair(arg(node, 3, "padding", 0))
    largest = name == "aten.max_pool2d"
    if largest and pair(arg(node, 4, "dilation", 1), 1) != [1, 1]:
        raise Unsupported("aten.max_pool2d with dilation")
    # ceil_mode: more elements at the end, which count for nothing
    more = [(o - 1) * s + k - e - 2 * p for o, s, k, e, p in zip(shape[2:], strides, kernel, x.shape[2:], padding)]
    more = [max(0, extra) for extra in more]
    counts_padding = largest or bool(arg(node, 5, "count_include_pad", True))
    source = x
    if any(more) or any(2 * p > k for p, k in zip(padding, kernel)):
        low, high = [0, 0, *padding], [0, 0, *(p + extra for p, extra in zip(padding, more))]
        extents = [e + a + b for e, a, b in zip(x.shape, low, high)]
        x = l.emit("pad", [x], extents, low=low, high=high, value=float("-inf") if largest else 0.0)
        padding = [0, 0]
    y = l.emit("max_pool" if largest else "avg_pool", [x], shape, kernel=kernel, strides=strides, padding=padding)
    divisor = None if largest else arg(node, 6, "divisor_override")
    if largest or (counts_padding and not any(more) and divisor is None):
        return y
    if divisor is not None:
        return l.times(y, math.prod(kernel) / divisor)
    ones = torch.ones(1, 1, *source.shape[2:])
    portion = torch.nn.functional.avg_pool2d(
        ones, kernel, strides, pair(arg(node, 3, "padding", 0)), bool(arg(node, 4, "ceil_mode", False)), counts_padding
    )
    plain = torch.nn.functional.pad(
        ones,
        [n for p, extra in zip(reversed(pair(arg(node, 3, "padding", 0))), reversed(more)) for n in (p, p + extra)],
    )
    share = torch.nn.functional.avg_pool2d(plain, kernel, strides)[..., : shape[2], : shape[3]]
    return l.binary("mul", y, l.constant(portion / share), shape)


@lowers("adaptive_avg_pool2d", "adaptive_avg_pool1d")
def _adaptive(l: Lowering, node: Any) -> Any:
    x, shape = l.get(node.args[0]), l.shape_of()
    axes = 2 if op_name(node) == "aten.adaptive_avg_pool2d" else 1
    for axis in range(len(shape) - axes, len(shape)):  # along each axis a product with a matrix of averages
        extent, size = x.shape[axis], shape[axis]
        if extent == size:
            continue
        if size == 1:
            x = l.mean(x, [axis])
            continue
        averages = torch.zeros(size, extent)
        for i in range(size):
            start, stop = i * extent // size, -(-(i + 1) * extent // size)
            averages[i, start:stop] = 1 / (stop - start)
        x = _along(l, x, axis, averages)
    return x


def _along(l: Lowering, x: Value, axis: int, matrix: torch.Tensor) -> Value:
    """Multiplies the matrix [new extent, extent] along an axis."""
    order = [i for i in range(len(x.shape)) if i != axis] + [axis]
    y = l.linear(l.transpose(x, order), l.constant(matrix), None)
    return l.transpose(y, [order.index(i) for i in range(len(order))])


@lowers(
    "upsample_bilinear2d",
    "upsample_nearest2d",
    "upsample_bicubic2d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
)
def _resize(l: Lowering, node: Any) -> Any:
    x, shape, name = l.get(node.args[0]), l.shape_of(), op_name(node)
    aligned = next((v for v in node.args[2:] if isinstance(v, bool)), bool(node.kwargs.get("align_corners", False)))
    factors = _factors(node, x.shape[2:], shape[2:])
    if name == "aten.upsample_bilinear2d" and not aligned and factors is None:
        return l.emit("resize", [x], shape, size=list(shape[2:]))
    # All are linear and separable: the matrix of an axis is what the op does to unit vectors.
    for axis in (2, 3):
        extent, size = x.shape[axis], shape[axis]
        if extent == size:
            continue
        # With maps of one column PyTorch takes another way, which is less exact.
        units = torch.eye(extent).reshape(extent, 1, extent, 1).expand(extent, 1, extent, 4).contiguous()
        mode = "nearest" if "nearest" in name else "bilinear" if "bilinear" in name else "bicubic"
        options: dict[str, Any] = (
            {} if mode == "nearest" else {"align_corners": aligned, "antialias": name.endswith("_aa")}
        )
        if factors is None:
            answer = torch.nn.functional.interpolate(units, size=(size, 4), mode=mode, **options)
        else:
            options |= {"scale_factor": (factors[axis - 2], 1.0), "recompute_scale_factor": False}
            answer = torch.nn.functional.interpolate(units, mode=mode, **options)
        x = _along(l, x, axis, answer[:, 0, :, 0].T.contiguous())
    return x


def _factors(node: Any, before: Any, after: Any) -> list[float] | None:
    """Returns the scale factors of the module if they are not the sizes' ratio: PyTorch then samples by them."""
    given = arg(node, len(node.args), "scale_factors") or next(
        (v for v in node.args[2:] if isinstance(v, (list, tuple)) and v and isinstance(v[0], float)), None
    )
    if given is None or all(abs(f * b - a) < 1e-9 for f, b, a in zip(given, before, after)):
        return None
    return [float(factor) for factor in given]


@lowers("im2col")
def _im2col(l: Lowering, node: Any) -> Any:
    kernel, dilation, padding, strides = (pair(value) for value in node.args[1:5])
    if dilation != [1, 1]:
        raise Unsupported("aten.im2col with dilation")
    return l.emit("unfold", [l.get(node.args[0])], l.shape_of(), kernel=kernel, padding=padding, strides=strides)


@lowers("col2im")
def _col2im(l: Lowering, node: Any) -> Any:
    """Each element of a window is added to its place in the padded map, kernel element by kernel element."""
    x, size = l.get(node.args[0]), list(node.args[1])
    kernel, dilation, padding, strides = (pair(value) for value in node.args[2:6])
    padded = [e + 2 * p for e, p in zip(size, padding)]
    windows = [(e - d * (k - 1) - 1) // s + 1 for e, d, k, s in zip(padded, dilation, kernel, strides)]
    batch, channels = x.shape[0], x.shape[1] // math.prod(kernel)
    parts = l.reshape(x, (batch, channels, *kernel, *windows))
    total: Value | None = None
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            part = l.slice(l.slice(parts, 2, i, i + 1), 3, j, j + 1)
            part = l.reshape(part, (batch, channels, *windows))
            for axis, stride in zip((2, 3), strides):  # zeros between the places of a stride
                if stride == 1:
                    continue
                extents = list(part.shape)
                wide = (*extents[: axis + 1], stride, *extents[axis + 1 :])
                high = [0] * len(wide)
                high[axis + 1] = stride - 1
                one = l.reshape(part, (*extents[: axis + 1], 1, *extents[axis + 1 :]))
                spread = l.emit("pad", [one], wide, low=[0] * len(wide), high=high)
                extents[axis] *= stride
                part = l.slice(l.reshape(spread, extents), axis, 0, extents[axis] - stride + 1)
            low = [0, 0, i * dilation[0], j * dilation[1]]
            high = [0, 0, *(e - part.shape[a] - low[a] for a, e in zip((2, 3), padded))]
            placed = l.emit("pad", [part], (batch, channels, *padded), low=low, high=high) if any(low + high) else part
            total = placed if total is None else l.binary("add", total, placed, placed.shape)
    assert total is not None
    for axis, p, e in zip((2, 3), padding, size):
        total = l.slice(total, axis, p, p + e)
    return total


@lowers("unfold")
def _unfold(l: Lowering, node: Any) -> Any:
    x, axis, size, step = l.get(node.args[0]), node.args[1], node.args[2], node.args[3]
    axis %= len(x.shape)
    count = (x.shape[axis] - size) // step + 1
    order = torch.arange(count)[:, None] * step + torch.arange(size)[None, :]
    picked = l.emit(
        "gather", [x, l.constant(order.flatten())], (*x.shape[:axis], count * size, *x.shape[axis + 1 :]), axis=axis
    )
    split = l.reshape(picked, (*x.shape[:axis], count, size, *x.shape[axis + 1 :]))
    axes = [i for i in range(len(split.shape)) if i != axis + 1] + [axis + 1]
    return l.transpose(split, axes)


@lowers("pixel_shuffle", "pixel_unshuffle")
def _pixel_shuffle(l: Lowering, node: Any) -> Any:
    x, factor = l.get(node.args[0]), node.args[1]
    batch, channels, height, width = x.shape
    if op_name(node) == "aten.pixel_shuffle":
        split = l.reshape(x, (batch, channels // factor**2, factor, factor, height, width))
        return l.reshape(l.transpose(split, (0, 1, 4, 2, 5, 3)), l.shape_of())
    split = l.reshape(x, (batch, channels, height // factor, factor, width // factor, factor))
    return l.reshape(l.transpose(split, (0, 1, 3, 5, 2, 4)), l.shape_of())


@lowers("channel_shuffle")
def _channel_shuffle(l: Lowering, node: Any) -> Any:
    x, groups = l.get(node.args[0]), node.args[1]
    split = l.reshape(x, (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    return l.reshape(l.transpose(split, (0, 2, 1, *range(3, len(split.shape)))), x.shape)
