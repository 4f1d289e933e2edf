#!/usr/bin/env python3
"""The event files of runs beside their metrics.jsonl, pictures, weights and recipes, read by their format alone.

    events_test.py REWIRE
"""
import json
import math
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from event_reader import Events, double, doubles, fields
from runs import MAE, SMALL, killed, lines, scalars_of, train, words

REWIRE = sys.argv.pop(1)


def weights_of(file):
    """{name: numbers} of a safetensors file of f32."""
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, tensor in header.items():
        begin, end = (8 + size + offset for offset in tensor["data_offsets"])
        tensors[name] = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return tensors


class EventFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.run_ = train(REWIRE, cls.folder / "mae", "train.epochs=2", "diagnose.every=3", *MAE, model="mae_vit_tiny_28",
                         more=["--quiet"])
        cls.events = Events(cls.run_)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def resume(self, run, *settings):
        """What it says on stderr."""
        done = subprocess.run([REWIRE, "train", "--resume", run, *words(settings)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def same_scalars(self, events, run):
        expected = scalars_of(run)
        self.assertEqual(set(events.scalars), set(expected))
        for tag, values in expected.items():
            self.assertEqual([step for step, _ in events.scalars[tag]], [step for step, _ in values], tag)
            for (_, got), (_, wanted) in zip(events.scalars[tag], values):
                self.assertTrue(got == wanted or math.isnan(got) and math.isnan(wanted), tag)

    def test_every_number_of_every_line_is_a_scalar(self):
        self.assertEqual([file.name for file in self.events.files], ["events.out.tfevents.00000000.rewire"])
        self.assertEqual(self.events.starts, [0])
        self.same_scalars(self.events, self.run_)
        for tag in ("train/loss", "train/lr", "eval/loss", "diagnose/blocks.0.attn.cosine"):
            self.assertIn(tag, self.events.scalars)

    def test_pictures_are_the_files(self):
        self.assertEqual(list(self.events.images), ["eval/pictures"])
        drawn = self.events.images["eval/pictures"]
        self.assertEqual([step for step, _, _ in drawn], [4, 8])
        for epoch, (_, (height, width, channels), png) in enumerate(drawn, 1):
            self.assertEqual(png, (self.run_ / "pictures" / f"epoch-{epoch:04}.png").read_bytes())
            self.assertEqual((width, height), struct.unpack(">II", png[16:24]))
            self.assertEqual(channels, 1)

    def test_histograms_are_of_the_weights(self):
        weights = weights_of(self.run_ / "weights.safetensors")
        self.assertLessEqual({tag.removeprefix("weights/") for tag in self.events.histograms}, set(weights))
        self.assertIn("weights/blocks.0.attn.qkv.weight", self.events.histograms)
        for tag, values in self.events.histograms.items():
            self.assertEqual([step for step, _ in values], [4, 8])
            last, numbers = values[-1][1], weights[tag.removeprefix("weights/")]
            self.assertEqual(double(last[3][0]), len(numbers))
            # What is 0 is left out.
            self.assertEqual(double(last.get(1, [bytes(8)])[0]), min(numbers))
            self.assertEqual(double(last.get(2, [bytes(8)])[0]), max(numbers))
            self.assertAlmostEqual(double(last.get(4, [bytes(8)])[0]), math.fsum(numbers), places=6)
            self.assertAlmostEqual(double(last.get(5, [bytes(8)])[0]), math.fsum(x * x for x in numbers), places=6)
            limits, counts = doubles(last[6][0]), doubles(last[7][0])
            self.assertEqual((len(limits), sum(counts)), (len(counts), len(numbers)))
            before = -math.inf
            for limit, count in zip(limits, counts):
                self.assertEqual(count, sum(before < x <= limit for x in numbers), tag)
                before = limit

    def test_hparams_are_what_tells_runs_apart(self):
        hparams = self.events.hparams
        set_ = {setting.split("=")[0] for setting in (*SMALL, *MAE, "train.epochs=2", "diagnose.every=3")}
        self.assertEqual(set(hparams), set_ | {"model.name", "optimizer.lr", "seed", "plugin"})
        self.assertEqual((hparams["train.batch"], hparams["model.name"], hparams["optimizer.lr"], hparams["data.format"], hparams["plugin"]),
                         (16, "mae_vit_tiny_28", 0.001, "synthetic", "none"))
        self.assertEqual(self.events.ends, 1)

    def test_the_plugins_of_a_run_are_one_hparam(self):
        run = self.folder / "plugins"
        command = [REWIRE, "train", "vit_tiny_28", "--plugin", "decay:alpha_min=0.7", "--plugin", "orthogonal", "--quiet", "--out", run,
                   *words((*SMALL, "train.epochs=1"))]
        subprocess.run(command, check=True, capture_output=True)
        hparams = Events(run).hparams
        self.assertEqual(hparams["plugin"], "decay:alpha_min=0.7 orthogonal")
        self.assertEqual([key for key in hparams if key.startswith("plugin.")], [])

    def test_the_graph_is_named_by_places_and_leads_from_the_image_to_the_result(self):
        nodes = [fields(node) for node in fields(self.events.graphs[0])[1]]
        names = [node[1][0].decode() for node in nodes]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("blocks/0/attn/qkv/matmul", names)
        self.assertIn("blocks/0/attn/qkv/weight", names)
        known = set()
        for name, node in zip(names, nodes):
            for source in node.get(3, []):
                self.assertIn(source.decode().split(":")[0], known, name)
            known.add(name)

    def test_a_killed_run_is_whole_and_goes_on_without_a_step_twice(self):
        run = killed(REWIRE, self.folder / "killed", 2, "train.epochs=500")
        begun = Events(run)  # every record is whole
        self.assertGreater(len(begun.scalars["train/loss"]), 3)
        kept = sorted(path.name for path in (run / "checkpoints").iterdir() if path.is_dir() and path.name[0] != ".")[-1]
        epochs, step = (int(part) for part in kept.split("-"))
        done = subprocess.run([REWIRE, "train", "--resume", run, "--quiet", "--set", f"train.epochs={epochs + 2}"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        whole = Events(run)
        self.assertEqual([file.name for file in whole.files],
                         ["events.out.tfevents.00000000.rewire", f"events.out.tfevents.{step:08}.rewire"])
        self.assertEqual((whole.starts, len(whole.graphs)), ([0, step + 1], 1))
        self.same_scalars(whole, run)
        self.assertEqual(lines(run)[-1]["step"], step + 8)
        self.assertEqual([at for at, _ in whole.histograms["weights/head.weight"]], list(range(4, step + 9, 4)))

    def test_files_that_are_gone_or_short_stop_no_run(self):
        run = train(REWIRE, self.folder / "again", "train.epochs=1", more=["--quiet"])
        before = Events(run)
        subprocess.run([REWIRE, "train", "--resume", run, "--quiet"], check=True, capture_output=True)  # nothing is left to do
        again = Events(run)
        self.assertEqual((again.scalars, again.ends), (before.scalars, 1))
        for name, harm in {"gone": lambda file: file.unlink(), "short": lambda file: file.write_bytes(file.read_bytes()[:100])}.items():
            run = train(REWIRE, self.folder / name, "train.epochs=1", more=["--quiet"])
            harm(run / "events.out.tfevents.00000000.rewire")
            done = subprocess.run([REWIRE, "train", "--resume", run, "--set", "train.epochs=2", "--quiet"], capture_output=True,
                                  text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_an_event_file_that_cannot_be_written_stops_no_run(self):
        run = train(REWIRE, self.folder / "no_file", "train.epochs=1", "train.keep=9", more=["--quiet"])
        taken = run / "events.out.tfevents.00000004.rewire"
        taken.mkdir()
        (taken / "something").touch()
        said = self.resume(run, "train.epochs=3")
        self.assertEqual(said.count("event files"), 1, said)
        self.assertIn(f"warning: the run continues without event files: cannot write {taken}: Is a directory", said)
        reached = [json.loads((run / "checkpoints" / name / "checkpoint.json").read_text())["events"]
                   for name in ("0001-00000004", "0002-00000008", "0003-00000012")]
        self.assertEqual(reached, [reached[0]] * 3)
        shutil.rmtree(taken)
        self.assertNotIn("event files", self.resume(run, "train.epochs=4"))
        events = Events(run)
        self.assertEqual((events.starts, len(events.graphs)), ([0, 13], 1))
        self.assertEqual([step for step, _ in events.scalars["train/loss"]], [2, 4, 14, 16])

    def test_no_event_is_written_through_a_link(self):
        run = train(REWIRE, self.folder / "link", "train.epochs=1", more=["--quiet"])
        file, other = run / "events.out.tfevents.00000000.rewire", self.folder / "other"
        file.rename(other)
        file.symlink_to(other)
        before = other.read_bytes()
        self.assertIn(f"continues without event files: {file} is a link: ", self.resume(run, "train.epochs=2"))
        self.assertEqual(other.read_bytes(), before)

    def test_a_run_that_goes_on_without_events_cuts_them(self):
        run = train(REWIRE, self.folder / "cut", "train.epochs=2", "train.keep=9", more=["--quiet"])
        shutil.rmtree(run / "checkpoints" / "0002-00000008")
        self.resume(run, "train.events=false")
        events = Events(run)
        self.assertEqual(len(events.files), 1)
        self.assertEqual([step for step, _ in events.scalars["train/loss"]], [2, 4])
        self.resume(run, "train.events=true", "train.epochs=3")
        events = Events(run)
        self.assertEqual((events.starts, len(events.graphs)), ([0, 9], 1))
        self.assertEqual([step for step, _ in events.scalars["train/loss"]], [2, 4, 10, 12])

    def test_a_run_that_goes_on_twice_behind_one_step_keeps_its_events(self):
        run = self.folder / "twice"
        settings = ["data.count=8000", "data.train_fraction=0.00875", "train.epochs=1"]  # its evaluation takes half a second
        process = subprocess.Popen([REWIRE, "train", "vit_tiny_28", "--plugin", "none", "--quiet", *words((*SMALL, *settings)),
                                    "--out", run], stdout=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not (run / "metrics.jsonl").exists() or len((run / "metrics.jsonl").read_text().splitlines()) < 2:
            self.assertTrue(process.poll() is None and time.monotonic() < end)
            time.sleep(0.002)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 128 + signal.SIGTERM)
        self.assertTrue((run / "checkpoints" / "0000-00000004").is_dir())  # before the evaluation
        self.resume(run)
        self.resume(run, "train.epochs=2")
        events = Events(run)
        self.assertEqual((len(events.files), events.starts, len(events.graphs)), (2, [0, 5, 5], 1))
        self.assertEqual([step for step, _ in events.scalars["eval/loss"]], [4, 8])
        self.same_scalars(events, run)

    def test_a_run_without_events_writes_none(self):
        run = train(REWIRE, self.folder / "without", "train.epochs=1", "train.events=false", "train.report=false", more=["--quiet"])
        self.assertEqual({path.name for path in run.iterdir()}, {"checkpoints", "choices.json", "log.txt", "metrics.jsonl", "metrics.prom",
                                                                 "recipe.toml", "weights.safetensors"})


if __name__ == "__main__":
    unittest.main()
