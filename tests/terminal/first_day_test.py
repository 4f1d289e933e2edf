"""What a new user types on the first day, and what the answer leads to.

    first_day_test.py REWIRE

Exit code 1: a test failed.
"""
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

REWIRE = sys.argv.pop(1)
SMALL = [word for setting in ("model.dim=16", "model.depth=2", "model.heads=2", "data.format=synthetic", "data.count=64", "train.batch=16",
                              "train.epochs=1", "train.threads=1") for word in ("--set", setting)]


def rewire(*words):
    return subprocess.run([REWIRE, *map(str, words)], capture_output=True, text=True)


def shown_at_a_terminal(*words, **environment):
    """What a command writes to a terminal, and its exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({"TERM": "dumb", "LC_ALL": "C.UTF-8", "MANPAGER": "cat", "PAGER": "cat", **environment})
        os.execv(REWIRE, [REWIRE, *words])
    text = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the end of it
            part = b""
        if not part:
            break
        text += part
    os.close(terminal)
    return re.sub("\x1b\\[[0-9;]*m|.\b", "", text.decode()), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def write_npy(path, shape):
    count = 1
    for extent in shape:
        count *= extent
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() +
                     struct.pack(f"<{count}f", *((i * 37 % 101) / 50 - 1 for i in range(count))))


class FirstDay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.run_folder = cls.folder / "run"
        done = rewire("train", "vit_tiny_28", "--plugin", "decay:learnable=true", *SMALL, "--set", "train.ema=0.5", "--quiet", "--out",
                      cls.run_folder)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def answers(self, message, *words):
        done = rewire(*words)
        self.assertEqual((done.returncode, done.stderr), (2, f"rewire: {message}\n"))

    def test_a_run_is_run_without_naming_its_network_or_weights(self):
        images = self.folder / "x.npy"
        write_npy(images, (4, 1, 28, 28))
        outputs = {}
        for name, words in {"own": [self.run_folder], "ema": [self.run_folder, "--ema"],
                            "checkpoint": [self.run_folder, "--checkpoint", "0001-00000004"],
                            "file": [self.run_folder / "recipe.toml", "--trust", "--weights", self.run_folder / "weights.safetensors"]}.items():
            out = self.folder / f"{name}.npy"
            done = rewire("run", *words, "--input", images, "--output", out)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            outputs[name] = out.read_bytes()
        self.assertEqual(outputs["own"], outputs["file"])
        self.assertEqual(outputs["own"], outputs["checkpoint"])
        self.assertNotEqual(outputs["own"], outputs["ema"])
        to = ["--input", images, "--output", self.folder / "none.npy"]
        self.answers("vit_tiny_28 is not a run's folder: give its weights with --weights FILE", "run", "vit_tiny_28", *to)
        self.answers("--ema chooses among the weights of a run, but vit_tiny_28 is not a run", "run", "vit_tiny_28", "--ema", *to)
        self.answers("--checkpoint chooses among the weights of the run: remove it, or --weights w", "run", self.run_folder,
                     "--checkpoint", "best", "--weights", "w", *to)

    def test_options_that_are_keys_lead_to_them(self):
        for option, meant in {"--lr=0.1": "--set optimizer.lr=0.1", "--lr": "--set optimizer.lr=", "--epochs": "--set train.epochs=",
                              "--weight-decay": "--set optimizer.weight_decay=",
                              "--batch-size": "--set train.batch= or --set eval.batch="}.items():
            self.answers(f"train: unknown option {option.split('=')[0]} (did you mean {meant}?); see rewire train --help",
                         "train", "vit_tiny_28", option)
        self.answers("models: unknown option --jsno (did you mean '--json'?); see rewire models --help", "models", "--jsno")

    def test_help_explains_a_key_by_its_own_name(self):
        self.assertEqual(rewire("help", "lr").stdout, rewire("help", "optimizer.lr").stdout)
        self.assertIn("optimizer.lr", rewire("help", "lr").stdout)
        several = rewire("help", "batch")
        self.assertEqual(several.returncode, 0)
        self.assertEqual(re.findall(r"^ *(\S+\.batch)\b", several.stdout, re.M), ["train.batch", "eval.batch"])
        self.assertEqual(rewire("help", "nosuch").returncode, 2)

    def test_a_setting_without_a_value_clears_a_text(self):
        recipe = self.folder / "tuned.toml"
        recipe.write_text('[model]\nname = "vit_tiny_28"\n[train]\nweights = "nowhere.safetensors"\n')
        words = ["train", recipe, *SMALL, "--quiet", "--out"]
        self.assertEqual(rewire(*words, self.folder / "refused").returncode, 2)
        done = rewire(*words, self.folder / "cleared", "--set", "train.weights=")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.answers("--set train.batch=: it takes the form section.key=value", *words, self.folder / "no", "--set", "train.batch=")

    def test_a_complete_run_that_is_resumed_says_that_and_the_way_on(self):
        run = self.folder / "resumed"
        shutil.copytree(self.run_folder, run)
        for setting, limit in (("train.epochs=1", "train.epochs=1"), ("train.max_steps=4", "train.max_steps=4")):
            done = rewire("train", "--resume", run, "--set", setting)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"rewire: info: {run} is complete after step 4: to continue, --set more than {limit}\n", done.stderr)
        self.assertNotIn("is complete", rewire("train", "--resume", run, "--set", "train.max_steps=0", "--set",
                                               "train.epochs=2").stderr)

    def test_a_page_is_told_of_on_stderr(self):
        page = self.folder / "page.html"
        for words in (["explore", "vit_tiny_28", *SMALL], ["diff", "vit_tiny_28", *SMALL, "--plugin-b", "decay"]):
            done = rewire(*words, "--output", page)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", f"wrote {page}\n"))
            self.assertEqual(rewire(*words, "--output", page, "--quiet").stderr, "")
        text, code = shown_at_a_terminal("explore", "vit_tiny_28", *SMALL, "--output", str(page))
        self.assertEqual(code, 0)
        for stage in ("lowering the step", "compiling the kernels"):
            self.assertIn(f"vit_tiny_28: {stage}", text)

    def test_a_manual_page_is_shown_at_a_terminal(self):
        for words in (["man"], ["man", "train"]):
            plain, code = shown_at_a_terminal(*words, PATH="/nonexistent", PAGER="")  # no man, no pager
            self.assertEqual((code, plain.replace("\r\n", "\n")), (0, rewire(*(["--help"] if len(words) == 1 else ["train", "--help"])).stdout))
            self.assertIn("\n.SH ", rewire(*words).stdout)
            if shutil.which("man") is None:
                continue
            text, code = shown_at_a_terminal(*words)
            self.assertEqual(code, 0)
            self.assertNotIn(".SH", text)
            self.assertRegex(text, r"(?m)^NAME\r?$")
            self.assertIn("rewire", text)


if __name__ == "__main__":
    unittest.main()
