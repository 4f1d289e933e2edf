#!/usr/bin/env python3
"""Writes what calls of call.py measured as the files that the repository keeps.

    keep.py results.tar.gz --stem bench/results/2026-11-27-nvidia-h200

STEM-correct.json (what became of each step), STEM-networks.json (the step and launches of each network and of each variant of the
baseline; once for all networks the choices made by timing, with each candidate's time), STEM-counters.csv (Nsight Compute),
STEM-attention.json (attention by PyTorch's backends) and STEM-beside-pytorch.json and .md. A file whose step was not done is not
written.
"""
import argparse
import csv
import json
import pathlib
import tarfile
import tempfile

VARIANT_KEYS = ("set", "plugin", "tune", "ratio", "moved_gb", "memory_mb", "same_bits")
NETWORK_KEYS = ("resident_step_ms", "step_ms", "device_mb", "compile_s", "tf32", "profile")
COUNTER_COLUMNS = {"kernel": "Kernel Name", "grid": "Grid Size", "block": "Block Size", "section": "Section Name",
                   "metric": "Metric Name", "unit": "Metric Unit", "value": "Metric Value"}


def compact(value):
    """JSON with a line for each launch and choice."""
    text = json.dumps(value, separators=(",", ":"))
    for key in ("name", "key"):
        text = text.replace(f'}},{{"{key}"', f'}},\n{{"{key}"')
    return text + "\n"


def networks(work, about):
    steps, choices = {}, {}
    for path in sorted(work.glob("1_step_*.json")):
        result = json.loads(path.read_text())
        steps[path.stem.removeprefix("1_step_")] = {key: result[key] for key in NETWORK_KEYS if key in result}
        choices |= {json.dumps(choice, sort_keys=True): choice for choice in result.get("choices", []) if choice["by"] == "timing"}
    path = work / "1_variants.json"
    variants = {row["name"]: {key: row[key] for key in (*VARIANT_KEYS, *NETWORK_KEYS) if key in row}
                for row in (json.loads(path.read_text())["variants"] if path.exists() else [])}
    return {**about, "networks": steps, "variants": variants, "choices": list(choices.values())} if steps else None


def counters(path, out):
    rows = csv.DictReader(line for line in path.read_text().splitlines() if line.startswith('"'))
    with open(out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COUNTER_COLUMNS)
        for row in rows:
            if row["Metric Name"]:  # the others are advice
                row["Metric Value"] = row["Metric Value"].replace(",", "")
                writer.writerow(row[column] for column in COUNTER_COLUMNS.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--stem", type=pathlib.Path, required=True, help="of the files' names, with their folder")
    options = parser.parse_args()

    def kept(ending):
        return options.stem.with_name(f"{options.stem.name}-{ending}")

    with tempfile.TemporaryDirectory() as folder, tarfile.open(options.results) as tar:
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # Python 3.11.4
        work = pathlib.Path(folder)
        state = json.loads((work / "state.json").read_text())
        kept("correct.json").write_text(json.dumps(state, indent=1) + "\n")
        if found := networks(work, {key: state[key] for key in ("commit", "device")}):
            kept("networks.json").write_text(compact(found))
        if (work / "counters.csv").exists():
            counters(work / "counters.csv", kept("counters.csv"))
        if (work / "attention.json").exists():
            kept("attention.json").write_text(compact(json.loads((work / "attention.json").read_text())))
        for path in work.glob("bench_2/*.json"):  # one a day
            kept("beside-pytorch.json").write_text(json.dumps(json.loads(path.read_text()), separators=(",", ":")) + "\n")
            kept("beside-pytorch.md").write_text(path.with_suffix(".md").read_text())


if __name__ == "__main__":
    main()
