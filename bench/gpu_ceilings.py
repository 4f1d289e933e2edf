"""What a GPU can do at its best, measured through PyTorch in the same run: copies larger than its caches, and the matrix
products of a step at their own shapes. From them the floor of a step: its products' times, and the bytes that all else must
move over the bandwidth.
"""
import re
import statistics

GEMM = re.compile(r"gemm ((?:\d+x)?\d+x\d+x\d+) ([NT])([NT])")  # batch, m, n, k, and which operand is transposed
COPY_BYTES = 2 << 30
_measured = {}


def _seconds(work, rounds=5, target=0.02):
    """The median of `rounds` rounds, each long enough to be timed by events."""
    import torch

    def timed(times):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(times):
            work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / times

    timed(2)
    times = max(1, int(target / max(timed(2), 1e-7)))
    return statistics.median(timed(times) for _ in range(rounds))


def copy_bandwidth():
    """Bytes a second, read and written both counted."""
    import torch
    if "copy" not in _measured:
        x = torch.randint(0, 100, (COPY_BYTES // 4,), dtype=torch.int32, device="cuda")
        y = torch.empty_like(x)
        _measured["copy"] = 2 * COPY_BYTES / _seconds(lambda: y.copy_(x))
        del x, y
        torch.cuda.empty_cache()
    return _measured["copy"]


def gemm_seconds(batch, m, n, k, transposed, dtype):
    """One product, its operands laid out as the step's; several sets of them where one would stay in the cache."""
    import torch
    key = (batch, m, n, k, transposed, dtype)
    if key not in _measured:
        kind = torch.bfloat16 if dtype == "bf16" else torch.float32
        each = (m * k + k * n + m * n) * batch * kind.itemsize

        def operand(rows, columns, flip):
            made = torch.randn((batch, columns, rows) if flip else (batch, rows, columns), device="cuda", dtype=kind)
            return made.mT if flip else made

        sets = [(operand(m, k, transposed[0] == "T"), operand(k, n, transposed[1] == "T"), operand(m, n, False))
                for _ in range(max(1, min(8, (256 << 20) // each)))]
        turn = [0]

        def work():
            a, b, c = sets[turn[0] % len(sets)]
            turn[0] += 1
            torch.bmm(a, b, out=c) if batch > 1 else torch.mm(a[0], b[0], out=c[0])

        _measured[key] = _seconds(work)
    return _measured[key]


def measure():
    """The card's own two numbers."""
    return {"copy_gb_s": copy_bandwidth() * 1e-9,
            "bf16_8192_tflop_s": 2 * 8192 ** 3 / gemm_seconds(1, 8192, 8192, 8192, "NN", "bf16") * 1e-12}


def floor(profile, dtype):
    """Of the launches that `rewire bench --profile --json` lists."""
    products = moved = 0.0
    for launch in profile:
        match = GEMM.match(launch["name"])
        if match:
            sizes = [int(size) for size in match[1].split("x")]
            batch, m, n, k = [1] * (4 - len(sizes)) + sizes
            products += launch["launches"] * gemm_seconds(batch, m, n, k, match[2] + match[3], dtype)
        else:
            moved += launch["bytes"]
    kernels = moved / copy_bandwidth()
    total = (products + kernels) * 1e3
    return {"floor_ms": total, "floor_median_ms": total, "gemm": {"ms": products * 1e3},
            "kernels": {"ms": kernels * 1e3, "mb": moved * 1e-6}}
