#!/usr/bin/env python3
"""What a run writes beside its event files: log.txt, report.html, metrics.prom; and how it stops.

    records_test.py REWIRE
"""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from runs import SMALL, lines, train, words

REWIRE = sys.argv.pop(1)
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ "


def samples(text):
    """{(name, labels): value} of the text format of Prometheus (0.0.4), whose form is checked."""
    assert text.endswith("\n"), text
    found, family, families = {}, None, set()
    for line in text.splitlines():
        if line.startswith("# "):
            what, name, rest = re.fullmatch(r"# (TYPE|HELP) ([a-z_]+) (.+)", line).groups()
            if what == "HELP":
                assert name not in families, line
                families.add(name)
                family = name
            else:
                assert rest == ("counter" if name.endswith("_total") else "gauge"), line
            assert name == family, line
        else:
            name, labels, value = re.fullmatch(r'([a-z_]+)\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\S+)', line).groups()
            assert name == family, line
            key = (name, tuple(sorted(re.findall(r'([a-z]+)="((?:[^"\\]|\\.)*)"', labels))))
            assert key not in found, line
            found[key] = float(value)
    return found


class Records(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_the_log_says_what_the_run_did_and_that_it_went_on(self):
        run = train(REWIRE, self.folder / "log", "train.epochs=2", more=["--quiet"])
        first = (run / "log.txt").read_text()
        for line in first.splitlines():
            self.assertRegex(line, "^" + STAMP)
        said = [re.sub("^" + STAMP, "", line) for line in first.splitlines()]
        self.assertRegex(said[0], rf"^training in {re.escape(str(run))}: \d+ weights, 64 \+ 64 samples, 8 steps$")
        evaluations = [line for line in lines(run) if line["kind"] == "eval"]
        for epoch in (1, 2):
            self.assertRegex(said[epoch], rf"^epoch {epoch}/2: loss \d\.\d{{4}}, top-1 [\d.]+ %; test loss "
                                          rf"{evaluations[epoch - 1]['loss']:.4f}, .*; \d+\.\d s$")
        self.assertRegex(said[-1], r"^complete after step 8: \d+ samples/s$")
        subprocess.run([REWIRE, "train", "--resume", run, "--set", "train.epochs=3", "--set", "train.best_metric=top1", "--quiet"],
                       check=True, capture_output=True)
        whole = (run / "log.txt").read_text()
        self.assertTrue(whole.startswith(first))
        more = whole[len(first):]
        self.assertRegex(more, f"(?m)^{STAMP}continuing in {re.escape(str(run))} after step 8 of 12 \\(epoch 3\\)$")
        # What --quiet keeps from stderr.
        self.assertRegex(more, f"(?m)^{STAMP}warning: {re.escape(str(run))}: the best checkpoint was chosen by loss; now top1")

    def test_the_log_says_why_a_run_ended(self):
        run = self.folder / "failed"
        command = [REWIRE, "train", "vit_tiny_28", "--plugin", "none", "--quiet", *words((*SMALL, "train.epochs=3")),
                   "--set", "optimizer.lr=1e30", "--out", run]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        last = (run / "log.txt").read_text().splitlines()[-1]
        self.assertRegex(last, "^" + STAMP + "ended: step [0-9]+ .*not finite")
        self.assertIn(re.sub("^" + STAMP + "ended: ", "", last), done.stderr)

    def test_a_run_that_cannot_go_on_leaves_its_folder_as_it_was(self):
        run = train(REWIRE, self.folder / "blocked", "train.epochs=1", more=["--quiet"])
        (run / "weights.safetensors").unlink()
        (run / "weights.safetensors").mkdir()
        def files():
            return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
        before = files()
        done = subprocess.run([REWIRE, "train", "--resume", run, "--quiet"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("weights.safetensors: Is a directory", done.stderr)
        self.assertEqual(files(), before)

    def test_a_log_that_cannot_be_written_stops_no_run(self):
        run = train(REWIRE, self.folder / "no_log", "train.epochs=1", more=["--quiet"])
        (run / "log.txt").unlink()
        (run / "log.txt").mkdir()
        done = subprocess.run([REWIRE, "train", "--resume", run, "--set", "train.epochs=2"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"warning: the run continues without its log: cannot write {run}/log.txt: Is a directory", done.stderr)

    def test_a_log_that_cannot_grow_is_told_of_once(self):
        run = train(REWIRE, self.folder / "short_log", "train.epochs=1", more=["--quiet"])
        size, room = 64 << 20, 600
        os.truncate(run / "log.txt", size)  # all else stays far below that
        done = subprocess.run([REWIRE, "train", "--resume", run, "--set", "train.epochs=20"], capture_output=True, text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, size + room)))
        self.assertEqual(done.returncode, 0, done.stderr)
        told = f"warning: the run continues without its log: cannot write {run}/log.txt: File too large"
        self.assertEqual(done.stderr.count(told), 1, done.stderr)
        said = (run / "log.txt").read_bytes()[size:].decode()
        self.assertIn("continuing in", said)
        self.assertIn("epoch 2/20", said)
        self.assertTrue(said.endswith("\n"))

    def test_nothing_is_written_through_a_link(self):
        run = train(REWIRE, self.folder / "links", "train.epochs=1", more=["--quiet"])
        other = self.folder / "of_the_user"
        for name in ("log.txt", "report.html", "metrics.prom"):
            (run / name).unlink()
            (run / name).symlink_to(other)
        other.write_text("mine\n")
        done = subprocess.run([REWIRE, "train", "--resume", run, "--set", "train.epochs=2"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"warning: the run continues without its log: {run}/log.txt is a link: ", done.stderr)
        self.assertIn(f"warning: no report is written: {run}/report.html is a link: ", done.stderr)
        (run / "metrics.jsonl").rename(self.folder / "metrics")
        (run / "metrics.jsonl").symlink_to(self.folder / "metrics")
        before = (self.folder / "metrics").read_bytes()
        done = subprocess.run([REWIRE, "train", "--resume", run, "--set", "train.epochs=3"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{run}/metrics.jsonl is a link: ", done.stderr)
        self.assertEqual((other.read_text(), (self.folder / "metrics").read_bytes()), ("mine\n", before))

    def test_a_second_signal_ends_a_run_whose_terminal_is_stuck(self):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, bytes(4096))
        except BlockingIOError:
            os.set_blocking(writer, True)
        run = self.folder / "stuck"
        process = subprocess.Popen([REWIRE, "train", "vit_tiny_28", "--plugin", "none", *words((*SMALL, "train.epochs=10000")),
                                    "--out", run], stdout=subprocess.DEVNULL, stderr=writer)
        try:
            end = time.monotonic() + 60
            while not (run / "log.txt").exists():  # it listens to signals by then
                self.assertTrue(process.poll() is None and time.monotonic() < end)
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            self.assertIsNone(process.poll())  # its words are not taken
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(20), -signal.SIGTERM)
        finally:
            process.kill()
            process.wait()
            os.close(reader)
            os.close(writer)

    def test_the_report_of_a_run_is_that_of_the_command(self):
        run = train(REWIRE, self.folder / "report", "train.epochs=2", more=["--quiet"])
        page = (run / "report.html").read_text()
        data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL).group(1))
        asked = subprocess.run([REWIRE, "report", run, "--json"], check=True, capture_output=True, text=True).stdout
        self.assertEqual(data, json.loads(asked))
        self.assertTrue(data["runs"][0]["ended"])
        without = train(REWIRE, self.folder / "no_report", "train.epochs=1", "train.report=false", more=["--quiet"])
        self.assertFalse((without / "report.html").exists())

    def test_the_figures_for_prometheus_are_those_of_the_last_lines(self):
        run = train(REWIRE, self.folder / 'a "run"', "train.epochs=2", "diagnose.every=4", more=["--quiet"])
        found = samples((run / "metrics.prom").read_text())
        label = ("run", 'a \\"run\\"')
        self.assertEqual({name: found[name, (label,)] for name in ("rewire_steps_total", "rewire_planned_steps", "rewire_epoch",
                                                                  "rewire_planned_epochs")},
                         {"rewire_steps_total": 8, "rewire_planned_steps": 8, "rewire_epoch": lines(run)[-1]["epoch"],
                          "rewire_planned_epochs": 2})
        self.assertGreater(found["rewire_memory_peak_bytes", (label,)], 1e6)
        last = {line["kind"]: line for line in lines(run)}
        self.assertEqual(set(last), {"train", "eval", "diagnose"})
        expected = {("rewire_metric", (("kind", kind), ("name", name), label)): value
                    for kind, line in last.items() for name, value in line.items() if name != "kind"}
        self.assertEqual({key: value for key, value in found.items() if key[0] == "rewire_metric"}, expected)

    def test_the_figures_are_replaced_whole_and_not_at_every_line(self):
        run = self.folder / "often"
        process = subprocess.Popen([REWIRE, "train", "vit_tiny_28", "--plugin", "none", "--quiet",
                                    *words((*SMALL, "train.epochs=10000")), "--out", str(run)], stdout=subprocess.DEVNULL)
        seen, steps, end = set(), set(), time.monotonic() + 60
        try:
            while not (run / "metrics.prom").exists():
                self.assertTrue(process.poll() is None and time.monotonic() < end)
                time.sleep(0.01)
            first, lines_then = time.monotonic(), len(lines(run))
            while time.monotonic() < first + 2:
                seen.add((run / "metrics.prom").stat().st_ino)
                steps.add(samples((run / "metrics.prom").read_text())["rewire_steps_total", (("run", "often"),)])
                time.sleep(0.002)
            self.assertGreater((run / "metrics.jsonl").read_text().count("\n"), lines_then + 5)
            self.assertEqual((len(seen), len(steps)), (1, 1))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        figures = samples((run / "metrics.prom").read_text())
        self.assertEqual(figures["rewire_steps_total", (("run", "often"),)], lines(run)[-1]["step"])
        self.assertEqual([path.name for path in run.iterdir() if path.name.startswith(".rewire-")], [])

    def test_figures_that_cannot_be_written_stop_no_run(self):
        run = train(REWIRE, self.folder / "no_figures", "train.epochs=1", more=["--quiet"])
        (run / "metrics.prom").unlink()
        (run / "metrics.prom").mkdir()
        done = subprocess.run([REWIRE, "train", "--resume", run, "--set", "train.epochs=3"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        told = f"warning: the run continues without {run}/metrics.prom: cannot write it: Is a directory"
        self.assertEqual(done.stderr.count(told), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
