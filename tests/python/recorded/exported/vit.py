"""vit_tiny_28 with gain for PyTorch. Written by rewire … export.

    net = Net()
    net.load_state_dict(safetensors.torch.load_file("vit.safetensors"))

image: f32 [batch, 1, 28, 28]
The weights are those with which a run begins, by seed 0.
Random numbers have the same distributions as in a run, and are others.
"""

from fnmatch import fnmatch

import torch
import torch.nn.functional as F
from torch import nn


def drop_path(x, rate, training):
    """Drops whole samples with probability `rate` in training, and scales up what stays."""
    if not training or rate == 0.0:
        return x
    keep = 1.0 - rate
    mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
    return x * mask / keep


class PatchEmbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(1, 24, 4, stride=4)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(24, 72)
        self.proj = nn.Linear(24, 24)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 8)).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(F.scaled_dot_product_attention(q, k, v, scale=0.35355339059327373).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(24, 96)
        self.fc2 = nn.Linear(96, 24)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Attention2(nn.Module):
    def __init__(self, drop_path):
        super().__init__()
        self.drop_path = drop_path
        self.qkv = nn.Linear(24, 72)
        self.proj = nn.Linear(24, 24)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 8)).permute(2, 0, 3, 1, 4).unbind(0)
        proj = self.proj(F.scaled_dot_product_attention(q, k, v, scale=0.35355339059327373).transpose(1, 2).flatten(2))
        return drop_path(proj, self.drop_path, self.training)


class Mlp2(nn.Module):
    def __init__(self, drop_path):
        super().__init__()
        self.drop_path = drop_path
        self.fc1 = nn.Linear(24, 96)
        self.fc2 = nn.Linear(96, 24)

    def forward(self, x):
        return drop_path(self.fc2(F.gelu(self.fc1(x))), self.drop_path, self.training)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(24, eps=1e-06)
        self.attn = Attention()
        self.norm2 = nn.LayerNorm(24, eps=1e-06)
        self.mlp = Mlp()

    def gain(self, f):
        """gain 1.2.3: scales one term of the join

        Values: factor=2 power=1 negate=false slot=branch note= sites=all layers=all stages=all scope=encoder from_epoch=0 to_epoch=end
        Library: SHA-256 …
        """
        return f * 2

    def forward(self, x):
        x = x + self.gain(self.attn(self.norm1(x)))
        return x + self.gain(self.mlp(self.norm2(x)))


class Block2(nn.Module):
    def __init__(self, drop_path):
        super().__init__()
        self.norm1 = nn.LayerNorm(24, eps=1e-06)
        self.attn = Attention2(drop_path)
        self.norm2 = nn.LayerNorm(24, eps=1e-06)
        self.mlp = Mlp2(drop_path)

    def gain(self, f):
        """gain 1.2.3: scales one term of the join

        Values: factor=2 power=1 negate=false slot=branch note= sites=all layers=all stages=all scope=encoder from_epoch=0 to_epoch=end
        Library: SHA-256 …
        """
        return f * 2

    def forward(self, x):
        x = x + self.gain(self.attn(self.norm1(x)))
        return x + self.gain(self.mlp(self.norm2(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cls_token = nn.Parameter(torch.empty((1, 1, 24)))
        self.pos_embed = nn.Parameter(torch.empty((1, 50, 24)))
        self.patch_embed = PatchEmbed()
        self.blocks = nn.ModuleList([Block(), Block2(0.05), Block2(0.1)])
        self.norm = nn.LayerNorm(24, eps=1e-06)
        self.head = nn.Linear(24, 10)
        initialise(self)

    def forward(self, image):
        assert image.shape[1:] == (1, 28, 28), f"image: {tuple(image.shape)}"
        y = torch.cat((self.cls_token.expand(image.shape[0], -1, -1), self.patch_embed(image)), 1)
        x = y + self.pos_embed
        x = self.blocks[0](x)
        for block in self.blocks[1:]:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


INITIAL = {
    "cls_token": (nn.init.normal_, 0.0, 1e-06),
    "pos_embed": (nn.init.trunc_normal_, 0.0, 0.02, -2.0, 2.0),
    "patch_embed.proj.weight": (nn.init.uniform_, -0.25, 0.25),
    "patch_embed.proj.bias": (nn.init.uniform_, -0.25, 0.25),
    "blocks.*.norm1.weight": (nn.init.ones_,),
    "blocks.*.norm1.bias": (nn.init.zeros_,),
    "blocks.*.attn.qkv.weight": (nn.init.trunc_normal_, 0.0, 0.02, -2.0, 2.0),
    "blocks.*.attn.qkv.bias": (nn.init.zeros_,),
    "blocks.*.attn.proj.weight": (nn.init.trunc_normal_, 0.0, 0.02, -2.0, 2.0),
    "blocks.*.attn.proj.bias": (nn.init.zeros_,),
    "blocks.*.norm2.weight": (nn.init.ones_,),
    "blocks.*.norm2.bias": (nn.init.zeros_,),
    "blocks.*.mlp.fc1.weight": (nn.init.trunc_normal_, 0.0, 0.02, -2.0, 2.0),
    "blocks.*.mlp.fc1.bias": (nn.init.zeros_,),
    "blocks.*.mlp.fc2.weight": (nn.init.trunc_normal_, 0.0, 0.02, -2.0, 2.0),
    "blocks.*.mlp.fc2.bias": (nn.init.zeros_,),
    "norm.weight": (nn.init.ones_,),
    "norm.bias": (nn.init.zeros_,),
    "head.weight": (nn.init.trunc_normal_, 0.0, 0.02, -2.0, 2.0),
    "head.bias": (nn.init.zeros_,),
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
