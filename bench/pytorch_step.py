#!/usr/bin/env python3
"""The peer: training steps of the same network in PyTorch.

    pytorch_step.py --model '{"image": 28, …}' --batch 64 [--residual plain|decay|orthogonal|augment|skipless|SPEC]
                    [--mode eager|compile|max-autotune] [--device cpu|cuda] [--dtype f32|bf16] [--optimizer FILE:CLASS]

SPEC is one of pytorch_strategies.py, as the plugin's: attnres:block=3. bf16 is autocast; on a GPU `compile` and
`max-autotune` run in CUDA graphs, and eager matrices of f32 are not rounded to TF32.
Warms up (and compiles), prints one line of JSON about itself, then reads numbers of steps from stdin, one a line; for
each it does that many training steps and prints a line of JSON: the median and the mean step in ms, and the process's peak
memory (on a GPU what PyTorch took of the card; a step is what lies between two events, and it waits for the card once, at the
end). The line `kernels` asks for what a step launches on the GPU, the longest first, and which of it is attention.
--prepare compiles and warms up alone: what it compiled is in PyTorch's cache then, but no choice that it timed.
bench/run.py keeps several of these alive and asks them in turn.

"family": "resnetv2" in the model's JSON asks for bench/pytorch_resnetv2.py's network, "mae" and "dino" for those of
bench/pytorch_self_supervised.py, "gpt2" and "llama" for those of bench/pytorch_language.py, whose losses are their own, "public" for timm's or torchvision's
("source"). Else it is timm's ViT written plainly: scaled_dot_product_attention, exact GELU, LayerNorm with eps 1e-6. A step is what a `rewire` step is: loss with
label smoothing, backward, clipping by the global norm, AdamW with decay on matrices, or the class in a Python file with its own
defaults.
"""
import argparse
import importlib.util
import json
import re
import statistics
import sys
import time

import torch
import torch._inductor.config as inductor
import torch.nn.functional as F
from torch import nn

import pytorch_language
import pytorch_resnetv2
import pytorch_self_supervised
import pytorch_strategies


ATTENTION = re.compile(r"flash|fmha|attention|sdpa", re.IGNORECASE)  # in the names of PyTorch's, cuDNN's and CUTLASS's kernels


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mix=lambda v: v):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        v = mix(v)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


def feature_join(combine):
    """A join that needs nothing but the stream x and the branch's output f."""
    class Join(nn.Module):
        def __init__(self, dim, index, joins):
            super().__init__()
            self.index, self.joins = index, joins

        def forward(self, x, f, u):
            return combine(self, x, f)
    return Join


def plain(join, x, f):
    return x + f


def decay(join, x, f, alpha_min=0.6):
    return (1 - (1 - alpha_min) * join.index / (join.joins - 1)) * x + f


def orthogonal(join, x, f, eps=1e-6):
    """x + f - s x with s = <x, f> / (|x|^2 + eps), token by token."""
    s = (x * f).sum(-1, keepdim=True) / ((x * x).sum(-1, keepdim=True) + eps)
    return x + f - s * x


def skipless(join, x, f):
    return f


class Augment(nn.Module):
    """x + f + sum of gelu(u Theta_t), Theta_t of b x b circulant blocks: as one product with the matrices that
    a gather builds in each step."""

    def __init__(self, dim, index, joins, paths=2, blocks=4):
        super().__init__()
        self.paths, self.blocks, self.slice = paths, blocks, dim // blocks
        self.c = nn.Parameter(torch.randn(paths, blocks, blocks, self.slice) * 0.02)  # path, output, input, lag
        lags = torch.arange(self.slice)
        self.register_buffer("lag", (lags[None, :] - lags[:, None]) % self.slice)  # of input s (row), output r

    def forward(self, x, f, u):
        dense = self.c[..., self.lag].permute(2, 3, 0, 1, 4).reshape(u.shape[-1], -1)
        paths = F.gelu(u @ dense)
        return x + f + paths.reshape(*u.shape[:-1], self.paths, u.shape[-1]).sum(-2)


JOINS = {"plain": feature_join(plain), "decay": feature_join(decay), "orthogonal": feature_join(orthogonal),
         "augment": Augment, "skipless": feature_join(skipless)}


class Block(pytorch_strategies.JoinedBlock):
    def __init__(self, dim, heads, join, index, depth):
        norms = (nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6))
        super().__init__(dim, norms, Attention(dim, heads), Mlp(dim, 4 * dim), join, index, depth)


class VisionTransformer(nn.Module):
    def __init__(self, image, channels, classes, patch, dim, depth, heads, residual):
        super().__init__()
        join = JOINS.get(residual, JOINS["plain"])
        self.strategy = None if residual in JOINS else pytorch_strategies.make(residual, dim, depth)
        self.proj = nn.Conv2d(channels, dim, patch, patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, dim) * 0.02)
        self.blocks = nn.Sequential(*[Block(dim, heads, join, index, depth) for index in range(depth)])
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, classes)

    def forward(self, image):
        x = self.proj(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        x = self.blocks(x) if self.strategy is None else self.strategy(self.blocks, x)
        return self.head(self.norm(x)[:, 0])


def memory_mb(key):
    """VmHWM: the most that was ever resident; VmRSS: now. Of this process alone."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(key + ":"))
    return int(line.split()[1]) * 1024 / 1e6


def public_network(source, image, channels, classes, residual):
    """timm:NAME or torchvision:NAME, for images of its own size, with channels last."""
    if (channels, residual) != (3, "plain"):
        raise ValueError("a public network has plain residuals and three channels")
    package, name = source.split(":")
    if package == "timm":
        import timm
        net = timm.create_model(name, num_classes=classes)
    else:
        import torchvision
        net = torchvision.models.get_model(name, weights=None, num_classes=classes)
    return net.to(memory_format=torch.channels_last)


class Trainer:
    def __init__(self, options):
        torch.manual_seed(0)
        model = json.loads(options.model)
        torch.backends.cudnn.benchmark = True
        self.device, self.autocast = options.device, options.dtype == "bf16"
        family = model.pop("family", "vit")
        self.supervises = family in ("vit", "resnetv2", "public")
        if self.supervises:
            network = {"vit": VisionTransformer, "resnetv2": pytorch_resnetv2.ResNetV2, "public": public_network}[family]
            self.model = network(**model, residual=options.residual).to(self.device)
            images = torch.randn(options.batch, model["channels"], model["image"], model["image"], device=self.device)
            if family == "public":
                images = images.to(memory_format=torch.channels_last)
            self.inputs = images, torch.randint(0, model["classes"], (options.batch,), device=self.device)
        else:
            if family in ("gpt2", "llama"):
                spec = options.residual
                strategy = None if spec in JOINS else pytorch_strategies.make(spec, model["dim"], model["depth"])
                self.model = pytorch_language.make(family, model, JOINS.get(spec, JOINS["plain"]), strategy).to(self.device)
            else:
                shape = model | {"plain_join": JOINS["plain"]}
                self.model = pytorch_self_supervised.make(family, Block, JOINS[options.residual], shape).to(self.device)
            self.inputs = self.model.inputs(options.batch, self.device)
        # compile() wraps the loss as well, so that it is one graph forward and one backward.
        self.loss = self.compiled(options.mode)
        self.smoothing, self.clip_norm = options.label_smoothing, options.clip_norm
        self.optimizer, self.optimizer_name = (self.given_optimizer(options) if options.optimizer else
                                               self.fastest_optimizer(options.weight_decay))

    def compiled(self, mode):
        if mode == "eager":
            return self.plain_loss
        if mode == "max-autotune":
            return torch.compile(self.plain_loss, dynamic=False, mode="max-autotune")
        return torch.compile(self.plain_loss, dynamic=False,
                             mode="reduce-overhead" if self.device == "cuda" else "default")

    def plain_loss(self, *inputs):
        if not self.supervises:
            with torch.autocast(self.device, torch.bfloat16, enabled=self.autocast):
                return self.model.loss(*inputs)
        images, labels = inputs
        with torch.autocast(self.device, torch.bfloat16, enabled=self.autocast):
            logits = self.model(images)
        return F.cross_entropy(logits.float(), labels, label_smoothing=self.smoothing)

    def groups(self, weight_decay):
        matrices, others = [], []
        for name, p in self.model.named_parameters():
            if not p.requires_grad:
                continue
            (matrices if p.ndim > 1 and name.split(".")[-1] not in ("cls_token", "pos_embed", "mask_token") else others).append(p)
        return [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]

    def given_optimizer(self, options):
        path, _, name = options.optimizer.rpartition(":")
        spec = importlib.util.spec_from_file_location("given_optimizer", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, name)(self.groups(options.weight_decay)), name

    def fastest_optimizer(self, weight_decay):
        """AdamW has three implementations; which is the fastest differs by machine, so it is measured."""
        groups = self.groups(weight_decay)
        best = None
        for name in ("fused", "foreach"):
            optimizer = torch.optim.AdamW([dict(group) for group in groups], lr=0.0, **{name: True})
            for p in (p for group in groups for p in group["params"]):
                p.grad = torch.zeros_like(p)
            times = []
            for _ in range(4):
                start = self.now()
                optimizer.step()
                times.append(self.now() - start)
            if best is None or min(times) < best[0]:
                best = (min(times), name)
            optimizer = None
        self.model.zero_grad(set_to_none=True)
        return torch.optim.AdamW(groups, lr=1e-3, **{best[1]: True}), best[1]

    def now(self):
        """Seconds, with nothing left to do on the card."""
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def step(self):
        if self.device == "cuda":
            torch.compiler.cudagraph_mark_step_begin()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(*self.inputs)
        loss.backward()
        if self.clip_norm > 0:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm, foreach=True)
        self.optimizer.step()
        if not self.supervises:
            self.model.after_step()
        return loss.detach() if self.device == "cuda" else loss.item()

    def step_seconds(self, steps):
        """Of each step. On a card of steps that nobody waits for, from the event behind one to that behind the next."""
        if self.device == "cuda":
            for _ in range(2):  # the card wakes up
                self.step()
            events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
            events[0].record()
            for event in events[1:]:
                self.step()
                event.record()
            torch.cuda.synchronize()
            return [a.elapsed_time(b) * 1e-3 for a, b in zip(events, events[1:])]
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - start)
        return times

    def kernels(self):
        """Of one step: [name, launches, ms], the longest first, at most 40."""
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            self.step()
            torch.cuda.synchronize()
        rows = sorted(([event.key[:120], event.count, event.self_device_time_total * 1e-3] for event in profile.key_averages()
                       if event.self_device_time_total > 0), key=lambda row: -row[2])
        return {"kernels": rows[:40], "attention": [name for name, *_ in rows if ATTENTION.search(name)]}

    def forget_peak(self):
        """What compiling and choosing an optimizer took of the card is no step's."""
        if self.device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def peak_mb(self):
        return torch.cuda.max_memory_reserved() / 1e6 if self.device == "cuda" else memory_mb("VmHWM")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="JSON: family, and the arguments of its network")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--residual", default="plain", help=f"one of {', '.join(JOINS)}, or a plugin's spec")
    parser.add_argument("--mode", choices=("eager", "compile", "max-autotune"), default="eager")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prepare", action="store_true", help="compile, warm up and end")
    parser.add_argument("--warm-up", type=int, default=5, help="steps before the first that is timed")
    parser.add_argument("--label-smoothing", type=float, default=0.1)
    parser.add_argument("--clip-norm", type=float, default=1.0)
    parser.add_argument("--weight-decay", type=float, default=0.05)
    parser.add_argument("--optimizer", metavar="FILE:CLASS", help="in place of AdamW")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    if options.prepare:
        inductor.autotune_local_cache = False
    imported_mb = memory_mb("VmRSS")
    start = time.perf_counter()
    trainer = Trainer(options)
    for _ in range(options.warm_up):
        first_loss = float(trainer.step())
    trainer.forget_peak()
    print(json.dumps({"torch": torch.__version__, "optimizer": trainer.optimizer_name, "loss": first_loss,
                      "warm_up_s": time.perf_counter() - start, "imported_mb": imported_mb}), flush=True)
    if options.prepare:
        return
    for line in sys.stdin:
        if line.strip() == "kernels":
            print(json.dumps(trainer.kernels()), flush=True)
            continue
        times = trainer.step_seconds(int(line))
        print(json.dumps({"step_ms": statistics.median(times) * 1e3, "mean_ms": statistics.fmean(times) * 1e3,
                          "peak_mb": trainer.peak_mb()}), flush=True)


if __name__ == "__main__":
    main()
