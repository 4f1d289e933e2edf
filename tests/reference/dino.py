"""The float64 reference of self-distillation (Caron et al., ICCV 2021), written from its equations with the parameter names of
facebookresearch/dino, and its goldens: goldens/dino_MODEL_OPTION.safetensors, as mae.py writes its own. `input/NAME` is what
a step takes, [N, views, B, C, S, S]; `images` are the two global views of the first batch as one.
"""
import json
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

from generate import float32_values, perturbed
from pvt import write_golden
from reference import VisionTransformer

STEPS = 5
MODELS = {
    "even": dict(image=8, channels=1, patch=4, dim=12, depth=2, heads=2, mlp_ratio=2.0, hidden_dim=16, bottleneck_dim=6,
                 out_dim=9, norm_last_layer=False),
    "odd": dict(image=15, channels=2, patch=3, dim=15, depth=3, heads=3, mlp_ratio=1.5, hidden_dim=11, bottleneck_dim=7,
                out_dim=13, norm_last_layer=True),
}
BATCH = {"even": 4, "odd": 3}
OBJECTIVES = {
    "even": dict(local_crops=2, local_size=4, student_temp=0.1, teacher_temp=0.07, warmup_teacher_temp=0.04,
                 warmup_teacher_temp_epochs=2, center_momentum=0.9, freeze_last_layer=1),
    "odd": dict(local_crops=3, local_size=9, student_temp=0.2, teacher_temp=0.1, warmup_teacher_temp=0.1,
                warmup_teacher_temp_epochs=0, center_momentum=0.8, freeze_last_layer=0),
}
OPTIONS = {"plain": [], "decay": ["decay"], "decay_learnable": ["decay:learnable=true"], "orthogonal": ["orthogonal"],
           "augment": ["augment:blocks=3"], "skipless": ["skipless"]}
# Two epochs. The bound of gradients is one that most of them exceed.
RUN = dict(optimizer="adamw", lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.04, weight_decay_end=0.4,
           decay="matrices", schedule="constant", total_steps=STEPS, steps_per_epoch=2.5, clip_norm=0.05, clip="each",
           ema=0.9, ema_end=1.0)


class Backbone(VisionTransformer):
    def __init__(self, **options):
        super().__init__(classes=1, pool="token", **options)
        self.head = nn.Identity()
        self.patch = options["patch"]

    def forward(self, image):
        own, side, grid = self.pos_embed, image.shape[-1] // self.patch, math.isqrt(self.pos_embed.shape[1] - 1)
        positions = own
        if side != grid:
            table = own[:, 1:].reshape(1, grid, grid, -1).permute(0, 3, 1, 2)
            scale = (side + 0.1) / grid
            table = F.interpolate(table, scale_factor=(scale, scale), mode="bicubic")
            positions = torch.cat([own[:, :1], table.permute(0, 2, 3, 1).reshape(1, side * side, -1)], 1)
        x = torch.cat([self.cls_token.expand(len(image), -1, -1), self.patch_embed(image)], 1) + positions
        return self.norm(self.blocks(x))[:, 0]


class LastLayer(nn.Module):
    def __init__(self, width, out, trains):
        super().__init__()
        self.weight_g = nn.Parameter(torch.ones(out, 1), requires_grad=trains)
        self.weight_v = nn.Parameter(torch.zeros(out, width))

    def forward(self, x):
        return x @ (self.weight_g * self.weight_v / self.weight_v.norm(dim=1, keepdim=True)).T


class Head(nn.Module):
    def __init__(self, dim, hidden, bottleneck, out, norm_last_layer):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(),
                                 nn.Linear(hidden, bottleneck))
        self.last_layer = LastLayer(bottleneck, out, not norm_last_layer)

    def forward(self, x):
        return self.last_layer(F.normalize(self.mlp(x), dim=-1))


class Network(nn.Module):
    def __init__(self, hidden_dim, bottleneck_dim, out_dim, norm_last_layer, plugins, **options):
        super().__init__()
        self.backbone = Backbone(plugins=plugins, **options)
        self.head = Head(options["dim"], hidden_dim, bottleneck_dim, out_dim, norm_last_layer)

    def forward(self, image):
        return self.head(self.backbone(image))


def distillation(student, teacher, center, views, o, temperature):
    """The loss of one batch, and the teacher's projections."""
    b = views["global1"].shape[1]
    both = torch.cat([views["global1"], views["global2"]]).flatten(0, 1)
    seen = list(student(both).split(b)) + list(student(views["local"].flatten(0, 1)).split(b))
    with torch.no_grad():
        told = teacher(both)
    targets = ((told - center) / temperature).softmax(-1).split(b)
    costs = [-(q * (z / o["student_temp"]).log_softmax(-1)).sum(-1).mean()
             for t, q in enumerate(targets) for s, z in enumerate(seen) if s != t]
    return sum(costs) / len(costs), told


def temperature_at(epoch, o):
    n = o["warmup_teacher_temp_epochs"]
    table = torch.linspace(o["warmup_teacher_temp"], o["teacher_temp"], n, dtype=torch.float64).tolist() if n else []
    return table[epoch] if epoch < n else o["teacher_temp"]


def wave(step, start, end):
    return end + (start - end) * (1 + math.cos(math.pi * step / STEPS)) / 2


def decays(name, p):
    return getattr(p, "decays", p.ndim > 1 and name.split(".")[-1] not in ("cls_token", "pos_embed"))


def train(student, teacher, batches, o):
    center = torch.zeros(1, o["out"], dtype=torch.float64)
    named = [(name, p) for name, p in student.named_parameters() if p.requires_grad]
    groups = [{"params": [p for name, p in named if decays(name, p) is on]} for on in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=RUN["lr"], betas=(RUN["beta1"], RUN["beta2"]), eps=RUN["eps"])
    losses, norms = [], []
    for step in range(STEPS):
        epoch = int(step / RUN["steps_per_epoch"])
        for group, on in zip(optimizer.param_groups, (True, False)):
            group["weight_decay"] = wave(step, RUN["weight_decay"], RUN["weight_decay_end"]) if on else 0.0
        optimizer.zero_grad()
        loss, told = distillation(student, teacher, center, batches[step], o, temperature_at(epoch, o))
        loss.backward()
        norms.append(torch.stack([p.grad.norm() for _, p in named]).norm())
        for name, p in named:
            p.grad *= min(1.0, RUN["clip_norm"] / (p.grad.norm().item() + 1e-6))
            if "last_layer" in name and epoch < o["freeze_last_layer"]:
                p.grad = None
        optimizer.step()
        center = center * o["center_momentum"] + told.mean(0, keepdim=True) * (1 - o["center_momentum"])
        momentum = wave(step, RUN["ema"], RUN["ema_end"])
        with torch.no_grad():
            for mean, p in zip(teacher.parameters(), student.parameters()):
                mean.mul_(momentum).add_(p, alpha=1 - momentum)
        losses.append(loss.detach())
    rates = torch.full((STEPS,), RUN["lr"], dtype=torch.float64)
    return torch.stack(losses), torch.stack(norms), rates, center


def make_case(name, option):
    generator = torch.Generator().manual_seed(20240608)
    options, o, batch = MODELS[name], OBJECTIVES[name], BATCH[name]
    model, teacher = (Network(**options, plugins=OPTIONS[option]).double() for _ in range(2))
    perturbed(model, generator)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    teacher.load_state_dict(weights)

    def draw(count, side):
        shape = (STEPS, count, batch, options["channels"], side, side)
        return float32_values(torch.randn(shape, generator=generator, dtype=torch.float64))
    views = {"global1": draw(1, options["image"]), "global2": draw(1, options["image"]),
             "local": draw(o["local_crops"], o["local_size"])}
    batches = [{key: view[step] for key, view in views.items()} for step in range(STEPS)]
    images = torch.cat([batches[0]["global1"], batches[0]["global2"]]).flatten(0, 1)
    settings = o | {"out": options["out_dim"]}
    loss = distillation(model, teacher, torch.zeros(1, options["out_dim"]).double(), batches[0], settings,
                        temperature_at(0, o))[0]
    loss.backward()
    trained = {key: p for key, p in model.named_parameters() if p.requires_grad}
    tensors = {"images": images[None].float(), "projection": model(images).detach(), "loss": loss.detach()}
    tensors |= {"input/" + key: view.float() for key, view in views.items()}
    for key, value in weights.items():
        tensors[("weight/" if key in trained else "frozen/") + key] = value.float()
    for key, p in trained.items():
        tensors["gradient/" + key] = p.grad.clone()
    model.load_state_dict(weights)
    losses, norms, rates, center = train(model, teacher, batches, settings)
    tensors |= {"adamw/losses": losses, "adamw/norms": norms, "adamw/rates": rates}
    for key in trained:
        tensors["adamw/weight/" + key] = model.get_parameter(key).detach().float()
        tensors["adamw/average/" + key] = teacher.get_parameter(key).detach()
    tensors["adamw/state/objective.center"] = center
    case = {"family": "dino", "model": options, "objective": {"name": "dino"} | o, "output": "projection",
            "plugins": OPTIONS[option], "runs": {"adamw": RUN}, "torch": torch.__version__}
    return {key: value.contiguous().clone() for key, value in tensors.items()}, {"case": json.dumps(case)}


def main():
    torch.set_num_threads(1)
    for model in MODELS:
        for option in OPTIONS:
            name = f"dino_{model}_{option}"
            if not sys.argv[1:] or any(name.startswith(prefix) for prefix in sys.argv[1:]):
                write_golden(name, *make_case(model, option))


if __name__ == "__main__":
    main()
