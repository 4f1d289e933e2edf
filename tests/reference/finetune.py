"""Writes goldens/finetune.safetensors: how timm groups a ViT's parameters, and resamples its position embedding.

The metadata key `case` is JSON. Its `groups` has, for timm's ViT of `depth` blocks and each `layer_decay`, what
param_groups_layer_decay gives each parameter: the scale of its rate and whether it decays; `fc_norm_groups` has the same
of a ViT that averages, whose last norm is behind the pooling. `grid.K.from` [1, prefix + h * w, dim] is a position
embedding, `grid.K.to` what resample_abs_pos_embed's interpolation makes of it in float64, `grid.K.deit` what DeiT's
fine-tuning makes (interpolate(mode="bicubic"), no antialiasing), and `grid.K.pvt` what PVT's forward makes
(mode="bilinear"); `grids` has the extents of each K and the prefix. See README.md.
"""
import json
import pathlib

import numpy
import torch
from safetensors.numpy import save_file
from timm.layers import resample_abs_pos_embed
from timm.models.vision_transformer import VisionTransformer
from timm.optim import param_groups_layer_decay

SEED = 23
DEPTH = 4


def groups(layer_decay, **options):
    torch.manual_seed(SEED)
    model = VisionTransformer(img_size=8, patch_size=4, in_chans=1, num_classes=5, embed_dim=16, depth=DEPTH,
                              num_heads=2, **options)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = {}
    skip = model.no_weight_decay()
    for group in param_groups_layer_decay(model, weight_decay=0.05, no_weight_decay_list=skip, layer_decay=layer_decay):
        for parameter in group["params"]:
            found[names[id(parameter)]] = [group["lr_scale"], group["weight_decay"] != 0]
    assert len(found) == len(names)
    return found


def resampled(posemb, new, old, prefix, antialias=True, mode="bicubic"):
    """timm's function, which computes in float32, with its steps in float64; without antialiasing DeiT's."""
    head, grid = posemb[:, :prefix], posemb[:, prefix:]
    grid = grid.reshape(1, old[0], old[1], -1).permute(0, 3, 1, 2)
    grid = torch.nn.functional.interpolate(grid, size=new, mode=mode, align_corners=False, antialias=antialias)
    grid = grid.permute(0, 2, 3, 1).reshape(1, new[0] * new[1], -1)
    return torch.cat([head, grid], dim=1)


numbers = numpy.random.default_rng(SEED)
tensors, grids = {}, []
CASES = [(1, 4, 6, 5), (1, 7, 3, 3), (0, 5, 8, 2), (0, 14, 24, 1), (1, 1, 4, 2), (1, 9, 2, 2), (0, 6, 5, 3),
         (1, 4, (3, 7), 2), (0, 7, (9, 5), 3)]
for prefix, old, new, dim in CASES:
    size = (old, old), new if isinstance(new, tuple) else (new, new)
    posemb = torch.from_numpy(numbers.normal(0, 0.02, (1, prefix + old * old, dim)))
    posemb = posemb.float().double()  # as files of weights hold it
    made = resampled(posemb, size[1], size[0], prefix)
    timm = resample_abs_pos_embed(posemb, list(size[1]), list(size[0]), num_prefix_tokens=prefix)
    assert timm.shape == made.shape and (timm - made).abs().max() < 1e-7, (timm - made).abs().max()
    tensors[f"grid.{len(grids)}.from"] = posemb.numpy()
    tensors[f"grid.{len(grids)}.to"] = made.numpy()
    tensors[f"grid.{len(grids)}.deit"] = resampled(posemb, size[1], size[0], prefix, antialias=False).numpy()
    tensors[f"grid.{len(grids)}.pvt"] = resampled(posemb, size[1], size[0], prefix, False, "bilinear").numpy()
    grids.append({"prefix": prefix, "from": size[0], "to": size[1], "dim": dim})

averages = dict(global_pool="avg", class_token=True, fc_norm=True)
case = {"depth": DEPTH, "groups": {str(decay): groups(decay) for decay in (0.65, 0.9)},
        "fc_norm_groups": {str(decay): groups(decay, **averages) for decay in (0.65, 0.9)}, "grids": grids,
        "torch": torch.__version__}
save_file(tensors, pathlib.Path(__file__).parent / "goldens" / "finetune.safetensors", {"case": json.dumps(case)})
