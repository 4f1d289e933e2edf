"""bench/evidence.py on a sweep that was written by hand, with a program that stands in for rewire."""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "bench" / "evidence.py"
REWIRE = """#!/bin/sh
case "$1" in
analyze) echo '{"effective_rank": 1.5, "joins": [{"name": "blocks.0.attn", "cosine": 0.25}], "blocks": []}' ;;
probe) echo '[{"layers": ["a"], "mean_iou": 0.5, "images": 9}, {"layers": ["a", "b"], "mean_iou": 0.75}]' ;;
esac
"""


class Evidence(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        program = self.place / "rewire"
        program.write_text(REWIRE)
        program.chmod(0o755)
        with open(self.place / "runs.csv", "w") as runs:
            runs.write("run,plugins,settings,seed,status\n")
            for seed, top1 in enumerate([0.5, 0.75]):
                run = self.place / "runs" / f"none-s{seed}"
                run.mkdir(parents=True)
                lines = [{"kind": "train", "step": 1, "loss": 9.0}, {"kind": "diagnose", "step": 100, "diagnose.blocks.0.attn.cosine": top1},
                         {"kind": "eval", "top1": 0.1}, {"kind": "eval", "top1": top1}]
                (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
                runs.write(f"none-s{seed},none,,{seed},finished\n")
            runs.write("none-s2,none,,2,failed\n")
        self.numbers = self.place / "numbers.csv"

    def call(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], text=True, capture_output=True)

    def measure(self):
        done = self.call("measure", self.place, "--rewire", self.place / "rewire", "--output", self.numbers, "--analyze", 8,
                         "--probe", "dense: --kind dense")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_measure(self):
        self.measure()
        with open(self.numbers) as file:
            found = {(row["run"], row["where"], row["what"]): float(row["value"]) for row in csv.DictReader(file)}
        self.assertEqual({run for run, _, _ in found}, {"none-s0", "none-s1"})
        self.assertEqual(found["none-s1", "eval", "top1"], 0.75)
        self.assertEqual(found["none-s1", "blocks.0.attn@100", "cosine"], 0.75)
        self.assertEqual(found["none-s0", "blocks.0.attn", "cosine"], 0.25)
        self.assertEqual(found["none-s0", "features", "effective_rank"], 1.5)
        self.assertEqual(found["none-s0", "dense, 1 blocks", "mean_iou"], 0.5)
        self.assertEqual(found["none-s0", "dense, 2 blocks", "mean_iou"], 0.75)

    def test_table(self):
        self.measure()
        done = self.call("table", self.numbers, "--what", "top1", "--scale", 100, "--digits", 1)
        self.assertEqual(done.stdout, "| top1 | none |\n|---|---|\n| eval | 62.5 ± 17.7 |\n")
        at_the_end = self.call("table", self.numbers, "--what", "cosine").stdout
        self.assertEqual(at_the_end, "| cosine | none |\n|---|---|\n| blocks.0.attn | 0.25 ± 0.00 |\n")
        over_the_run = self.call("table", self.numbers, "--what", "cosine", "--where", "attn@").stdout
        self.assertIn("| blocks.0.attn@100 | 0.62 ± 0.18 |", over_the_run)
        self.assertEqual(self.call("table", self.numbers, "--what", "top9").returncode, 1)


if __name__ == "__main__":
    unittest.main()
