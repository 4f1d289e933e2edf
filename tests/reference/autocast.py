"""Writes autocast.json: how far PyTorch's bf16 autocast on the CPU is from float64, for models of goldens/.

For each case, over BATCHES batches, sqrt(sum |x - y|^2 / sum |y|^2) with x what autocast computes from float32
weights and y what float64 computes: of the logits, the loss, each weight's gradient, and all gradients together. One
batch's error of a small tensor is chance; over many it is what the arithmetic costs. Batch k is the golden's first
one with its pixels moved on by 7 k places and its labels by k, so that whoever compares feeds the same numbers.

Attention is PyTorch's fused one (it keeps the probabilities in f32), as timm calls it; the loss is taken from the
logits in f32. Both err less than the same written out, so the bound is the tighter one. Block-circulant products are
products with whole matrices, which autocast takes in bf16 as any other, and not Fourier transforms, which it leaves in f32.
Logits of convolutional networks are of evaluation, by the golden's running statistics; the rest is of training.
"""
import json
import math
import pathlib

import torch
import torch.nn.functional as F
from safetensors import safe_open

import reference
from reference import VisionTransformer
from resnets import ResNetV2

BATCHES = 128
CASES = ["vit_token_plain", "vit_avg_plain", "vit_token_orthogonal_feature", "vit_avg_orthogonal_global",
         "vit_slim_decay", "vit_odd_decay_learnable", "vit_slim_decay_branch", "vit_slim_augment",
         "vit_odd_augment_dense", "vit_slim_augment_stream", "vit_slim_skipless", "vit_odd_skipless_attn",
         "vit_slim_tanh_plain", "resnetv2_basic_plain", "resnetv2_timm_plain"]
FAMILIES = {"vit": VisionTransformer, "resnetv2": ResNetV2}


def fused_attention(self, x, join):
    b, n, d = x.shape
    q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
    return self.proj(F.scaled_dot_product_attention(q, k, join.value(v)).transpose(1, 2).reshape(b, n, d))


def matrix_product(u, c, correlation):
    """reference.circulant_product by the matrix of c."""
    p, q, n = c.shape
    place = torch.arange(n)
    lag = (place[:, None] - place if correlation else place - place[:, None]) % n  # of [input, output]
    return u @ c[:, :, lag].permute(1, 2, 0, 3).reshape(q * n, p * n)


def run(model, images, labels, autocast):
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        evaluated = model.eval()(images)
        logits = model.train()(images)
    loss = F.cross_entropy(logits.float() if autocast else logits, labels)
    loss.backward()
    values = {"logits": evaluated.detach().double(), "loss": loss.detach().double()}
    return values | {"gradient/" + name: p.grad.double() for name, p in model.named_parameters()}


def errors(name):
    with safe_open(pathlib.Path(__file__).parent / "goldens" / f"{name}.safetensors", "pt") as file:
        case = json.loads(file.metadata()["case"])
        golden = {key: file.get_tensor(key) for key in file.keys()}
    weights = {key[7:]: value for key, value in golden.items() if key.startswith(("weight/", "frozen/"))}
    models = []
    for dtype in (torch.float64, torch.float32):
        model = FAMILIES[case.get("family", "vit")](**case["model"], plugins=case["plugins"]).to(dtype)
        left = model.load_state_dict({key: value.to(dtype) for key, value in weights.items()}, strict=False)
        assert not left.unexpected_keys and all("num_batches" in key for key in left.missing_keys), left
        for norm in (module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)):
            norm.momentum = 0.0  # the statistics stay the golden's
        models.append(model)
    image, label = golden["images"][0], golden["labels"][0]
    wrong, whole = {}, {}
    for k in range(BATCHES):
        images, labels = image.flatten().roll(7 * k).reshape(image.shape), label.roll(k)
        exact = run(models[0], images.double(), labels, False)
        rounded = run(models[1], images, labels, True)
        for key, value in exact.items():
            sums = [key, "gradients"] if key.startswith("gradient/") else [key]
            for total in sums:
                wrong[total] = wrong.get(total, 0.0) + (rounded[key] - value).square().sum().item()
                whole[total] = whole.get(total, 0.0) + value.square().sum().item()
    return {key: float(f"{math.sqrt(wrong[key] / whole[key]):.4e}") for key in sorted(wrong)}


def main():
    torch.set_num_threads(1)
    reference.Attention.forward = fused_attention
    reference.circulant_product = matrix_product
    result = {"torch": torch.__version__, "batches": BATCHES, "cases": {name: errors(name) for name in CASES}}
    path = pathlib.Path(__file__).parent / "autocast.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    for name, of in result["cases"].items():
        print(f"{name}: logits {of['logits']:.2e}, loss {of['loss']:.2e}, gradients {of['gradients']:.2e}")


if __name__ == "__main__":
    main()
