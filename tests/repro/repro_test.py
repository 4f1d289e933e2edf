#!/usr/bin/env python3
"""Folders of kernels and failures that `rewire repro` writes, and runs again in another place.

    repro_test.py REWIRE FOLDER-OF-PLUGINS
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

REWIRE, PLUGINS = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
SMALL = ["vit_tiny_28", "--plugin", "none", *(word for setting in (
    "model.dim=16", "model.heads=2", "model.depth=2", "train.batch=4", "train.threads=1") for word in ("--set", setting))]
KERNELS = {  # what tells one kernel of each kind, and how it is named
    "blocks_1_norm1_rows": "sums along rows", "blocks_0_attn_attention_": "attention", "attention_grad": "its gradient",
    "blocks_0_mlp_act_map": "a map", "mlp_fc1_grad_columns": "sums of columns", "optimizer_blocks_0_attn_qkv_weight": "an update"}
# exp overflows in f32 and not in double precision: 1e38 / exp(90) is 0 in f32, and 0.08.
OVERFLOW = """\
module @overflow {
  param @w : f32[4] {init = "ones", role = "head"}
  func @forward(%image: f32[2,4]) -> (logits: f32[2,4]) {
    %0 = param {name = "w"} : f32[4]
    %1 = reshape %0 : f32[1,4]
    %2 = broadcast %1 : f32[2,4]
    %3 = mul %image, %2 : f32[2,4]
    %4 = tanh %3 : f32[2,4]
    %5 = constant {value = 90.0} : f32[2,4]
    %6 = add %4, %5 : f32[2,4]
    %7 = exp %6 : f32[2,4]
    %8 = constant {value = 1.0} : f32[2,4]
    %9 = div %8, %7 : f32[2,4]
    %10 = constant {value = 1e+38} : f32[2,4]
    %11 = mul %9, %10 : f32[2,4]
    %12 = stop_gradient %11 : f32[2,4]
    %13 = add %4, %12 : f32[2,4]
    return logits = %13
  }
}
"""


class Repro(unittest.TestCase):
    def setUp(self):
        self.base = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.base)

    def rewire(self, *arguments, cwd=None, clean=False):
        environment = dict(os.environ)
        if clean:
            (self.base / "cache").mkdir(exist_ok=True)
            environment |= {"XDG_CACHE_HOME": str(self.base / "cache"), "XDG_DATA_HOME": str(self.base / "data")}
        return subprocess.run([REWIRE, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, env=environment)

    def written(self, name, *arguments):
        done = self.rewire("repro", *arguments, "--output", self.base / name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.base / name

    def again(self, folder, *more):
        """In another place, from another folder, by a name of its own, with no cache: only what is in the folder is left."""
        place = self.base / "elsewhere"
        place.mkdir(exist_ok=True)
        moved = place / f"moved-{folder.name}"
        shutil.move(folder, moved)
        done = self.rewire("repro", moved.name, *more, cwd=place, clean=True)
        shutil.move(moved, folder)
        return done

    def kernels(self):
        launches = json.loads(self.rewire("dump", *SMALL, "--stage", "fused", "--json").stdout)["launches"]
        names = [member["name"] for launch in launches if launch["kind"] == "kernel" for member in launch["members"]]
        return {kind: next(name for name in names if pattern in name) for pattern, kind in KERNELS.items()}

    def test_kernels(self):
        for kind, kernel in self.kernels().items():
            with self.subTest(kernel=kernel):
                folder = self.written(kernel, *SMALL, "--kernel", kernel)
                record = json.loads((folder / "repro.json").read_text())
                self.assertTrue(record["same_code"], kernel)
                self.assertEqual((record["kind"], record["subject"], record["seeded"]), ("kernel", kernel, []))
                self.assertTrue((folder / "kernel.tile").read_text().startswith(f"kernel {kernel} "))
                for text in ("kernel.ll", "kernel.s", "README.md", "module.rir"):
                    self.assertGreater(len((folder / text).read_text()), 100, text)
                self.assertLess(sum(file.stat().st_size for file in folder.iterdir()), 2_000_000)
                done = self.again(folder, "--json")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                outcome = json.loads(done.stdout)
                self.assertEqual((outcome["passed"], outcome["notes"]), (True, []))
                self.assertGreater(len(outcome["results"]), 0)
                self.assertGreater(outcome["ms"], 0)
                if kind == "an update":
                    self.assertTrue(any(row["name"].endswith(" after the run") for row in outcome["results"]))

    def test_a_wrong_result_is_told(self):
        kernel = self.kernels()["a map"]
        folder = self.written("k", *SMALL, "--kernel", kernel)
        expected = folder / "expected.safetensors"
        content = bytearray(expected.read_bytes())
        content[-4:] = struct.pack("<f", 1000)
        expected.write_bytes(content)
        record = json.loads((folder / "repro.json").read_text())
        (folder / "repro.json").write_text(json.dumps(record | {"code": "0" * 64, "machine": record["machine"] | {"cpu": "other"}}))
        done = self.again(folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("WRONG", done.stdout)
        self.assertEqual(done.stdout.count("note: "), 2)
        self.assertIn("note: it no longer compiles to the code in kernel.tile\n", done.stdout)
        self.assertRegex(done.stderr, r"^rewire: moved-k: .* differs from what the evaluator computes \(error .*\n$")

    def test_large_tensors_are_made_from_seeds(self):
        kernel = self.kernels()["sums along rows"]
        folder = self.written("k", *SMALL, "--kernel", kernel, "--most", "0")
        self.assertEqual(sorted(file.name for file in folder.glob("*.safetensors")), [])
        self.assertIn("too large to be stored", (folder / "README.md").read_text())
        done = self.again(folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_same_command_writes_the_same(self):
        kernel = self.kernels()["attention"]
        a, b = (self.written(f"{name}/k", *SMALL, "--kernel", kernel) for name in "ab")
        for file in a.iterdir():
            self.assertEqual(file.read_bytes(), (b / file.name).read_bytes(), file.name)

    def test_a_plugin_that_is_refused(self):
        for plugin, message, more in (
                ("misbehave:act=wrong_shape", "misbehave", ["--with-plugins"]), ("careless:fault=refuse_all", "it takes no network", [])):
            with self.subTest(plugin=plugin):
                name, values = plugin.split(":")
                folder = self.written(name, *SMALL[:1], *SMALL[3:], "--plugin", f"{PLUGINS}/{name}.so:{values}", "--failure", *more)
                record = json.loads((folder / "repro.json").read_text())
                self.assertEqual((record["kind"], [one["name"] for one in record["plugins"]]), ("refusal", [name]))
                self.assertIn(message, record["subject"])
                self.assertEqual((folder / "plugins" / f"{name}.so").exists(), bool(more))  # a library is copied where it is asked for
                if more:  # nobody's code is run without a word
                    self.assertEqual(self.again(folder).returncode, 2)
                done = self.again(folder, *(["--trust"] if more else ["--plugin-path", PLUGINS]))
                self.assertEqual((done.returncode, done.stdout), (1, record["subject"] + "\n"))

    def test_a_step_that_is_not_finite(self):
        folder = self.written("nan", *SMALL[:1], *SMALL[3:], "--plugin", f"{PLUGINS}/careless.so:fault=nan", "--failure")
        record = json.loads((folder / "repro.json").read_text())
        self.assertEqual(record["kind"], "non_finite")
        self.assertRegex(record["subject"], "^the first non-finite tensor is the result of log at blocks.0.attn")
        done = self.again(folder)
        self.assertEqual((done.returncode, re.sub(r" \(line \d+\)", "", done.stdout)), (1, record["subject"] + "\n"))

    def test_a_kernel_that_is_not_what_is_evaluated(self):
        (self.base / "overflow.rir").write_text(OVERFLOW)
        self.assertEqual(self.rewire("verify", self.base / "overflow.rir").returncode, 1)
        folder = self.written("wrong", self.base / "overflow.rir", "--failure")
        record = json.loads((folder / "repro.json").read_text())
        self.assertEqual(record["kind"], "kernel")
        done = self.again(folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("WRONG", done.stdout)

    def test_a_run_that_ends_in_no_number(self):
        words = ["vit_tiny_28", "--plugin", "none", "--quiet", *(word for setting in (
            "model.dim=16", "model.heads=2", "model.depth=2", "train.batch=4", "train.threads=1", "data.format=synthetic",
            "data.count=16", "train.epochs=9", "train.log_every=1", "optimizer.lr=3e37") for word in ("--set", setting))]
        trained = self.rewire("train", *words, "--out", self.base / "run")
        self.assertNotEqual(trained.returncode, 0)
        before = {path: path.stat().st_mtime_ns for path in (self.base / "run").rglob("*")}
        folder = self.written("failed", self.base / "run", "--failure")
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in (self.base / "run").rglob("*")})
        record = json.loads((folder / "repro.json").read_text())
        self.assertEqual(record["kind"], "non_finite")
        self.assertIn(record["subject"], trained.stderr)
        other = self.rewire("repro", self.base / "run", "--failure", "--plugin", f"{PLUGINS}/gain.so", "--output", self.base / "other")
        self.assertEqual(other.returncode, 2)
        self.assertIn("it is from a network with plain joins, but this one has gain: ", other.stderr)
        shutil.rmtree(self.base / "run")
        done = self.again(folder)
        self.assertEqual((done.returncode, re.sub(r" \(line \d+\)", "", done.stdout)), (1, record["subject"] + "\n"))

    def test_a_run_whose_first_step_with_another_batch_fails(self):
        words = ["vit_tiny_28", "--quiet", *(word for setting in (
            "model.dim=16", "model.heads=2", "model.depth=2", "train.batch=4", "train.threads=1", "data.format=synthetic",
            "data.count=16", "train.epochs=9", "train.log_every=1", "train.max_steps=5", "schedule.name=cosine")
            for word in ("--set", setting))]
        run = self.base / "changed"
        self.assertEqual(self.rewire("train", *words, "--out", run).returncode, 0)
        failed = self.rewire("train", "--resume", run, "--quiet", *(word for setting in (
            "train.batch=3", "train.max_steps=0", "optimizer.lr=3e37") for word in ("--set", setting)))
        self.assertNotEqual(failed.returncode, 0)
        record = json.loads((self.written("behind", run, "--failure") / "repro.json").read_text())
        self.assertIn(record["subject"], failed.stderr)

    def test_nothing_fails(self):
        done = self.rewire("repro", *SMALL, "--failure", "--output", self.base / "none")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("nothing fails in "))
        self.assertFalse((self.base / "none").exists())

    def test_what_is_refused(self):
        kernel = self.kernels()["a map"]
        full = self.base / "full"
        full.mkdir()
        (full / "mine").write_text("mine")
        for arguments, message in (
                ([*SMALL, "--kernel", kernel, "--output", full], "is not empty"),
                ([*SMALL, "--kernel", kernel + "x", "--output", self.base / "k"], f"did you mean '{kernel}'?"),
                ([*SMALL, "--kernel", kernel], "give --output FOLDER"), ([*SMALL], "is not a folder that repro wrote"),
                ([full], "is not a folder that repro wrote")):
            done = self.rewire("repro", *arguments)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
            self.assertIn(message, done.stderr)
        self.assertEqual([file.name for file in full.iterdir()], ["mine"])

    def test_a_folder_that_was_changed_is_refused(self):
        folder = self.written("k", *SMALL, "--kernel", self.kernels()["a map"])
        record = (folder / "repro.json").read_text()
        for change in (lambda r: r | {"format": 2}, lambda r: r | {"kind": "other"}, lambda r: r | {"function": "none"},
                       lambda r: {key: value for key, value in r.items() if key != "results"},
                       lambda r: r | {"seeded": [{"file": "inputs"}]}, lambda r: r | {"plugins": 3}):
            (folder / "repro.json").write_text(json.dumps(change(json.loads(record))))
            done = self.again(folder)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        (folder / "repro.json").write_text(record)
        (folder / "inputs.safetensors").unlink()
        self.assertEqual(self.again(folder).returncode, 2)


    def test_what_compares_nothing_is_refused(self):
        folder = self.written("norm", *SMALL, "--kernel", self.kernels()["sums along rows"])
        record = json.loads((folder / "repro.json").read_text())
        (folder / "repro.json").write_text(json.dumps(record | {"results": record["results"][1:]}))
        done = self.rewire("repro", folder)
        self.assertEqual(done.returncode, 2, done.stdout)
        (folder / "repro.json").write_text(json.dumps(record | {"results": []}))
        self.assertEqual(self.rewire("repro", folder).returncode, 2)

    def test_options_that_say_nothing_are_refused(self):
        for more in (["--weights", "w.safetensors"], ["--input", "image=x.npy"]):
            done = self.rewire("repro", *SMALL, "--kernel", "any", *more, "--output", self.base / "x")
            self.assertEqual(done.returncode, 2)
            self.assertIn("work only with --failure", done.stderr)

    def test_a_short_run_is_looked_at_and_names_no_folder(self):
        run = self.base / "run"
        done = self.rewire("train", *SMALL, "--set", "data.format=synthetic", "--set", "data.count=16", "--set", "train.epochs=1",
                           "--set", "schedule.name=cosine", "--set", "optimizer.lr=1e30", "--out", run, "--quiet")
        self.assertNotEqual(done.returncode, 0)
        broken = self.written("broken", run, "--failure")
        self.assertEqual(self.again(broken).returncode, 1)
        for file in broken.iterdir():
            self.assertNotIn(str(self.base).encode(), file.read_bytes(), file)


if __name__ == "__main__":
    unittest.main()
