"""What a GPU can do at its best, and from it the floor of a step, a lower bound on its time: the sum over its launches of the
longer of bytes / bandwidth and FLOPs / peak. Both are measured in the same run, through PyTorch: a copy larger than the caches,
and a large product of each precision. Without PyTorch, rewire's own copy and product replace them.
"""
import statistics

COPY_BYTES = 2 << 30
SQUARE = 8192


class MeasuredByPyTorch:
    def __init__(self):
        import torch
        if not torch.cuda.is_available():
            raise ImportError("PyTorch finds no GPU")
        self.torch, self.known = torch, {}

    def seconds(self, work, rounds=5, target=0.02):
        """The median of `rounds` rounds, each long enough to be timed by events."""
        def timed(times):
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(times):
                work()
            end.record()
            end.synchronize()
            return begin.elapsed_time(end) * 1e-3 / times

        timed(2)
        times = max(1, int(target / max(timed(2), 1e-7)))
        return statistics.median(timed(times) for _ in range(rounds))

    def copy_bandwidth(self):
        """Bytes a second, read and written both counted."""
        if "copy" not in self.known:
            x = self.torch.randint(0, 100, (COPY_BYTES // 4,), dtype=self.torch.int32, device="cuda")
            y = self.torch.empty_like(x)
            self.known["copy"] = 2 * COPY_BYTES / self.seconds(lambda: y.copy_(x))
            del x, y
            self.torch.cuda.empty_cache()
        return self.known["copy"]

    def peak(self, dtype="bf16", tf32=False):
        """FLOPs a second of a large product of this precision."""
        if (dtype, tf32) not in self.known:
            torch, kind = self.torch, {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64"}[dtype]
            a, b, c = (torch.randn((SQUARE, SQUARE), device="cuda", dtype=getattr(torch, kind)) for _ in range(3))
            torch.backends.cuda.matmul.allow_tf32 = tf32
            self.known[dtype, tf32] = 2 * SQUARE ** 3 / self.seconds(lambda: torch.mm(a, b, out=c))
            del a, b, c
            torch.cuda.empty_cache()  # the contenders want the card's memory
        return self.known[dtype, tf32]

    def facts(self):
        return {"by": f"PyTorch {self.torch.__version__}, a product of {SQUARE} x {SQUARE} of each precision",
                "copy_gb_s": self.copy_bandwidth() * 1e-9, "bf16_8192_tflop_s": self.peak() * 1e-12}


class ReportedByRewire:
    """`ceilings`: of `rewire bench --kernels --json`."""

    def __init__(self, ceilings):
        self.ceilings = ceilings

    def copy_bandwidth(self):
        return self.ceilings["copy_gb_s"] * 1e9

    def peak(self, dtype="bf16", tf32=False):
        return self.ceilings["gemm_gflop_s"] * 1e9

    def facts(self):
        return {"by": "rewire, one large product for all precisions", **self.ceilings}


def precision(launch):
    """Dtype and TF32 of a product or convolution of a profile. Other kernels' products are of bf16 at best: None."""
    name = launch["name"]
    if name.startswith("gemm"):
        if "products" not in launch:
            raise ValueError(f"the profile has no sizes of '{name}'")
        return launch["products"]["dtype"], launch["products"]["tf32"]
    if name.startswith("convolution"):
        kind = next(word for word in name.replace(",", " ").split() if word in ("bf16", "tf32", "f32"))
        return ("f32", True) if kind == "tf32" else (kind, False)
    return None


def floor(ceilings, profile):
    """Of the launches that `rewire bench --device cuda --profile --json` lists: each takes at least as long as its bytes at the
    copy's bandwidth, and as its FLOPs at the peak of their precision; launches follow one another."""
    products, kernels = ({"ms": 0, "mb": 0, "launches": 0} for _ in range(2))
    for launch in profile:
        kind = precision(launch)
        part = products if kind else kernels
        part["ms"] += 1e3 * max(launch["bytes"] / ceilings.copy_bandwidth(), launch["flops"] / ceilings.peak(*(kind or ())))
        part["mb"] += launch["bytes"] * 1e-6
        part["launches"] += launch["launches"]
    total = products["ms"] + kernels["ms"]
    return {"floor_ms": total, "floor_median_ms": total, "gemm": products, "kernels": kernels}
