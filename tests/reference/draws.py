"""Writes goldens/draws.safetensors: how often torchvision and timm draw each box, of 100,000 draws a case. See README.md.

CASE.shape is the image, i64[2]; CASE.range what is asked for: least and greatest share of the area, least and greatest ratio,
f64[4], or of CutMix alpha, f64[1]. CASE.size counts boxes by height and width, i32[H + 1, W + 1]; CASE.rows by height and top;
CASE.columns by width and left. Where there is no box (no try fits, or CutMix's has no pixels), all of it is 0.
"""
import pathlib
import random

import numpy
import torch
from safetensors.numpy import save_file
from timm.data.mixup import rand_bbox
from timm.data.random_erasing import RandomErasing
from torchvision.transforms import RandomResizedCrop

SEED = 22
DRAWS = 100_000
random.seed(SEED)
torch.manual_seed(SEED)
numpy.random.seed(SEED)
tensors = {}


def add_case(name, shape, asked, draw):
    height, width = shape
    size = numpy.zeros((height + 1, width + 1), numpy.int32)
    rows = numpy.zeros((height + 1, height + 1), numpy.int32)
    columns = numpy.zeros((width + 1, width + 1), numpy.int32)
    for _ in range(DRAWS):
        top, left, h, w = draw()
        size[h, w] += 1
        rows[h, top] += 1
        columns[w, left] += 1
    tensors[f"{name}.shape"] = numpy.array(shape, numpy.int64)
    tensors[f"{name}.range"] = numpy.array(asked, numpy.float64)
    tensors[f"{name}.size"], tensors[f"{name}.rows"], tensors[f"{name}.columns"] = size, rows, columns


def resized_crop(shape, scale, ratio):
    image = torch.zeros(1, *shape)
    return lambda: RandomResizedCrop.get_params(image, list(scale), list(ratio))


def erased_box(shape, area, ratio):
    erase = RandomErasing(probability=1, min_area=area[0], max_area=area[1], min_aspect=ratio[0], max_aspect=ratio[1], mode="const", device="cpu")

    def draw():
        pixels = erase(torch.ones(1, *shape)).numpy()[0] == 0
        rows, columns = numpy.flatnonzero(pixels.any(axis=1)), numpy.flatnonzero(pixels.any(axis=0))
        return (rows[0], columns[0], len(rows), len(columns)) if len(rows) else (0, 0, 0, 0)

    return draw


def mixed_box(shape, alpha):
    """As timm's Mixup draws the share and cuts."""
    def draw():
        top, bottom, left, right = rand_bbox((1, 1, *shape), numpy.random.beta(alpha, alpha))
        return (top, left, bottom - top, right - left) if bottom > top and right > left else (0, 0, 0, 0)

    return draw


EIGHTH, THIRDS = (0.08, 1.0), (3 / 4, 4 / 3)
for name, shape, scale, ratio in (("crop.plain", (24, 31), EIGHTH, THIRDS), ("crop.wide", (7, 43), EIGHTH, THIRDS),
                                  ("crop.tall", (37, 9), (0.3, 0.6), (0.5, 1.5))):
    add_case(name, shape, [*scale, *ratio], resized_crop(shape, scale, ratio))
for name, shape, area, ratio in (("erase.plain", (24, 31), (0.02, 1 / 3), (0.3, 1 / 0.3)), ("erase.large", (13, 22), (0.5, 1.0), (0.3, 1 / 0.3))):
    add_case(name, shape, [*area, *ratio], erased_box(shape, area, ratio))
for name, shape, alpha in (("cutmix.even", (17, 23), 1.0), ("cutmix.ends", (17, 23), 0.3)):
    add_case(name, shape, [alpha], mixed_box(shape, alpha))

save_file(tensors, pathlib.Path(__file__).parent / "goldens" / "draws.safetensors")
