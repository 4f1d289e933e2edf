#!/usr/bin/env python3
"""What `rewire diff` finds: a planted change in each category and nothing else; nothing in what is the same.

    diff_test.py REWIRE FOLDER

Writes the pages that page_test.py looks at into FOLDER.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

REWIRE, PAGES = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
SMALL = ["vit_tiny_28", *(word for setting in ("model.dim=16", "model.heads=2", "model.depth=2", "train.batch=4",
                                               "train.threads=1") for word in ("--set", setting))]
TRAINED = [*SMALL, "--quiet", *(word for setting in ("data.format=synthetic", "data.count=16", "train.epochs=2",
                                                     "train.log_every=1") for word in ("--set", setting))]
GOLDEN = """\
@@ blocks.0.attn, and 1 more like it @@
  %41 = broadcast %40 : f32[4,50,16]
  %42 = add %39, %41 : f32[4,50,16]
- %43 = residual %15, %42, %18, %15, %42 {block = 0, heads = 2, join_count = 4, join_index = 0, last_weight = \
"blocks.0.attn.proj.weight", site = "attn"} : f32[4,50,16]
+ %43' = mul %15, %15 : f32[4,50,16]
+ %44' = sum %43' {axes = [2]} : f32[4,50,1]
+ %45' = constant {value = 1e-06} : f32[]
+ %46' = reshape %45' : f32[1,1,1]
+ %47' = broadcast %46' : f32[4,50,1]
+ %48' = add %44', %47' : f32[4,50,1]
+ %49' = mul %15, %42 : f32[4,50,16]
+ %50' = sum %49' {axes = [2]} : f32[4,50,1]
+ %51' = div %50', %48' : f32[4,50,1]
+ %52' = broadcast %51' : f32[4,50,16]
+ %53' = mul %52', %15 : f32[4,50,16]
+ %54' = sub %42, %53' : f32[4,50,16]
+ %43 = residual %15, %42, %18, %15, %54' {block = 0, branch_owner = "orthogonal", heads = 2, join_count = 4, \
join_index = 0, last_weight = "blocks.0.attn.proj.weight", site = "attn"} : f32[4,50,16]
  %44 = param {name = "blocks.0.norm2.weight"} : f32[16]
  %45 = param {name = "blocks.0.norm2.bias"} : f32[16]
"""


def rewire(*arguments):
    return subprocess.run([REWIRE, *map(str, arguments)], capture_output=True, text=True)


def output(*arguments):
    done = rewire(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def diff(*arguments):
    return json.loads(output("diff", *arguments, "--json"))


def differing(found):
    """The categories in which anything differs."""
    if found["kind"] == "runs":
        metrics = [row for row in found["metrics"] if row["part"] or row["lines"][0] != row["lines"][1]]
        return {key for key in ("recipe", "plugins", "environment", "choices") if found[key]} | ({"metrics"} if metrics else set())
    kinds = {key for key in ("about", "joins", "choices") if found[key]}
    kinds |= {name for name, stage in found["stages"].items() if stage["functions"] or stage["declarations"]}
    kinds |= {"kernels"} if found["kernels"]["rows"] else set()
    return kinds | ({"memory"} if any(row["a"] != row["b"] for row in found["memory"]) else set())


class Networks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = json.loads(output("explore", *SMALL, "--json"))
        cls.folder = pathlib.Path(tempfile.mkdtemp())

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def file(self, data, name="b.json"):
        path = self.folder / name
        path.write_text(json.dumps(data))
        return path

    def planted(self, change):
        """The data against themselves with a change."""
        changed = json.loads(json.dumps(self.data))
        change(changed)
        return diff(self.file(self.data, "a.json"), self.file(changed))

    def test_a_network_does_not_differ_from_itself(self):
        for network in (SMALL, [*SMALL, "--plugin", "orthogonal"], ["resnetv2_18", "--set", "train.batch=1"]):
            self.assertEqual(output("diff", *network), f"a: {network[0]}\nb: {network[0]}\nno difference in the network and its training step\n")
        found = diff(*SMALL)
        self.assertEqual((found["same"], differing(found)), (True, set()))

    def test_a_file_of_data_is_the_network(self):
        file = self.file(self.data)
        self.assertTrue(diff(file, *SMALL[:1], *(w for s in SMALL[2::2] for w in ("--set-b", s)))["same"])
        self.assertTrue(diff(file)["same"])

    def test_data_of_an_older_version_are_read(self):
        older = json.loads(json.dumps(self.data))
        del older["choices"]
        for code in older["codes"]:
            del code["structure"], code["asm"]
        for stage in ("ir", "rewritten", "step"):
            for function in older[stage]["functions"]:
                del function["return"]
        found = diff(self.file(older, "a.json"), self.file(self.data))
        self.assertEqual((found["choices"], found["kernels"]["rows"], differing(found)), (None, [], {"ir", "rewritten", "step"}))
        older["format"] = 2
        done = rewire("diff", self.file(older, "a.json"), self.file(self.data))
        self.assertEqual((done.returncode, done.stderr), (
            2, f"rewire: {self.folder}/a.json: its format 2 is from another version of Rewire; this version reads format 1\n"))

    def test_what_trains_is_read_of_an_older_version(self):
        older = json.loads(json.dumps(self.data))
        for stage in ("ir", "rewritten", "step"):
            trains = [function["name"] for function in older[stage]["functions"] if function.pop("training")]
            if trains:
                older[stage]["attributes"]["training"] = "+".join(trains)
        self.assertEqual(older["step"]["attributes"]["training"], "step")
        self.assertTrue(diff(self.file(older, "a.json"), self.file(self.data))["same"])

    def test_each_planted_change_is_found_and_nothing_else(self):
        def training(data):
            data["step"]["functions"][0]["training"] = False

        def op(data):
            op = data["step"]["functions"][0]["ops"][100]
            op["text"] = op["text"].replace(" : ", " {planted = 1} : ", 1)

        def parameter(data):
            data["ir"]["parameters"][3]["trainable"] = False

        def bytes_of_launch(data):
            data["launches"][5]["bytes"] += 8

        def code(data):
            number = next(launch["code"] for launch in data["launches"] if launch["code"] >= 0)
            data["codes"][number]["structure"] = "0" * 16
            data["codes"][number]["tile"] += "  planted\n"

        def assembly(data):
            data["codes"][0]["asm"] += "nop\n"

        def formula(data):
            data["joins"][1]["formulas"][0]["text"] = "y = f"

        def arena(data):
            data["memory"]["arena_bytes"] += 64

        def machine(data):
            data["cpu"] = "another"

        def chosen(data):
            data["choices"]["planted"] = "this"

        def result(data):
            data["rewritten"]["functions"][0]["return"] = "logits = %0"

        for change, kind in ((training, "step"), (op, "step"), (parameter, "ir"), (bytes_of_launch, "kernels"), (code, "kernels"), (assembly, "kernels"),
                             (formula, "joins"), (arena, "memory"), (machine, "about"), (chosen, "choices"), (result, "rewritten")):
            with self.subTest(change=change.__name__):
                found = self.planted(change)
                self.assertEqual((found["same"], differing(found)), (False, {kind}))
        stage = self.planted(op)["stages"]["step"]
        self.assertEqual((stage["gone"], stage["added"]), (1, 1))
        self.assertEqual([row["status"] for row in self.planted(assembly)["kernels"]["rows"]][:1], ["assembly"])

    def test_one_op_more_shifts_no_other_line(self):
        def insert(data):
            function = data["ir"]["functions"][0]
            shift = lambda text: re.sub(r"%(\d+)", lambda m: f"%{int(m[1]) + (int(m[1]) >= 20)}", text)
            for op in function["ops"]:
                op["text"] = shift(op["text"])
            function["return"] = shift(function["return"])
            at = next(i for i, op in enumerate(function["ops"]) if op["text"].startswith("%21 = "))
            function["ops"].insert(at, {"text": "%20 = constant {value = 1.0} : f32[]", "op": "constant", "at": ""})

        found = self.planted(insert)["stages"]["ir"]
        self.assertEqual((found["gone"], found["added"]), (0, 1))

    def test_joins_are_in_the_order_of_the_network_and_know_which_are_alike(self):
        joins = diff(*SMALL, "--set", "model.depth=11", "--plugin-b", "orthogonal")["joins"]
        self.assertEqual([f"blocks.{block}.{site}" for block in range(11) for site in ("attn", "mlp")],
                         [row["key"] for row in joins])
        self.assertEqual([0, 1] * 11, [row["like"] for row in joins])

    def test_the_text_has_what_the_object_has(self):
        words = [*SMALL, "--plugin-b", "orthogonal:layers=0"]
        found, text, full = diff(*words), output("diff", *words), output("diff", *words, "--full")
        self.assertIn(f"\nrewritten   {found['stages']['rewritten']['ops'][0]} -> {found['stages']['rewritten']['ops'][1]} ops, ", text)
        self.assertEqual(differing(found), {"about", "joins", "rewritten", "step", "kernels", "memory"})
        for stage in found["stages"].values():
            for function in stage["functions"]:
                for i, hunk in enumerate(function["hunks"]):
                    if hunk["like"] == i:
                        self.assertIn("".join(f"{line['sign']} {line['text']}\n" for line in hunk["lines"]), full)
        for row in found["kernels"]["rows"]:
            names = {name for name in row["name"] if name}
            self.assertTrue(any(re.sub(r"_\d+_", "_*_", name) in re.sub(r"_\d+_", "_*_", full) for name in names), row)
        self.assertLess(len(text), len(full))

    def test_the_change_of_a_join_reads_so(self):
        self.assertIn("\nrewritten: forward\n" + GOLDEN.replace(", and 1 more like it", ""),
                      output("diff", *SMALL, "--plugin-b", "orthogonal:layers=0,sites=attn", "--full"))

    def test_the_same_command_prints_the_same(self):
        words = ["diff", *SMALL, "--plugin-b", "orthogonal"]
        self.assertEqual(output(*words, "--json"), output(*words, "--json"))

    def test_exit_codes(self):
        self.assertEqual(rewire("diff", *SMALL, "--exit-code").returncode, 0)
        done = rewire("diff", *SMALL, "--plugin-b", "orthogonal", "--exit-code")
        self.assertEqual((done.returncode, done.stderr), (1, "rewire: vit_tiny_28 and vit_tiny_28 --plugin orthogonal differ\n"))

    def test_times_are_no_difference(self):
        for data, factor in ((self.data, 1.0), (json.loads(json.dumps(self.data)), 2.0)):
            for launch in data["launches"]:
                launch["ms"] = factor
            self.file(data, f"{factor}.json")
        found = diff(self.folder / "1.0.json", self.folder / "2.0.json")
        self.assertTrue(found["same"])
        self.assertEqual(len(found["kernels"]["times"]), len(self.data["launches"]))
        self.assertIn("1.000 ms -> 2.000 ms (+100.0 %)", output("diff", self.folder / "1.0.json", self.folder / "2.0.json"))
        for launch in self.data["launches"]:
            launch["ms"] = None

    def test_what_is_no_data_is_refused(self):
        for text, message in (("{}", "this is not a file from `rewire explore --json`"), ("[1]", "this is not a file"),
                              (json.dumps({**self.data, "launches": [{"kind": "kernel", "name": "k", "at": "", "code": 999999,
                                                                      "bytes": 1, "flops": 1, "ms": None}]}), "launches[0].code is 999999")):
            path = self.folder / "none.json"
            path.write_text(text)
            done = rewire("diff", path)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
            self.assertIn(message, done.stderr)

    def test_a_page_is_written(self):
        PAGES.mkdir(parents=True, exist_ok=True)
        output("diff", *SMALL, "--plugin-b", "orthogonal", "--output", PAGES / "networks.html")
        page = (PAGES / "networks.html").read_text()
        inside = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL).group(1)
        self.assertEqual(json.loads(inside), diff(*SMALL, "--plugin-b", "orthogonal"))


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        for name, more in {"a": [], "same": [], "lr": ["--set", "optimizer.lr=0.01"], "plugin": ["--plugin", "orthogonal"]}.items():
            output("train", *TRAINED, *([] if "--plugin" in more else ["--plugin", "none"]), *more, "--out", cls.folder / name)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def of(self, a, b):
        return diff(self.folder / a, self.folder / b)

    def test_a_run_does_not_differ_from_itself_nor_from_its_like(self):
        for b in ("a", "same"):
            found = self.of("a", b)
            self.assertEqual((found["same"], differing(found)), (True, set()))
        self.assertTrue(output("diff", self.folder / "a").endswith("\nno difference\n"))

    def test_another_rate_parts_the_curves(self):
        found = self.of("a", "lr")
        self.assertEqual(differing(found), {"recipe", "metrics"})
        self.assertEqual(found["recipe"], [{"key": "optimizer.lr", "a": "0.001", "b": "0.01"}])
        lines = [[json.loads(line) for line in (self.folder / name / "metrics.jsonl").read_text().splitlines()] for name in ("a", "lr")]
        for row in found["metrics"]:
            values = [{line["step"]: line[row["name"]] for line in side if line["kind"] == row["kind"] and row["name"] in line}
                      for side in lines]
            self.assertEqual(row["final"], [side[max(side)] for side in values], row["name"])
            parted = [step for step in sorted(values[0]) if values[0][step] != values[1][step]]
            self.assertEqual(row["part"]["step"] if row["part"] else None, parted[0] if parted else None, row["name"])
            best = {"lower": min, "higher": max}.get(row["better"])
            self.assertEqual(row["best"], [best(side.values()) for side in values] if best else [None, None])

    def test_another_plugin_is_one_row(self):
        found = self.of("a", "plugin")
        self.assertEqual(differing(found), {"recipe", "plugins", "metrics"})
        self.assertEqual([(row["key"], row["a"]) for row in found["recipe"]], [("plugin.orthogonal", None)])
        record = json.loads((self.folder / "plugin/plugins.json").read_text())["plugins"][0]
        self.assertEqual(found["plugins"], [{"key": "orthogonal", "a": None,
                                             "b": f"{record['version']}, SHA-256 {record['sha256']}"}])

    def test_each_planted_change_is_found_and_nothing_else(self):
        def environment(run):
            path = run / "choices.json"
            path.write_text(path.read_text().replace('"LLVM": "', '"LLVM": "9.'))

        def metric(run):
            path = run / "metrics.jsonl"
            path.write_text(path.read_text().replace('"grad_norm":', '"grad_norm":9', 1))

        def fewer(run):
            path = run / "metrics.jsonl"
            path.write_text("".join(path.read_text().splitlines(True)[:-2]))

        for change, kind in ((environment, "environment"), (metric, "metrics"), (fewer, "metrics")):
            with self.subTest(change=change.__name__):
                run = self.folder / "changed"
                shutil.copytree(self.folder / "a", run)
                change(run)
                self.assertEqual(differing(self.of("a", "changed")), {kind})
                shutil.rmtree(run)

    def test_a_run_and_a_network_are_two_kinds(self):
        done = rewire("diff", self.folder / "a", "vit_tiny_28")
        self.assertEqual((done.returncode, done.stderr), (
            2, f"rewire: diff: {self.folder}/a is a run folder, vit_tiny_28 is not; to compare the run's network, give "
               f"{self.folder}/a/recipe.toml\n"))

    def test_a_page_is_written(self):
        PAGES.mkdir(parents=True, exist_ok=True)
        output("diff", self.folder / "a", self.folder / "plugin", "--output", PAGES / "runs.html")


if __name__ == "__main__":
    unittest.main()
