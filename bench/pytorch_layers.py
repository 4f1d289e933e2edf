#!/usr/bin/env python3
"""What a card's libraries take, through PyTorch, for each convolution of ResNetV2-50 and for attention: every pass alone,
forward, the gradient of the input and that of the weight, in each type and layout.

    bench/pytorch_layers.py --batch 128 --out layers.json          --only-attention: without the convolutions

Each is the median of five rounds; its engine is one that PyTorch's search (`cudnn.benchmark`) chose among deterministic ones.
"""
import argparse
import collections
import json

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import gpu_ceilings
from pytorch_resnetv2 import ResNetV2

TYPES = {"bf16": (torch.bfloat16, False), "tf32": (torch.float32, True), "f32": (torch.float32, False)}
LAYOUTS = {"nhwc": torch.channels_last, "nchw": torch.contiguous_format}
# [batch, heads, tokens, width]: vit_s16_224, vit_b16_224, MAE's encoder and decoder, SiT-B/2 at 32 pixels, GPT-2 at 1,024
ATTENTION = {"vit_s": (256, 6, 197, 64, False), "vit_b": (256, 12, 197, 64, False), "mae_encoder": (256, 12, 50, 64, False),
             "mae_decoder": (256, 16, 197, 32, False), "sit_b": (64, 12, 256, 64, False), "gpt2": (16, 12, 1024, 64, True)}
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}


def convolutions(batch):
    """(input's shape, weight's shape, stride, padding) of each, and how often it comes."""
    found = collections.Counter()

    def note(module, given, _):
        found[((batch, *given[0].shape[1:]), tuple(module.weight.shape), module.stride[0], module.padding[0])] += 1

    network = ResNetV2(224, 3, 1000, (3, 4, 6, 3), 64, True, "plain")
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(note)
    with torch.no_grad():
        network(torch.zeros(1, 3, 224, 224))
    return found


def timed_convolution(clock, given, kernel, stride, padding, kind, tf32, layout):
    torch.backends.cudnn.allow_tf32 = tf32
    x = torch.randn(given, device="cuda", dtype=kind).contiguous(memory_format=layout)
    w = torch.randn(kernel, device="cuda", dtype=kind).contiguous(memory_format=layout)
    y = F.conv2d(x, w, None, stride, padding)
    g = torch.randn_like(y)

    def gradient(*mask):
        return torch.ops.aten.convolution_backward(g, x, w, None, (stride,) * 2, (padding,) * 2, (1, 1), False, (0, 0), 1, mask)

    passes = {"forward": lambda: F.conv2d(x, w, None, stride, padding), "input": lambda: gradient(True, False, False),
              "weight": lambda: gradient(False, True, False)}
    if given[1] == 3:
        del passes["input"]  # images take no gradient
    return {name: clock.seconds(work, target=0.01) * 1e3 for name, work in passes.items()}


def timed_attention(clock, batch, heads, tokens, width, causal, backend):
    def operand():
        return torch.randn(batch, tokens, heads, width, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_()

    q, k, v = operand(), operand(), operand()
    with sdpa_kernel(backend):
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        g = torch.randn_like(y)
        return {"forward": clock.seconds(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal), target=0.01) * 1e3,
                "gradients": clock.seconds(lambda: torch.autograd.grad(y, (q, k, v), g, retain_graph=True), target=0.01) * 1e3}


def attempt(work, *arguments):
    try:
        return work(*arguments)
    except RuntimeError as error:
        return {"fault": str(error).splitlines()[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--out", required=True)
    parser.add_argument("--only-attention", action="store_true", help="leave out the convolutions")
    options = parser.parse_args()
    torch.manual_seed(0)
    clock = gpu_ceilings.MeasuredByPyTorch()
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = True, True
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
              "batch": options.batch, "convolutions": [], "attention": []}
    for (given, kernel, stride, padding), times in ({} if options.only_attention else convolutions(options.batch)).items():
        row = {"input": given, "weight": kernel, "stride": stride, "padding": padding, "times": times, "ms": {}}
        for name, (kind, tf32) in TYPES.items():
            for layout, order in LAYOUTS.items():
                row["ms"][f"{name} {layout}"] = attempt(timed_convolution, clock, given, kernel, stride, padding, kind, tf32, order)
        torch.cuda.empty_cache()
        result["convolutions"].append(row)
    for name, shape in ATTENTION.items():
        result["attention"].append({"of": name, "shape": shape[:4], "causal": shape[4],
                                    "ms": {label: attempt(timed_attention, clock, *shape, backend)
                                           for label, backend in BACKENDS.items()}})
    with open(options.out, "w") as file:
        json.dump(result, file, indent=1)
    for key in result["convolutions"][0]["ms"] if result["convolutions"] else ():
        sums = collections.Counter()
        for row in result["convolutions"]:
            for name, value in row["ms"][key].items():
                if name != "fault":
                    sums[name] += row["times"] * value
        print(f"{key}: " + ", ".join(f"{name} {value:.2f}" for name, value in sums.items()) + f", sum {sum(sums.values()):.2f} ms")
    for row in result["attention"]:
        print(row["of"], row["ms"])


if __name__ == "__main__":
    main()
