#!/usr/bin/env python3
"""What the runs of a sweep show: measures each run, adds the seeds up, draws.

    bench/evidence.py measure SWEEP --rewire build/release/bin/rewire --output runs.csv \\
        --analyze 1000 --probe "linear: --images 20000 --epochs 50" --probe "dense: --kind dense --images 2000"
    bench/evidence.py table runs.csv --what effective_rank
    bench/evidence.py plot runs.csv --what effective_rank --output rank.svg
    bench/evidence.py compare SWEEP/runs.csv --what bits_per_byte --against none

SWEEP is a folder that `rewire sweep` has made. runs.csv has a line for each number of a run: run, plugins, settings, seed, where
(a block, a join, or a step of the run), what, value. `measure` writes the last evaluation's numbers, the lines of `[diagnose]` if
there are any, and with --analyze and --probe what these two commands print. A probe is NAME: OPTIONS; NAME stands in `where`.
`plot` needs matplotlib. Standard deviations are the sample's. `compare` reads what the sweep itself has written, one file or
several: means over the seeds, and the mean of each seed's difference from the runs of --against with its 95 % interval, by
Student's t.
"""
import argparse
import csv
import json
import pathlib
import shlex
import statistics
import subprocess
import sys

FIELDS = ["run", "plugins", "settings", "seed", "where", "what", "value"]
PROBED = ["top1", "top5", "loss", "pixel_accuracy", "mean_iou"]


def numbers(entry):
    return {key: value for key, value in entry.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}


def printed(rewire, arguments):
    done = subprocess.run([rewire, *arguments, "--json", "--quiet"], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def of_metrics(folder):
    """(where, what, value) of the last evaluation and of every diagnose line."""
    evaluation = {}
    with open(folder / "metrics.jsonl") as lines:
        for entry in map(json.loads, lines):
            if entry["kind"] == "eval":
                evaluation = numbers(entry)
            elif entry["kind"] == "diagnose":
                for key, value in numbers(entry).items():
                    if key.startswith("diagnose."):
                        place, _, what = key.removeprefix("diagnose.").rpartition(".")
                        yield f"{place}@{entry['step']}", what, value
    for what, value in evaluation.items():
        yield "eval", what, value


def of_analysis(result):
    for part in ("joins", "blocks"):
        for entry in result.get(part, []):
            for what, value in numbers(entry).items():
                yield entry["name"], what, value
    if "effective_rank" in result:
        yield "features", "effective_rank", result["effective_rank"]


def of_probe(name, result):
    for entry in result if isinstance(result, list) else [result]:
        scale = f"{name}, {len(entry['layers'])} blocks" if isinstance(result, list) and len(result) > 1 else name
        for what in PROBED:
            if what in entry:
                yield scale, what, entry[what]


def measure(options):
    sweep = pathlib.Path(options.sweep)
    rewire = str(pathlib.Path(options.rewire).resolve())
    with open(sweep / "runs.csv") as file:
        runs = [row for row in csv.DictReader(file) if row["status"] == "finished"]
    with open(options.output, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for row in runs:
            folder = sweep / "runs" / row["run"]
            found = list(of_metrics(folder))
            if options.analyze:
                found += of_analysis(printed(rewire, ["analyze", str(folder), "--images", str(options.analyze)]))
            for probe in options.probe:
                name, _, arguments = probe.partition(":")
                found += of_probe(name, printed(rewire, ["probe", str(folder), *shlex.split(arguments)]))
            for where, what, value in found:
                writer.writerow([row["run"], row["plugins"], row["settings"], row["seed"], where, what, f"{value:.6g}"])
            file.flush()
            print(f"{row['run']}: {len(found)} numbers", file=sys.stderr)


def gathered(path, what, where):
    """{(plugins, settings): {where: [values over the seeds]}}, in the file's order."""
    table = {}
    with open(path) as file:
        for row in csv.DictReader(file):
            if row["what"] == what and where in row["where"] and ("@" in where) == ("@" in row["where"]):
                places = table.setdefault((row["plugins"], row["settings"]), {})
                places.setdefault(row["where"], []).append(float(row["value"]))
    if not table:
        sys.exit(f"{path}: has no '{what}' where '{where}' stands")
    return table


def spread(values):
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def label(group):
    return ", ".join(part for part in group if part)


def table(options):
    groups = gathered(options.csv, options.what, options.where)
    places = list(dict.fromkeys(place for columns in groups.values() for place in columns))
    print("| " + " | ".join([options.what, *map(label, groups)]) + " |")
    print("|---" * (len(groups) + 1) + "|")
    for place in places:
        cells = []
        for columns in groups.values():
            if place not in columns:
                cells.append("")
                continue
            mean, deviation = spread([value * options.scale for value in columns[place]])
            cells.append(f"{mean:.{options.digits}f} ± {deviation:.{options.digits}f}")
        print("| " + " | ".join([place, *cells]) + " |")


# Student's t at 97.5 %, by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def interval(differences):
    """The mean, and half of its 95 % interval; nothing where there is but one."""
    if len(differences) < 2:
        return f"{differences[0]:+.4f}"
    if len(differences) - 1 not in STUDENT:
        sys.exit(f"compare takes at most {max(STUDENT) + 1} seeds")
    half = STUDENT[len(differences) - 1] * statistics.stdev(differences) / len(differences) ** 0.5
    return f"{statistics.mean(differences):+.4f} ± {half:.4f}"


def compare(options):
    groups = {}
    for path in options.csv:
        with open(path) as file:
            for row in csv.DictReader(file):
                if row["status"] == "finished":
                    groups.setdefault(label((row["plugins"], row["settings"])), {})[row["seed"]] = row
    if options.against not in groups:
        sys.exit(f"no finished run of '{options.against}': there are {', '.join(groups)}")
    beside = groups[options.against]
    print("| plugins | seeds | " + " | ".join(f"{what} | beside {options.against}" for what in options.what) + " |")
    print("|---" * (2 + 2 * len(options.what)) + "|")
    for name, runs in groups.items():
        cells = [name, str(len(runs))]
        for what in options.what:
            mean, deviation = spread([float(row[what]) for row in runs.values()])
            paired = [float(row[what]) - float(beside[seed][what]) for seed, row in runs.items() if seed in beside]
            cells += [f"{mean:.4f} ± {deviation:.4f}", interval(paired) if paired and runs is not beside else ""]
        print("| " + " | ".join(cells) + " |")


def plot(options):
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as pyplot
    pyplot.rcParams["svg.hashsalt"] = "rewire"
    pyplot.rcParams["svg.fonttype"] = "none"
    groups = gathered(options.csv, options.what, options.where)
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for group, columns in groups.items():
        if "@" in next(iter(columns)):
            points = sorted((int(place.rpartition("@")[2]), values) for place, values in columns.items())
            across = [step for step, _ in points]
            spreads = [spread(values) for _, values in points]
            axes.set_xlabel("step")
        else:
            across, spreads = range(len(columns)), [spread(values) for values in columns.values()]
            axes.set_xticks(across, columns, rotation=60, ha="right", fontsize=7)
        means, deviations = zip(*spreads)
        line, = axes.plot(across, means, marker=".", label=label(group))
        axes.fill_between(across, [m - d for m, d in spreads], [m + d for m, d in spreads], color=line.get_color(), alpha=0.2)
    axes.set_ylabel(options.what + (f", {options.where}" if "@" in options.where else ""))
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(options.output, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("measure")
    command.add_argument("sweep")
    command.add_argument("--rewire", default="rewire")
    command.add_argument("--output", required=True)
    command.add_argument("--analyze", type=int, default=0, metavar="IMAGES")
    command.add_argument("--probe", action="append", default=[], metavar="'NAME: OPTIONS'")
    command.set_defaults(run=measure)
    for name, run in (("table", table), ("plot", plot)):
        command = commands.add_parser(name)
        command.add_argument("csv")
        command.add_argument("--what", required=True)
        command.add_argument("--where", default="", help="only places whose names contain this; over a run with @")
        command.set_defaults(run=run)
        if run is table:
            command.add_argument("--scale", type=float, default=1, help="100: per cent")
            command.add_argument("--digits", type=int, default=2)
        else:
            command.add_argument("--output", required=True)
    command = commands.add_parser("compare")
    command.add_argument("csv", nargs="+")
    command.add_argument("--what", action="append", required=True)
    command.add_argument("--against", default="none")
    command.set_defaults(run=compare)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
