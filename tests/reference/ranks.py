"""Steps of sharded batches beside PyTorch's DistributedDataParallel (gloo, one process a shard) in float64.

    ranks.py REWIRE [--ranks 4] [--steps 50]

DDP trains reference.py's ViT with AdamW, a batch a rank; `rewire step` takes the same batches as the shards of its steps,
on the evaluator in double precision. Prints the largest distance of their losses, and fails above 1e-6.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

import numpy
import torch
import torch.distributed
import torch.multiprocessing
import torch.nn.functional as F
from safetensors.numpy import save_file

from reference import VisionTransformer, decay_groups

SHAPE = dict(image=8, patch=4, channels=3, classes=10, dim=24, depth=3, heads=2, plugins=("orthogonal",))
LR, DECAY, SMOOTHING, CLIP, BATCH = 3e-3, 0.05, 0.1, 1.0, 6


def network():
    torch.manual_seed(1)
    model = VisionTransformer(**SHAPE).double()
    with torch.no_grad():
        for parameter in model.parameters():  # far from a start, and numbers that f32 holds
            parameter.copy_((parameter + 0.1 * torch.randn_like(parameter)).float())
    return model


def batches(steps, ranks):
    random = numpy.random.default_rng(2)
    images = random.standard_normal((steps * ranks, BATCH, SHAPE["channels"], SHAPE["image"], SHAPE["image"]))
    return images.astype(numpy.float32), random.integers(0, SHAPE["classes"], (steps * ranks, BATCH))


def train(rank, ranks, steps, file, losses):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=ranks)
    model = torch.nn.parallel.DistributedDataParallel(network())
    optimizer = torch.optim.AdamW(decay_groups(model.module, DECAY), lr=LR)
    images, labels = batches(steps, ranks)
    for step in range(steps):
        at = step * ranks + rank
        loss = F.cross_entropy(model(torch.from_numpy(images[at]).double()), torch.from_numpy(labels[at]),
                               label_smoothing=SMOOTHING)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        if rank == 0:
            losses[step] = mean.item() / ranks
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rewire", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    losses = torch.zeros(options.steps, dtype=torch.float64).share_memory_()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train, nprocs=options.ranks,
                                    args=(options.ranks, options.steps, os.path.join(folder, "meet"), losses))
        images, labels = batches(options.steps, options.ranks)
        numpy.save(f"{folder}/x.npy", images)
        numpy.save(f"{folder}/y.npy", labels)
        save_file({name: value.detach().float().numpy() for name, value in network().named_parameters()},
                  f"{folder}/w.safetensors")
        model = [f"model.{key}={value}" for key, value in SHAPE.items() if key != "plugins"]
        values = model + [f"train.batch={BATCH * options.ranks}", f"train.shards={options.ranks}", f"optimizer.lr={LR}",
                          f"optimizer.weight_decay={DECAY}", "schedule.name=constant", "schedule.warmup_epochs=0",
                          f"objective.label_smoothing={SMOOTHING}", f"train.clip_norm={CLIP}"]
        said = subprocess.run([options.rewire, "step", "vit_tiny_28", "--engine", "evaluator", "--plugin", "orthogonal",
                               "--weights", f"{folder}/w.safetensors", "--input", f"{folder}/x.npy", "--labels",
                               f"{folder}/y.npy", "--steps", str(options.steps), "--output", f"{folder}/out.safetensors",
                               *[part for value in values for part in ("--set", value)]],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
    ours = torch.tensor(json.loads(said)["losses"], dtype=torch.float64)
    far = (ours - losses).abs().max().item()
    print(f"{options.steps} steps of {options.ranks} shards: losses {losses[0]:.6f} to {losses[-1]:.6f}, at most {far:.2g} apart")
    return 0 if far <= 1e-6 else 1


if __name__ == "__main__":
    raise SystemExit(main())
