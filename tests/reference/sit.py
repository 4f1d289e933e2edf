"""The float64 reference of the scalable interpolant transformer (Ma et al., ECCV 2024), of the skips that Zhang et al. (2025)
give it, and of its objective, written from their equations with the parameter names of willisma/SiT, and its goldens:
goldens/sit_MODEL_OPTION.safetensors, as pvt.py writes its own. `noise`, `time` and `drop` are what the loader draws; the
output `velocity` is that of the images themselves.
"""
import json
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

from generate import BOTH, FEW_BATCHES, SGD_RUNS, check_conditioned, float32_values, gradients_of, perturbed, train
from mae import sinusoids
from pvt import write_golden
from reference import Attention, Join, Memory, Mlp, PatchEmbed, Place, VisionTransformer

MODELS = {
    "none": dict(image=9, channels=2, patch=3, dim=12, depth=3, heads=3, mlp_ratio=1.5, classes=5, null_class=True,
                 learn_sigma=True, skips="none"),
    "unet": dict(image=6, channels=3, patch=2, dim=8, depth=5, heads=2, mlp_ratio=2.0, classes=3, null_class=True,
                 learn_sigma=False, skips="unet"),
    "bare": dict(image=6, channels=1, patch=3, dim=8, depth=2, heads=1, mlp_ratio=1.0, classes=4, null_class=False,
                 learn_sigma=False, skips="unet"),
}
BATCH = {"none": 3, "unet": 4, "bare": 2}
LABEL_DROP = {"none": 0.5, "unet": 0.3, "bare": 0.0}
SEEDS = {"none": 20240911, "unet": 1, "bare": 20240911}
OPTIONS = {"plain": ([], BOTH), "decay": (["decay:alpha_min=0.8"], SGD_RUNS)}


class Modulation(nn.Sequential):
    """`count` rows of silu(c), each [B, 1, dim]."""

    def __init__(self, dim, count):
        super().__init__(nn.SiLU(), nn.Linear(dim, count * dim))
        self.count = count

    def rows(self, c):
        return self(c)[:, None].chunk(self.count, -1)


class TimeEmbedder(nn.Module):
    def __init__(self, dim, waves=256):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(waves, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.frequencies = math.log(10000) * torch.arange(waves // 2, dtype=torch.float64) / (waves // 2)

    def forward(self, time):
        angle = time[:, None] * (-self.frequencies).exp().to(time.dtype)
        return self.mlp(torch.cat([angle.cos(), angle.sin()], 1))


class LabelEmbedder(nn.Module):
    def __init__(self, rows, dim):
        super().__init__()
        self.embedding_table = nn.Embedding(rows, dim)

    def forward(self, label):
        return self.embedding_table(label)


def normed(x):
    return F.layer_norm(x, x.shape[-1:], eps=1e-6)


class SitBlock(nn.Module):
    def __init__(self, dim, heads, hidden, skips, joins):
        super().__init__()
        self.join_attn, self.join_mlp = joins
        if skips:
            self.skip = nn.Linear(dim, dim)
        self.adaLN_modulation = Modulation(dim, 6)
        self.attn = Attention(dim, heads, True)
        self.mlp = Mlp(dim, hidden, "gelu_tanh")

    def forward(self, x, c):
        s1, a1, g1, s2, a2, g2 = self.adaLN_modulation.rows(c)
        u = normed(x) * (1 + a1) + s1
        x = self.join_attn(x, g1 * self.attn(u, self.join_attn), u, None)
        u = normed(x) * (1 + a2) + s2
        return self.join_mlp(x, g2 * self.mlp(u), u, None)


class FinalLayer(nn.Module):
    def __init__(self, dim, outputs):
        super().__init__()
        self.linear = nn.Linear(dim, outputs)
        self.adaLN_modulation = Modulation(dim, 2)

    def forward(self, x, c):
        shift, scale = self.adaLN_modulation.rows(c)
        return self.linear(normed(x) * (1 + scale) + shift)


class Sit(nn.Module):
    def __init__(self, image, channels, patch, dim, depth, heads, mlp_ratio, classes, null_class, learn_sigma, skips,
                 label_drop, plugins=()):
        super().__init__()
        self.channels, self.patch, self.side, self.classes = channels, patch, image // patch, classes
        self.outputs, self.label_drop = channels * (2 if learn_sigma else 1), label_drop
        self.kept = depth // 2 if skips == "unet" else 0
        memory = Memory()
        self.x_embedder = PatchEmbed(channels, dim, patch, True)
        self.t_embedder = TimeEmbedder(dim)
        self.y_embedder = LabelEmbedder(classes + null_class, dim)
        self.pos_embed = nn.Parameter(sinusoids(dim, self.side)[:, 1:], requires_grad=False)
        self.blocks = nn.ModuleList([SitBlock(
            dim, heads, int(dim * mlp_ratio), b >= depth - self.kept,
            [Join(plugins, Place(2 * b + i, 2 * depth, b, depth, dim, site), memory)
             for i, site in enumerate(("attn", "mlp"))]) for b in range(depth)])
        self.final_layer = FinalLayer(dim, patch**2 * self.outputs)

    draw = VisionTransformer.draw

    def forward(self, image, time, label):
        x = self.x_embedder(image) + self.pos_embed
        c = self.t_embedder(time) + self.y_embedder(label)
        skips = []
        for i, block in enumerate(self.blocks):
            if i >= len(self.blocks) - self.kept:
                x = x + block.skip(skips.pop())
            x = block(x, c)
            if i < self.kept:
                skips.append(x)
        x = self.final_layer(x, c).reshape(len(image), self.side, self.side, self.patch, self.patch, self.outputs)
        return torch.einsum("nhwpqc->nchpwq", x).reshape(len(image), self.outputs, *image.shape[2:])[:, :self.channels]

    def unpacked(self, packed, shape):
        """Time, dropping, label and noise of each image, which stand in one row."""
        return packed[:, 0], packed[:, 1], packed[:, 2].long(), packed[:, 3:].reshape(shape)

    def loss(self, image, packed):
        time, drop, label, noise = self.unpacked(packed, image.shape)
        seen = torch.where(drop < self.label_drop, self.classes, label)
        t = time[:, None, None, None]
        velocity = self(t * image + (1 - t) * noise, time, seen)
        return self(image, time, label), (velocity - (image - noise)).square().mean()


def make_case(name, option):
    plugins, runs = OPTIONS[option]
    options, label_drop = MODELS[name], LABEL_DROP[name]
    generator = torch.Generator().manual_seed(SEEDS[name])
    model = Sit(**options, label_drop=label_drop, plugins=plugins).double()
    table = model.pos_embed.detach().clone()
    perturbed(model, generator)
    model.pos_embed.data = float32_values(table)

    def drawn(function, *shape):
        return float32_values(function((FEW_BATCHES, BATCH[name], *shape), generator=generator, dtype=torch.float64))
    images, noise = (drawn(torch.randn, options["channels"], options["image"], options["image"]) for _ in range(2))
    time, drop = drawn(torch.rand), drawn(torch.rand)
    labels = torch.randint(options["classes"], time.shape, generator=generator)
    packed = torch.cat([time[..., None], drop[..., None], labels[..., None], noise.flatten(2)], -1)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    velocity = model.eval()(images[0], time[0], labels[0])
    _, loss, gradients = gradients_of(model, images[0], packed[0])
    tensors = {"images": images.float(), "noise": noise.float(), "time": time.float(), "labels": labels,
               "velocity": velocity.detach(), "loss": loss, "frozen/pos_embed": weights["pos_embed"].float()}
    if label_drop:
        tensors["drop"] = drop.float()
    for key, gradient in gradients.items():
        tensors["weight/" + key] = weights[key].float()
        tensors["gradient/" + key] = gradient
    for run, o in runs.items():
        model.load_state_dict(weights)
        losses, norms, rates = train(model, images, packed, {**o, "label_smoothing": 0.0}, 0)
        tensors.update({f"{run}/losses": losses, f"{run}/norms": norms, f"{run}/rates": rates})
        for key in gradients:
            tensors[f"{run}/weight/{key}"] = model.get_parameter(key).detach().float()
    check_conditioned(model, weights, images, packed, tensors, runs)
    runs = {run: {key: value for key, value in o.items() if key != "label_smoothing"} for run, o in runs.items()}
    case = {"family": "sit", "model": options, "objective": {"name": "diffusion", "label_drop": label_drop},
            "output": "velocity", "plugins": plugins, "runs": runs, "torch": torch.__version__}
    return {key: value.contiguous().clone() for key, value in tensors.items()}, {"case": json.dumps(case)}


def main():
    torch.set_num_threads(1)
    for model in MODELS:
        for option in OPTIONS:
            name = f"sit_{model}_{option}"
            if not sys.argv[1:] or any(name.startswith(prefix) for prefix in sys.argv[1:]):
                write_golden(name, *make_case(model, option))


if __name__ == "__main__":
    main()
