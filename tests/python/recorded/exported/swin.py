"""swin for PyTorch. Written by rewire … export.

    net = Net()
    net.load_state_dict(safetensors.torch.load_file("swin.safetensors"))

image: f32 [batch, 3, 32, 32]
The weights are those of a file.
"""

from fnmatch import fnmatch

import torch
import torch.nn.functional as F
from torch import nn

TABLE_0 = torch.tensor(
    [
        24, 23, 22, 21, 17, 16, 15, 14, 10, 9, 8, 7, 3, 2, 1, 0, 25, 24, 23, 22, 18, 17, 16, 15, 11, 10, 9, 8,
        4, 3, 2, 1, 26, 25, 24, 23, 19, 18, 17, 16, 12, 11, 10, 9, 5, 4, 3, 2, 27, 26, 25, 24, 20, 19, 18, 17,
        13, 12, 11, 10, 6, 5, 4, 3, 31, 30, 29, 28, 24, 23, 22, 21, 17, 16, 15, 14, 10, 9, 8, 7, 32, 31, 30,
        29, 25, 24, 23, 22, 18, 17, 16, 15, 11, 10, 9, 8, 33, 32, 31, 30, 26, 25, 24, 23, 19, 18, 17, 16, 12,
        11, 10, 9, 34, 33, 32, 31, 27, 26, 25, 24, 20, 19, 18, 17, 13, 12, 11, 10, 38, 37, 36, 35, 31, 30, 29,
        28, 24, 23, 22, 21, 17, 16, 15, 14, 39, 38, 37, 36, 32, 31, 30, 29, 25, 24, 23, 22, 18, 17, 16, 15,
        40, 39, 38, 37, 33, 32, 31, 30, 26, 25, 24, 23, 19, 18, 17, 16, 41, 40, 39, 38, 34, 33, 32, 31, 27,
        26, 25, 24, 20, 19, 18, 17, 45, 44, 43, 42, 38, 37, 36, 35, 31, 30, 29, 28, 24, 23, 22, 21, 46, 45,
        44, 43, 39, 38, 37, 36, 32, 31, 30, 29, 25, 24, 23, 22, 47, 46, 45, 44, 40, 39, 38, 37, 33, 32, 31,
        30, 26, 25, 24, 23, 48, 47, 46, 45, 41, 40, 39, 38, 34, 33, 32, 31, 27, 26, 25, 24,
    ],
    dtype=torch.int64,
).reshape((256,))


class PatchEmbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(3, 8, 4, stride=4)
        self.norm = nn.LayerNorm(8, eps=1e-05)

    def forward(self, x):
        return self.norm(self.proj(x).permute(0, 2, 3, 1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.relative_position_bias_table = nn.Parameter(torch.empty((49, 1)))
        self.qkv = nn.Linear(8, 24)
        self.proj = nn.Linear(8, 8)

    def forward(self, x):
        y, y_2, y_3 = self.qkv(x).unflatten(-1, (3, 1, 8)).permute(2, 0, 3, 1, 4).unbind(0)
        y_4 = self.relative_position_bias_table.index_select(0, TABLE_0.to(x.device))
        y = (y * 0.3535533905932738 @ y_2.transpose(2, 3) + y_4.unflatten(0, (16, 16)).permute(2, 0, 1)).softmax(3)
        return self.proj((y @ y_3).transpose(1, 2).squeeze(2))


class Mlp(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc1 = nn.Linear(in_features, out_features)
        self.fc2 = nn.Linear(out_features, in_features)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Attention2(nn.Module):
    def __init__(self):
        super().__init__()
        self.relative_position_bias_table = nn.Parameter(torch.empty((49, 1)))
        self.register_buffer("constant_table", torch.empty((1, 4, 1, 16, 16)))
        self.qkv = nn.Linear(8, 24)
        self.proj = nn.Linear(8, 8)

    def forward(self, x):
        y, y_2, y_3 = self.qkv(x).unflatten(-1, (3, 1, 8)).permute(2, 0, 3, 1, 4).unbind(0)
        y_4 = self.relative_position_bias_table.index_select(0, TABLE_0.to(x.device))
        y = y * 0.3535533905932738 @ y_2.transpose(2, 3) + y_4.unflatten(0, (16, 16)).permute(2, 0, 1)
        y = (y.unflatten(0, (-1, 4)) + self.constant_table).flatten(0, -4).softmax(3) @ y_3
        return self.proj(y.transpose(1, 2).squeeze(2))


class Downsample(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32, eps=1e-05)
        self.reduction = nn.Linear(32, 16, bias=False)

    def forward(self, x):
        norm = self.norm(x.reshape(-1, 4, 2, 4, 2, 8).permute(0, 1, 3, 4, 2, 5).flatten(3))
        return self.reduction(norm)


class Attention3(nn.Module):
    def __init__(self):
        super().__init__()
        self.relative_position_bias_table = nn.Parameter(torch.empty((49, 2)))
        self.qkv = nn.Linear(16, 48)
        self.proj = nn.Linear(16, 16)

    def forward(self, x):
        y, y_2, y_3 = self.qkv(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4).unbind(0)
        y_4 = self.relative_position_bias_table.index_select(0, TABLE_0.to(x.device))
        y = (y * 0.3535533905932738 @ y_2.transpose(2, 3) + y_4.unflatten(0, (16, 16)).permute(2, 0, 1)).softmax(3)
        return self.proj((y @ y_3).transpose(1, 2).flatten(2))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        return self.fc((x.sum((1, 2), keepdim=True) * 0.0625).squeeze((1, 2)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(8, eps=1e-05)
        self.attn = Attention()
        self.norm2 = nn.LayerNorm(8, eps=1e-05)
        self.mlp = Mlp(8, 16)

    def forward(self, x):
        y = self.norm1(x).reshape(-1, 2, 4, 2, 4, 8).transpose(2, 3).flatten(0, -4)
        y = self.attn(y.flatten(1, -2)).unflatten(1, (4, 4)).unflatten(0, (-1, 2, 2))
        x = (x + y.transpose(2, 3).reshape(-1, 8, 8, 8)).flatten(1, -2)
        return (x + self.mlp(self.norm2(x))).unflatten(1, (8, 8))


class Block2(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(8, eps=1e-05)
        self.attn = Attention2()
        self.norm2 = nn.LayerNorm(8, eps=1e-05)
        self.mlp = Mlp(8, 16)

    def forward(self, x):
        y, y_2 = self.norm1(x).split((2, 6), 1)
        y, y_2 = torch.cat((y_2, y), 1).split((2, 6), 2)
        y = torch.cat((y_2, y), 2).reshape(-1, 2, 4, 2, 4, 8).transpose(2, 3)
        y = self.attn(y.flatten(0, -4).flatten(1, -2)).unflatten(1, (4, 4))
        y, y_2 = y.unflatten(0, (-1, 2, 2)).transpose(2, 3).reshape(-1, 8, 8, 8).split((6, 2), 1)
        y, y_2 = torch.cat((y_2, y), 1).split((6, 2), 2)
        x = (x + torch.cat((y_2, y), 2)).flatten(1, -2)
        return (x + self.mlp(self.norm2(x))).unflatten(1, (8, 8))


class Block3(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(16, eps=1e-05)
        self.attn = Attention3()
        self.norm2 = nn.LayerNorm(16, eps=1e-05)
        self.mlp = Mlp(16, 32)

    def forward(self, x):
        y = self.norm1(x).unflatten(1, (1, 4, 1)).transpose(2, 3).squeeze((1, 2))
        y = self.attn(y.flatten(1, -2)).unflatten(1, (4, 4)).reshape(-1, 1, 1, 4, 4, 16)
        x = (x + y.transpose(2, 3).squeeze((1, 3))).flatten(1, -2)
        return (x + self.mlp(self.norm2(x))).unflatten(1, (4, 4))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block2()])

    def forward(self, x):
        x = self.blocks[0](x)
        x = self.blocks[1](x)
        return x


class Layer2(nn.Module):
    def __init__(self):
        super().__init__()
        self.downsample = Downsample()
        self.blocks = nn.ModuleList(Block3() for _ in range(2))

    def forward(self, x):
        x = self.downsample(x)
        for block in self.blocks:
            x = block(x)
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = PatchEmbed()
        self.layers = nn.ModuleList([Layer(), Layer2()])
        self.norm = nn.LayerNorm(16, eps=1e-05)
        self.head = Head()
        initialise(self)

    def forward(self, image):
        assert image.shape[1:] == (3, 32, 32), f"image: {tuple(image.shape)}"
        x = self.patch_embed(image)
        x = self.layers[0](x)
        x = self.layers[1](x)
        return self.head(self.norm(x))


INITIAL = {
    "patch_embed.proj.weight": (nn.init.normal_, 0.0, 0.087),
    "patch_embed.proj.bias": (nn.init.normal_, 0.0, 0.079),
    "patch_embed.norm.weight": (nn.init.ones_,),
    "patch_embed.norm.bias": (nn.init.uniform_, -0.036, 0.036),
    "layers.*.blocks.*.norm1.weight": (nn.init.ones_,),
    "layers.*.blocks.*.norm1.bias": (nn.init.uniform_, -0.04, 0.04),
    "layers.*.blocks.*.attn.qkv.weight": (nn.init.normal_, 0.0, 0.031),
    "layers.*.blocks.*.attn.qkv.bias": (nn.init.uniform_, -0.04, 0.04),
    "layers.*.blocks.*.attn.relative_position_bias_table": (nn.init.normal_, 0.0, 0.027),
    "layers.*.blocks.*.attn.proj.weight": (nn.init.normal_, 0.0, 0.029),
    "layers.*.blocks.*.attn.proj.bias": (nn.init.normal_, 0.0, 0.022),
    "layers.*.blocks.*.norm2.weight": (nn.init.constant_, 0.9900000095367432),
    "layers.*.blocks.*.norm2.bias": (nn.init.uniform_, -0.037, 0.037),
    "layers.*.blocks.*.mlp.fc1.weight": (nn.init.normal_, 0.0, 0.025),
    "layers.*.blocks.*.mlp.fc1.bias": (nn.init.normal_, 0.0, 0.016),
    "layers.*.blocks.*.mlp.fc2.weight": (nn.init.normal_, 0.0, 0.03),
    "layers.*.blocks.*.mlp.fc2.bias": (nn.init.normal_, 0.0, 0.023),
    "layers.0.blocks.1.norm1.bias": (nn.init.normal_, 0.0, 0.025),
    "layers.0.blocks.1.attn.qkv.bias": (nn.init.normal_, 0.0, 0.02),
    "layers.0.blocks.1.attn.relative_position_bias_table": (nn.init.normal_, 0.0, 0.029),
    "layers.*.blocks.*.attn.constant_table": (nn.init.zeros_,),
    "layers.0.blocks.1.attn.proj.weight": (nn.init.normal_, 0.0, 0.027),
    "layers.0.blocks.1.attn.proj.bias": (nn.init.normal_, 0.0, 0.018),
    "layers.0.blocks.1.norm2.weight": (nn.init.ones_,),
    "layers.0.blocks.1.norm2.bias": (nn.init.uniform_, -0.029, 0.029),
    "layers.0.blocks.1.mlp.fc1.weight": (nn.init.normal_, 0.0, 0.028),
    "layers.0.blocks.1.mlp.fc2.bias": (nn.init.uniform_, -0.036, 0.036),
    "layers.*.downsample.norm.weight": (nn.init.ones_,),
    "layers.*.downsample.norm.bias": (nn.init.normal_, 0.0, 0.014),
    "layers.*.downsample.reduction.weight": (nn.init.normal_, 0.0, 0.03),
    "layers.1.blocks.0.norm1.bias": (nn.init.normal_, 0.0, 0.02),
    "layers.1.blocks.0.attn.qkv.weight": (nn.init.normal_, 0.0, 0.028),
    "layers.1.blocks.0.attn.qkv.bias": (nn.init.normal_, 0.0, 0.019),
    "layers.1.blocks.0.attn.relative_position_bias_table": (nn.init.normal_, 0.0, 0.028),
    "layers.1.blocks.0.attn.proj.weight": (nn.init.normal_, 0.0, 0.03),
    "layers.1.blocks.0.attn.proj.bias": (nn.init.uniform_, -0.032, 0.032),
    "layers.1.blocks.0.norm2.weight": (nn.init.ones_,),
    "layers.1.blocks.0.norm2.bias": (nn.init.normal_, 0.0, 0.013),
    "layers.1.blocks.0.mlp.fc1.weight": (nn.init.normal_, 0.0, 0.027),
    "layers.1.blocks.0.mlp.fc2.weight": (nn.init.normal_, 0.0, 0.028),
    "layers.1.blocks.0.mlp.fc2.bias": (nn.init.uniform_, -0.037, 0.037),
    "layers.1.blocks.1.norm1.bias": (nn.init.normal_, 0.0, 0.016),
    "layers.1.blocks.1.attn.qkv.weight": (nn.init.normal_, 0.0, 0.029),
    "layers.1.blocks.1.attn.qkv.bias": (nn.init.normal_, 0.0, 0.019),
    "layers.1.blocks.1.attn.relative_position_bias_table": (nn.init.normal_, 0.0, 0.028),
    "layers.1.blocks.1.attn.proj.bias": (nn.init.uniform_, -0.035, 0.035),
    "layers.1.blocks.1.norm2.weight": (nn.init.ones_,),
    "layers.1.blocks.1.norm2.bias": (nn.init.normal_, 0.0, 0.02),
    "layers.1.blocks.1.mlp.fc1.weight": (nn.init.normal_, 0.0, 0.029),
    "layers.1.blocks.1.mlp.fc1.bias": (nn.init.normal_, 0.0, 0.024),
    "layers.1.blocks.1.mlp.fc2.weight": (nn.init.normal_, 0.0, 0.027),
    "layers.1.blocks.1.mlp.fc2.bias": (nn.init.normal_, 0.0, 0.013),
    "norm.weight": (nn.init.ones_,),
    "norm.bias": (nn.init.normal_, 0.0, 0.017),
    "head.fc.weight": (nn.init.normal_, 0.0, 0.031),
    "head.fc.bias": (nn.init.normal_, 0.0, 0.015),
}


def initialise(net):
    """Fills the weights as a run begins: from the same distributions."""
    with torch.no_grad():
        for name, weight in net.state_dict().items():
            rule = INITIAL.get(name) or next((INITIAL[pattern] for pattern in INITIAL if fnmatch(name, pattern)), None)
            if rule is None and weight.is_floating_point():
                raise KeyError(f"INITIAL has no first values for {name}")
            if rule is not None:
                rule[0](weight, *rule[1:])
