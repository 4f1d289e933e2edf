"""The float64 reference of the masked autoencoder (He et al., CVPR 2022) and of the networks that Zhang et al. (2025) make of
it, written from their equations with the parameter names of facebookresearch/mae, and its goldens:
goldens/mae_MODEL_OPTION.safetensors, as pvt.py writes its own. `noise` is what the patches are ordered by.
"""
import json
import sys

import torch
import torch.nn.functional as F
from torch import nn

from generate import FEW_BATCHES, BOTH, SGD_RUNS, check_conditioned, float32_values, gradients_of, perturbed, train
from pvt import write_golden
from reference import Block, Join, Memory, PatchEmbed, Place, VisionTransformer, settled, undecayed

MODELS = {
    "none": dict(image=12, channels=1, patch=3, dim=16, depth=3, heads=2, mlp_ratio=2.0, mask_ratio=0.75, skips="none",
                 decoder_dim=12, decoder_depth=2, decoder_heads=3),
    "unet": dict(image=9, channels=3, patch=3, dim=12, depth=4, heads=3, mlp_ratio=1.5, mask_ratio=0.6, skips="unet",
                 decoder_dim=16, decoder_depth=3, decoder_heads=2),
    "paper": dict(image=15, channels=2, patch=5, dim=8, depth=5, heads=2, mlp_ratio=2.0, mask_ratio=0.5,
                  skips="unet_paper", decoder_dim=8, decoder_depth=1, decoder_heads=1),
}
BATCH = {"none": 3, "unet": 2, "paper": 3}
NORMALISES = {"none": True, "unet": True, "paper": False}
OPTIONS = {
    "plain": ([], BOTH),
    "decay": (["decay"], SGD_RUNS),
    "orthogonal": (["orthogonal"], SGD_RUNS),
    "augment": (["augment:blocks=4"], SGD_RUNS),
    "skipless": (["skipless"], SGD_RUNS),
}


def sinusoids(width, side):
    """[1, 1 + side^2, width]: nothing, then each place, the column's half and the row's."""
    frequency = 10000.0 ** -(torch.arange(width // 4, dtype=torch.float64) / (width / 4))
    at = torch.arange(side, dtype=torch.float64)[:, None] * frequency
    one = torch.cat([at.sin(), at.cos()], 1)
    grid = torch.cat([one.repeat(side, 1), one.repeat_interleave(side, 0)], 1)
    return torch.cat([torch.zeros(1, width, dtype=torch.float64), grid])[None]


class Skip(nn.Module):
    def __init__(self, dim, width, kind):
        super().__init__()
        self.mask_token = undecayed(torch.zeros(1, 1, dim))
        if kind == "unet":
            self.fc1, self.fc2 = nn.Linear(dim + width, width), nn.Linear(width, width)
        else:
            self.proj = nn.Linear(dim + width, width)

    def forward(self, x, u):
        both = torch.cat([u, x], -1)
        return self.proj(both) if hasattr(self, "proj") else x + self.fc2(F.silu(self.fc1(both)))


class MaskedAutoencoder(nn.Module):
    def __init__(self, image, channels, patch, dim, depth, heads, mlp_ratio, mask_ratio, skips, decoder_dim,
                 decoder_depth, decoder_heads, norm_pix_loss, plugins=()):
        super().__init__()
        self.patch, self.skips, self.norm_pix_loss, side = patch, skips, norm_pix_loss, image // patch
        self.patches = side**2
        self.kept = int(self.patches * (1 - mask_ratio))
        memory, o = Memory(), settled({})

        def frozen(table):
            return nn.Parameter(table, requires_grad=False)

        def blocks(width, count, of, specs):
            return nn.ModuleList([Block(width, of, int(width * mlp_ratio), o,
                                        *(Join(specs, Place(2 * b + i, 2 * count, b, count, width, site), memory)
                                          for i, site in enumerate(("attn", "mlp")))) for b in range(count)])
        self.patch_embed = PatchEmbed(channels, dim, patch, True)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = frozen(sinusoids(dim, side))
        self.blocks = blocks(dim, depth, heads, plugins)
        self.decoder_pos_embed = frozen(sinusoids(decoder_dim, side))
        if skips == "unet":
            self.decoder_cls_token = undecayed(torch.zeros(1, 1, decoder_dim))
            self.decoder_embed = nn.Linear(decoder_dim, decoder_dim)
        else:
            self.norm = nn.LayerNorm(dim, eps=1e-6)
            self.decoder_embed = nn.Linear(dim, decoder_dim)
            self.mask_token = undecayed(torch.zeros(1, 1, decoder_dim))
        count = 0 if skips == "none" else min(decoder_depth, depth // 2)
        self.decoder_skips = nn.ModuleList([Skip(dim, decoder_dim, skips) for _ in range(count)])
        self.decoder_blocks = blocks(decoder_dim, decoder_depth, decoder_heads, [])
        self.decoder_norm = nn.LayerNorm(decoder_dim, eps=1e-6)
        self.decoder_pred = nn.Linear(decoder_dim, patch**2 * channels)

    draw = VisionTransformer.draw

    def forward(self, image, noise):
        batch, order = image.shape[0], noise.argsort(dim=1, stable=True)
        restore = order.argsort(dim=1)
        mask = (restore >= self.kept).to(image.dtype)

        def rows(x, index):
            return x.gather(1, index[:, :, None].expand(-1, -1, x.shape[2]))

        def fill_up(x, token):
            known = torch.cat([x[:, 1:], token.expand(batch, self.patches - self.kept, -1)], 1)
            return torch.cat([x[:, :1], rows(known, restore)], 1)
        x = rows(self.patch_embed(image) + self.pos_embed[:, 1:], order[:, :self.kept])
        x = torch.cat([(self.cls_token + self.pos_embed[:, :1]).expand(batch, -1, -1), x], 1)
        outputs = []
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        if self.skips == "unet":
            start = torch.cat([self.decoder_cls_token, self.decoder_pos_embed[:, 1:]], 1)
            x = self.decoder_embed(start).expand(batch, -1, -1)
        else:
            x = fill_up(self.decoder_embed(self.norm(x)), self.mask_token) + self.decoder_pos_embed
        for j, block in enumerate(self.decoder_blocks):
            if j < len(self.decoder_skips):
                skip = self.decoder_skips[j]
                x = skip(x, fill_up(outputs[len(outputs) - 1 - 2 * j], skip.mask_token))
            x = block(x)
        return self.decoder_pred(self.decoder_norm(x))[:, 1:], mask

    def loss(self, image, noise):
        prediction, mask = self(image, noise)
        b, c, p, side = image.shape[0], image.shape[1], self.patch, image.shape[2] // self.patch
        target = image.reshape(b, c, side, p, side, p).permute(0, 2, 4, 3, 5, 1).reshape(b, side**2, -1)
        if self.norm_pix_loss:
            target = (target - target.mean(-1, keepdim=True)) / (target.var(-1, keepdim=True) + 1e-6).sqrt()
        each = (prediction - target).square().mean(-1)
        return prediction, (each * mask).sum() / mask.sum()


def make_case(name, option):
    plugins, runs = OPTIONS[option]
    options, normalises = MODELS[name], NORMALISES[name]
    generator = torch.Generator().manual_seed(20240607)
    model = MaskedAutoencoder(**options, norm_pix_loss=normalises, plugins=plugins).double()
    tables = {key: p.detach().clone() for key, p in model.named_parameters() if not p.requires_grad}
    perturbed(model, generator)
    for key, table in tables.items():
        model.get_parameter(key).data = float32_values(table)
    batches = FEW_BATCHES if runs else 1
    shape = (batches, BATCH[name], options["channels"], options["image"], options["image"])
    images = float32_values(torch.randn(shape, generator=generator, dtype=torch.float64))
    noise = float32_values(torch.rand((batches, BATCH[name], model.patches), generator=generator, dtype=torch.float64))
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    prediction = model.eval()(images[0], noise[0])[0]
    _, loss, gradients = gradients_of(model, images[0], noise[0])
    tensors = {"images": images.float(), "noise": noise.float(), "prediction": prediction.detach(), "loss": loss}
    for key, gradient in gradients.items():
        tensors["weight/" + key] = weights[key].float()
        tensors["gradient/" + key] = gradient
    for key in tables:
        tensors["frozen/" + key] = weights[key].float()
    for run, o in runs.items():
        model.load_state_dict(weights)
        losses, norms, rates = train(model, images, noise, {**o, "label_smoothing": 0.0}, 0)
        tensors.update({f"{run}/losses": losses, f"{run}/norms": norms, f"{run}/rates": rates})
        for key in gradients:
            tensors[f"{run}/weight/{key}"] = model.get_parameter(key).detach().float()
    check_conditioned(model, weights, images, noise, tensors, runs)
    runs = {run: {key: value for key, value in o.items() if key != "label_smoothing"} for run, o in runs.items()}
    case = {"family": "mae", "model": options, "objective": {"name": "mae", "norm_pix_loss": normalises},
            "output": "prediction", "plugins": plugins, "runs": runs, "torch": torch.__version__}
    return {key: value.contiguous().clone() for key, value in tensors.items()}, {"case": json.dumps(case)}


def main():
    torch.set_num_threads(1)
    for model in MODELS:
        for option in OPTIONS:
            name = f"mae_{model}_{option}"
            if not sys.argv[1:] or any(name.startswith(prefix) for prefix in sys.argv[1:]):
                write_golden(name, *make_case(model, option))


if __name__ == "__main__":
    main()
