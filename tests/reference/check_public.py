"""Holds `rewire` to networks as their authors' own code builds and computes them, at full size: the file of weights that the
code writes is read as it is, and what comes of the same input is compared.

    check_public.py dino FOLDER REWIRE      FOLDER: a clone of facebookresearch/dino
    check_public.py mae FOLDER REWIRE       of facebookresearch/mae

Exit 0 if all agrees. Needs torch, torchvision, timm, safetensors, numpy.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors.torch import save_file

TOLERANCE = 1e-5


def perturb(model):
    """Away from the start, where tokens, biases and norms say nothing."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.requires_grad and p.ndim == 1:
                p.add_(0.1 * torch.randn_like(p))


class Rewire:
    def __init__(self, binary, weights):
        self.binary, self.folder = binary, pathlib.Path(tempfile.mkdtemp())
        save_file({key: value.contiguous() for key, value in weights.items()}, self.folder / "w.safetensors")

    def call(self, command, model, inputs, more=()):
        arguments = [self.binary, command, *model, "--weights", self.folder / "w.safetensors", "--quiet",
                     "--output", self.folder / "out"]
        for name, tensor in inputs.items():
            numpy.save(self.folder / f"{name}.npy", tensor.numpy())
            arguments += ["--input", f"{name}={self.folder / f'{name}.npy'}"]
        return subprocess.run([*map(str, arguments), *more], check=True, stdout=subprocess.PIPE, text=True).stdout

    def run(self, model, inputs):
        self.call("run", model, inputs)
        return torch.from_numpy(numpy.load(self.folder / "out"))


def report(what, got, want):
    error = ((got.double() - want.double()).norm() / want.double().norm()).item()
    print(f"{what}: relative error {error:.1e}")
    return error <= TOLERANCE


def check_dino(binary):
    from vision_transformer import DINOHead, vit_small

    backbone, head = vit_small(patch_size=16), DINOHead(384, 65536)
    for part in (backbone, head):
        perturb(part.eval().double())
    weights = {"backbone." + key: value.float() for key, value in backbone.state_dict().items()}
    weights |= {"head." + key: value.float() for key, value in head.state_dict().items()}
    for part, prefix in ((backbone, "backbone."), (head, "head.")):
        part.load_state_dict({key: weights[prefix + key].double() for key in part.state_dict()})
    rewire, passed = Rewire(binary, weights), True
    for side in (224, 96):
        image = torch.randn(2, 3, side, side)
        model = ["dino_vit_s16", "--set", f"model.image={side}", "--set", "model.position_image=224"]
        with torch.no_grad():
            want = head(backbone(image.double()))
        passed &= report(f"dino_vit_s16, {side} x {side}: projection", rewire.run(model, {"image": image}), want)
    return passed


def check_mae(binary):
    import timm.models.vision_transformer as vision_transformer

    original, numpy.float = vision_transformer.Block, float  # what newer libraries have no more
    vision_transformer.Block = lambda *arguments, qk_scale=None, **named: original(*arguments, **named)
    from models_mae import mae_vit_base_patch16

    passed = True
    for normalises in (False, True):
        model = mae_vit_base_patch16(norm_pix_loss=normalises).eval().double()
        perturb(model)
        weights = {key: value.float() for key, value in model.state_dict().items()}
        model.load_state_dict({key: value.double() for key, value in weights.items()})
        image, noise = torch.randn(2, 3, 224, 224), torch.rand(2, 196)
        drawn, torch.rand = torch.rand, lambda *shape, device=None: noise.double()
        loss, prediction, _ = model(image.double(), mask_ratio=0.75)
        torch.rand = drawn
        rewire, inputs = Rewire(binary, weights), {"image": image, "noise": noise}
        passed &= report("mae_vit_b16: prediction", rewire.run(["mae_vit_b16"], inputs), prediction.detach())
        option = f"objective.norm_pix_loss={str(normalises).lower()}"
        got = json.loads(rewire.call("grad", ["mae_vit_b16", "--set", option], inputs, ["--json"]))["loss"]
        passed &= report(f"mae_vit_b16, {option}: loss", torch.tensor([got]), loss.detach().reshape(1))
    return passed


def main():
    what, folder, binary = sys.argv[1:]
    sys.path.insert(0, folder)
    torch.manual_seed(0)
    passed = {"dino": check_dino, "mae": check_mae}[what](binary)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
