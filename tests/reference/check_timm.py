"""Holds files that `rewire` reads and writes against timm's own module, or torchvision's, both ways:

    check_timm.py write MODEL W.safetensors x.npy labels.npy     its initial weights, an input, labels
    check_timm.py write --perturbed …                            vectors and running statistics away from 0 and 1
    check_timm.py check MODEL W.safetensors x.npy y.npy          y is its output for these weights and input
    check_timm.py initial MODEL W.safetensors                    W is distributed as its own initialisation

MODEL is a zoo name (vit_tiny_28, …) or JSON with the keys of the family vit (no rates of dropout). resnetv2_50 is
timm's, ours with model.form=timm, image=224 and classes=1000; resnet18 is torchvision's. Exit 0 if all agrees. Needs
torch, timm, torchvision, safetensors, numpy.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys

import numpy
import torch
from safetensors.torch import load_file, save_file

from reference import OPTIONS, timm_model

REWIRE = pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/rewire"
SIZES = ("image", "patch", "channels", "classes", "dim", "depth", "heads")
PEERS = ("resnetv2_50", "resnet18")  # as their libraries build them, of this size
PEER_SIZE = dict(image=224, channels=3, classes=1000)


def peer(name):
    if name == "resnetv2_50":
        from timm import create_model
        return create_model(name)
    from torchvision.models import resnet18
    return resnet18()


def of_zoo(rewire, name):
    """The options of a ViT of the zoo, as the program lists them."""
    models = json.loads(subprocess.run([rewire, "models", "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout)
    found = [model for model in models if model["name"] == name and model["family"] == "vit"]
    if not found:
        sys.exit(f"{rewire} has no ViT {name}")
    return {key: found[0][key] for key in (*SIZES, *OPTIONS)}


def build(rewire, text):
    if text in PEERS:
        return peer(text), PEER_SIZE
    options = json.loads(text) if text.startswith("{") else of_zoo(rewire, text)
    return timm_model(**options), options


def perturb(weights):
    for name, tensor in weights.items():
        if tensor.ndim == 1:
            noise = 0.2 * torch.randn(tensor.shape)
            tensor.copy_(tensor * noise.exp() if name.endswith("running_var") else tensor + noise)


def weights_of(model):
    return {name: tensor for name, tensor in model.state_dict().items() if not name.endswith("num_batches_tracked")}


def write(arguments):
    torch.manual_seed(arguments.seed)
    model, options = build(arguments.rewire, arguments.model)
    weights = weights_of(model)
    if arguments.perturbed:
        perturb(weights)
    save_file(weights, arguments.weights)
    shape = (arguments.batch, options["channels"], options["image"], options["image"])
    numpy.save(arguments.input, numpy.random.default_rng(arguments.seed).standard_normal(shape, dtype=numpy.float32))
    numpy.save(arguments.labels, numpy.arange(arguments.batch, dtype=numpy.int64) % options["classes"])


def check(arguments):
    model, _ = build(arguments.rewire, arguments.model)
    model = model.double().eval()
    model.load_state_dict({k: v.double() for k, v in load_file(arguments.weights).items()}, strict=True)
    with torch.no_grad():
        want = model(torch.from_numpy(numpy.load(arguments.input)).double()).numpy()
    got = numpy.load(arguments.output).astype(numpy.float64)
    assert got.shape == want.shape, f"output {got.shape}, timm's {want.shape}"
    error = numpy.linalg.norm(got - want) / numpy.linalg.norm(want)
    print(f"relative L2 error against timm in float64: {error:.3e}")
    return error <= arguments.tolerance


def initial(arguments):
    """Means and standard deviations, each within 6 standard errors of timm's: for n normal numbers the mean's error is
    std / sqrt(n), the deviation's at most std / sqrt(2 n)."""
    torch.manual_seed(arguments.seed)
    model, _ = build(arguments.rewire, arguments.model)
    ours = load_file(arguments.weights)
    good = True
    for name, theirs in weights_of(model).items():
        a, b = ours[name].double(), theirs.double()
        assert a.shape == b.shape, f"{name}: {tuple(a.shape)}, timm's {tuple(b.shape)}"
        if b.numel() == 1 or b.std() == 0:
            agrees = torch.equal(a, b)
        else:
            # Both samples vary: the difference has sqrt(2) times one sample's error.
            bound = 6 * b.std() / math.sqrt(b.numel())
            agrees = (a.mean() - b.mean()).abs() < math.sqrt(2) * bound and (a.std() - b.std()).abs() < bound
        if not agrees:
            print(f"{name}: mean {a.mean():.3e} std {a.std():.3e}, timm's {b.mean():.3e} {b.std():.3e}")
        good = good and bool(agrees)
    print(f"{len(weights_of(model))} tensors, {sum(p.numel() for p in model.parameters())} parameters")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for function, files in ((write, ("weights", "input", "labels")), (check, ("weights", "input", "output")),
                            (initial, ("weights",))):
        command = commands.add_parser(function.__name__)
        command.add_argument("model")
        for file in files:
            command.add_argument(file)
        command.add_argument("--rewire", default=str(REWIRE), metavar="PROGRAM", help="whose zoo MODEL is of (%(default)s)")
        command.add_argument("--perturbed", action="store_true")
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--batch", type=int, default=4)
        command.add_argument("--tolerance", type=float, default=1e-5)
        command.set_defaults(run=function)
    arguments = parser.parse_args()
    sys.exit(0 if arguments.run(arguments) in (None, True) else 1)


if __name__ == "__main__":
    main()
