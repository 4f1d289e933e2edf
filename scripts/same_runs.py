#!/usr/bin/env python3
"""Trains eight short runs with two builds of rewire and compares what they write, bit by bit: a change of the data path that means to
change nothing must pass.

    scripts/same_runs.py OLD NEW [--only NAME …]      paths of the two `rewire` programs

The runs together draw from every random stream of the data: MixUp and CutMix, repeated images, views, masked autoencoder, DINO,
diffusion, shards through a shuffle buffer with RandAugment, and a folder with images that cannot be read. Of each, the tensors of
weights.safetensors, of the averages where it keeps any, and of the last checkpoint's state must be equal, and so must
metrics.jsonl without its times. Exits with 1 where they are not.
"""

import argparse
import hashlib
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import zlib

FASHION = "/usr/share/datasets/fashion-mnist"
RECIPES = pathlib.Path(__file__).resolve().parent.parent / "examples" / "recipes"
SMALL = ["model.dim=32", "model.depth=2", "model.heads=2"]
PHOTOGRAPHS = ["vit_tiny_28", *SMALL, "model.channels=3", "model.classes=4", "transforms.resize=bicubic", "transforms.scale=[0.4,1.0]",
               "transforms.horizontal_flip=true"]
# Without speeds and times, whatever they are called.
TIMES = {"images_per_s", "samples_per_s", "seconds", "wall_seconds", "train_seconds"}


def runs(data):
    """By name: MODEL and settings. Each is of 12 steps over the end of an epoch, and evaluates at its end."""
    fashion = ["vit_tiny_28", *SMALL, f"data.path={FASHION}", "data.train_fraction=0.004"]
    recipe = {name: [str(RECIPES / f"fashion_{name}.toml"), f"data.path={FASHION}"] for name in ("mae", "dino", "sit")}
    folder = [*PHOTOGRAPHS, "data.format=folder", f"data.path={data}/folder"]
    return {
        "mixup": [*fashion, "transforms.mixup=0.8", "transforms.cutmix=1.0", "objective.targets=probabilities", "objective.label_smoothing=0.1", "transforms.crop_padding=2"],
        "repeats": [*fashion, "data.aug_repeats=3", "transforms.horizontal_flip=true", "transforms.erase_prob=0.5", "train.accumulate=2"],
        "views": [*recipe["dino"], "data.train_fraction=0.004", "train.batch=16", "eval.knn=5", "eval.batch=100"],
        "mae": [*recipe["mae"], "data.train_fraction=0.01", "train.batch=32", "model.depth=2", "diagnose.every=5"],
        "dino": [*recipe["dino"], "data.train_fraction=0.004", "train.batch=16", "eval.knn=0", "train.best_metric=loss", "data.aug_repeats=2",
                 "train.epochs=2"],
        "sit": [*recipe["sit"], "data.train_fraction=0.004", "train.batch=16", "model.depth=2"],
        "shards": [*PHOTOGRAPHS, "data.format=shards", f"data.path={data}/shards", "data.shuffle_buffer=16", "transforms.rand_augment=timm",
                   "transforms.color_jitter=[0.4,0.4,0.4,0.1]", "data.threads=2"],
        "unreadable": [*folder, "data.unreadable=skip", "transforms.blur_prob=0.5", "transforms.solarize_prob=0.2", "transforms.grayscale_prob=0.2"],
    }


def write_png(path, width, height, pixels):
    """RGB, 8 bits."""
    rows = b"".join(b"\0" + pixels[y * width * 3 : (y + 1) * width * 3] for y in range(height))
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    text = b"".join(struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in chunks)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + text)


def write_folder(folder):
    """Four classes of images of any size, every ninth of them cut off in the middle."""
    draw = random.Random(40)
    for split, count in (("train", 18), ("val", 6)):
        for label in "abcd":
            place = folder / split / label
            place.mkdir(parents=True)
            for i in range(count):
                width, height = draw.randint(20, 60), draw.randint(20, 60)
                tint = draw.randbytes(3)
                pixels = bytes(tint[k % 3] ^ draw.getrandbits(5) ^ (k // 7 & 31) for k in range(3 * width * height))
                file = place / f"{i:03}.png"
                write_png(file, width, height, pixels)
                if i % 9 == 8:
                    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def command(program, words, what):
    done = subprocess.run([program, *words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"same_runs: {what} failed with {done.returncode}: {program} {' '.join(words)}\n{done.stderr}")


def digest_of_tensors(file):
    """Of names, types, shapes and bytes; not of what the file says about itself."""
    raw = file.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + size])
    header.pop("__metadata__", None)
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(header):
        entry = header[name]
        begin, end = entry["data_offsets"]
        digest.update(json.dumps([name, entry["dtype"], entry["shape"]]).encode())
        digest.update(raw[8 + size + begin : 8 + size + end])
    return digest.hexdigest()


def found_in(run):
    """What must be equal, by what it is called."""
    found = {}
    for pattern in ("weights*.safetensors", "checkpoints/*/state.safetensors"):
        for file in sorted(run.glob(pattern)):
            found[str(file.relative_to(run))] = digest_of_tensors(file)
    lines = []
    for text in (run / "metrics.jsonl").read_text().splitlines():
        line = json.loads(text)
        lines.append({key.replace("samples", "images"): value for key, value in line.items() if key not in TIMES})
    found["metrics.jsonl"] = json.dumps(lines)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    options = parser.parse_args()
    different = 0
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text)
        write_folder(folder / "folder")
        whole = folder / "whole"
        for split in ("train", "val"):
            for file in (folder / "folder" / split).rglob("*.png"):
                if int(file.stem) % 9 != 8:
                    copy = whole / file.relative_to(folder / "folder")
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copy.write_bytes(file.read_bytes())
        command(options.old, ["data", "pack", str(whole), "--output", str(folder / "shards"), "--shard-size", "1", "--quiet"], "packing")
        all_runs = runs(folder)
        for name in options.only or all_runs:
            if name not in all_runs:
                parser.error(f"no run is called {name}: {' '.join(all_runs)}")
            found = []
            for build, program in (("old", options.old), ("new", options.new)):
                run = folder / f"{name}-{build}"
                model, *settings = all_runs[name]
                short = ["train.max_steps=12", "train.log_every=3", "train.events=false", "train.report=false"]
                if not model.endswith(".toml"):
                    short += ["train.batch=16", "train.epochs=4"]
                words = [w for s in [*settings, *short] for w in ("--set", s)]
                command(program, ["train", model, *words, "--out", str(run), "--quiet"], name)
                found.append(found_in(run))
            old, new = found
            unlike = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
            different += bool(unlike)
            weights = old.get("weights.safetensors", "none")
            print(f"{name:<11} {weights}  {'differs: ' + ', '.join(unlike) if unlike else f'{len(old)} files equal'}", flush=True)
            if not old.get("weights.safetensors"):
                sys.exit(f"same_runs: {name} wrote no weights")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
