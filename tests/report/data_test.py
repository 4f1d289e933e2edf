#!/usr/bin/env python3
"""The data of `rewire report` beside the run folders that they are of.

    data_test.py REWIRE

Trains three small runs: two seeds of one recipe, and another learning rate.
"""
import csv
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

REWIRE = sys.argv.pop(1)
RECIPE = ["vit_tiny_28", "--plugin", "none", "--quiet", *(word for setting in (
    "model.dim=16", "model.heads=2", "model.depth=2", "data.format=synthetic", "data.count=64", "train.batch=16", "train.epochs=3",
    "train.log_every=2", "diagnose.every=4", "train.threads=1") for word in ("--set", setting))]


def rewire(*arguments):
    return subprocess.run([REWIRE, *map(str, arguments)], capture_output=True, text=True)


class Data(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.runs = []
        for name, changes in {"a": [], "b": ["--set", "seed=1"], "c": ["--set", "optimizer.lr=0.002"]}.items():
            run = rewire("train", *RECIPE, *changes, "--out", cls.folder / name)
            assert run.returncode == 0, run.stderr
            cls.runs.append(cls.folder / name)
        cls.data = json.loads(cls.report(*cls.runs, "--json"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @staticmethod
    def report(*arguments):
        done = rewire("report", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def test_columns_are_the_lines_of_the_file(self):
        for path, run in zip(self.runs, self.data["runs"]):
            lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
            for kind in ("train", "eval", "diagnose"):
                of_kind = [line for line in lines if line["kind"] == kind]
                self.assertGreater(len(of_kind), 0)
                names = {name for line in of_kind for name in line} - {"kind"}
                self.assertEqual(set(run[kind]), names)
                for name in names:
                    self.assertEqual(run[kind][name], [line.get(name) for line in of_kind], name)

    def test_a_run_is_told_as_its_folder_has_it(self):
        for path, run, seed in zip(self.runs, self.data["runs"], (0, 1, 0)):
            self.assertEqual((run["name"], run["path"], run["seed"]), (path.name, str(path), seed))
            self.assertEqual((run["model"], run["plugins"], run["epochs"], run["ended"]), ("vit_tiny_28", [], 3, True))
            self.assertEqual(run["steps_per_epoch"], 4)
            self.assertEqual(run["recipe"], (path / "recipe.toml").read_text())
            self.assertEqual(run["environment"]["engine"], "jit")
            self.assertEqual(run["pictures"], [])

    def test_runs_that_differ_in_the_seed_alone_are_a_group(self):
        self.assertEqual(self.data["groups"], [{"label": "optimizer.lr=0.001", "runs": [0, 1]},
                                               {"label": "optimizer.lr=0.002", "runs": [2]}])
        self.assertEqual(self.data["differences"], [{"key": "optimizer.lr", "values": ["0.001", "0.001", "0.002"]},
                                                    {"key": "seed", "values": ["0", "1", "0"]}])
        self.assertEqual(self.data["metrics"]["loss"], "lower")
        self.assertEqual(self.data["metrics"]["top1"], "higher")

    def test_a_run_under_way_has_what_is_whole(self):
        run = self.folder / "half"
        shutil.copytree(self.runs[0], run)
        (run / "weights.safetensors").unlink()
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
        train = [line for line in lines if '"kind":"train"' in line]
        (run / "metrics.jsonl").write_text(train[0] + re.sub(r'"loss":[^,]*', '"loss":null', train[1]) + train[2][:-20])
        told = json.loads(self.report(run, "--json"))["runs"][0]
        self.assertFalse(told["ended"])
        self.assertEqual(told["train"]["loss"], [json.loads(train[0])["loss"], None])
        self.assertEqual(told["eval"], {})
        self.assertIsNone(told["steps_per_epoch"])
        (run / "metrics.jsonl").unlink()
        self.assertEqual(json.loads(self.report(run, "--json"))["runs"][0]["train"], {})

    def test_a_line_that_is_none_is_refused_with_its_place(self):
        run = self.folder / "broken"
        shutil.copytree(self.runs[0], run)
        for text, message in {
                '{"kind":"train","epoch":0,"step":1}\nwords\n': r'metrics.jsonl:2 is not valid JSON: ',
                '{"kind":"train","epoch":0,"step":1,"loss":"low"}\n': r'metrics.jsonl:1: loss is neither a number nor null$',
                '{"kind":"eval","step":4}\n': r'metrics.jsonl:1 has no "epoch"$',
                '{"kind":"eval","epoch":null,"step":4}\n': r'metrics.jsonl:1: epoch is null, not a number$',
                '{"kind":"other"}\n': r'metrics.jsonl:1: kind is not one of train, eval, diagnose$'}.items():
            (run / "metrics.jsonl").write_text(text)
            done = rewire("report", run)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr.strip(), message)
            self.assertEqual(done.stderr.count("\n"), 1)

    def test_the_page_holds_the_data_and_goes_where_it_is_wanted(self):
        self.assertEqual(self.report(self.runs[0]), f"{self.runs[0]}/report.html\n")
        page = (self.runs[0] / "report.html").read_text(encoding="utf-8")
        inside = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL).group(1)
        self.assertEqual(json.loads(inside), json.loads(self.report(self.runs[0], "--json")))
        addresses = set(re.findall(r'https?:[^"\'\s]*|@import|src=[^\s>]*', page.replace(inside, "")))
        self.assertLessEqual(addresses, {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"})
        several = rewire("report", *self.runs)
        self.assertEqual((several.returncode, several.stderr),
                         (2, "rewire: report: --output FILE is needed with more than one run\n"))
        self.report(*self.runs, "--output", self.folder / "all.html")
        self.assertGreater((self.folder / "all.html").stat().st_size, 10000)
        kept = (self.runs[0] / "metrics.jsonl").read_bytes()
        refused = rewire("report", self.runs[0], "--output", self.runs[0] / "metrics.jsonl")
        self.assertEqual(refused.returncode, 2)
        self.assertEqual((self.runs[0] / "metrics.jsonl").read_bytes(), kept)

    def test_tables_have_a_line_for_each_line_of_each_run(self):
        tables = self.folder / "made" / "tables"
        said = self.report(*self.runs, "--csv", tables)
        self.assertEqual(said.split(), [str(tables / f"{kind}.csv") for kind in ("diagnose", "eval", "train")])
        labels = {run: group["label"] for group in self.data["groups"] for run in group["runs"]}
        for kind in ("train", "eval", "diagnose"):
            expected = [(labels[i], run, line) for i, run in enumerate(self.data["runs"])
                        for line in map(json.loads, (self.runs[i] / "metrics.jsonl").read_text().splitlines()) if line["kind"] == kind]
            with (tables / f"{kind}.csv").open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual(list(rows[0])[:5], ["run", "group", "seed", "epoch", "step"])
            self.assertEqual(len(rows), len(expected))
            for row, (label, run, line) in zip(rows, expected):
                self.assertEqual((row.pop("run"), row.pop("group"), row.pop("seed")), (run["name"], label, str(run["seed"])))
                line.pop("kind")
                self.assertEqual({name: float(text) for name, text in row.items() if text}, line)
        try:
            import pandas
        except ImportError:
            return
        table = pandas.read_csv(tables / "eval.csv", float_precision="round_trip")
        self.assertEqual(list(table.loss), [loss for run in self.data["runs"] for loss in run["eval"]["loss"]])

    def test_tables_quote_what_would_break_them_and_leave_out_what_is_no_number(self):
        run = self.folder / '=a, "b"'
        shutil.copytree(self.runs[0], run)
        (run / "metrics.jsonl").write_text('{"kind":"eval","epoch":0,"step":4,"loss":null,"top1":-0.5}\n'
                                           '{"kind":"eval","epoch":1,"step":8,"loss":0.5,"top1":1}\n')
        self.report(run, "--csv", self.folder / "odd")
        self.assertEqual((self.folder / "odd" / "eval.csv").read_text(),
                         'run,group,seed,epoch,step,loss,top1\n"\'=a, ""b""",none,0,0,4,,-0.5\n"\'=a, ""b""",none,0,1,8,0.5,1\n')
        self.assertEqual([file.name for file in (self.folder / "odd").iterdir()], ["eval.csv"])
        both = rewire("report", run, "--csv", self.folder / "odd", "--json")
        self.assertEqual(both.returncode, 2)
        self.assertRegex(both.stderr, "^rewire: report: --csv .*/odd and --json cannot be combined: drop one\n$")

    def test_numbers_are_numbers(self):
        def walk(value):
            if isinstance(value, float):
                self.assertTrue(math.isfinite(value))
            for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
                walk(inner)
        walk(self.data)


if __name__ == "__main__":
    unittest.main()
