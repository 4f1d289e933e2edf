"""The peers of the families mae and dino, plainly written: the masked autoencoder (He et al., CVPR 2022) and DINO's student and
teacher (Caron et al., ICCV 2021), of pytorch_step.py's blocks. Each has `inputs`, which draws a step's, `loss` of them, and
`after_step`.
"""
import copy

import torch
import torch.nn.functional as F
from torch import nn


def make(family, block, join, shape):
    return {"mae": MaskedAutoencoder, "dino": SelfDistillation}[family](block, join, **shape)


def blocks(block, join, dim, depth, heads):
    return nn.Sequential(*[block(dim, heads, join, index, depth) for index in range(depth)])


class MaskedAutoencoder(nn.Module):
    def __init__(self, block, join, plain_join, image, channels, patch, dim, depth, heads, decoder_dim, decoder_depth,
                 decoder_heads):
        super().__init__()
        self.patch, self.patches, pixels = patch, (image // patch) ** 2, channels * patch * patch
        self.kept, self.shape = int(self.patches * 0.25), (channels, image, image)
        self.proj = nn.Conv2d(channels, dim, patch, patch)
        self.cls_token, self.mask_token = nn.Parameter(torch.zeros(1, 1, dim)), nn.Parameter(torch.zeros(1, 1, decoder_dim))
        self.register_buffer("pos_embed", 0.1 * torch.randn(1, self.patches + 1, dim))
        self.register_buffer("decoder_pos_embed", 0.1 * torch.randn(1, self.patches + 1, decoder_dim))
        self.blocks, self.norm = blocks(block, join, dim, depth, heads), nn.LayerNorm(dim, eps=1e-6)
        self.decoder_embed = nn.Linear(dim, decoder_dim)
        self.decoder_blocks = blocks(block, plain_join, decoder_dim, decoder_depth, decoder_heads)
        self.decoder_norm, self.decoder_pred = nn.LayerNorm(decoder_dim, eps=1e-6), nn.Linear(decoder_dim, pixels)

    def inputs(self, batch, device):
        return torch.randn(batch, *self.shape, device=device), torch.rand(batch, self.patches, device=device)

    def loss(self, image, noise):
        b, p = image.shape[0], self.patch
        order = noise.argsort(dim=1)
        places = order.argsort(dim=1)
        mask = (places >= self.kept).to(image.dtype)

        def rows(x, index):
            return x.gather(1, index[:, :, None].expand(-1, -1, x.shape[2]))
        x = self.proj(image).flatten(2).transpose(1, 2) + self.pos_embed[:, 1:]
        cls = (self.cls_token + self.pos_embed[:, :1]).expand(b, -1, -1)
        x = self.decoder_embed(self.norm(self.blocks(torch.cat([cls, rows(x, order[:, :self.kept])], 1))))
        known = torch.cat([x[:, 1:], self.mask_token.expand(b, self.patches - self.kept, -1)], 1)
        x = torch.cat([x[:, :1], rows(known, places)], 1) + self.decoder_pos_embed
        prediction = self.decoder_pred(self.decoder_norm(self.decoder_blocks(x)))[:, 1:].float()
        c, side = image.shape[1], image.shape[2] // p
        target = image.reshape(b, c, side, p, side, p).permute(0, 2, 4, 3, 5, 1).reshape(b, side * side, -1)
        target = (target - target.mean(-1, keepdim=True)) / (target.var(-1, keepdim=True) + 1e-6).sqrt()
        return ((prediction - target).square().mean(-1) * mask).sum() / mask.sum()

    def after_step(self):
        pass


class Student(nn.Module):
    def __init__(self, block, join, image, channels, patch, dim, depth, heads, hidden_dim, bottleneck_dim, out_dim):
        super().__init__()
        self.proj, self.patch = nn.Conv2d(channels, dim, patch, patch), patch
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, (image // patch) ** 2 + 1, dim))
        self.blocks, self.norm = blocks(block, join, dim, depth, heads), nn.LayerNorm(dim, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden_dim), nn.GELU(), nn.Linear(hidden_dim, hidden_dim), nn.GELU(),
                                 nn.Linear(hidden_dim, bottleneck_dim))
        self.weight_v = nn.Parameter(0.1 * torch.randn(out_dim, bottleneck_dim))

    def forward(self, image):
        side, grid = image.shape[-1] // self.patch, int((self.pos_embed.shape[1] - 1) ** 0.5)
        positions = self.pos_embed
        if side != grid:
            table = positions[:, 1:].reshape(1, grid, grid, -1).permute(0, 3, 1, 2)
            table = F.interpolate(table, size=(side, side), mode="bicubic")
            positions = torch.cat([positions[:, :1], table.permute(0, 2, 3, 1).reshape(1, side * side, -1)], 1)
        x = torch.cat([self.cls_token.expand(len(image), -1, -1), self.proj(image).flatten(2).transpose(1, 2)], 1) + positions
        h = F.normalize(self.mlp(self.norm(self.blocks(x))[:, 0]), dim=-1)
        return F.linear(h, F.normalize(self.weight_v, dim=-1))


class SelfDistillation(nn.Module):
    """Two global views and `local_crops` local ones."""

    def __init__(self, block, join, plain_join, local_crops, local_size, **shape):
        super().__init__()
        self.student = Student(block, join, **shape)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.register_buffer("center", torch.zeros(1, shape["out_dim"]))
        self.channels, self.image, self.local = shape["channels"], shape["image"], (local_crops, local_size)

    def inputs(self, batch, device):
        crops, side = self.local
        return (torch.randn(2 * batch, self.channels, self.image, self.image, device=device),
                torch.randn(crops * batch, self.channels, side, side, device=device))

    def loss(self, views, local):
        b = views.shape[0] // 2
        seen, crops = self.student(views).float() / 0.1, self.student(local).float() / 0.1
        with torch.no_grad():
            told = self.teacher(views).float()
            q = ((told - self.center) / 0.04).softmax(-1)
            self.told = told.mean(0, keepdim=True)
        first, second = q[:b], q[b:]
        costs = -(torch.cat([second, first]) * seen.log_softmax(-1)).sum()
        costs = costs - ((first + second) * crops.log_softmax(-1).reshape(-1, b, q.shape[1])).sum()
        return costs / (b * (2 + 2 * self.local[0]))

    def after_step(self):
        with torch.no_grad():
            self.center.mul_(0.9).add_(self.told, alpha=0.1)
            torch._foreach_lerp_(list(self.teacher.parameters()), list(self.student.parameters()), 0.01)
