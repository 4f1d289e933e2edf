"""The float64 reference of the pyramid vision transformer (Wang et al., ICCV 2021), written from its equations with the
parameter names of its authors' code, and its goldens: goldens/pvt_MODEL_OPTION.safetensors, as generate.py writes
those of the ViT. Arguments, where there are any, are how the names of those begin that are written.
"""
import json
import math
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch import nn

from generate import (BOTH, FEW_BATCHES, SGD_RUNS, check_conditioned, float32_values, gradients_of, perturbed,
                      train)
from reference import Join, Memory, Mlp, Place, VisionTransformer

MODELS = {
    "two": dict(image=16, channels=1, classes=5, embed_dims=[8, 16], depths=[2, 1], num_heads=[1, 2],
                mlp_ratios=[2.0, 1.5], patch_sizes=[2, 2], sr_ratios=[2, 1]),
    "three": dict(image=12, channels=3, classes=3, embed_dims=[6, 9, 12], depths=[1, 2, 1], num_heads=[2, 3, 4],
                  mlp_ratios=[1.5, 1.2, 1.0], patch_sizes=[2, 3, 1], sr_ratios=[3, 1, 1]),
}
BATCH = {"two": 3, "three": 2}
# Without any shortcut the tokens of `three` become so alike that gradients of its last queries are 1e-9 of all,
# and PyTorch's own error of them in float32 is 6e-4.
LEFT_OUT = {("three", "skipless")}
BLOCKS = {"two": "4", "three": "3"}  # augment's, which divide the width of every stage
OPTIONS = {
    "plain": ([], BOTH),
    "decay": (["decay"], SGD_RUNS),
    "decay_learnable": (["decay:learnable=true"], BOTH),
    "orthogonal": (["orthogonal"], SGD_RUNS),
    "orthogonal_global": (["orthogonal:mode=global"], SGD_RUNS),
    "augment": (["augment:blocks=B"], BOTH),
    "augment_dense": (["augment:projection=dense,input=stream"], {}),
    "skipless": (["skipless:reinit=false"], SGD_RUNS),
    "skipless_mlp": (["skipless:reinit=false,sites=mlp"], SGD_RUNS),
    "layerscale": (["layerscale"], {}),
}


class ReducedAttention(nn.Module):
    """Keys and values are of maps that a convolution of extent and stride r has reduced."""

    def __init__(self, dim, heads, r):
        super().__init__()
        self.heads, self.r = heads, r
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.proj = nn.Linear(dim, dim)
        if r > 1:
            self.sr = nn.Conv2d(dim, dim, r, r)
            self.norm = nn.LayerNorm(dim)

    def forward(self, x, sides):
        b, n, d = x.shape
        by_head = lambda t: t.reshape(b, -1, self.heads, d // self.heads).transpose(1, 2)
        source = x
        if self.r > 1:
            maps = x.transpose(1, 2).reshape(b, d, *sides)
            source = self.norm(self.sr(maps).flatten(2).transpose(1, 2))
        k, v = self.kv(source).split(d, -1)
        scores = by_head(self.q(x)) @ by_head(k).transpose(-2, -1) / math.sqrt(d // self.heads)
        return self.proj((scores.softmax(-1) @ by_head(v)).transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, dim, heads, hidden, r, join_attn, join_mlp):
        super().__init__()
        self.join_attn, self.join_mlp = join_attn, join_mlp
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = ReducedAttention(dim, heads, r)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, hidden, "gelu")

    def forward(self, x, sides):
        """sides: rows and columns of the tokens' map."""
        u = self.join_attn.read(self.norm1, x)
        x = self.join_attn(x, self.attn(u, sides), u, self.norm1)
        u = self.join_mlp.read(self.norm2, x)
        return self.join_mlp(x, self.mlp(u), u, self.norm2)


class PatchEmbed(nn.Module):
    def __init__(self, channels, dim, patch):
        super().__init__()
        self.proj = nn.Conv2d(channels, dim, patch, patch)
        self.norm = nn.LayerNorm(dim)

    def forward(self, maps):
        return self.norm(self.proj(maps).flatten(2).transpose(1, 2))


class PyramidVisionTransformer(nn.Module):
    """One number a stage in each list; plugins: the strategies of the joins, as plugin specs."""

    def __init__(self, image, channels, classes, embed_dims, depths, num_heads, mlp_ratios, patch_sizes, sr_ratios,
                 plugins=()):
        super().__init__()
        self.sides, side, memory, first, last = [], image, Memory(), 0, len(depths) - 1
        for i, (dim, depth) in enumerate(zip(embed_dims, depths)):
            side //= patch_sizes[i]
            self.sides.append(side)
            setattr(self, f"patch_embed{i + 1}", PatchEmbed(channels, dim, patch_sizes[i]))
            if i == last:
                self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
            setattr(self, f"pos_embed{i + 1}", nn.Parameter(torch.zeros(1, side**2 + (i == last), dim)))
            blocks = [Block(dim, num_heads[i], int(dim * mlp_ratios[i]), sr_ratios[i],
                            *(Join(plugins, Place(2 * b + k, 2 * sum(depths), b, sum(depths), dim, site), memory)
                              for k, site in enumerate(("attn", "mlp")))) for b in range(first, first + depth)]
            setattr(self, f"block{i + 1}", nn.ModuleList(blocks))
            first, channels = first + depth, dim
        self.norm = nn.LayerNorm(embed_dims[-1], eps=1e-6)
        self.head = nn.Linear(embed_dims[-1], classes)

    draw = VisionTransformer.draw

    def forward(self, x):
        for i, side in enumerate(self.sides):
            x = getattr(self, f"patch_embed{i + 1}")(x)
            if i + 1 == len(self.sides):
                x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1)
            x = x + getattr(self, f"pos_embed{i + 1}")
            for block in getattr(self, f"block{i + 1}"):
                x = block(x, (side, side))
            if i + 1 < len(self.sides):
                x = x.transpose(1, 2).reshape(x.shape[0], -1, side, side)
        return self.head(self.norm(x)[:, 0])


def make_case(build, family, options, batch, plugins, runs, seed=0):
    """A golden of a model that `build` makes of its options and the plugins' specs."""
    generator = torch.Generator().manual_seed(20240607 + seed)
    model = build(**options, plugins=plugins).double()
    perturbed(model, generator)
    shape = (FEW_BATCHES if runs else 1, batch, options["channels"], options["image"], options["image"])
    images = float32_values(torch.randn(shape, generator=generator, dtype=torch.float64))
    labels = torch.randint(0, options["classes"], shape[:2], generator=generator)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    logits = model.eval()(images[0])
    _, loss, gradients = gradients_of(model, images[0], labels[0])
    tensors = {"images": images.float(), "labels": labels, "logits": logits.detach(), "loss": loss}
    for key, p in model.named_parameters():
        if p.requires_grad:
            tensors["weight/" + key] = p.detach().float()
            tensors["gradient/" + key] = gradients[key]
        else:
            tensors["frozen/" + key] = p.detach().float()
    for run, o in runs.items():
        model.load_state_dict(weights)
        losses, norms, rates = train(model, images, labels, o, 0)
        tensors.update({f"{run}/losses": losses, f"{run}/norms": norms, f"{run}/rates": rates})
        for key, p in model.named_parameters():
            if p.requires_grad:
                tensors[f"{run}/weight/{key}"] = p.detach().float()
    check_conditioned(model, weights, images, labels, tensors, runs)
    case = {"family": family, "model": options, "plugins": plugins, "runs": runs, "torch": torch.__version__}
    return {key: value.contiguous().clone() for key, value in tensors.items()}, {"case": json.dumps(case)}


def write_golden(name, tensors, metadata):
    path = pathlib.Path(__file__).parent / "goldens" / f"{name}.safetensors"
    save_file(tensors, path, metadata)
    path.chmod(0o644)
    print(f"{path.name}: {path.stat().st_size} bytes, loss {tensors['loss'].item():.6f}")


def main():
    torch.set_num_threads(1)
    for model, options in MODELS.items():
        for option, (plugins, runs) in OPTIONS.items():
            name = f"pvt_{model}_{option}"
            asked = not sys.argv[1:] or any(name.startswith(prefix) for prefix in sys.argv[1:])
            if (model, option) in LEFT_OUT or not asked:
                continue
            specs = [spec.replace("=B", "=" + BLOCKS[model]) for spec in plugins]
            write_golden(name, *make_case(PyramidVisionTransformer, "pvt", options, BATCH[model], specs, runs))


if __name__ == "__main__":
    main()
