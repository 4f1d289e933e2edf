"""Ops that move elements: views, cuts, joins of tensors, indexing."""

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
    permutation_of,
)
from rewire.exporting.program import Value
from rewire.exporting.trace import op_name


@lowers("contiguous", "clone", "alias", "lift_fresh_copy", "positive")
def _same(l: Lowering, node: Any) -> Any:
    return l.get(node.args[0])


@lowers("_assert_tensor_metadata", "_assert_async", "sym_size", "_assert_scalar")
def _nothing(l: Lowering, node: Any) -> Any:
    return None


@lowers("detach")
def _detach(l: Lowering, node: Any) -> Any:
    x = l.get(node.args[0])
    return l.emit("stop_gradient", [x], x.shape)


@lowers("to", "_to_copy", "float", "bool", "long", "type_as")
def _to(l: Lowering, node: Any) -> Any:
    dtype = node.meta["val"].dtype
    if dtype in (torch.uint8, torch.int8, torch.int16) and node.args[0].meta["val"].dtype != dtype:
        raise Unsupported(f"a cast to {dtype}, which wraps around")
    return l.cast(l.get(node.args[0]), dtype_of(node.meta["val"]))


@lowers("view", "reshape", "flatten", "unsqueeze", "squeeze", "unflatten", "_unsafe_view", "view_as", "reshape_as")
def _reshape(l: Lowering, node: Any) -> Any:
    return l.reshape(l.get(node.args[0]), l.shape_of())


@lowers("permute", "transpose", "swapaxes", "t", "numpy_T", "adjoint", "mT", "movedim")
def _transpose(l: Lowering, node: Any) -> Any:
    x = l.get(node.args[0])
    return l.transpose(x, permutation_of(node, len(x.shape)) or [])


@lowers("copy")
def _copy(l: Lowering, node: Any) -> Any:
    return l.broadcast(l.cast(l.get(node.args[1]), dtype_of(node.meta["val"])), l.shape_of())


@lowers("zero", "fill")
def _fill(l: Lowering, node: Any) -> Any:
    number = 0.0 if op_name(node) == "aten.zero_" else l.number(node.args[1])
    return l.scalar(number, l.shape_of(), dtype_of(node.meta["val"]))


@lowers("expand", "expand_as", "broadcast_to")
def _expand(l: Lowering, node: Any) -> Any:
    return l.broadcast(l.get(node.args[0]), l.shape_of())


@lowers("repeat")
def _repeat(l: Lowering, node: Any) -> Any:
    x, repeats = l.get(node.args[0]), list(node.args[1])
    x = l.reshape(x, (1,) * (len(repeats) - len(x.shape)) + x.shape)
    return _repeated(l, x, dict(enumerate(repeats)))


def _repeated(l: Lowering, x: Value, repeats: dict[int, int]) -> Value:
    for axis, count in repeats.items():
        if count == 1:
            continue
        if x.shape[axis] == 1:
            x = l.emit("broadcast", [x], [count if i == axis else e for i, e in enumerate(x.shape)])
        else:
            split = (*x.shape[:axis], 1, *x.shape[axis:])
            wide = (*x.shape[:axis], count, *x.shape[axis:])
            joined = (*x.shape[:axis], count * x.shape[axis], *x.shape[axis + 1 :])
            x = l.reshape(l.broadcast(l.reshape(x, split), wide), joined)
    return x


@lowers("repeat_interleave")
def _repeat_interleave(l: Lowering, node: Any) -> Any:
    x, count = l.get(node.args[0]), arg(node, 1, "repeats")
    axis = arg(node, 2, "dim")
    if not isinstance(count, int) or axis is None:
        raise Unsupported("aten.repeat_interleave by a list")
    axis %= len(x.shape)
    wide = (*x.shape[: axis + 1], count, *x.shape[axis + 1 :])
    x = l.reshape(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
    return l.reshape(l.broadcast(x, wide), l.shape_of())


@lowers("slice", "narrow")
def _slice(l: Lowering, node: Any) -> Any:
    x = l.get(node.args[0])
    axis = arg(node, 1, "dim", 0) % len(x.shape)
    extent = x.shape[axis]
    start, stop = arg(node, 2, "start"), arg(node, 3, "end")
    if op_name(node) == "aten.narrow":
        start = start + extent if start < 0 else start
        stop = start + stop
    start = 0 if start is None else start
    start = max(0, start + extent) if start < 0 else min(start, extent)
    stop = extent if stop is None else stop
    stop = max(0, stop + extent) if stop < 0 else min(stop, extent)
    return l.slice(x, axis, start, stop, arg(node, 4, "step", 1))


@lowers("select")
def _select(l: Lowering, node: Any) -> Any:
    x = l.get(node.args[0])
    axis = node.args[1] % len(x.shape)
    index = node.args[2] % x.shape[axis]
    return l.reshape(l.slice(x, axis, index, index + 1), l.shape_of())


@lowers("split", "chunk", "unbind", "split_with_sizes", "tensor_split", "unsafe_split", "unsafe_chunk")
def _split(l: Lowering, node: Any) -> Any:
    x, unbinds = l.get(node.args[0]), op_name(node) == "aten.unbind"
    axis = (arg(node, 1, "dim", 0) if unbinds else arg(node, 2, "dim", 0)) % len(x.shape)
    parts, at = [], 0
    for part in node.meta["val"]:
        shape = tuple(int(extent) for extent in part.shape)
        size = 1 if unbinds else shape[axis]
        parts.append(l.reshape(l.slice(x, axis, at, at + size), shape))
        at += size
    return parts


@lowers("getitem")
def _getitem(l: Lowering, node: Any) -> Any:
    source, index = node.args
    if source in l.known:
        return l.known[source][index]
    return l.values[source][index]


@lowers("cat", "concat", "concatenate")
def _cat(l: Lowering, node: Any) -> Any:
    parts = [l.cast(l.get(part), dtype_of(node.meta["val"])) for part in node.args[0]]
    parts = [part for part in parts if math.prod(part.shape) > 0 or len(part.shape) > 1]
    return l.concat(parts, arg(node, 1, "dim", 0) % len(parts[0].shape))


@lowers("stack")
def _stack(l: Lowering, node: Any) -> Any:
    shape = l.shape_of()
    axis = arg(node, 1, "dim", 0) % len(shape)
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    dtype = dtype_of(node.meta["val"])
    return l.concat([l.reshape(l.cast(l.get(part), dtype), one) for part in node.args[0]], axis)


@lowers("roll")
def _roll(l: Lowering, node: Any) -> Any:
    x = l.get(node.args[0])
    shifts, axes = node.args[1], arg(node, 2, "dims", [])
    if not axes:
        raise Unsupported("aten.roll without dims")
    for shift, axis in zip(shifts, axes):
        axis %= len(x.shape)
        extent = x.shape[axis]
        if shift % extent:
            cut = extent - shift % extent
            x = l.concat([l.slice(x, axis, cut, extent), l.slice(x, axis, 0, cut)], axis)
    return x


@lowers("flip")
def _flip(l: Lowering, node: Any) -> Any:
    x = l.get(node.args[0])
    for axis in axes_of(node.args[1], len(x.shape)):
        order = torch.arange(x.shape[axis] - 1, -1, -1)
        x = l.emit("gather", [x, l.constant(order)], x.shape, axis=axis)
    return x


@lowers("pad", "constant_pad_nd")
def _pad(l: Lowering, node: Any) -> Any:
    x, widths = l.get(node.args[0]), node.args[1]
    named = op_name(node) == "aten.pad"
    mode = arg(node, 2, "mode", "constant") if named else "constant"
    value = arg(node, 3, "value", None) if named else arg(node, 2, "value", 0)
    if mode != "constant":
        raise Unsupported(f"aten.pad, mode {mode}")
    rank = len(x.shape)
    low, high = [0] * rank, [0] * rank
    for i in range(len(widths) // 2):
        axis = rank - 1 - i
        low[axis], high[axis] = widths[2 * i], widths[2 * i + 1]
    for axis in range(rank):  # a negative width cuts off
        x = l.slice(x, axis, max(0, -low[axis]), x.shape[axis] - max(0, -high[axis]))
    low, high = [max(0, n) for n in low], [max(0, n) for n in high]
    if not any(low + high):
        return x
    return l.emit("pad", [x], l.shape_of(), low=low, high=high, value=float(value or 0))


@lowers("index")
def _index(l: Lowering, node: Any) -> Any:
    x, lists = l.get(node.args[0]), list(node.args[1])
    live = [(axis, what) for axis, what in enumerate(lists) if what is not None]
    if not all(isinstance(what, fx.Node) and what in l.known for _, what in live):
        raise Unsupported("aten.index by a list that depends on the input")
    tables = [(axis, l.known[what]) for axis, what in live]
    if any(table.dtype == torch.bool for _, table in tables):
        if len(tables) != 1 or tables[0][1].dim() != 1:
            raise Unsupported("aten.index by a mask of several axes")
        tables = [(tables[0][0], tables[0][1].nonzero().flatten())]
    if len(tables) > 1 and [axis for axis, _ in tables] != list(range(tables[0][0], tables[0][0] + len(tables))):
        raise Unsupported("aten.index by lists of axes that are not neighbours")
    # Neighbouring axes become one, of which one list picks.
    first = tables[0][0]
    extents = x.shape[first : first + len(tables)]
    whole = torch.zeros((), dtype=torch.int64)
    for extent, (_, table) in zip(extents, tables):
        whole = whole * extent + table % extent
    x = l.reshape(x, (*x.shape[:first], math.prod(extents), *x.shape[first + len(tables) :]))
    return _gather_list(l, x, whole, first)


def _gather_list(l: Lowering, x: Value, table: torch.Tensor, axis: int) -> Value:
    flat = table.flatten().to(torch.int64)
    shape = (*x.shape[:axis], flat.numel(), *x.shape[axis + 1 :])
    picked = l.emit(
        "gather", [x, l.constant(flat) if flat.numel() > 1 else l.scalar(float(flat), (1,), "i64")], shape, axis=axis
    )
    return l.reshape(picked, l.shape_of())


@lowers("index_select")
def _index_select(l: Lowering, node: Any) -> Any:
    if node.args[2] not in l.known:
        raise Unsupported("aten.index_select by a list that depends on the input")
    x = l.get(node.args[0])
    return _gather_list(l, x, l.known[node.args[2]], node.args[1] % len(x.shape))


@lowers("embedding")
def _embedding(l: Lowering, node: Any) -> Any:
    weight, indices = l.get(node.args[0]), node.args[1]
    padding = arg(node, 2, "padding_idx", -1)
    if arg(node, 3, "scale_grad_by_freq", False):
        raise Unsupported("aten.embedding, scale_grad_by_freq")
    if padding is not None and padding >= 0:  # its row has no gradient
        kept = torch.ones(weight.shape[0], 1, dtype=torch.bool)
        kept[padding] = False
        still = l.emit("stop_gradient", [weight], weight.shape)
        mask = l.broadcast(l.constant(kept), weight.shape)
        weight = l.emit("select", [mask, weight, still], weight.shape, weight.dtype)
    if indices in l.known:
        return _gather_list(l, weight, l.known[indices], 0)
    rows = l.get(indices)
    count = math.prod(rows.shape)
    picked = l.emit("gather", [weight, l.reshape(rows, (count,))], (count, weight.shape[1]), axis=0)
    return l.reshape(picked, l.shape_of())
