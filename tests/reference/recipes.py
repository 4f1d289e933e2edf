"""Writes goldens/recipe_mae.safetensors, recipe_dino and recipe_pvt: twenty steps from a file of weights with the names of
public code, by that code's rules of what is taken, what decays and at which rate (facebookresearch/mae main_finetune.py and
util/lr_decay.py; facebookresearch/dino main_dino.py and utils.py; whai362/PVT classification/main.py, which takes timm's
groups and schedule). Everything is computed in float64; inputs and the file are float32 values. In each file:

    file/NAME f32             the file of weights, under its own names
    start/NAME f32            what it lacks: the head
    input/NAME [20,…]         what each step takes
    losses, rates f64[20]     each step's loss and base rate
    weight/NAME f64           what trains, at the end

The metadata key `case` has the network's name and the recipe's `settings`, as --set takes them. Needs timm too.
"""
import json
import math

import torch
import torch.nn.functional as F
from timm.layers import trunc_normal_
from timm.models.vision_transformer import VisionTransformer
from timm.optim import param_groups_weight_decay
from timm.scheduler import CosineLRScheduler

from dino import Network, distillation, temperature_at
from generate import float32_values, perturbed
from mae import MaskedAutoencoder
from pvt import PyramidVisionTransformer, write_golden

STEPS = 20
SMOOTHING = 0.1


def settings_of(section, values):
    return [f"{section}.{key}={json.dumps(value)}" for key, value in values.items()]


def half_cosine(share, start, end):
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def images_and_labels(batch, channels, image, classes, generator):
    images = torch.randn((STEPS, batch, channels, image, image), generator=generator, dtype=torch.float64)
    return float32_values(images), torch.randint(0, classes, (STEPS, batch), generator=generator)


def supervised(model, groups, rate_of, images, labels):
    """Steps of AdamW whose groups scale the rate; the losses and base rates."""
    optimizer = torch.optim.AdamW(groups, lr=1.0)
    losses, rates = [], []
    for step in range(STEPS):
        rates.append(rate_of(step))
        for group in optimizer.param_groups:
            group["lr"] = rates[-1] * group.get("scale", 1.0)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[step]), labels[step], label_smoothing=SMOOTHING)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses), torch.tensor(rates, dtype=torch.float64)


def on_grid(positions, prefix, side, mode):
    old = math.isqrt(positions.shape[1] - prefix)
    grid = positions[:, prefix:].reshape(1, old, old, -1).permute(0, 3, 1, 2)
    grid = F.interpolate(grid, size=(side, side), mode=mode, align_corners=False)
    return torch.cat([positions[:, :prefix], grid.permute(0, 2, 3, 1).reshape(1, side * side, -1)], 1)


def golden(model_name, settings, file, start, inputs, losses, rates, model):
    tensors = {"file/" + key: value.float() for key, value in file.items()}
    tensors |= {"start/" + key: value.float() for key, value in start.items()}
    tensors |= {"input/" + key: value if value.dtype == torch.int64 else value.float() for key, value in inputs.items()}
    tensors |= {"weight/" + key: p.detach() for key, p in model.named_parameters() if p.requires_grad}
    tensors |= {"losses": losses, "rates": rates, "loss": losses[-1]}
    case = {"model": model_name, "settings": settings, "torch": torch.__version__}
    return {key: value.contiguous().clone() for key, value in tensors.items()}, {"case": json.dumps(case)}


def mae():
    """Fine-tuning of the mean of the patches from a pretraining at another resolution, layers at rates of their own."""
    torch.manual_seed(11)
    generator = torch.Generator().manual_seed(11)
    shape = dict(patch=4, channels=3, dim=16, depth=3, heads=2, mlp_ratio=2.0)
    image, classes, batch, decay, layer_decay, lr, min_lr, warmup = 16, 5, 3, 0.05, 0.65, 4e-3, 1e-5, 5
    pretrained = MaskedAutoencoder(image=12, mask_ratio=0.75, skips="none", decoder_dim=8, decoder_depth=1,
                                   decoder_heads=2, norm_pix_loss=True, **shape).double()
    fixed = {key: p.detach().clone() for key, p in pretrained.named_parameters() if not p.requires_grad}
    perturbed(pretrained, generator)
    file = {key: float32_values(fixed.get(key, value)) for key, value in pretrained.state_dict().items()}

    model = VisionTransformer(img_size=image, patch_size=4, in_chans=3, num_classes=classes, embed_dim=16, depth=3,
                              num_heads=2, mlp_ratio=2.0, global_pool="avg", class_token=True, fc_norm=True).double()
    taken = file | {"pos_embed": float32_values(on_grid(file["pos_embed"], 1, image // 4, "bicubic"))}
    lacking = model.load_state_dict(taken, strict=False).missing_keys
    assert set(lacking) == {"head.weight", "head.bias", "fc_norm.weight", "fc_norm.bias"}, lacking
    trunc_normal_(model.head.weight, std=2e-5)
    model.head.weight.data = float32_values(model.head.weight.data)
    start = {key: p.detach().clone() for key, p in model.named_parameters() if key.startswith("head.")}

    def layer_of(name):
        if name in ("cls_token", "pos_embed") or name.startswith("patch_embed"):
            return 0
        return int(name.split(".")[1]) + 1 if name.startswith("blocks") else len(model.blocks) + 1
    groups = [{"params": [p], "weight_decay": 0.0 if p.ndim == 1 or name in model.no_weight_decay() else decay,
               "scale": layer_decay ** (len(model.blocks) + 1 - layer_of(name))}
              for name, p in model.named_parameters()]

    def rate(step):
        return lr * step / warmup if step < warmup else half_cosine((step - warmup) / (STEPS - warmup), lr, min_lr)
    images, labels = images_and_labels(batch, 3, image, classes, generator)
    losses, rates = supervised(model, groups, rate, images, labels)
    settings = settings_of("model", shape | dict(image=image, classes=classes, pool="avg", class_token="true",
                                                 fc_norm=True, head_std=2e-5))
    settings += settings_of("optimizer", dict(lr=lr, weight_decay=decay, layer_decay=layer_decay))
    settings += settings_of("schedule", dict(name="cosine", warmup_epochs=1.0, min_lr=min_lr))
    settings += settings_of("train", dict(epochs=4, batch=batch, new_head=True, extra_weights="ignore",
                                          resample_positions="deit"))
    settings += settings_of("objective", dict(label_smoothing=SMOOTHING))
    return golden("vit", settings, file, start, {"image": images, "label": labels}, losses, rates, model)


def pvt():
    """Fine-tuning of a pyramid at another resolution, another number of classes, timm's groups and schedule."""
    generator = torch.Generator().manual_seed(12)
    shape = dict(channels=1, embed_dims=[8, 12], depths=[1, 2], num_heads=[1, 2], mlp_ratios=[2.0, 1.5],
                 patch_sizes=[4, 2], sr_ratios=[2, 1])
    image, classes, batch, decay, lr, min_lr, warmup, warmup_lr = 32, 3, 3, 0.05, 2e-3, 1e-5, 5, 1e-6
    pretrained = PyramidVisionTransformer(image=16, classes=7, **shape).double()
    perturbed(pretrained, generator)
    file = {key: float32_values(value) for key, value in pretrained.state_dict().items()}
    model = PyramidVisionTransformer(image=image, classes=classes, **shape).double()
    perturbed(model, generator)
    start = {key: float32_values(p.detach()) for key, p in model.named_parameters() if key.startswith("head.")}
    taken = {key: value for key, value in file.items() if not key.startswith("head.")} | start
    for key, prefix, side in (("pos_embed1", 0, 8), ("pos_embed2", 1, 4)):
        taken[key] = float32_values(on_grid(file[key], prefix, side, "bilinear"))
    model.load_state_dict(taken)
    # The code's no_weight_decay() names the class token alone.
    groups = param_groups_weight_decay(model, decay, no_weight_decay_list={"cls_token"})
    clock = CosineLRScheduler(torch.optim.SGD(model.parameters(), lr=lr), t_initial=STEPS, lr_min=min_lr,
                              warmup_t=warmup, warmup_lr_init=warmup_lr)
    images, labels = images_and_labels(batch, 1, image, classes, generator)
    losses, rates = supervised(model, groups, lambda step: clock._get_lr(step)[0], images, labels)
    settings = settings_of("model", shape | dict(image=image, classes=classes))
    settings += settings_of("optimizer", dict(lr=lr, weight_decay=decay))
    settings += settings_of("schedule", dict(name="cosine", warmup_epochs=float(warmup), warmup_lr=warmup_lr,
                                             min_lr=min_lr, warmup_prefix=False))
    settings += settings_of("train", dict(epochs=STEPS, batch=batch, new_head=True, resample_positions="true"))
    settings += settings_of("objective", dict(label_smoothing=SMOOTHING))
    return golden("pvt", settings, file, start, {"image": images, "label": labels}, losses, rates, model)


def dino():
    """Self-distillation that goes on from a student saved by data parallelism."""
    generator = torch.Generator().manual_seed(13)
    options = dict(image=8, channels=1, patch=4, dim=12, depth=2, heads=2, mlp_ratio=2.0, hidden_dim=16,
                   bottleneck_dim=6, out_dim=9, norm_last_layer=False)
    o = dict(local_crops=2, local_size=4, student_temp=0.1, teacher_temp=0.07, warmup_teacher_temp=0.04,
             warmup_teacher_temp_epochs=2, center_momentum=0.9, freeze_last_layer=1)
    lr, min_lr, decay, decay_end, clip, ema, epochs, batch = 1e-3, 1e-6, 0.04, 0.4, 0.3, 0.9, 4, 4
    student, teacher = (Network(**options, plugins=[]).double() for _ in range(2))
    perturbed(student, generator)
    teacher.load_state_dict(student.state_dict())
    file = {"module." + key: value.clone() for key, value in student.state_dict().items()}

    def draw(count, side):
        return float32_values(torch.randn((STEPS, count, batch, 1, side, side), generator=generator,
                                          dtype=torch.float64))
    views = {"global1": draw(1, 8), "global2": draw(1, 8), "local": draw(o["local_crops"], o["local_size"])}
    named = list(student.named_parameters())
    exempt = {name for name, p in named if name.endswith(".bias") or p.ndim == 1}
    optimizer = torch.optim.AdamW([{"params": [p for name, p in named if (name in exempt) is on]}
                                   for on in (False, True)], lr=lr)
    center = torch.zeros(1, options["out_dim"], dtype=torch.float64)
    losses, rates = [], []
    for step in range(STEPS):
        epoch = step * epochs // STEPS
        rates.append(half_cosine(step / STEPS, lr, min_lr))
        for group, on in zip(optimizer.param_groups, (True, False)):
            group["lr"] = rates[-1]
            group["weight_decay"] = half_cosine(step / STEPS, decay, decay_end) if on else 0.0
        optimizer.zero_grad()
        loss, told = distillation(student, teacher, center, {key: view[step] for key, view in views.items()}, o,
                                  temperature_at(epoch, o))
        loss.backward()
        for name, p in named:
            p.grad *= min(1.0, clip / (p.grad.norm().item() + 1e-6))
            if "last_layer" in name and epoch < o["freeze_last_layer"]:
                p.grad = None
        optimizer.step()
        center = center * o["center_momentum"] + told.mean(0, keepdim=True) * (1 - o["center_momentum"])
        momentum = half_cosine(step / STEPS, ema, 1.0)
        with torch.no_grad():
            for mean, p in zip(teacher.parameters(), student.parameters()):
                mean.mul_(momentum).add_(p, alpha=1 - momentum)
        losses.append(loss.detach())
    settings = settings_of("model", options) + settings_of("objective", o)
    settings += settings_of("optimizer", dict(lr=lr, weight_decay=decay, weight_decay_end=decay_end, decay="no_1d"))
    settings += settings_of("schedule", dict(name="cosine", min_lr=min_lr))
    settings += settings_of("train", dict(epochs=epochs, batch=batch, clip="each", clip_norm=clip, ema=ema, ema_end=1.0))
    return golden("dino", settings, file, {}, views, torch.stack(losses), torch.tensor(rates, dtype=torch.float64),
                  student)


def main():
    torch.set_num_threads(1)
    for case in (mae, pvt, dino):
        write_golden("recipe_" + case.__name__, *case())


if __name__ == "__main__":
    main()
