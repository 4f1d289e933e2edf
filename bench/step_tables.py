"""A step's launches by class, and the table of a result."""
import re


def launch_class(name):
    if name.startswith("gemm"):
        return "matrix products"
    if re.match(r"(conv2d(_input_grad|_weight_grad)?|convolution) ", name):  # oneDNN's with the packing of weights, or cuDNN's
        return "convolutions"
    if re.search(r"(^|_)attention[ _]", name):  # cuDNN's, or kernels of ours
        return "attention"
    return "optimizer, gradient norm" if name.startswith("optimizer") else "rows, columns, maps"


def by_class(launches):
    """What a step is made of: [class, launches, ms, bytes, flops], the longest first."""
    rows = {}
    for launch in launches:
        row = rows.setdefault(launch_class(launch["name"]), [0, 0.0, 0, 0])
        for index, key in enumerate(("launches", "ms", "bytes", "flops")):
            row[index] += launch[key]
    return sorted(([name, *row] for name, row in rows.items()), key=lambda row: -row[2])


def between_launches(launches, step_ms):
    """The share of a step in which none runs, at least and at most. A launch is timed from the event before it to the one behind
    it, which is longer than it runs: by the gap to its neighbour, and where it is short by what the host takes to launch it. That
    is no more than the shortest of all takes."""
    alone, count = sum(launch["ms"] for launch in launches), sum(launch["launches"] for launch in launches)
    shortest = min(launch["ms"] / launch["launches"] for launch in launches)
    return max(0.0, 1 - alone / step_ms), max(0.0, 1 - (alone - count * shortest) / step_ms)


def row_kernels(launches):
    """Bytes a second of all kernels together that compute no products and move 16 MB and more at a time."""
    rows = [launch for launch in launches if not launch["name"].startswith("gemm") and "attention" not in launch["name"]
            and launch["bytes"] / launch["launches"] >= 16e6]
    return sum(launch["bytes"] for launch in rows) / max(sum(launch["ms"] for launch in rows) * 1e-3, 1e-12)


def markdown(result):
    where = result["device"] if "device" in result else f"{result['cpu']}, {result['threads']} threads"
    # PyTorch's default on a GPU: torch.backends.cudnn.allow_tf32 is on, that of products is off.
    dtype = result["dtype"] + (", PyTorch's convolutions in TF32" if "device" in result and result["dtype"] == "f32" else "")
    lines = [f"# {where}, {result['date']}" + (f", commit {result['commit']}" if result["commit"] else ""), ""]
    for case in result["cases"]:
        fed = any("fed_step_ms" in c for c in case["contenders"])
        lines += [f"## {case['model']}, batch {case['batch']}, {dtype}", "",
                  "| | residual | step ms | rounds ms | images/s | peak MB |" + (" fed by the host, ms |" if fed else ""),
                  "|---|---|---|---|---|---|" + ("---|" if fed else "")]
        for c in case["contenders"]:
            if "failed" in c:
                lines.append(f"| {c['name']} | {c['residual']} | failed: {c['failed'].replace('|', '/')} | | | |")
            if "step_ms" not in c:
                continue
            lines.append(f"| {c['name']} | {c['residual']} | {c['step_ms']:.1f} | {c['fastest_round_ms']:.1f}–"
                         f"{c['slowest_round_ms']:.1f} | {c['images_per_s']:.0f} | {c['peak_mb']:.0f} |"
                         + (f" {c['fed_step_ms']:.1f} |" if "fed_step_ms" in c else ""))
        for residual, floor in case["floors"].items():
            lines.append(f"| floor | {residual} | {floor['floor_ms']:.1f} | GEMM {floor['gemm']['ms']:.1f}, "
                         f"{floor['kernels']['mb']:.0f} MB {floor['kernels']['ms']:.1f} | "
                         f"{case['batch'] / floor['floor_ms'] * 1e3:.0f} | |")
            if "peak_gflops" in floor and result["dtype"] == "f32":
                lines.append(f"| floor from the peak | {residual} | {floor['floor_from_peak_ms']:.1f} | products at 95 % of "
                             f"{floor['peak_gflops']:.1f} GFLOP/s | {case['batch'] / floor['floor_from_peak_ms'] * 1e3:.0f} | |")
        for residual, each in case["launches"].items():
            step = next(c for c in case["contenders"] if c["name"] == "rewire" and c["residual"] == residual)
            alone = case["launches_ms"][residual]
            lines += ["", f"What a step is made of, {residual}; each launch alone, its best time:", "",
                      "| | launches | ms | GB/s | GFLOP/s |", "|---|---|---|---|---|"]
            lines += [f"| {name} | {count} | {ms:.1f} | {size / ms / 1e6:.1f} | {flops / ms / 1e6:.1f} |"
                      for name, count, ms, size, flops in by_class(each)]
            lines.append(f"| all launches | {sum(l['launches'] for l in each)} | {alone:.1f} | | |")
            if "device" not in result:  # a GPU's, timed alone, have something of the gaps in them
                lines.append(f"| the fastest round beyond them | | {step['fastest_round_ms'] - alone:.1f} | | |")
            about = step["about"]
            lines += [f"\n{key.removesuffix('_failed')}, {residual}: failed: {reason}"
                      for key, reason in about.items() if key.endswith("_failed")]
            if "cold_compile_s" in about:
                lines += ["", *(f"Start-up, {residual}, {state}: compiling {about[f'{state}_compile_s']:.2f} s, the process with "
                                f"two steps {about[f'{state}_process_s']:.2f} s." for state in ("cold", "warm"))]
        lines += ["", "| ratio (of step times, if not said otherwise) | |", "|---|---|"]
        lines += [f"| {name} | {value:.3f} |" for name, value in case["ratios"].items()]
        lines.append("")
    return "\n".join(lines)
