"""Writes tests/python/recorded/: tiny networks of PyTorch as `rewire.export` brings them in, an input, and what PyTorch
computes of it in float64: logits, and for classifiers the gradients of a cross-entropy in training mode.

    record_import.py

Needs torch, timm, safetensors, numpy. tests/cli/imported_test.cpp holds the command against these files.
"""

import copy
import json
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "python"), str(HERE)]

import numpy  # noqa: E402
import torch  # noqa: E402
from check_import import gradients_of, without_dropout  # noqa: E402
from networks import NETWORKS, _Gpt, example, made, timm_model  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402

import rewire  # noqa: E402

BATCH = 3


def resnet():
    from timm.models.resnet import BasicBlock, ResNet

    return ResNet(BasicBlock, (1, 1, 1, 1), num_classes=10, channels=(4, 4, 8, 8), stem_width=4)


TINY = {
    "vit": (
        lambda: timm_model(
            "vit_tiny_patch16_224", img_size=16, patch_size=8, embed_dim=16, depth=2, num_heads=2, mlp_ratio=2
        ),
        16,
    ),
    "vit_dropout": (
        lambda: timm_model(
            "vit_tiny_patch16_224",
            img_size=16,
            patch_size=8,
            embed_dim=16,
            depth=2,
            num_heads=2,
            mlp_ratio=2,
            drop_rate=0.1,
            drop_path_rate=0.1,
        ),
        16,
    ),
    "swin": (
        lambda: timm_model(
            "swin_tiny_patch4_window7_224",
            img_size=32,
            window_size=4,
            embed_dim=8,
            depths=(2, 2),
            num_heads=(1, 2),
            mlp_ratio=2,
        ),
        32,
    ),
    "convnextv2": (lambda: timm_model("convnextv2_atto", dims=(8, 8, 16, 16), depths=(1, 1, 2, 1)), 32),
    "resnet": (resnet, 32),
    "cait": (
        lambda: timm_model(
            "cait_xxs24_224", img_size=16, patch_size=8, embed_dim=16, depth=1, num_heads=2, mlp_ratio=2
        ),
        16,
    ),
    "gpt": (lambda: _Gpt(tokens=65, length=8, width=16, heads=2, layers=1), ("tokens", 8)),
}


def main():
    folder = HERE / "recorded"
    labels = torch.arange(BATCH) % 10
    numpy.save(folder / "labels.npy", labels.numpy())
    for name, (make, size) in TINY.items():
        NETWORKS[name] = (make, size, None)
        module = made(name) if "dropout" in name else without_dropout(made(name))
        report = rewire.export(module, example(size, 2), folder / f"{name}.rir")
        inputs = example(size, BATCH, seed=5)
        plain = without_dropout(module).double()
        wide = inputs.double() if inputs.is_floating_point() else inputs
        with torch.no_grad():
            expected = {"logits": plain(wide).float().numpy()}
        numpy.save(folder / f"{name}.npy", inputs.numpy())
        if expected["logits"].ndim == 2 and "dropout" not in name:
            for key, value in gradients_of(copy.deepcopy(plain), wide, labels).items():
                expected[f"gradient.{key}"] = value.astype(numpy.float32)
        save_file(
            expected,
            str(folder / f"{name}.expected.safetensors"),
            metadata={"joins": json.dumps([join["name"] for join in report.joins])},
        )
        print(report)


if __name__ == "__main__":
    main()
