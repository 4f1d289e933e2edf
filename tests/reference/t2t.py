"""The float64 reference of T2T-ViT (Yuan et al., ICCV 2021), written from its equations with the parameter names of its
authors' code, and its goldens: goldens/t2t_MODEL_OPTION.safetensors, as pvt.py writes its own.
"""
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

from generate import BOTH, SGD_RUNS
from pvt import make_case, write_golden
from reference import Join, Memory, Mlp, Place, VisionTransformer

MODELS = {
    "performer": dict(image=32, channels=1, classes=5, dim=16, depth=2, heads=2, mlp_ratio=1.5,
                      tokens_type="performer", token_dim=6, token_dropout=0),
    "transformer": dict(image=16, channels=2, classes=3, dim=9, depth=2, heads=3, mlp_ratio=1.2,
                        tokens_type="transformer", token_dim=5, token_dropout=0),
}
BATCH = {"performer": 3, "transformer": 2}
BLOCKS = {"performer": "4", "transformer": "3"}
# Other weights and images, where steps in float32 soon go their own way.
SEEDS = {("transformer", "plain"): 1, ("transformer", "decay"): 1}
OPTIONS = {
    "plain": ([], BOTH),
    "decay": (["decay"], SGD_RUNS),
    "decay_learnable": (["decay:learnable=true"], SGD_RUNS),
    "orthogonal": (["orthogonal"], SGD_RUNS),
    "orthogonal_global": (["orthogonal:mode=global"], SGD_RUNS),
    "augment": (["augment:blocks=B"], BOTH),
    "skipless": (["skipless"], SGD_RUNS),
}


class Performer(nn.Module):
    """Softmax attention by positive random features w, a plain sum with the values, and an MLP."""

    def __init__(self, channels, width):
        super().__init__()
        self.kqv = nn.Linear(channels, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.w = nn.Parameter(torch.zeros(width // 2, width), requires_grad=False)

    def features(self, x):
        return torch.exp(x @ self.w.T - x.square().sum(-1, keepdim=True) / 2) / math.sqrt(self.w.shape[0])

    def forward(self, x):
        k, q, v = self.kqv(self.norm1(x)).chunk(3, -1)
        scores = self.features(q) @ self.features(k).transpose(1, 2)  # [B, N, N]: another order of the products
        x = v + self.proj(scores @ v / (scores.sum(-1, keepdim=True) + 1e-8))
        return x + self.mlp(self.norm2(x))


class Attention(nn.Module):
    """Without biases of queries, keys and values."""

    def __init__(self, channels, width, heads, scale):
        super().__init__()
        self.heads, self.scale = heads, scale
        self.qkv = nn.Linear(channels, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)

    def values(self, x):
        by_head = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = self.qkv(x).chunk(3, -1)
        mixed = (by_head(q) @ by_head(k).transpose(-2, -1) * self.scale).softmax(-1) @ by_head(v)
        return self.proj(mixed.transpose(1, 2).flatten(2)), v

    def forward(self, x):
        return self.values(x)[0]


class TokenTransformer(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.norm1 = nn.LayerNorm(channels)
        self.attn = Attention(channels, width, 1, channels**-0.5)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = Mlp(width, width, "gelu")

    def forward(self, x):
        x = sum(self.attn.values(self.norm1(x)))
        return x + self.mlp(self.norm2(x))


class TokensToToken(nn.Module):
    def __init__(self, channels, width, dim, layer):
        super().__init__()
        self.attention1 = layer(49 * channels, width)
        self.attention2 = layer(9 * width, width)
        self.project = nn.Linear(9 * width, dim)

    def forward(self, image):
        x = F.unfold(image, 7, stride=4, padding=2).transpose(1, 2)
        for layer in (self.attention1, self.attention2):
            x = layer(x).transpose(1, 2)
            side = math.isqrt(x.shape[2])
            x = F.unfold(x.unflatten(2, (side, side)), 3, stride=2, padding=1).transpose(1, 2)
        return self.project(x)


class Block(nn.Module):
    def __init__(self, dim, heads, hidden, join_attn, join_mlp):
        super().__init__()
        self.join_attn, self.join_mlp = join_attn, join_mlp
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, dim, heads, (dim // heads) ** -0.5)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, hidden, "gelu")

    def forward(self, x):
        u = self.join_attn.read(self.norm1, x)
        x = self.join_attn(x, self.attn(u), u, self.norm1)
        u = self.join_mlp.read(self.norm2, x)
        return self.join_mlp(x, self.mlp(u), u, self.norm2)


class T2TViT(nn.Module):
    def __init__(self, image, channels, classes, dim, depth, heads, mlp_ratio, tokens_type, token_dim, token_dropout=0,
                 plugins=()):
        super().__init__()
        layer = {"performer": Performer, "transformer": TokenTransformer}[tokens_type]
        self.tokens_to_token = TokensToToken(channels, token_dim, dim, layer)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        # Sinusoids in a fresh network; here any numbers, which a file brings.
        self.pos_embed = nn.Parameter(torch.zeros(1, (image // 16) ** 2 + 1, dim), requires_grad=False)
        memory = Memory()
        self.blocks = nn.ModuleList([
            Block(dim, heads, int(dim * mlp_ratio),
                  *(Join(plugins, Place(2 * b + i, 2 * depth, b, depth, dim, site), memory)
                    for i, site in enumerate(("attn", "mlp")))) for b in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    draw = VisionTransformer.draw

    def forward(self, image):
        x = self.tokens_to_token(image)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def main():
    torch.set_num_threads(1)
    for model, options in MODELS.items():
        for option, (plugins, runs) in OPTIONS.items():
            name = f"t2t_{model}_{option}"
            if sys.argv[1:] and not any(name.startswith(prefix) for prefix in sys.argv[1:]):
                continue
            specs = [spec.replace("=B", "=" + BLOCKS[model]) for spec in plugins]
            seed = SEEDS.get((model, option), 0)
            write_golden(name, *make_case(T2TViT, "t2t_vit", options, BATCH[model], specs, runs, seed))


if __name__ == "__main__":
    main()
