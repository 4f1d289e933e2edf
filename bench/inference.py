#!/usr/bin/env python3
"""Forward passes of `rewire` beside PyTorch, ONNX Runtime and OpenVINO, in f32, in interleaved rounds.

    bench/inference.py --python VENV/bin/python [--case MODEL[@IMAGE]:BATCH]… [--engine NAME]… [--rounds N] [--steps N] [--threads N]

VENV has torch, and for the other engines onnx, onnxscript, onnxruntime and openvino. Prints a table: ms a pass, the median of the
rounds, each the median of its passes, and the fastest peer over `rewire`, the median of the rounds' ratios.
"""
import argparse
import json
import os
import pathlib
import statistics

import run

ENGINES = ("eager", "compile", "onnxruntime", "openvino")


class Peer:
    def __init__(self, options, case, engine):
        command = [options.python, str(run.HERE / "inference_peer.py"), "--engine", engine, "--model", json.dumps(case.shape),
                   "--batch", str(case.batch), "--threads", str(options.threads)]
        self.piped = run.Piped(options, command, dict(os.environ, OMP_NUM_THREADS=str(options.threads)))
        self.version = self.piped.answer()["version"]

    def measure(self, steps):
        return self.piped.ask(steps)

    def close(self):
        self.piped.close()


class Own:
    def __init__(self, options, case):
        self.process, self.words = run.OwnProcess(options), [
            case.model.partition("@")[0], "--plugin", "none", "--mode", "infer", "--batch", str(case.batch), "--threads",
            str(options.threads), *(word for text in case.settings for word in ("--set", text))]

    def measure(self, steps):
        return self.process.ask(self, [*self.words, "--steps", str(steps)])

    def close(self):
        self.process.close()


def measure(options, case):
    """By name: the rounds' answers; and the versions of the peers."""
    contenders, versions = {"rewire": Own(options, case)}, {}
    rounds = {"rewire": []}
    try:
        for engine in options.engine:
            run.say(f"{case}: warming up {engine}")
            peer = Peer(options, case, engine)
            contenders[engine], rounds[engine], versions[engine] = peer, [], peer.version
        for number in range(options.rounds):
            run.say(f"{case}: round {number + 1} of {options.rounds}, others keep {run.busy_cores():.1f} cores busy")
            for name, contender in contenders.items():
                rounds[name].append(contender.measure(options.steps))
    finally:
        for contender in contenders.values():
            contender.close()
    return rounds, versions


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewire", type=pathlib.Path, default=run.BUILD / "rewire")
    parser.add_argument("--python", required=True)
    parser.add_argument("--case", action="append", type=run.parse_case, metavar="MODEL[@IMAGE]:BATCH",
                        help="default: vit_s_cifar and vit_tiny_28, one image and 32")
    parser.add_argument("--engine", action="append", choices=ENGINES, help=f"default: {', '.join(ENGINES)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="a round")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.device, options.end, options.engine = "cpu", float("inf"), options.engine or ENGINES
    print(f"{run.cpu_name()}, {options.threads} threads, f32; ms a pass, of {options.rounds} rounds of {options.steps}\n")
    print(f"| model, batch | rewire | {' | '.join(options.engine)} | fastest peer / rewire |")
    print("|---|---|" + "---|" * (len(options.engine) + 1), flush=True)
    for model, batch in options.case or [("vit_s_cifar", 1), ("vit_s_cifar", 32), ("vit_tiny_28", 1), ("vit_tiny_28", 32)]:
        case = run.Case(options, model, batch)
        rounds, versions = measure(options, case)
        ms = {name: statistics.median(each["step_ms"] for each in answers) for name, answers in rounds.items()}
        fastest = min(options.engine, key=ms.get)
        print(f"| {case.model}, {case.batch} | {' | '.join(f'{one:.2f}' for one in ms.values())} | "
              f"{run.ratio(rounds[fastest], rounds['rewire']):.2f} |", flush=True)
    print("\n" + ", ".join(f"{name} {version}" for name, version in versions.items()))


if __name__ == "__main__":
    main()
