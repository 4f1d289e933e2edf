"""Products, attention and convolutions."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from rewire.exporting.lower import (
    MASKED,
    Lowering,
    Unsupported,
    arg,
    lowers,
    pair,
)
from rewire.exporting.program import Value
from rewire.exporting.trace import op_name


@lowers("linear")
def _linear(l: Lowering, node: Any) -> Any:
    bias = arg(node, 2, "bias")
    return l.linear(l.get(node.args[0]), l.get(node.args[1]), None if bias is None else l.get(bias))


@lowers("matmul", "bmm", "mm")
def _matmul(l: Lowering, node: Any) -> Any:
    return l.reshape(matmul(l, l.get(node.args[0]), l.get(node.args[1])), l.shape_of())


@lowers("addmm", "baddbmm")
def _addmm(l: Lowering, node: Any) -> Any:
    product = matmul(l, l.get(node.args[1]), l.get(node.args[2]))
    if (alpha := node.kwargs.get("alpha", 1)) != 1:
        product = l.times(product, alpha)
    added = l.get(node.args[0])
    if (beta := node.kwargs.get("beta", 1)) != 1:
        added = l.times(added, beta)
    return l.binary("add", product, added, l.shape_of())


def matmul(l: Lowering, a: Value, b: Value) -> Value:
    if len(a.shape) == 1:
        a = l.reshape(a, (1, *a.shape))
    if len(b.shape) == 1:
        b = l.reshape(b, (*b.shape, 1))
    if len(b.shape) == 2:
        return l.emit("matmul", [a, b], (*a.shape[:-1], b.shape[-1]))
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = l.broadcast(a, (*lead, *a.shape[-2:])), l.broadcast(b, (*lead, *b.shape[-2:]))
    return l.emit("matmul", [a, b], (*lead, a.shape[-2], b.shape[-1]))


@lowers("einsum")
def _einsum(l: Lowering, node: Any) -> Any:
    equation = str(node.args[0]).replace(" ", "")
    operands = [l.get(operand) for operand in node.args[1]]
    inputs, _, output = equation.partition("->")
    terms = inputs.split(",")
    if len(operands) != 2 or not output or "." in equation or any(len(set(t)) != len(t) for t in terms):
        raise Unsupported(f"aten.einsum '{equation}'")
    (a, b), (first, second) = operands, terms
    both = [c for c in first if c in second]
    batch = [c for c in both if c in output]
    summed = [c for c in both if c not in output]
    rows = [c for c in first if c not in second]
    columns = [c for c in second if c not in first]
    if any(c not in output for c in rows + columns):
        raise Unsupported(f"aten.einsum '{equation}'")
    extent = dict(zip(first, a.shape)) | dict(zip(second, b.shape))

    def arranged(x: Value, term: str, *groups: list[str]) -> Value:
        x = l.transpose(x, [term.index(c) for group in groups for c in group])
        return l.reshape(x, [extent[c] for c in groups[0]] + [math.prod(extent[c] for c in g) for g in groups[1:]])

    a, b = arranged(a, first, batch, rows, summed), arranged(b, second, batch, summed, columns)
    product = l.emit("matmul", [a, b], (*a.shape[:-1], b.shape[-1]))
    order = batch + rows + columns
    product = l.reshape(product, [extent[c] for c in order])
    return l.transpose(product, [order.index(c) for c in output])


@lowers("scaled_dot_product_attention")
def _attention(l: Lowering, node: Any) -> Any:
    q, k, v = (l.get(operand) for operand in node.args[:3])
    mask, dropped = arg(node, 3, "attn_mask"), arg(node, 4, "dropout_p", 0.0)
    causal, scale = arg(node, 5, "is_causal", False), node.kwargs.get("scale")
    shape = l.shape_of()
    scale = float(scale) if scale is not None else 1 / math.sqrt(q.shape[-1])
    q, k, v = _four_axes(l, q), _four_axes(l, k), _four_axes(l, v)
    groups = bool(node.kwargs.get("enable_gqa")) and k.shape[1] != q.shape[1]
    bias = _bias_of_mask(l, mask, len(shape)) if mask is not None else None
    extents = (q.shape[0], q.shape[1], q.shape[-2])
    fits = bias is None or (
        _every_row_sees(l, mask)
        and bias.shape[-1] == k.shape[-2]
        and all(extent in (1, whole) for extent, whole in zip(bias.shape, extents))
    )
    if not groups:
        lead = torch.broadcast_shapes(q.shape[:2], k.shape[:2], v.shape[:2])
        q, k, v = (l.broadcast(x, (*lead, *x.shape[2:])) for x in (q, k, v))
    square = not causal or q.shape[-2] == k.shape[-2]
    if fits and square and not dropped and not l.spells_attention and k.shape[:3] == v.shape[:3]:
        operands, form = [q, k, v], {}
        if causal:
            form["causal"] = True
        if bias is not None:
            operands.append(bias)
            form["bias"] = True
        types = [((*q.shape[:-1], v.shape[-1]), "f32"), ((*q.shape[:-1], 1), "f32")]
        return l.reshape(l.program.add("attention", operands, types, l.place, scale=scale, **form)[0], shape)
    if groups:
        k, v = (_each_head(l, x, q.shape[1] // x.shape[1]) for x in (k, v))
    weights = (*q.shape[:-1], k.shape[-2])
    logits = l.times(l.emit("matmul", [q, k], weights, transpose_b=True), scale)
    if bias is not None:
        logits = l.binary("add", logits, bias, weights)
    if causal:
        future = torch.triu(torch.full((q.shape[-2], k.shape[-2]), MASKED), 1)
        logits = l.binary("add", logits, l.constant(future), weights)
    portions = l.emit("softmax", [logits], weights, axis=len(weights) - 1)
    if mask is not None and mask.meta["val"].dtype == torch.bool:
        portions = l.binary("mul", portions, _sees_any(l, mask, len(shape)), weights)
    portions = l.drop("dropout", portions, dropped)
    return l.reshape(l.emit("matmul", [portions, v], (*q.shape[:-1], v.shape[-1])), shape)


def _bias_of_mask(l: Lowering, mask: fx.Node, rank: int) -> Value:
    tensor = l.known.get(mask)
    if isinstance(tensor, torch.Tensor):
        if tensor.dtype == torch.bool:
            tensor = torch.where(tensor, 0.0, MASKED)
        return _four_axes(l, l.constant(tensor.clamp(min=MASKED)), rank)
    value = l.get(mask)
    if value.dtype == "i1":
        value = l.emit("select", [value, l.scalar(0.0, value.shape), l.scalar(MASKED, value.shape)], value.shape, "f32")
    return _four_axes(l, value, rank)


def _every_row_sees(l: Lowering, mask: fx.Node) -> bool:
    """Whether every row sees a key. Of a bool mask that is not known it is not; other masks are biases."""
    if mask.meta["val"].dtype != torch.bool:
        return True
    tensor = l.known.get(mask)
    return isinstance(tensor, torch.Tensor) and bool(tensor.any(-1).all())


def _sees_any(l: Lowering, mask: Any, rank: int) -> Value:
    """Returns 1 for each row that sees a key, else 0: where all is masked out the result is 0."""
    tensor = l.known.get(mask)
    if isinstance(tensor, torch.Tensor):
        return _four_axes(l, l.constant(tensor.any(-1, keepdim=True).float()), rank)
    value = l.cast(l.get(mask), "f32")
    return _four_axes(l, l.sum(value, [len(value.shape) - 1], "max"), rank)


def _four_axes(l: Lowering, x: Value, rank: int | None = None) -> Value:
    """Leading axes become one, so that x is [batch, heads, tokens, width]."""
    rank = rank or len(x.shape)
    if len(x.shape) < rank:
        x = l.reshape(x, (1,) * (rank - len(x.shape)) + x.shape)
    if len(x.shape) < 4:
        return l.reshape(x, (1,) * (4 - len(x.shape)) + x.shape if len(x.shape) < 3 else (x.shape[0], 1, *x.shape[1:]))
    return l.reshape(x, (math.prod(x.shape[:-3]), *x.shape[-3:]))


def _each_head(l: Lowering, x: Value, times: int) -> Value:
    batch, heads, tokens, width = x.shape
    wide = l.broadcast(l.reshape(x, (batch, heads, 1, tokens, width)), (batch, heads, times, tokens, width))
    return l.reshape(wide, (batch, heads * times, tokens, width))


@lowers("conv2d", "conv1d", "convolution")
def _convolution(l: Lowering, node: Any) -> Any:
    x, weight, bias = l.get(node.args[0]), l.get(node.args[1]), arg(node, 2, "bias")
    shape = l.shape_of()
    if len(x.shape) != len(weight.shape):
        raise Unsupported(f"{op_name(node)} without a batch")
    flat = len(x.shape) == 3
    if op_name(node) == "aten.convolution":
        strides, padding, dilation, transposed, _, groups = node.args[3:9]
        if transposed:
            raise Unsupported("a transposed convolution")
    else:
        strides, padding = arg(node, 3, "stride", 1), arg(node, 4, "padding", 0)
        dilation, groups = arg(node, 5, "dilation", 1), arg(node, 6, "groups", 1)
    if flat:  # maps of one row
        x = l.reshape(x, (*x.shape[:2], 1, x.shape[2]))
        weight = l.reshape(weight, (*weight.shape[:2], 1, weight.shape[2]))
        shape = (*shape[:2], 1, shape[2])
        strides, dilation = [1, pair(strides, 1)[-1]], [1, pair(dilation, 1)[-1]]
        padding = padding if isinstance(padding, str) else [0, pair(padding)[-1]]
    strides, dilation = pair(strides, 1), pair(dilation, 1)
    weight = _dilated(l, weight, dilation)
    if isinstance(padding, str):
        total = [extent - 1 if padding == "same" else 0 for extent in weight.shape[2:]]
        low, high = [t // 2 for t in total], [t - t // 2 for t in total]
        if low != high:
            x = l.emit(
                "pad",
                [x],
                (*x.shape[:2], *(e + t for e, t in zip(x.shape[2:], total))),
                low=[0, 0, *low],
                high=[0, 0, *high],
            )
            low = [0, 0]
        padding = low
    y = l.emit("conv2d", [x, weight], shape, strides=strides, padding=pair(padding), groups=groups)
    if bias is not None:
        y = l.binary("add", y, l.reshape(l.get(bias), (1, shape[1], 1, 1)), shape)
    return l.reshape(y, l.shape_of())


def _dilated(l: Lowering, weight: Value, dilation: list[int]) -> Value:
    """Puts zeros between the rows and columns of a kernel."""
    for axis, step in zip((2, 3), dilation):
        if step == 1 or weight.shape[axis] == 1:
            continue
        split = (*weight.shape[: axis + 1], 1, *weight.shape[axis + 1 :])
        wide = (*weight.shape[: axis + 1], step, *weight.shape[axis + 1 :])
        high = [0] * len(wide)
        high[axis + 1] = step - 1
        spread = l.emit("pad", [l.reshape(weight, split)], wide, low=[0] * len(wide), high=high)
        whole = weight.shape[axis] * step
        weight = l.reshape(spread, (*weight.shape[:axis], whole, *weight.shape[axis + 1 :]))
        weight = l.slice(weight, axis, 0, whole - step + 1)
    return weight
