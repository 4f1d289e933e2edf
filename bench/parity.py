#!/usr/bin/env python3
"""Holds what `rewire` computes on a device against the same network in PyTorch, in float64 on that device.

    bench/parity.py [--device cpu|cuda] [--case MODEL:BATCH]… [--residual NAME]… [--dtype f32|bf16]… [--out FILE.json]

Weights are initialised by `rewire init`, then perturbed: fresh ones hide errors. For each case, residual and dtype it compares
the loss and every gradient (relative L2, with a floor of 1e-6 of the norm of all gradients), and the weights after steps of
AdamW, which are also taken twice and must have the same bits.
f32 must be within 1e-4, or 10 times PyTorch's own error where a sum cancels. Of bf16 no more is asked than of PyTorch's own autocast: 1.2 times its error against float64.
Exit 1 if anything is worse.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors.numpy import load_file, save_file

from pytorch_step import JOINS, VisionTransformer
from pytorch_strategies import STRATEGIES

HERE = pathlib.Path(__file__).resolve().parent
ROOTS = (HERE.parent, HERE.parent / "build" / "release")
F32_LIMIT, F32_RATIO, BF16_RATIO, NORM_FLOOR = 1e-4, 10, 1.2, 1e-6
STEPS = 3


def rewire_binary():
    return next((root / "bin" / "rewire" for root in ROOTS if (root / "bin" / "rewire").exists()), "rewire")


def network(options, model, batch, residual, dtype):
    return [model, "--plugin", "none" if residual == "plain" else residual, "--set", f"train.batch={batch}",
            "--set", f"train.dtype={dtype}", "--set", f"train.label_smoothing={options.label_smoothing}"]


def call(options, verb, arguments, on_device=True):
    command = [str(options.rewire), verb, *arguments, "--quiet"]
    if on_device and options.device != "cpu":
        command += ["--device", options.device]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def torch_names(weights):
    """timm's names as the peer spells them."""
    return {name.replace("patch_embed.proj.", "proj."): value for name, value in weights.items()}


class Reference:
    """The peer's network with the given weights, its loss and gradients in one of PyTorch's precisions."""

    def __init__(self, options, shape, residual, weights, dtype):
        self.autocast = dtype == "autocast"
        self.device = options.device
        self.smoothing = options.label_smoothing
        self.type = torch.float64 if dtype == "f64" else torch.float32
        self.model = VisionTransformer(**shape, residual=residual).to(self.device, self.type)
        own = self.model.strategy.plugin_weights() if self.model.strategy else []
        self.places = {**{name: (p, ...) for name, p in self.model.named_parameters() if not name.startswith("strategy.")},
                       **{name: (p, index) for name, p, index in own}}
        named = torch_names(weights)
        assert named.keys() == self.places.keys(), f"names differ: {sorted(named.keys() ^ self.places.keys())}"
        with torch.no_grad():
            for name, (p, index) in self.places.items():
                p[index] = torch.from_numpy(numpy.array(named[name])).to(p).reshape(p[index].shape)

    def gradients(self, images, labels):
        x = torch.from_numpy(images).to(self.device, self.type)
        y = torch.from_numpy(labels).to(self.device)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.autocast):
            logits = self.model(x)
        logits = logits if self.type == torch.float64 else logits.float()
        loss = torch.nn.functional.cross_entropy(logits, y, label_smoothing=self.smoothing)
        loss.backward()
        return {"loss": loss.item(), "gradients": {name: p.grad[index].double().cpu().numpy()
                                                   for name, (p, index) in self.places.items()}}


def errors(result, exact):
    whole = numpy.sqrt(sum(float((g ** 2).sum()) for g in exact["gradients"].values()))
    each, parts = {}, {}
    for name, wanted in exact["gradients"].items():
        got = result["gradients"][name].astype(numpy.float64).reshape(wanted.shape)
        # Numbered weights of a join are one vector: alone, one may be the small difference of large sums.
        parts.setdefault(re.sub(r"_\d+$", "", name), []).append((got.ravel(), wanted.ravel()))
    for name, pairs in parts.items():
        got, wanted = (numpy.concatenate(side) for side in zip(*pairs))
        each[name] = float(numpy.linalg.norm(got - wanted) / max(numpy.linalg.norm(wanted), NORM_FLOOR * whole))
        if not numpy.isfinite(got).all():
            each[name] = float("inf")
    worst = max(each, key=each.get)
    difference = numpy.sqrt(sum(float(((result["gradients"][n].reshape(g.shape) - g) ** 2).sum()) for n, g in exact["gradients"].items()))
    return {"loss": abs(result["loss"] - exact["loss"]) / abs(exact["loss"]), "worst": each[worst], "worst_name": worst,
            "all": float(difference / whole), "each": each}


def own_gradients(options, folder, arguments):
    output = folder / "gradients.safetensors"
    loss = float(json.loads(call(options, "grad", [*arguments, "--weights", str(folder / "w.safetensors"), "--input",
                                                   str(folder / "x.npy"), "--labels", str(folder / "y.npy"), "--output",
                                                   str(output), "--json"]))["loss"])
    return {"loss": loss, "gradients": torch_names(load_file(output))}


def own_steps(options, folder, arguments, name):
    output = folder / name
    losses = json.loads(call(options, "step", [*arguments, "--weights", str(folder / "w.safetensors"), "--input",
                                               str(folder / "x.npy"), "--labels", str(folder / "y.npy"), "--steps",
                                               str(STEPS), "--output", str(output), "--no-autotune"]))["losses"]
    return losses, output.read_bytes()


def prepare(options, folder, shape, model, batch, residual, seed):
    random = numpy.random.default_rng(seed)
    call(options, "init", [*network(options, model, batch, residual, "f32"), "--output", str(folder / "fresh.safetensors")],
         on_device=False)
    weights = load_file(folder / "fresh.safetensors")
    weights = {name: (value + 0.02 * random.standard_normal(value.shape)).astype(numpy.float32)
               for name, value in weights.items()}
    images = random.standard_normal((batch, shape["channels"], shape["image"], shape["image"]), dtype=numpy.float32)
    labels = random.integers(0, shape["classes"], batch)
    save_file(weights, folder / "w.safetensors")
    numpy.save(folder / "x.npy", images)
    numpy.save(folder / "y.npy", labels)
    return weights, images, labels


def beyond_f32(own, peer, exact):
    """What is off by more than the limit, and by more than f32 explains: 10 times PyTorch's own error in that tensor."""
    if own["worst"] <= F32_LIMIT:
        return []
    theirs = errors(peer(), exact)["each"]
    return [f"{name} is {error:.1e} off, PyTorch {theirs[name]:.1e}" for name, error in own["each"].items()
            if not error <= max(F32_LIMIT, F32_RATIO * theirs[name])]


def compare(options, folder, shape, model, batch, residual):
    weights, images, labels = prepare(options, folder, shape, model, batch, residual, options.seed)
    exact = Reference(options, shape, residual, weights, "f64").gradients(images, labels)
    rows = []
    for dtype in options.dtype:
        arguments = network(options, model, batch, residual, dtype)
        own = errors(own_gradients(options, folder, arguments), exact)
        row = {"model": model, "batch": batch, "residual": residual, "dtype": dtype, "error": own, "faults": []}
        if dtype == "f32":
            row["faults"] += beyond_f32(own, lambda: Reference(options, shape, residual, weights, "f32").gradients(images, labels), exact)
            if not own["loss"] <= F32_LIMIT:
                row["faults"].append(f"the loss is {own['loss']:.1e} off")
        else:
            peer = errors(Reference(options, shape, residual, weights, "autocast").gradients(images, labels), exact)
            row["pytorch"] = peer
            row["ratio"] = own["all"] / peer["all"]
            if not row["ratio"] <= BF16_RATIO:
                row["faults"].append(f"{row['ratio']:.2f} times the error of PyTorch's autocast")
        losses, first = own_steps(options, folder, arguments, "once.safetensors")
        _, second = own_steps(options, folder, arguments, "twice.safetensors")
        row["losses"] = losses
        if first != second:
            row["faults"].append("two runs differ")
        rows.append(row)
        line = f"{model:<12} {residual:<14} {dtype:<5} loss {own['loss']:.1e}  gradients {own['all']:.1e}, worst {own['worst']:.1e}"
        if "ratio" in row:
            line += f"  autocast {row['pytorch']['all']:.1e}, ratio {row['ratio']:.2f}"
        print(line + ("  ok" if not row["faults"] else "  FAILED: " + "; ".join(row["faults"])), flush=True)
    return rows


def parse_case(text):
    model, _, batch = text.partition(":")
    return model, int(batch)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rewire", type=pathlib.Path, default=rewire_binary())
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--case", type=parse_case, action="append", metavar="MODEL:BATCH",
                        help="default: vit_tiny_28:5 and vit_s_cifar:3")
    parser.add_argument("--residual", choices=(*JOINS, *STRATEGIES), action="append", help="default: all")
    parser.add_argument("--dtype", choices=("f32", "bf16"), action="append", help="default: both")
    parser.add_argument("--label-smoothing", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, help="a file for all errors, as JSON")
    options = parser.parse_args()
    options.dtype = options.dtype or ("f32", "bf16")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    zoo = {row["name"]: row for row in json.loads(call(options, "models", ["--json"], on_device=False))}
    rows = []
    for model, batch in options.case or [("vit_tiny_28", 5), ("vit_s_cifar", 3)]:
        shape = {key: zoo[model][key] for key in ("image", "channels", "classes", "patch", "dim", "depth", "heads")}
        for residual in options.residual or (*JOINS, *STRATEGIES):
            with tempfile.TemporaryDirectory() as folder:
                rows += compare(options, pathlib.Path(folder), shape, model, batch, residual)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    failed = sum(bool(row["faults"]) for row in rows)
    print(f"{len(rows)} comparisons on {options.device}, seed {options.seed}, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
