"""The peer of resnetv2_*: the orthogonal paper's pre-activation ResNet, written plainly, its maps in PyTorch's channels_last order.

ResNetV2(image, channels, classes, depths, width, bottleneck, residual), residual one of plain, orthogonal and decay: PyTorch's
own layers and, for the joins, the formulas of the papers.
"""
import torch
import torch.nn.functional as F
from torch import nn


LARGE_IMAGE = 96  # pixels a side; from there on the stem halves the image twice


def plain(x, f, index, joins):
    return x + f


def orthogonal(x, f, index, joins, eps=1e-6):
    along = (x * f).sum(1, keepdim=True) / (x.square().sum(1, keepdim=True) + eps)
    return x + f - along * x


def decay(x, f, index, joins, alpha_min=0.6):
    return x * (1 - (1 - alpha_min) * index / max(joins - 1, 1)) + f


JOINS = {"plain": plain, "orthogonal": orthogonal, "decay": decay}


class Block(nn.Module):
    def __init__(self, inputs, width, stride, bottleneck, join, index, joins):
        super().__init__()
        outputs = width * 4 if bottleneck else width
        if bottleneck:  # as the paper's code has it, the stride is on the first
            shapes = [(inputs, width, 1, stride), (width, width, 3, 1), (width, outputs, 1, 1)]
        else:
            shapes = [(inputs, width, 3, stride), (width, width, 3, 1)]
        self.norms = nn.ModuleList(nn.BatchNorm2d(shape[0]) for shape in shapes)
        self.convs = nn.ModuleList(nn.Conv2d(a, b, k, s, k // 2) for a, b, k, s in shapes)
        self.downsample = nn.Conv2d(inputs, outputs, 1, stride) if stride != 1 or inputs != outputs else None
        self.join, self.index, self.joins = join, index, joins

    def forward(self, x):
        f = x
        for norm, conv in zip(self.norms, self.convs):
            f = conv(F.relu(norm(f)))
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.join(shortcut, f, self.index, self.joins)


class ResNetV2(nn.Module):
    def __init__(self, image, channels, classes, depths, width, bottleneck, residual):
        super().__init__()
        pooled = image >= LARGE_IMAGE
        self.stem = nn.Conv2d(channels, width, 7, 2, 3) if pooled else nn.Conv2d(channels, width, 3, 1, 1)
        self.pool = nn.MaxPool2d(3, 2, 1) if pooled else nn.Identity()
        self.norm = nn.BatchNorm2d(width)
        blocks, inputs = [], width
        for stage, depth in enumerate(depths):
            for place in range(depth):
                stride = 2 if stage > 0 and place == 0 else 1
                blocks.append(Block(inputs, width << stage, stride, bottleneck, JOINS[residual], len(blocks), sum(depths)))
                inputs = (width << stage) * (4 if bottleneck else 1)
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, classes)
        self.to(memory_format=torch.channels_last)

    def forward(self, image):
        x = F.relu(self.norm(self.stem(image.contiguous(memory_format=torch.channels_last))))
        return self.head(self.blocks(self.pool(x)).mean((2, 3)))
