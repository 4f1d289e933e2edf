"""Rewire from Python: brings networks of PyTorch in, takes weights back, and runs the command.

    report = rewire.export(module, example_inputs, "net.rir")
    rewire.run("train", "net.rir", "--set", "train.weights=net.safetensors", "--out", "runs/a")
    rewire.metrics("runs/a", kind="eval")
    rewire.load(module, "runs/a")

PyTorch is needed by `export`, `load` and `convert` only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rewire.command import run
from rewire.errors import RewireError
from rewire.results import convert, load, metrics

if TYPE_CHECKING:
    import torch

    from rewire.exporting.export import Report

__all__ = ["RewireError", "convert", "export", "load", "metrics", "run"]


def export(
    module: torch.nn.Module | torch.export.ExportedProgram,
    example_inputs: torch.Tensor | Sequence[torch.Tensor],
    path: str | os.PathLike[str],
    **options: Any,
) -> Report:
    """Writes a module as `path` (net.rir) with net.safetensors next to it; see rewire.exporting.export.export."""
    from rewire.exporting.export import export as write

    return write(module, example_inputs, path, **options)
