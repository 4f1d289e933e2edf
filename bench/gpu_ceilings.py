"""What a GPU can do at its best, and from it the floor of a step: its products' times, and the bytes that all else must move
over the bandwidth. Measured through PyTorch in the same run: copies larger than the caches, and the products of a step at
their own shapes. Without PyTorch, rewire's own large copy and large product stand for all.
"""
import statistics

COPY_BYTES = 2 << 30


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

    def product_seconds(self, products):
        """One call, its operands laid out as the step's; several sets of them where one would stay in the cache. An f32 result
        of 16-bit operands is timed as theirs, which writes less."""
        key = tuple(products[name] for name in ("batch", "m", "n", "k", "a_transposed", "b_transposed", "a_repeats", "b_repeats",
                                                "dtype", "tf32"))
        if key not in self.known:
            self.known[key] = self.timed_product(*key)
            self.torch.cuda.empty_cache()  # the contenders want the card's memory
        return self.known[key]

    def timed_product(self, batch, m, n, k, a_transposed, b_transposed, a_repeats, b_repeats, dtype, tf32):
        torch = self.torch
        kind = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f64": torch.float64}[dtype]
        torch.backends.cuda.matmul.allow_tf32 = tf32

        def operand(rows, columns, transposed=False, repeats=False):
            shape = (columns, rows) if transposed else (rows, columns)
            made = torch.randn((1 if repeats else batch, *shape), device="cuda", dtype=kind)
            return (made.mT if transposed else made).expand(batch, rows, columns)

        each = (m * k + k * n + m * n) * batch * kind.itemsize
        sets = [(operand(m, k, a_transposed, a_repeats), operand(k, n, b_transposed, b_repeats), operand(m, n))
                for _ in range(max(1, min(8, (256 << 20) // each)))]
        turn = [0]

        def work():
            a, b, c = sets[turn[0] % len(sets)]
            turn[0] += 1
            torch.bmm(a, b, out=c) if batch > 1 else torch.mm(a[0], b[0], out=c[0])

        return self.seconds(work)

    def facts(self):
        square = {"batch": 1, "m": 8192, "n": 8192, "k": 8192, "a_transposed": False, "b_transposed": False, "a_repeats": False,
                  "b_repeats": False, "dtype": "bf16", "tf32": False}
        return {"by": f"PyTorch {self.torch.__version__}, products at their own shapes",
                "copy_gb_s": self.copy_bandwidth() * 1e-9,
                "bf16_8192_tflop_s": 2 * 8192 ** 3 / self.product_seconds(square) * 1e-12}


class ReportedByRewire:
    """`ceilings`: of `rewire bench --kernels --json`."""

    def __init__(self, ceilings):
        self.ceilings = ceilings

    def copy_bandwidth(self):
        return self.ceilings["copy_gb_s"] * 1e9

    def product_seconds(self, products):
        return 2 * products["batch"] * products["m"] * products["n"] * products["k"] / (self.ceilings["gemm_gflop_s"] * 1e9)

    def facts(self):
        return {"by": "rewire, all products at the rate of a large one", **self.ceilings}


def products_of(launch):
    """The products of a row of a profile, in numbers; None where it computes none."""
    if launch["name"].startswith("gemm") and "products" not in launch:
        raise ValueError(f"the profile has no sizes of '{launch['name']}'")
    return launch.get("products")


def floor(ceilings, profile):
    """Of the launches that `rewire bench --device cuda --profile --json` lists."""
    seconds = moved = launches = 0
    for launch in profile:
        products = products_of(launch)
        if products:
            launches += launch["launches"]
            seconds += launch["launches"] * products["calls"] * ceilings.product_seconds(products)
        else:
            moved += launch["bytes"]
    kernels = moved / ceilings.copy_bandwidth()
    total = (seconds + kernels) * 1e3
    return {"floor_ms": total, "floor_median_ms": total, "gemm": {"ms": seconds * 1e3, "launches": launches},
            "kernels": {"ms": kernels * 1e3, "mb": moved * 1e-6}}
