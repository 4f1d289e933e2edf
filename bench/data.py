#!/usr/bin/env python3
"""Images a second of one thread: `rewire data bench` beside torchvision on Pillow, and beside libjpeg-turbo alone.

    VENV/bin/python bench/data.py [--rounds N] [--seconds S] [--images N] [--folder FOLDER] [--out FOLDER]

Needs torch, torchvision, timm, Pillow and numpy. Writes DATE-CPU-data.json and the same as a table in .md. The images are made up:
1/f noise and shapes in the size, quality and file size that ImageNet's have on average. bench/README.md says how it is measured.
"""
import argparse
import datetime
import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

import numpy
import PIL
import timm
import torch
import torchvision
from PIL import Image, ImageDraw
from timm.data.auto_augment import rand_augment_transform
from torchvision import transforms
from torchvision.transforms import v2

from contenders import BUILD, HERE, busy_cores, commit, cpu_name, say

SEED = 22
SIDE = 224
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BICUBIC = transforms.InterpolationMode.BICUBIC


def photograph(numbers, height, width):
    """Noise whose amplitude falls as one over the frequency, as in photographs, its colours alike, under a few shapes."""
    frequency = numpy.hypot(numpy.fft.fftfreq(height)[:, None], numpy.fft.rfftfreq(width)[None])
    frequency[0, 0] = 1

    def noise():
        spectrum = numpy.fft.rfft2(numbers.normal(size=(height, width))) / frequency
        spectrum[0, 0] = 0
        plane = numpy.fft.irfft2(spectrum, s=(height, width))
        return plane / plane.std()

    grey = noise()
    planes = [118 + 52 * (0.93 * grey + 0.37 * noise()) + numbers.normal(0, 3.2, (height, width)) for _ in range(3)]
    image = Image.fromarray(numpy.clip(numpy.stack(planes, axis=-1), 0, 255).astype(numpy.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(int(numbers.integers(2, 6))):
        x, y, w, h = (int(numbers.integers(0, most)) for most in (width, height, width // 3, height // 3))
        colour = tuple(int(level) for level in numbers.integers(0, 256, 3))
        (draw.ellipse if numbers.random() < 0.5 else draw.rectangle)((x, y, x + w, y + h), fill=colour)
    return image


def make_images(folder, count):
    """Three in four are 500 wide and 375 high, the others upright; ten classes."""
    for i in range(count):
        path = folder / "train" / f"class{i % 10}" / f"{i:05}.jpg"
        if path.is_file():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        size = (375, 500) if i % 4 else (500, 375)
        photograph(numpy.random.default_rng((SEED, i)), *size).save(path, quality=90, subsampling=2)
    return sorted((folder / "train").rglob("*.jpg"))


def pillow(augment):
    """As timm's and torchvision's own training scripts have it."""
    whole = transforms.Compose([
        transforms.RandomResizedCrop(SIDE, interpolation=BICUBIC), transforms.RandomHorizontalFlip(), *augment,
        transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)])

    def image(path):
        with open(path, "rb") as file:
            return whole(Image.open(file).convert("RGB"))

    return image


def tensors(augment):
    """transforms.v2 on bytes, decoded by torchvision's own libjpeg-turbo."""
    whole = v2.Compose([
        v2.RandomResizedCrop(SIDE, interpolation=BICUBIC, antialias=True), v2.RandomHorizontalFlip(), *augment,
        v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)])
    rgb = torchvision.io.ImageReadMode.RGB
    return lambda path: whole(torchvision.io.decode_jpeg(torchvision.io.read_file(str(path)), mode=rgb))


class Peer:
    def __init__(self, image, paths):
        self.image, self.paths, self.next = image, paths, 0
        for path in paths[:10]:
            image(path)

    def rate(self, seconds):
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            self.next += 1
            try:
                self.image(self.paths[self.next % len(self.paths)])
            except ValueError as error:  # timm posterizes to 0 bits at its highest level, which Pillow 13 refuses
                if "bits" not in str(error):
                    raise
                continue
            count += 1
        return count / (time.perf_counter() - start)


class Rewire:
    """The loader with one thread that prepares batches; another waits for them."""
    def __init__(self, options, folder, augment):
        given = {"data.format": "folder", "data.path": folder, "data.prefetch": 2, "train.batch": 32, "transforms.resize": "bicubic",
                 "transforms.scale": "[0.08, 1.0]", "transforms.horizontal_flip": "true", "transforms.mean": list(MEAN),
                 "transforms.std": list(DEVIATION), **augment}
        settings = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
        self.command = [options.rewire, "data", "bench", "vit_s16_224", "--threads", "1", "--json", *settings]
        self.parts = []

    def rate(self, seconds):
        result = json.loads(subprocess.run([*self.command, "--seconds", str(seconds)], check=True, capture_output=True, text=True).stdout)
        self.parts.append(result["one_thread"])
        return result["loader"]["images_per_s"]


class Decoder:
    def __init__(self, options, folder):
        self.command = [options.decoder, folder]

    def rate(self, seconds):
        return float(subprocess.run([*self.command, str(seconds)], check=True, capture_output=True, text=True).stdout)


def contenders(options, folder, paths):
    fill = tuple(round(255 * level) for level in MEAN)
    deit = rand_augment_transform("rand-m9-mstd0.5-inc1", {"translate_const": int(SIDE * 0.45), "img_mean": fill})
    ours = {"deit": {"transforms.rand_augment": "timm", "transforms.rand_augment_mstd": 0.5, "transforms.rand_augment_fill": list(fill)},
            "randaugment": {"transforms.rand_augment": "torchvision"}}
    return {
        "crop": {"rewire": Rewire(options, folder, {}), "torchvision on Pillow": Peer(pillow([]), paths),
                 "torchvision.transforms.v2": Peer(tensors([]), paths), "libjpeg-turbo, whole files": Decoder(options, folder)},
        "crop, timm's RandAugment": {"rewire": Rewire(options, folder, ours["deit"]), "timm on Pillow": Peer(pillow([deit]), paths)},
        "crop, torchvision's RandAugment": {
            "rewire": Rewire(options, folder, ours["randaugment"]),
            "torchvision on Pillow": Peer(pillow([transforms.RandAugment()]), paths),
            "torchvision.transforms.v2": Peer(tensors([v2.RandAugment()]), paths)}}


def summary(rates, parts):
    ours = statistics.median(rates["rewire"])
    rows = {name: {"images_per_s": statistics.median(rounds), "rounds": rounds, "rewire_over_it": ours / statistics.median(rounds)}
            for name, rounds in rates.items()}
    median = {key: statistics.median(part[key] for part in parts) for key in ("read_us", "transforms_us")}
    return {"contenders": rows, "rewire_parts": median}


def markdown(result):
    lines = [f"# Data on one thread: {result['date']}, {result['cpu']}", "",
             f"`bench/data.py --rounds {result['rounds']} --seconds {result['seconds']}` at {result['commit']}; others kept "
             f"{min(result['busy_cores']):.1f} to {max(result['busy_cores']):.1f} cores busy.",
             f"{result['images']} made-up JPEG files of 500 x 375 pixels and {result['file_kb']:.0f} KB; {result['libraries']}.", ""]
    for name, case in result["cases"].items():
        lines += [f"## {name}", "", "| | images/s | rounds | rewire / it |", "|---|---|---|---|"]
        for contender, row in case["contenders"].items():
            lines.append(f"| {contender} | {row['images_per_s']:.0f} | {min(row['rounds']):.0f}–{max(row['rounds']):.0f} "
                         f"| {row['rewire_over_it']:.2f} |")
        parts = case["rewire_parts"]
        lines += ["", f"rewire: {parts['read_us']:.0f} µs to read and decode an image, {parts['transforms_us']:.0f} µs to transform it.", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewire", type=pathlib.Path, default=BUILD / "rewire")
    parser.add_argument("--decoder", type=pathlib.Path, default=BUILD / "rewire_bench_jpeg")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=3, help="of each contender in each round")
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--folder", type=pathlib.Path, help="where the images are kept; default: made anew")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or pathlib.Path(temporary)
        say(f"making {options.images} images")
        paths = make_images(folder, options.images)
        cases = contenders(options, folder, paths)
        rates = {case: {name: [] for name in row} for case, row in cases.items()}
        busy = []
        for number in range(options.rounds):
            busy.append(busy_cores())
            say(f"round {number + 1} of {options.rounds}, others keep {busy[-1]:.1f} cores busy")
            for case, row in cases.items():
                for name, contender in row.items():
                    rates[case][name].append(contender.rate(options.seconds))
        libraries = (f"torchvision {torchvision.__version__}, Pillow {PIL.__version__}, timm {timm.__version__}, "
                     f"PyTorch {torch.__version__} with one thread")
        result = {"date": datetime.date.today().isoformat(), "commit": commit(), "cpu": cpu_name(), "rounds": options.rounds,
                  "seconds": options.seconds, "busy_cores": [round(cores, 2) for cores in busy], "images": len(paths),
                  "file_kb": statistics.mean(path.stat().st_size for path in paths) / 1000, "libraries": libraries,
                  "cases": {case: summary(rates[case], row["rewire"].parts) for case, row in cases.items()}}
    slug = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\(\w+\)", "", result["cpu"]).lower()).strip("-")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{result['date']}-{slug}-data.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    path.with_suffix(".md").write_text(markdown(result))
    print(markdown(result))


if __name__ == "__main__":
    main()
