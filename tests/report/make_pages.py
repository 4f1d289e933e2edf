#!/usr/bin/env python3
"""Trains small runs and writes the pages that page_test.py looks at.

    make_pages.py REWIRE FOLDER

FOLDER/one.html: a run with pictures; FOLDER/several.html: two strategies with two seeds each, with diagnostics; one of them has not
ended. Their losses of evaluation are further apart than their seeds scatter.
"""
import json
import pathlib
import shutil
import subprocess
import sys

SMALL = ["model.dim=16", "model.depth=2", "data.format=synthetic", "data.count=64", "train.batch=16", "train.epochs=3",
         "train.log_every=1", "train.threads=1"]


def set_losses(run, loss):
    """The losses of a run's evaluations become this number."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line.update({"loss": loss} if line["kind"] == "eval" else {})
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def main():
    rewire, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    def run(*arguments):
        subprocess.run([rewire, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)

    def train(model, name, *settings, plugin="none"):
        words = [word for setting in (*SMALL, *settings) for word in ("--set", setting)]
        run("train", model, "--plugin", plugin, "--quiet", *words, "--out", folder / name)
        return folder / name

    one = train("mae_vit_tiny_28", "mae", "model.heads=2", "model.decoder_dim=16", "model.decoder_depth=1", "model.decoder_heads=2",
                "objective.name=mae")
    run("report", one, "--output", folder / "one.html")
    several = [train("vit_tiny_28", f"{plugin}-{seed}", "model.heads=2", "diagnose.every=2", f"seed={seed}", plugin=plugin)
               for plugin in ("none", "orthogonal") for seed in (0, 1)]
    for one_run, loss in zip(several, (3.0, 4.0, 2.0, 3.01)):  # a seed is worth 1, and so is a strategy, but for 0.01
        set_losses(one_run, loss)
    (several[-1] / "weights.safetensors").unlink()  # as a run that has not ended
    run("report", *several, "--output", folder / "several.html")


if __name__ == "__main__":
    main()
