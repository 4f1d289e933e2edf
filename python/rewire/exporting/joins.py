"""Finds a network's residual joins: the additions at which a branch's result returns to the stream.

An addition of two tensors of one shape, of at least three axes, is a join
- if one operand, the stream, is computed on the way to the other, the branch; or
- if one operand comes from the stream by a projection alone (convolution, linear, norm, pooling, shapes and products
  with weights), and the branch holds something nonlinear.
A join within another's branch is none if it has no contraction of its own (ConvNeXt V2's GRN), or if its shortcut is a
projection (the sums between the parts of a Res2Net block).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import fx

from rewire.exporting.trace import ExportError, Trace, module_path, op_name

CONTRACTIONS = frozenset(
    "aten.linear aten.conv1d aten.conv2d aten.convolution aten.matmul aten.mm aten.bmm aten.addmm aten.baddbmm "
    "aten.einsum aten.scaled_dot_product_attention".split()
)
ATTENTION = frozenset(("aten.scaled_dot_product_attention", "aten.softmax"))
NORMS = frozenset("aten.layer_norm aten.batch_norm aten.group_norm aten.rms_norm".split())
MAPS = frozenset("aten.conv2d aten.conv1d aten.convolution aten.max_pool2d aten.avg_pool2d aten.batch_norm".split())
SHAPES = frozenset(
    "aten.view aten.reshape aten.permute aten.transpose aten.slice aten.flatten aten.unflatten aten.unsqueeze "
    "aten.squeeze aten.expand aten.contiguous aten.clone aten.pad aten.constant_pad_nd aten.select getitem aten.split "
    "aten.chunk aten.unbind aten.dropout aten.alias aten.split_with_sizes".split()
)
PROJECTIONS = (
    SHAPES
    | NORMS
    | frozenset(
        "aten.conv1d aten.conv2d aten.linear aten.avg_pool2d aten.max_pool2d aten.adaptive_avg_pool2d aten.mean "
        "aten.amax aten.max aten.upsample_bilinear2d".split()
    )
)
PROJECTIONS_OF_WEIGHTS = frozenset(("aten.linear", "aten.conv2d", "aten.conv1d", "aten.convolution"))
ADDITIONS = frozenset(("aten.add", "aten.add_"))


@dataclass
class Join:
    """One join. `place` and `site` name it; `stream`, `branch` and `entry` are nodes of the graph."""

    node: fx.Node
    shortcut: fx.Node  # the operand of the addition that is, or comes from, the stream
    stream: fx.Node
    branch: fx.Node
    entry: fx.Node  # the branch's input: a norm of the stream, or the stream
    nodes: set[fx.Node]  # the branch
    place: str = ""
    site: str = "mlp"
    block: int = 0
    stage: int = 0
    last_weight: str = ""
    axes: tuple[int, int] = (1, 2)  # token, channel
    weights: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.place}.{self.site}"


class Graph:
    """What is computed on the way to what, as one bit a node."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.order = list(trace.graph.nodes)
        self.index = {node: i for i, node in enumerate(self.order)}
        self.above: dict[fx.Node, int] = {}
        self.data: set[fx.Node] = set()
        self.weights: set[fx.Node] = set()  # depend on parameters and not on data
        for node in self.order:
            bits = 0
            for operand in node.all_input_nodes:
                bits |= self.above[operand] | (1 << self.index[operand])
            self.above[node] = bits
            kind = trace.kinds.get(node)
            if kind == "input" or any(operand in self.data for operand in node.all_input_nodes):
                self.data.add(node)
            elif kind == "parameter" or any(operand in self.weights for operand in node.all_input_nodes):
                self.weights.add(node)

    def is_above(self, ancestor: fx.Node, node: fx.Node) -> bool:
        return bool((self.above[node] >> self.index[ancestor]) & 1)

    def between(self, start: fx.Node, end: fx.Node) -> set[fx.Node]:
        """Returns the nodes on the ways from start to end, with end and without start."""
        below = {start}
        found = set()
        for node in self.order[self.index[start] + 1 : self.index[end] + 1]:
            if any(operand in below for operand in node.all_input_nodes):
                below.add(node)
                if node is end or self.is_above(node, end):
                    found.add(node)
        return found

    def shape(self, node: fx.Node) -> tuple[int, ...]:
        value = node.meta.get("val")
        return tuple(int(extent) for extent in getattr(value, "shape", ()))


def find_joins(trace: Trace) -> list[Join]:
    """Returns the joins in order of execution, named and numbered."""
    graph = Graph(trace)
    found: list[tuple[Join, bool]] = []
    for node in graph.order:
        if op_name(node) in ADDITIONS and len(node.args) > 1 and node.kwargs.get("alpha", 1) == 1:
            others = [other for other, _ in found]
            join = _identity(graph, node) or _parallel(graph, node, others)
            projected = join is None
            join = join or _projected(graph, node)
            if join is not None:
                found.append((join, projected))
    joins = [join for join, projected in found if not _is_within(join, projected, [j for j, _ in found])]
    for join in joins:
        _describe(graph, join)
    _number(joins)
    return joins


def _operands(graph: Graph, node: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    a, b = node.args[:2]
    if not isinstance(a, fx.Node) or not isinstance(b, fx.Node) or a is b:
        return None
    shapes = {graph.shape(a), graph.shape(b), graph.shape(node)}
    return (a, b) if len(shapes) == 1 and len(graph.shape(node)) >= 3 else None


def _identity(graph: Graph, node: fx.Node) -> Join | None:
    operands = _operands(graph, node)
    if operands is None:
        return None
    for stream, branch in (operands, operands[::-1]):
        if (
            graph.is_above(stream, branch)
            and branch in graph.data
            and (stream in graph.data or stream in graph.weights)
        ):
            nodes = graph.between(stream, branch)
            return Join(node, stream, stream, branch, _entry(graph, stream, nodes), nodes)
    return None


def _projected(graph: Graph, node: fx.Node) -> Join | None:
    operands = _operands(graph, node)
    if operands is None or any(operand not in graph.data for operand in operands):
        return None
    best: Join | None = None
    for shortcut, branch in (operands, operands[::-1]):
        stream = _source(graph, shortcut, branch)
        if stream is None:
            continue
        nodes = graph.between(stream, branch)
        linear = all(op_name(n) in PROJECTIONS or _is_product(graph, n) for n in nodes)
        if linear or not any(op_name(n) in CONTRACTIONS for n in nodes):
            continue
        if best is None or len(nodes) > len(best.nodes):
            best = Join(node, shortcut, stream, branch, _entry(graph, stream, nodes), nodes)
    return best


def _parallel(graph: Graph, node: fx.Node, joins: list[Join]) -> Join | None:
    """x + a(x) + b(x): the second branch starts at the stream of the join before."""
    operands = _operands(graph, node)
    for stream, branch in (operands, operands[::-1]) if operands else ():
        before = next((join for join in joins if join.node is stream), None)
        if before is not None and branch in graph.data and graph.is_above(before.stream, branch):
            nodes = graph.between(before.stream, branch)
            if before.node not in nodes and any(op_name(n) in CONTRACTIONS for n in nodes):
                return Join(node, stream, stream, branch, _entry(graph, before.stream, nodes), nodes)
    return None


def _source(graph: Graph, start: fx.Node, other: fx.Node) -> fx.Node | None:
    """Follows a projection back to a node from which the other operand comes too."""
    node = start
    while not graph.is_above(node, other):
        if op_name(node) not in PROJECTIONS and not _is_product(graph, node):
            return None
        above = [operand for operand in node.all_input_nodes if operand in graph.data]
        if len(above) != 1:
            return None
        node = above[0]
    return None if node is start else node


def _is_product(graph: Graph, node: fx.Node) -> bool:
    """True for a product with a number, a table or a weight."""
    if op_name(node) not in ("aten.mul", "aten.mul_"):
        return False
    return len([operand for operand in node.args[:2] if operand in graph.data]) == 1


def _entry(graph: Graph, stream: fx.Node, nodes: set[fx.Node]) -> fx.Node:
    """Returns the result of the norm that alone reads the stream in this branch; the stream if there is none."""
    return _norm_of_one_op(stream, nodes) or _norm_of_a_module(graph, stream, nodes) or stream


def _norm_of_a_module(graph: Graph, stream: fx.Node, nodes: set[fx.Node]) -> fx.Node | None:
    """Returns the result of a module that alone reads the stream, has a mean or a sum and no contraction: an RMS norm
    that is written out."""
    paths = {module_path(user) for user in stream.users if user in nodes}
    if len(paths) != 1:
        return None
    path = paths.pop()
    inside = [node for node in nodes if module_path(node) == path and graph.is_above(stream, node)]
    names = {op_name(node) for node in inside}
    if path == "" or names & CONTRACTIONS or not names & MEANS:
        return None
    members = set(inside)
    results = [node for node in inside if any(user not in members for user in node.users)]
    same = len(results) == 1 and graph.shape(results[0]) == graph.shape(stream)
    return results[0] if same else None


MEANS = frozenset(("aten.mean", "aten.sum", "aten.var", "aten.var_mean", "aten.linalg_vector_norm", "aten.norm"))


def _norm_of_one_op(stream: fx.Node, nodes: set[fx.Node]) -> fx.Node | None:
    node = stream
    while True:
        readers = [user for user in node.users if user in nodes]
        if len(readers) == 1 and op_name(readers[0]) in NORMS:
            return readers[0]
        if len(readers) != 1 or op_name(readers[0]) not in SHAPES:
            return None
        node = readers[0]


def _is_within(join: Join, projected: bool, all_joins: list[Join]) -> bool:
    outer = [other for other in all_joins if other is not join and join.node in other.nodes]
    if not outer:
        return not any(op_name(n) in CONTRACTIONS for n in join.nodes) and not _holds_module(join)
    return projected or not any(op_name(n) in CONTRACTIONS for n in join.nodes)


def _holds_module(join: Join) -> bool:
    """True if the branch has work of its own without a contraction, as PoolFormer's pooling."""
    return any(op_name(n) in MAPS | NORMS for n in join.nodes)


def _describe(graph: Graph, join: Join) -> None:
    ops = {op_name(node) for node in join.nodes}
    spatial = any(
        op_name(n) in ("aten.conv2d", "aten.convolution") and any(e > 1 for e in graph.shape(n.args[1])[2:])  # type: ignore[arg-type]
        for n in join.nodes
    )
    join.site = "attn" if ops & ATTENTION else "conv" if spatial or "aten.max_pool2d" in ops else "mlp"
    join.place = _common_path(join)
    join.axes = _axes(graph, join)
    for node in sorted(join.nodes, key=graph.index.__getitem__):
        for operand in node.all_input_nodes:
            if graph.trace.kinds.get(operand) == "parameter":
                join.weights.append(graph.trace.names[operand])
    join.last_weight = _last_weight(graph, join)


def _common_path(join: Join) -> str:
    """Returns the module around the addition: that of its own code."""
    return module_path(join.node)


def _axes(graph: Graph, join: Join) -> tuple[int, int]:
    """Returns the token and the channel axis: of maps the channels are where a convolution or a norm finds them."""
    rank = len(graph.shape(join.node))
    if rank == 3:
        return (1, 2)
    first = next((n for n in graph.order if n in join.nodes and op_name(n) in MAPS | NORMS | {"aten.linear"}), None)
    last_axis = first is not None and op_name(first) in ("aten.linear", "aten.layer_norm", "aten.rms_norm")
    if last_axis and graph.shape(first)[-1] == graph.shape(join.node)[-1]:  # type: ignore[arg-type]
        return (1, rank - 1)
    return (2, 1)


def _last_weight(graph: Graph, join: Join) -> str:
    """Returns the weight of the branch's last linear map, unless something nonlinear follows it."""
    node = join.branch
    while node in join.nodes:
        if op_name(node) in PROJECTIONS_OF_WEIGHTS:
            weight = node.args[1]
            return graph.trace.names.get(weight, "")  # type: ignore[arg-type]
        if op_name(node) not in SHAPES | NORMS and not _is_product(graph, node):
            return ""
        above = [operand for operand in node.all_input_nodes if operand in join.nodes]
        if len(above) != 1:
            return ""
        node = above[0]
    return ""


def _number(joins: list[Join]) -> None:
    """Names places and numbers blocks and stages. The joins of one module are one block. If two joins would have one
    name, each run of different sites is a block of its own."""
    stage, shape = 0, None
    for join in joins:
        extents = [int(extent) for extent in join.node.meta["val"].shape]
        now = (extents[join.axes[1]], math.prod(extents))  # the same tokens as a row or a grid are one stage
        stage += shape is not None and now != shape
        shape, join.stage = now, stage
    paths = list(dict.fromkeys(join.place for join in joins))
    own = [NUMBERED_BLOCK.match(path) for path in paths]
    numbers = [int(match[1]) for match in own if match] if all(own) else list(range(len(paths)))
    for join in joins:
        join.block = numbers[paths.index(join.place)]
    if len({_written_place(join) + join.site for join in joins}) == len(joins):
        for join in joins:
            join.place = _written_place(join)
        return
    block, sites, previous = -1, set[str](), None
    for join in joins:
        if join.place != previous or join.site in sites:
            block, sites, previous = block + 1, set(), join.place
        sites.add(join.site)
        join.block, join.place = block, f"blocks.{block}"


NUMBERED_BLOCK = re.compile(r"blocks\.(\d+)\Z")
# The places that the text form takes from a location; all others are "blocks.N" (ir/residual.cpp).
IN_A_STAGE = re.compile(r".*(\.blocks\.|\d\.)\d+\Z")


def _written_place(join: Join) -> str:
    return join.place if IN_A_STAGE.match(join.place) else f"blocks.{join.block}"


def choose(joins: list[Join], trace: Trace, changes: list[str]) -> list[Join]:
    """Applies the user's changes: "-blocks.3.attn" drops a join, "+NODE" adds the addition of that name.
    Throws ExportError if one names nothing."""
    chosen = list(joins)
    graph = Graph(trace)
    for change in changes:
        sign, name = change[:1], change[1:]
        if sign == "-":
            left = [join for join in chosen if join.name != name and join.node.name != name]
            if len(left) == len(chosen):
                raise ExportError(f"no join is named '{name}'; there are {_listed([j.name for j in chosen])}")
            chosen = left
        elif sign == "+":
            node = next((n for n in graph.order if n.name == name and op_name(n) in ADDITIONS), None)
            join = node and (_identity(graph, node) or _projected(graph, node))
            if any(other.node is node for other in chosen):
                raise ExportError(f"'{name}' is a join already")
            if join is None:
                raise ExportError(
                    f"'{name}' is no addition of a branch to a stream; additions are {_listed(list(_additions(graph)))}"
                )
            _describe(graph, join)
            chosen.append(join)
        else:
            raise ExportError(f"a change of joins begins with '+' or '-': '{change}'")
    chosen.sort(key=lambda join: graph.index[join.node])
    if changes:
        for join in chosen:
            join.place = _common_path(join)
        _number(chosen)
    return chosen


def _additions(graph: Graph) -> Iterator[str]:
    for node in graph.order:
        if op_name(node) in ADDITIONS and _operands(graph, node) is not None:
            yield node.name


def _listed(names: list[str], most: int = 12) -> str:
    return (
        ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "") if names else "none"
    )
