#!/usr/bin/env python3
"""Training steps on a GPU beside the CPU's, with nothing but Python's own library: every strategy on a small ViT.

    bench/device_steps.py --rewire build/release/bin/rewire [--residual NAME]… [--autotune] [--set KEY=VALUE]…

f32: what steps of SGD change in the weights must be the CPU's within 1e-3 of that change, and so must each loss. f32 and bf16:
two runs on the GPU give the same bits; not with --autotune, where a second run may have time for a choice that the first had
none for. Exit 1 if anything is worse.
"""
import argparse
import array
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

RESIDUALS = ("none", "decay", "orthogonal", "augment", "skipless", "layerscale", "denseformer", "value_residual", "postnorm",
             "attnres", "hyper")
STEPS, BATCH, IMAGE, CLASSES, LIMIT = 3, 5, 28, 10, 1e-3
MODEL = ["vit_tiny_28", "--set", "model.dim=48", "--set", "model.depth=2"]


def write_npy(path, kind, shape, values):
    header = f"{{'descr': '<{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + values.tobytes())


def read_weights(path):
    """All weights of a safetensors file of f32, by name."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: array.array("f", data[begin + row["data_offsets"][0]:begin + row["data_offsets"][1]])
            for name, row in header.items()}


def distance(one, other):
    return math.sqrt(sum((a - b) ** 2 for name in one for a, b in zip(one[name], other[name])))


class Steps:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.settings = [word for text in options.set for word in ("--set", text)]
        seeded = random.Random(1)
        pixels = array.array("f", (seeded.gauss(0, 1) for _ in range(BATCH * IMAGE * IMAGE)))
        write_npy(folder / "x.npy", "f4", (BATCH, 1, IMAGE, IMAGE), pixels)
        write_npy(folder / "y.npy", "i8", (BATCH,), array.array("q", (seeded.randrange(CLASSES) for _ in range(BATCH))))

    def call(self, verb, residual, *rest):
        done = subprocess.run([self.options.rewire, verb, *MODEL, *self.settings, "--plugin", residual, *rest, "--quiet"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"`{verb}` ended with {done.returncode}"])[-1])
        return done.stdout

    def steps(self, residual, output, *rest):
        given = [word for option, name in (("--weights", "w.safetensors"), ("--input", "x.npy"), ("--labels", "y.npy"))
                 for word in (option, str(self.folder / name))]
        return json.loads(self.call("step", residual, *given, "--steps", str(STEPS), "--output", str(self.folder / output),
                                    "--set", "optimizer.name=sgd", *rest))["losses"]

    def faults(self, residual):
        """What is wrong with a strategy, and how far it is from the CPU."""
        self.call("init", residual, "--output", str(self.folder / "w.safetensors"))
        expected = self.steps(residual, "cpu.safetensors", "--no-autotune")
        faults = []
        for dtype in ("f32", "bf16"):
            on_gpu = ("--device", "cuda", "--set", f"train.dtype={dtype}", *(() if self.options.autotune else ("--no-autotune",)))
            losses = self.steps(residual, f"{dtype}.safetensors", *on_gpu)
            again = self.steps(residual, "again.safetensors", *on_gpu)
            first, second = ((self.folder / f"{name}.safetensors").read_bytes() for name in (dtype, "again"))
            if not self.options.autotune and (first != second or losses != again):
                faults.append(f"two runs of {dtype} differ")
            if dtype == "f32" and not max(abs(a - b) / abs(b) for a, b in zip(losses, expected)) <= LIMIT:
                faults.append(f"losses {losses}, not {expected}")
        first, cpu, gpu = (read_weights(self.folder / f"{name}.safetensors") for name in ("w", "cpu", "f32"))
        error = distance(gpu, cpu) / distance(cpu, first)
        if not error <= LIMIT:
            faults.append(f"weights are {error:.1e} of their change off")
        return faults, error


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rewire", required=True)
    parser.add_argument("--residual", choices=RESIDUALS, action="append", help="default: all")
    parser.add_argument("--autotune", action="store_true", help="the GPU's steps with choices made by timing")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the network")
    options = parser.parse_args()
    residuals, failed = options.residual or RESIDUALS, 0
    with tempfile.TemporaryDirectory() as folder:
        steps = Steps(options, pathlib.Path(folder))
        for residual in residuals:
            try:
                faults, error = steps.faults(residual)
                said = f"weights {error:.1e} of their change from the CPU's"
            except RuntimeError as failure:
                faults, said = [str(failure)], ""
            failed += bool(faults)
            print(f"{residual:<14} {said}" + (f"  FAILED: {'; '.join(faults)}" if faults else "  ok"), flush=True)
    print(f"{STEPS} steps of {len(residuals)} strategies, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
