"""Takes networks out to PyTorch with `rewire export` and holds PyTorch's results against Rewire's.

    check_export.py [CASE…] [--steps N | --onnx] [--no-lint]

A case is MODEL followed by its plugins and settings, all after a slash: vit_s_cifar/orthogonal/model.depth=2. Without
cases: models of each family with each strategy. Weights are perturbed and loaded strictly, PyTorch computes in float64.
One line a case: the errors of the logits (and of PyTorch's own float32: single), of the gradients of a cross-entropy in
training (own), and of the losses of N steps of AdamW; the lines of the file, which ruff and mypy check where they are
installed. With --onnx: the same weights as a model of ONNX, checked and run by ONNX Runtime at two batches, beside
PyTorch's logits in float64. Exit 1 if one fails. Needs torch, safetensors, numpy, for --onnx also onnx and onnxruntime,
and build/release/bin/rewire ($REWIRE).
"""

import argparse
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
REWIRE = os.environ.get("REWIRE", str(ROOT / "build/release/bin/rewire"))
LOGITS, GRADIENTS, LOSSES = 1e-5, 1e-4, 1e-4
BATCH = 3

SMALL = {
    "vit": ("vit_tiny_28", "model.depth=3"),
    "vit_all": ("vit_tiny_28", "model.depth=2", "model.pool=avg", "model.fc_norm=true", "model.init_values=0.1",
                "model.reg_tokens=2", "model.distilled=false", "model.qkv_bias=false", "model.pre_norm=true"),
    "deit": ("deit_tiny", "model.depth=2", "model.image=64", "model.distilled=true"),
    "oru_vit": ("oru_vit_s", "model.depth=2"),
    "pvt": ("pvt_small", "model.image=64"),
    "t2t_vit": ("t2t_vit_14", "model.image=64", "model.depth=2"),
    "resnetv2": ("resnetv2_18",),
    "resnetv2_50": ("resnetv2_50",),
    "resnet": ("resnet18", "model.image=64"),
    "mae": ("mae_vit_tiny_28", "model.depth=2"),
    "dino": ("dino_vit_tiny_28", "model.depth=2"),
    "sit": ("sit_tiny_28", "model.depth=2"),
}  # fmt: skip
STRATEGIES = [
    (), ("orthogonal",), ("orthogonal:mode=global",), ("decay",), ("decay:learnable=true",), ("augment",),
    ("augment:projection=dense",), ("layerscale",), ("postnorm",), ("skipless",), ("value_residual",),
    ("denseformer",), ("attnres",), ("hyper",), ("augment", "decay"),
    ("formula:weights='g[channels] = 0.5',let='s = sigmoid(mean(h))',join='x + g * s * f'",),
]  # fmt: skip


class Refused(Exception):
    """A command that exits with 2."""


class NotExported(Exception):
    """A strategy that does not take the network, or an op without a form in PyTorch."""


def run(*words):
    done = subprocess.run([REWIRE, *map(str, words)], capture_output=True, text=True, timeout=600)
    if done.returncode == 2:
        raise Refused(done.stderr.strip().splitlines()[0])
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[:300])
    return done.stdout


def module_of(file):
    spec = importlib.util.spec_from_file_location("exported", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def perturbed(weights, target):
    """The file's weights with a few per cent of noise, so that nothing is zero or alike by its start."""
    generator = torch.Generator().manual_seed(1)
    with safe_open(weights, "pt") as stored:
        metadata = stored.metadata()
    tensors = load_file(weights)
    for name, value in tensors.items():
        if value.is_floating_point():
            tensors[name] = value + 0.02 * torch.randn(value.shape, generator=generator)
        if name.endswith("running_var"):
            tensors[name] = tensors[name].abs() + 0.5
    save_file(tensors, target, metadata)
    return tensors


def inputs_of(arguments, folder, seed):
    """Random inputs by the names that the network's text gives them."""
    generator = torch.Generator().manual_seed(2 + seed)
    text = run("dump", *arguments, "--stage", "ir", "--no-pager")
    inputs = {}
    for name, dtype, shape in re.findall(
        r"%(\w+): (\w+)\[([\d,]*)\]", re.search(r"@forward\((.*?)\) ->", text).group(1)
    ):
        extents = [BATCH, *map(int, shape.split(",")[1:])]
        value = torch.randn(extents, generator=generator)
        if not dtype.startswith("f"):
            value = torch.randint(
                0, 4, extents, generator=generator, dtype=torch.int64 if dtype == "i64" else torch.int32
            )
        numpy.save(folder / f"{name}.npy", value.numpy())
        inputs[name] = value
    return inputs


def relative(got, true):
    return float((got.double() - true.double()).norm() / true.double().norm().clamp(min=1e-30))


def worst(got, true):
    floor = 1e-3 * max(float(value.double().norm()) for value in true.values())
    return max(
        float((got[n].double() - v.double()).norm()) / max(float(v.double().norm()), floor) for n, v in true.items()
    )


def gradients(net, inputs, labels):
    net.zero_grad()
    torch.nn.functional.cross_entropy(net(*inputs), labels).backward()
    return {name: value.grad.clone() for name, value in net.named_parameters() if value.grad is not None}


def losses_of_torch(net, inputs, labels, steps):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.05)
    losses = []
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(net(*inputs), labels)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


def losses_of_rewire(arguments, folder, image, steps):
    settings = [
        *("optimizer.name=adamw", "optimizer.lr=1e-4", "optimizer.beta1=0.9", "optimizer.beta2=0.999"),
        *("optimizer.eps=1e-8", "optimizer.weight_decay=0.05", "optimizer.decay=all", "schedule.name=constant"),
        *("schedule.warmup_epochs=0", "train.clip_norm=0", "objective.label_smoothing=0"),
    ]
    words = [word for setting in settings for word in ("--set", setting)]
    text = run("step", *arguments, *words, "--weights", folder / "perturbed.safetensors", "--input", image, "--labels",
               folder / "labels.npy", "--steps", steps, "--output", folder / "after.safetensors")  # fmt: skip
    return json.loads(text)["losses"]


def linted(file):
    faults = []
    for tool in (["ruff", "check", "-q"], ["mypy", "--ignore-missing-imports"]):
        found = shutil.which(tool[0]) or str(pathlib.Path(sys.executable).parent / tool[0])
        if pathlib.Path(found).exists():
            done = subprocess.run([found, *tool[1:], str(file)], capture_output=True, text=True, cwd=file.parent)
            faults += [tool[0]] if done.returncode else []
    return faults


def onnx_error(net, inputs, arguments, folder):
    """The error of ONNX Runtime's first result, the worst of this batch and a batch of 1."""
    import onnx
    import onnxruntime

    file = folder / "net.onnx"
    run("export", *arguments, "--weights", folder / "perturbed.safetensors", "--format", "onnx", "--output", file)
    onnx.checker.check_model(str(file), full_check=True)
    session = onnxruntime.InferenceSession(str(file))
    errors = []
    for batch in (BATCH, 1):
        some = {name: value[:batch] for name, value in inputs.items()}
        with torch.no_grad():
            true = net(*[value.double() if value.is_floating_point() else value for value in some.values()])
        got = session.run(None, {name: value.numpy() for name, value in some.items()})
        errors.append(relative(torch.from_numpy(got[0]), true[0] if isinstance(true, tuple) else true))
    return max(errors)


def held(source, tensors, arguments, folder, steps, seed, onnx):
    """The errors for one draw of inputs."""
    inputs = inputs_of(arguments, folder, seed)
    wide = [value.double() if value.is_floating_point() else value for value in inputs.values()]
    image = folder / f"{next(iter(inputs))}.npy"
    net = source.Net().double()
    net.load_state_dict(tensors, strict=True)
    net.eval()
    with torch.no_grad():
        result = net(*wide)
    result = result[0] if isinstance(result, tuple) else result
    if onnx:
        row = {"onnx": onnx_error(net, inputs, arguments, folder)}
        return row, row["onnx"] <= LOGITS
    given = [word for key in inputs for word in ("--input", f"{key}={folder / key}.npy")]
    weights = ["--weights", folder / "perturbed.safetensors"]
    run("run", *arguments, *weights, *(given if len(inputs) > 1 else ["--input", image]), "--output", folder / "y.npy")
    row = {"logits": relative(torch.from_numpy(numpy.load(folder / "y.npy")), result)}
    narrow = source.Net()
    narrow.load_state_dict(tensors, strict=True)
    narrow.eval()
    with torch.no_grad():
        single = narrow(*inputs.values())
    row["single"] = relative(single[0] if isinstance(single, tuple) else single, result)
    good = row["logits"] <= max(LOGITS, 4 * row["single"])
    text = (folder / "net.py").read_text()
    if list(inputs) != ["image"] or result.ndim != 2 or re.search(r"dropout\(|drop_path\(|torch\.rand", text):
        return row, good  # no objective with labels, or other random numbers here and there
    labels = torch.arange(BATCH) % result.shape[1]
    numpy.save(folder / "labels.npy", labels.numpy())
    try:
        run("grad", *arguments, *weights, "--input", image, "--labels", folder / "labels.npy",
            "--output", folder / "g.safetensors")  # fmt: skip
    except Refused:
        return row, good  # its objective takes no labels
    net.train()
    true = gradients(net, wide, labels)
    narrow.train()
    own = worst(gradients(narrow, list(inputs.values()), labels), true)
    row |= {"gradients": worst(load_file(folder / "g.safetensors"), true), "own": own}
    good = good and row["gradients"] <= max(GRADIENTS, 4 * own)
    if steps:
        net.load_state_dict(tensors, strict=True)
        ours = losses_of_rewire(arguments, folder, image, steps)
        theirs = losses_of_torch(net, wide, labels, steps)
        row["losses"] = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))
        good = good and row["losses"] <= max(LOSSES, 4 * own)
    return row, good


def check(words, steps, onnx=False, lint=True):
    arguments = [words[0]]
    for word in words[1:]:
        arguments += ["--set" if re.match(r"[a-z_]+\.[a-z_0-9]+=", word) else "--plugin", word]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        try:
            run("export", *arguments, "--output", folder / "net.py")
        except Refused as why:
            raise NotExported(str(why)) from None
        source = module_of(folder / "net.py")
        text = (folder / "net.py").read_text()
        tensors = perturbed(folder / "net.safetensors", folder / "perturbed.safetensors")
        # Rounding puts one of a million values on the other side of a ReLU's kink, and a gradient is then another. A
        # wrong gradient is wrong for every draw.
        for seed in range(4 if "F.relu" in text else 1):
            row, good = held(source, tensors, arguments, folder, steps, seed, onnx)
            if good:
                break
        faults = linted(folder / "net.py") if lint and not onnx else []
        figures = " ".join(f"{key} {value:.1e}" for key, value in row.items())
        verdict = "ok  " if good and not faults else "BAD "
        print(verdict, f"{'/'.join(words):60}", figures, len(text.splitlines()), "lines", *faults, flush=True)
        return good and not faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--onnx", action="store_true")
    parser.add_argument("--no-lint", action="store_true")
    wish = parser.parse_args()
    cases = [re.split(r"/", case) for case in wish.cases]
    if not cases:
        cases = [[model[0], *strategy, *model[1:]] for model in SMALL.values() for strategy in STRATEGIES]
    bad, refused = 0, 0
    for words in cases:
        try:
            bad += not check(words, wish.steps, wish.onnx, not wish.no_lint)
        except NotExported as why:
            refused += 1
            print("no  ", "/".join(words), str(why)[:160], flush=True)
        except Exception as fault:  # noqa: BLE001  a case must not end the others
            bad += 1
            print("BAD ", "/".join(words), type(fault).__name__, str(fault)[:300], flush=True)
    print(f"{len(cases) - bad - refused} of {len(cases)} cases right, {refused} refused, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
