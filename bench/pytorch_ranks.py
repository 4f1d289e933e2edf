#!/usr/bin/env python3
"""The peer of bench/ranks.py: pytorch_step.py's training steps under DistributedDataParallel over gloo, one thread a rank.

Reads numbers of steps from stdin, one a line, and prints the median step in ms of rank 0 for each, after a first line when all
ranks have warmed up.
"""
import argparse
import os
import statistics
import sys
import tempfile

import torch
import torch.distributed
import torch.multiprocessing

from pytorch_step import Trainer

WARM_STEPS = 5


class RankTrainer(Trainer):
    def __init__(self, options):
        super().__init__(options)
        self.model = torch.nn.parallel.DistributedDataParallel(self.model)
        self.loss = self.compiled(options.mode)


def serve(rank, options, file):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=options.ranks)
    trainer = RankTrainer(options)
    trainer.step_seconds(WARM_STEPS)
    asked = os.fdopen(options.input, closefd=False) if rank == 0 else None  # a child's own stdin is closed
    if rank == 0:
        print("ready", flush=True)
    while True:
        count = torch.tensor([int(asked.readline() or 0) if rank == 0 else 0])
        torch.distributed.broadcast(count, 0)
        if count.item() == 0:
            break
        seconds = trainer.step_seconds(count.item())
        if rank == 0:
            print(statistics.median(seconds) * 1e3, flush=True)
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--mode", choices=("eager", "compile"), required=True)
    options = parser.parse_args()
    for key, value in {"device": "cpu", "dtype": "f32", "residual": "plain", "optimizer": None, "weight_decay": 0.05,
                       "label_smoothing": 0.1, "clip_norm": 1.0}.items():
        setattr(options, key, value)
    options.input = os.dup(sys.stdin.fileno())
    os.set_inheritable(options.input, True)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(serve, args=(options, os.path.join(folder, "meet")), nprocs=options.ranks,
                                              start_method="fork")


if __name__ == "__main__":
    main()
