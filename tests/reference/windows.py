"""Writes goldens/windows.safetensors: what PyTorch makes in float64 of maps by max_pool2d, avg_pool2d, unfold and
interpolate (bilinear), and of a gradient back through each. NAME.x, NAME.g are given, NAME.y, NAME.dx computed; the
metadata key `cases` says each one's op and attributes as JSON. Some maps are of few whole numbers, and have ties.
"""
import json
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

OPS = {
    "max_pool": lambda x, kernel, strides, padding: F.max_pool2d(x, kernel, strides, padding),
    "avg_pool": lambda x, kernel, strides, padding: F.avg_pool2d(x, kernel, strides, padding),
    "unfold": lambda x, kernel, strides, padding: F.unfold(x, kernel, 1, padding, strides),
    "resize": lambda x, size: F.interpolate(x, size, mode="bilinear", align_corners=False, antialias=False),
}
WINDOWS = {
    "stem": ((2, 3, 13, 11), dict(kernel=[3, 3], strides=[2, 2], padding=[1, 1])),
    "even": ((1, 2, 8, 6), dict(kernel=[2, 2], strides=[2, 2], padding=[0, 0])),
    "uneven": ((2, 1, 9, 7), dict(kernel=[4, 1], strides=[1, 3], padding=[2, 0])),
    "apart": ((1, 2, 11, 12), dict(kernel=[2, 3], strides=[3, 5], padding=[0, 1])),
    "whole": ((1, 1, 5, 7), dict(kernel=[5, 7], strides=[1, 1], padding=[0, 0])),
    "tokens": ((1, 2, 16, 20), dict(kernel=[7, 7], strides=[4, 4], padding=[2, 2])),
}
SIZES = {"up": ((1, 2, 5, 3), dict(size=[12, 7])), "down": ((2, 1, 13, 9), dict(size=[5, 4])),
         "mixed": ((1, 1, 4, 9), dict(size=[9, 2])), "one": ((1, 2, 1, 6), dict(size=[3, 1])),
         "same": ((1, 1, 4, 5), dict(size=[4, 5])), "positions": ((1, 3, 14, 14), dict(size=[24, 24]))}


def main():
    generator = torch.Generator().manual_seed(20240608)
    tensors, cases = {}, {}
    for op, function in OPS.items():
        for name, (shape, attributes) in (SIZES if op == "resize" else WINDOWS).items():
            for ties in (False, True) if op == "max_pool" else (False,):
                key = f"{op}_{name}" + ("_ties" if ties else "")
                x = torch.randn(shape, generator=generator, dtype=torch.float64)
                if ties:
                    x = (2 * x).round()
                x.requires_grad = True
                y = function(x, **attributes)
                g = torch.randn(y.shape, generator=generator, dtype=torch.float64)
                y.backward(g)
                tensors |= {key + ".x": x.detach(), key + ".g": g, key + ".y": y.detach(), key + ".dx": x.grad}
                cases[key] = {"op": op, **attributes}
    path = pathlib.Path(__file__).parent / "goldens" / "windows.safetensors"
    save_file({key: value.contiguous() for key, value in tensors.items()}, path, {"cases": json.dumps(cases)})
    path.chmod(0o644)


if __name__ == "__main__":
    main()
