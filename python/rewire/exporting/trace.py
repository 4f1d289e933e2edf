"""Traces a module by torch.export, and answers what a lowering and the search for joins ask of its graph."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from rewire.errors import RewireError


class ExportError(RewireError):
    """A module that cannot be brought in; the message says what and where."""


# Ops whose result shares its elements with their first operand.
VIEWS = frozenset(
    "aten.view aten.reshape aten.flatten aten.unsqueeze aten.squeeze aten.permute aten.transpose aten.t aten.expand "
    "aten.slice aten.select aten.split aten.chunk aten.unbind aten.split_with_sizes aten.tensor_split aten.unflatten "
    "aten.alias aten.detach aten.view_as aten.expand_as aten.movedim aten.swapaxes aten.narrow aten.contiguous aten.to "
    "aten.reshape_as aten.numpy_T aten.mT aten.adjoint getitem aten.unsafe_split aten.unsafe_chunk aten.hsplit".split()
)


def op_name(node: fx.Node) -> str:
    """Returns "aten.add" for aten.add.Tensor, "getitem" for Python's."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return f"{target.namespace}.{target._opname}"
    return getattr(target, "__name__", str(target))


def line_of(node: fx.Node) -> str:
    """Returns "file.py:12" of the user's module, the innermost line outside of PyTorch."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    own = [f"{file}:{line}" for file, line in frames if "/torch/nn/" not in file and "/torch/_" not in file]
    return own[-1] if own else (":".join(frames[-1]) if frames else "")


def module_path(node: fx.Node) -> str:
    """Returns "blocks.0.attn" of the module that computes the node."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0] if stack else ""
    return path.removeprefix("L['self'].").removeprefix("L['self']").lstrip(".")


@dataclass
class Trace:
    """A module's graph at one batch. `kinds` says of each placeholder: parameter, buffer, constant or input."""

    graph: fx.Graph
    batch: int
    kinds: dict[fx.Node, str]
    names: dict[fx.Node, str]  # of placeholders: the parameter's name in the module, or the argument's
    tensors: dict[str, torch.Tensor]
    output: fx.Node
    training: bool


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps what PyTorch prints, logs and warns of from the terminal: what matters is in its exceptions."""
    levels = {name: logging.getLogger(name).level for name in ("torch", "torch.export", "torch.fx")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        aside = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(aside), contextlib.redirect_stderr(aside):
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def trace(module: nn.Module, inputs: tuple[torch.Tensor, ...], training: bool) -> Trace:
    """Traces forward. A module that is in training mode keeps the modes of its parts: those that are not are frozen.
    Throws ExportError in one line if torch.export cannot."""
    for path, child in module.named_modules():
        if isinstance(child, nn.modules.batchnorm._BatchNorm) and child.momentum is None and child.track_running_stats:
            raise ExportError(f"{path}: a batch norm with momentum=None, a cumulative average, has no counterpart")
    was = {child: child.training for child in module.modules()}
    if not (training and module.training):
        module.train(training)
    try:
        with quiet():
            exported = torch.export.export(module, inputs, strict=False)
    except Exception as error:  # torch.export raises many kinds
        raise ExportError(f"torch.export cannot trace {type(module).__name__}: {_first_line(error)}") from error
    finally:
        for child, mode in was.items():
            child.training = mode
    return of_exported(exported, module, int(inputs[0].shape[0]), training)


def of_exported(exported: torch.export.ExportedProgram, module: nn.Module | None, batch: int, training: bool) -> Trace:
    signature = exported.graph_signature
    tensors: dict[str, torch.Tensor] = dict(exported.state_dict) | dict(exported.constants)
    if module is not None:
        tensors |= dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers())
    kinds: dict[fx.Node, str] = {}
    names: dict[fx.Node, str] = {}
    output: fx.Node | None = None
    for node in exported.graph.nodes:
        if node.op == "placeholder":
            for kind, table in (
                ("parameter", signature.inputs_to_parameters),
                ("buffer", signature.inputs_to_buffers),
                ("constant", signature.inputs_to_lifted_tensor_constants),
            ):
                if node.name in table:
                    kinds[node], names[node] = kind, table[node.name]
            if node not in kinds:
                kinds[node], names[node] = "input", node.name
        elif node.op == "output":
            output = node
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and not all(isinstance(extent, int) for extent in value.shape):
            raise ExportError(f"{op_name(node)} at {line_of(node)}: its shape depends on the data")
    assert output is not None
    user = set(signature.user_outputs)
    returned = [node for node in output.all_input_nodes if node.name in user]
    if len(signature.user_outputs) != 1 or len(returned) != 1:
        raise ExportError(
            f"the module returns {len(signature.user_outputs)} tensors; wrap it in a module that returns one"
        )
    changed = set(signature.buffers_to_mutate.values()) | {names[node] for node in _written(exported.graph, kinds)}
    statistics = _statistics(exported.graph, names)
    if changed - statistics:
        raise ExportError(f"forward changes '{min(changed - statistics)}'; only batch norms may change a buffer")
    return Trace(exported.graph, batch, kinds, names, tensors, returned[0], training)


def _statistics(graph: fx.Graph, names: dict[fx.Node, str]) -> set[str]:
    """Returns the names of the buffers that batch norms keep."""
    found = set()
    for node in graph.nodes:
        if node.op == "call_function" and op_name(node) == "aten.batch_norm":
            found |= {names[operand] for operand in node.args[3:5] if isinstance(operand, fx.Node)}
    return found | {name.rsplit(".", 1)[0] + ".num_batches_tracked" for name in found}


def _written(graph: fx.Graph, kinds: dict[fx.Node, str]) -> list[fx.Node]:
    """Returns the placeholders of the module's own tensors that an op in place changes."""
    found = []
    for node in graph.nodes:
        if node.op == "call_function" and is_in_place(node):
            root = root_of(node.args[0])
            if root is not None and kinds.get(root) in ("parameter", "buffer"):
                found.append(root)
    return found


def root_of(node: Any) -> fx.Node | None:
    """Follows views back to the tensor that they are of; None if it is no node."""
    while is_view(node):
        node = node.args[0]
    return node if isinstance(node, fx.Node) else None


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


class Constants:
    """The values of nodes that depend on neither inputs nor parameters: tables, masks, shapes.

    They are computed as PyTorch would, in the order of the graph, on copies of the buffers. So an op in place changes
    its views too, and a value is right at the time at which it is read.
    """

    def __init__(self, trace: Trace) -> None:
        self.known: dict[fx.Node, Any] = {}
        for node in trace.graph.nodes:
            if node.op == "placeholder" and trace.kinds[node] in ("buffer", "constant"):
                name = trace.names[node]
                if name.rsplit(".", 1)[-1] not in RUNNING:
                    self.known[node] = trace.tensors[name].detach().clone()

    def __contains__(self, node: Any) -> bool:
        return node in self.known

    def __getitem__(self, node: Any) -> Any:
        return self.known[node]

    def get(self, node: Any) -> Any:
        return self.known.get(node)

    def compute(self, node: fx.Node) -> bool:
        """Computes the node if it is constant; returns whether it is."""
        shape_alone = op_name(node).removeprefix("aten.") in OF_A_SHAPE
        if is_random(node) or not (shape_alone or all(operand in self.known for operand in node.all_input_nodes)):
            return False

        def look(operand: fx.Node) -> Any:
            if operand in self.known:
                return self.known[operand]
            value = operand.meta["val"]
            return torch.empty(tuple(int(extent) for extent in value.shape), dtype=value.dtype)

        target: Any = node.target
        self.known[node] = target(*fx.node.map_arg(node.args, look), **fx.node.map_arg(node.kwargs, look))
        return True

    def sharing(self, node: fx.Node) -> list[fx.Node]:
        """Returns the constant nodes that share memory with this one, itself included."""
        place = _memory(self.known.get(node))
        return [other for other, value in self.known.items() if place is not None and _memory(value) == place]


def _memory(value: Any) -> int | None:
    return value.untyped_storage().data_ptr() if isinstance(value, torch.Tensor) else None


def is_random(node: fx.Node) -> bool:
    """True if the op draws numbers; dropout that is switched off does not."""
    tags = getattr(node.target, "tags", ())
    if torch.Tag.nondeterministic_seeded not in tags:
        return False
    return not ("dropout" in op_name(node) and len(node.args) > 2 and node.args[2] is False)


def is_in_place(node: fx.Node) -> bool:
    name = op_name(node)
    return name.endswith("_") and not name.endswith("__")


def is_view(node: Any) -> bool:
    """True if the node's result shares memory with its first operand. Some ops copy only if they must."""
    if not isinstance(node, fx.Node) or node.op != "call_function" or not node.args:
        return False
    name, source = op_name(node), node.args[0]
    if name not in VIEWS or not isinstance(source, fx.Node):
        return False
    before, after = source.meta.get("val"), node.meta.get("val")
    if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
        return True  # a list of views
    if name == "aten.to":
        return before.dtype == after.dtype
    if name == "aten.contiguous":
        return bool(before.is_contiguous())
    if name in ("aten.reshape", "aten.flatten", "aten.reshape_as"):
        plain = torch.empty_strided(tuple(before.shape), tuple(before.stride()), device="meta")
        try:
            plain.view(tuple(after.shape))
        except RuntimeError:
            return False
    return True


RUNNING = frozenset(("running_mean", "running_var"))
# Ops that take no more than the shape of their operand.
OF_A_SHAPE = frozenset(
    "new_empty new_zeros new_ones new_full empty_like zeros_like ones_like full_like sym_size".split()
)
