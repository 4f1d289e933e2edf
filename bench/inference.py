#!/usr/bin/env python3
"""Forward passes of `rewire` beside PyTorch, ONNX Runtime and OpenVINO, in f32, in interleaved rounds.

    bench/inference.py --python VENV/bin/python [--case MODEL[@IMAGE]:BATCH]… [--engine NAME]… [--rounds N] [--steps N] [--threads N]

VENV has torch, and for the other engines onnx, onnxscript, onnxruntime and openvino. Prints a table: ms a pass, the median of the
rounds, each the median of its passes behind two that are not timed, and the fastest peer over `rewire`, the median of the rounds'
ratios. Each round begins with another contender, and before each the machine is left alone for a second, in which the threads of
the one before fall asleep. A peer that cannot start has no figure.
"""
import argparse
import json
import os
import pathlib
import statistics

import contenders
import run

ENGINES = ("eager", "compile", "onnxruntime", "openvino")
BUSY = 0.1  # cores: what is worth a line


class Peer:
    def __init__(self, options, case, engine):
        command = [options.python, str(contenders.HERE / "inference_peer.py"), "--engine", engine, "--model", json.dumps(case.shape),
                   "--batch", str(case.batch), "--threads", str(options.threads)]
        self.piped = contenders.Piped(options, command, dict(os.environ, OMP_NUM_THREADS=str(options.threads)))
        self.version = self.piped.answer()["version"]

    def measure(self, steps):
        return self.piped.ask(steps)

    def close(self):
        self.piped.close()


class Own:
    def __init__(self, options, case):
        self.process, self.words = contenders.OwnProcess(options), [
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
            contenders.say(f"{case}: warming up {engine}")
            try:
                peer = Peer(options, case, engine)
            except RuntimeError as error:
                contenders.say(f"{engine} failed: {error}")
                continue
            contenders[engine], rounds[engine], versions[engine] = peer, [], peer.version
        names = list(contenders)
        for number in range(options.rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                busy = contenders.busy_cores()
                if busy > BUSY:
                    contenders.say(f"{case}: round {number + 1}, before {name}: others keep {busy:.1f} cores busy")
                rounds[name].append(contenders[name].measure(options.steps))
    finally:
        for contender in contenders.values():
            contender.close()
    return rounds, versions


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewire", type=pathlib.Path, default=contenders.BUILD / "rewire")
    parser.add_argument("--python", required=True)
    parser.add_argument("--case", action="append", type=run.parse_case, metavar="MODEL[@IMAGE]:BATCH",
                        help="default: vit_s_cifar and vit_tiny_28, one image and 32")
    parser.add_argument("--engine", action="append", choices=ENGINES, help=f"default: {', '.join(ENGINES)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="a round")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.device, options.end, options.engine = "cpu", float("inf"), options.engine or ENGINES
    print(f"{contenders.cpu_name()}, {options.threads} threads, f32, commit {contenders.commit()}; ms a pass, of {options.rounds} rounds of {options.steps}\n")
    print(f"| model, batch | rewire | {' | '.join(options.engine)} | fastest peer / rewire |")
    print("|---|---|" + "---|" * (len(options.engine) + 1), flush=True)
    for model, batch in options.case or [("vit_s_cifar", 1), ("vit_s_cifar", 32), ("vit_tiny_28", 1), ("vit_tiny_28", 32)]:
        case = run.Case(options, model, batch)
        if case.shape.get("family", "vit") in contenders.OWN_LOSS:
            parser.error(f"--case {case}: the peers have forward passes of vit and resnetv2 alone")
        rounds, versions = measure(options, case)
        ms = {name: statistics.median(each["step_ms"] for each in answers) for name, answers in rounds.items()}
        peers = [engine for engine in options.engine if engine in ms]
        against = f"{run.ratio(rounds[min(peers, key=ms.get)], rounds['rewire']):.2f}" if peers else ""
        figures = " | ".join(f"{ms[name]:.2f}" if name in ms else "failed" for name in ("rewire", *options.engine))
        print(f"| {case.model}, {case.batch} | {figures} | {against} |", flush=True)
    print("\n" + ", ".join(f"{name} {version}" for name, version in versions.items()))


if __name__ == "__main__":
    main()
