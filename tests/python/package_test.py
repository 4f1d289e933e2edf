"""The Python package where PyTorch is not: package_test.py REWIRE."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

REWIRE = os.environ["REWIRE"] = sys.argv.pop(1) if len(sys.argv) > 1 else "rewire"
PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python"
sys.path.insert(0, str(PACKAGE))

import rewire  # noqa: E402
from rewire.exporting.program import DependsOnBatch, Parameter, Program, text_of  # noqa: E402


def network(batch, scale=2.0, rows=4):
    """x reshaped to two rows a sample, times a weight and a number."""
    program = Program("net", batch)
    x = program.argument("image", (batch, rows, 6), "f32")
    weight = program.read(Parameter("odd name", (6,), attributes={"decay": False, "init": "ones"}), "norm")
    y = program.emit("reshape", [x], (2 * batch, rows // 2, 6), "first")
    wide = program.emit("broadcast", [program.emit("reshape", [weight], (1, 1, 6))], (2 * batch, rows // 2, 6))
    y = program.emit("mul", [y, wide], y.shape, "norm")
    factor = program.emit("constant", [], y.shape, "", "f32", value=scale)
    program.emit("mul", [y, factor], y.shape, "unused")
    program.results["logits"] = program.emit("mul", [y, factor], y.shape, "first")
    program.drop_unused()
    return program


TEXT = """module @net {
  param @"odd name" : f32[6] {decay = false, init = "ones"}

  func @forward(%image: f32[batch,4,6]) -> (logits: f32[2*batch,2,6]) {
    %0 = param {name = "odd name"} : f32[6] loc("norm")
    %1 = reshape %image : f32[2*batch,2,6] loc("first")
    %2 = reshape %0 : f32[1,1,6]
    %3 = broadcast %2 : f32[2*batch,2,6]
    %4 = mul %1, %3 : f32[2*batch,2,6] loc("norm")
    %5 = constant {value = 2.0} : f32[2*batch,2,6]
    %7 = mul %4, %5 : f32[2*batch,2,6] loc("first")
    return logits = %7
  }
}
"""


class Text(unittest.TestCase):
    def test_two_batches_make_a_text_for_any(self):
        self.assertEqual(text_of(network(2), network(3)), TEXT)
        self.assertEqual(text_of(network(2), None), TEXT.replace("2*batch", "4").replace("batch", "2"))

    def test_the_command_reads_it(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "net.rir"
            file.write_text(TEXT)
            shown = rewire.run("dump", file, "--set", "train.batch=5")
        self.assertIn("func @forward(%image: f32[5,4,6]) -> (logits: f32[10,2,6])", shown)

    def test_what_depends_on_the_batch_otherwise_is_named(self):
        for other, words in (
            (network(3, scale=3.0), "the number 2.0 becomes 3.0"),
            (network(3, rows=8), "4 becomes 8"),
        ):
            with self.assertRaisesRegex(DependsOnBatch, words):
                text_of(network(2), other)


class Command(unittest.TestCase):
    def test_a_refusal_is_an_exception_in_one_line(self):
        with self.assertRaises(rewire.RewireError) as caught:
            rewire.run("dump", "vit_tiny_2")
        self.assertEqual(str(caught.exception).count("\n"), 0)
        self.assertRegex(str(caught.exception), "^rewire dump: .*vit_tiny_2")

    def test_a_run_is_read_back(self):
        small = [
            "model.dim=8",
            "model.depth=1",
            "model.heads=2",
            "model.patch=14",
            "data.format=synthetic",
            "data.count=32",
            "train.batch=8",
            "train.epochs=2",
            "train.log_every=1",
        ]
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder) / "run"
            rewire.run(
                "train", "vit_tiny_28", *(word for s in small for word in ("--set", s)), "--no-autotune", "--out", run
            )
            rows = rewire.metrics(run)
            rows = rows if isinstance(rows, list) else rows.to_dict("records")
            lines = (run / "metrics.jsonl").read_text().splitlines()
            self.assertEqual([row["kind"] for row in rows], [json.loads(line)["kind"] for line in lines])
            self.assertEqual(len(rewire.metrics(run, kind="eval")), 2)
        with self.assertRaisesRegex(rewire.RewireError, "metrics.jsonl: No such file"):
            rewire.metrics(run)

    def test_a_bundled_command_comes_before_others_but_the_variable(self):
        with unittest.mock.patch("rewire.command.BUNDLED", pathlib.Path(sys.executable)):
            self.assertEqual(rewire.command.find(), REWIRE)
            with unittest.mock.patch.dict(os.environ):
                del os.environ["REWIRE"]
                self.assertEqual(rewire.command.find(), sys.executable)

    def test_the_script_of_a_wheel_becomes_the_command(self):
        script = "import sys, rewire.command as c; c.BUNDLED = sys.argv.pop(1); c.main()"
        done = subprocess.run(
            [sys.executable, "-c", script, REWIRE, "dump", "vit_tiny_2"], cwd=PACKAGE, capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "^rewire: .*vit_tiny_2")

    def test_help_needs_no_pytorch(self):
        done = subprocess.run(
            [sys.executable, "-m", "rewire.export", "--help"], cwd=PACKAGE, capture_output=True, text=True, check=True
        )
        self.assertIn("timm:convnext_tiny", done.stdout)


if __name__ == "__main__":
    unittest.main()
