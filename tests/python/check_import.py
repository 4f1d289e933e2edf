"""Brings PyTorch's networks in and holds what Rewire computes against PyTorch in float64.

    check_import.py [NAME…] [--gradients] [--verify] [--train] [--out] [--plugin PLUGIN…]

For each network: the joins that are found beside those that its modules have, logits at a batch that was not traced;
with --gradients those of a cross-entropy in training mode (without dropout), with --verify `rewire verify --plugin
orthogonal`, with --train 20 steps with it on random images, with --out the network taken out again, to PyTorch and to
ONNX Runtime. One line a network; exit 1 if one fails. Needs torch, timm, torchvision, safetensors, numpy, for --out
also onnx and onnxruntime, and build/release/bin/rewire ($REWIRE).
"""

import argparse
import copy
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(pathlib.Path(__file__).parent)]

import numpy  # noqa: E402
import torch  # noqa: E402
from networks import NETWORKS, example, made  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402
from safetensors.torch import load_file as load_torch  # noqa: E402

import rewire  # noqa: E402

REWIRE = os.environ.get("REWIRE", str(ROOT / "build/release/bin/rewire"))
LOGITS, GRADIENTS = 1e-5, 1e-4
BATCH = 5


def run(*words):
    done = subprocess.run([REWIRE, *map(str, words)], capture_output=True, text=True, timeout=1800)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[0] if done.stderr.strip() else f"exit {done.returncode}")
    return done.stdout


def apart(got, wanted):
    return float(numpy.abs(got - wanted).max() / max(numpy.abs(wanted).max(), 1e-30))


def worst_of(got, true):
    """The largest error of a gradient, by its largest element. One that is zero but for rounding, as of a bias before a
    batch norm, counts by a thousandth of the largest of all."""
    floor = 1e-3 * max(numpy.abs(value).max() for value in true.values())
    return max(
        float(numpy.abs(got[key] - value).max() / max(numpy.abs(value).max(), floor))
        for key, value in true.items()
        if key in got
    )


def without_dropout(module):
    module = copy.deepcopy(module)
    for child in module.modules():
        for key in ("p", "drop_prob", "dropout"):
            if isinstance(getattr(child, key, None), float):
                setattr(child, key, 0.0)
    return module


def gradients_of(module, inputs, labels):
    """The gradients of a cross-entropy in training mode, in the precision of the inputs and weights."""
    module = copy.deepcopy(module).train()
    torch.nn.functional.cross_entropy(module(inputs), labels).backward()
    return {name: p.grad.numpy() for name, p in module.named_parameters() if p.grad is not None}


def taken_out(network, inputs, wide, wanted):
    """The errors of the network that was brought in, as PyTorch's source (in float64) and as a model of ONNX."""
    import onnx
    import onnxruntime

    words = ["export", network, "--weights", network.with_suffix(".safetensors"), "--output"]
    source, model = network.parent / "out.py", network.with_suffix(".onnx")
    run(*words, source)
    spec = importlib.util.spec_from_file_location("out", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    net = module.Net().double()
    net.load_state_dict(load_torch(source.with_suffix(".safetensors")), strict=True)
    with torch.no_grad():
        row = {"torch": apart(net.eval()(wide).numpy(), wanted)}
    run(*words, model, "--format", "onnx")
    onnx.checker.check_model(str(model), full_check=True)
    session = onnxruntime.InferenceSession(str(model))
    row["onnx"] = apart(session.run(None, {session.get_inputs()[0].name: inputs.numpy()})[0], wanted)
    return row


def check(name, folder, wish):
    module = made(name)
    _, size, count = NETWORKS[name]
    row = {"network": name, "joins": None, "wanted": count(module)}
    network = folder / f"{name}.rir"
    begun = time.time()
    report = rewire.export(module, example(size, 2), network)
    row |= {"seconds": round(time.time() - begun, 1), "joins": len(report.joins), "any_batch": report.any_batch}
    row["notes"] = report.notes
    argument = re.search(r"func @forward\(%([^:]+):", network.read_text())[1]
    inputs = example(size, BATCH if report.any_batch else 2, seed=3)
    file, weights = folder / "x.npy", network.with_suffix(".safetensors")
    numpy.save(file, inputs.numpy())
    given = ["--input", f"{argument}={file}"]
    run("run", network, "--weights", weights, *given, "--output", folder / "y.npy", "--quiet")
    wide = inputs.double() if inputs.is_floating_point() else inputs
    with torch.no_grad():
        wanted = copy.deepcopy(module).double()(wide)
    row["logits"] = apart(numpy.load(folder / "y.npy"), wanted.numpy())
    good = row["logits"] <= LOGITS and (row["wanted"] < 0 or row["joins"] == row["wanted"])
    classifies = wanted.dim() == 2
    if wish.out:
        out = taken_out(network, inputs, wide, wanted.numpy())
        row |= out
        good = good and max(out.values()) <= LOGITS
    if wish.gradients and classifies:
        plain = without_dropout(module)
        plain_network = folder / f"{name}_plain.rir"
        rewire.export(plain, example(size, 2), plain_network)
        labels = torch.arange(len(inputs)) % 10
        numpy.save(folder / "l.npy", labels.numpy())
        true = gradients_of(copy.deepcopy(plain).double(), wide, labels)

        def ours(engine):
            run(
                "grad",
                plain_network,
                "--weights",
                plain_network.with_suffix(".safetensors"),
                *given,
                "--labels",
                folder / "l.npy",
                "--output",
                folder / "g.safetensors",
                "--quiet",
                "--engine",
                engine,
            )
            return load_file(folder / "g.safetensors")

        got = ours("jit")
        row |= {"gradients": worst_of(got, true), "not_trained": sorted(set(true) - set(got))}
        if row["gradients"] > GRADIENTS:  # a badly conditioned network: then the equations, and PyTorch's own rounding
            row["evaluator"] = worst_of(ours("evaluator"), true)
            row["pytorch_f32"] = worst_of(gradients_of(plain, inputs, labels), true)
        exact = row.get("evaluator", row["gradients"]) <= GRADIENTS
        rounding = row["gradients"] <= max(GRADIENTS, 2 * row.get("pytorch_f32", 0))
        good = good and exact and rounding and not row["not_trained"]
    if wish.verify and classifies and row["joins"]:
        run("verify", network, "--plugin", wish.plugin, "--quiet")
        row["verified"] = True
    if wish.train and classifies and row["joins"]:
        out = folder / "run"
        run(
            "train",
            network,
            "--plugin",
            wish.plugin,
            "--set",
            f"train.weights={weights}",
            "--set",
            "data.format=synthetic",
            "--set",
            "data.count=160",
            "--set",
            "train.batch=8",
            "--set",
            "train.epochs=1",
            "--no-autotune",
            "--out",
            out,
            "--quiet",
        )
        row["loss"] = json.loads((out / "metrics.jsonl").read_text().splitlines()[-1]).get("loss")
        subprocess.run(["rm", "-r", str(out)], check=True)
    return row, good


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("names", nargs="*")
    for flag in ("--gradients", "--verify", "--train", "--out"):
        arguments.add_argument(flag, action="store_true")
    arguments.add_argument("--plugin", default="orthogonal")
    wish = arguments.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in wish.names or NETWORKS:
            try:
                row, good = check(name, pathlib.Path(folder), wish)
            except Exception as error:
                row, good = {"network": name, "error": f"{type(error).__name__}: {str(error)[:600]}"}, False
            failed += not good
            print("ok    " if good else "FAILED", json.dumps(row), flush=True)
    print(f"{len(wish.names or NETWORKS)} networks, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
