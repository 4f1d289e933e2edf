"""Lowerings of PyTorch's ops; importing this package registers them."""

from rewire.exporting.ops import contractions, norms, pointwise, shapes, sums, windows

__all__ = ["contractions", "norms", "pointwise", "shapes", "sums", "windows"]
