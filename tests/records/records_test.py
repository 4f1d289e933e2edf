#!/usr/bin/env python3
"""What a run writes beside its event files: log.txt, report.html; what it serves: OpenMetrics text; and how it stops.

    records_test.py REWIRE
"""
import json
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from runs import SMALL, lines, train, words

REWIRE = sys.argv.pop(1)
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ "


def samples(text):
    """{(name, labels): value} of OpenMetrics text, whose form is checked."""
    assert text.endswith("\n# EOF\n"), text
    found, family, kind, families = {}, None, None, set()
    for line in text.splitlines()[:-1]:
        if line.startswith("# "):
            what, name, rest = re.fullmatch(r"# (TYPE|UNIT|HELP) ([a-z_]+) (.+)", line).groups()
            if what == "TYPE":
                assert name not in families and rest in ("counter", "gauge"), line
                families.add(name)
                family, kind = name, rest
            assert name == family, line
            assert what != "UNIT" or name.endswith("_" + rest), line
        else:
            name, labels, value = re.fullmatch(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)', line).groups()
            assert name == (family + "_total" if kind == "counter" else family), line
            key = (name, tuple(sorted(re.findall(r'([a-z]+)="((?:[^"\\]|\\.)*)"', labels or ""))))
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
        self.assertRegex(said[0], rf"^training in {re.escape(str(run))}: \d+ weights, 64 \+ 64 images, 8 steps$")
        evaluations = [line for line in lines(run) if line["kind"] == "eval"]
        for epoch in (1, 2):
            self.assertRegex(said[epoch], rf"^epoch {epoch}/2: loss \d\.\d{{4}}, top-1 [\d.]+ %; test loss "
                                          rf"{evaluations[epoch - 1]['loss']:.4f}, .*; \d+\.\d s$")
        self.assertRegex(said[-1], r"^complete after step 8: \d+ images/s$")
        subprocess.run([REWIRE, "train", "--resume", run, "--set", "train.epochs=3", "--set", "train.best_metric=top1", "--quiet"],
                       check=True, capture_output=True)
        whole = (run / "log.txt").read_text()
        self.assertTrue(whole.startswith(first))
        more = whole[len(first):]
        self.assertRegex(more, f"(?m)^{STAMP}going on in {re.escape(str(run))} after step 8 of 12 \\(epoch 3\\)$")
        # What --quiet keeps from stderr.
        self.assertRegex(more, f"(?m)^{STAMP}warning: {re.escape(str(run))}: the best checkpoint was chosen by loss; from here on top1")

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
        self.assertIn(f"warning: the run goes on without its log: cannot write {run}/log.txt: Is a directory", done.stderr)

    def test_a_log_that_cannot_grow_is_told_of_once(self):
        run = train(REWIRE, self.folder / "short_log", "train.epochs=1", more=["--quiet"])
        size, room = 64 << 20, 600
        os.truncate(run / "log.txt", size)  # all else stays far below that
        done = subprocess.run([REWIRE, "train", "--resume", run, "--set", "train.epochs=20"], capture_output=True, text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, size + room)))
        self.assertEqual(done.returncode, 0, done.stderr)
        told = f"warning: the run goes on without its log: cannot write {run}/log.txt: File too large"
        self.assertEqual(done.stderr.count(told), 1, done.stderr)
        said = (run / "log.txt").read_bytes()[size:].decode()
        self.assertIn("going on in", said)
        self.assertIn("epoch 2/20", said)
        self.assertTrue(said.endswith("\n"))

    def test_nothing_is_written_through_a_link(self):
        run = train(REWIRE, self.folder / "links", "train.epochs=1", more=["--quiet"])
        other = self.folder / "of_the_user"
        for name in ("log.txt", "report.html"):
            (run / name).unlink()
            (run / name).symlink_to(other)
        other.write_text("mine\n")
        done = subprocess.run([REWIRE, "train", "--resume", run, "--set", "train.epochs=2"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"warning: the run goes on without its log: {run}/log.txt is a link: ", done.stderr)
        self.assertIn(f"warning: no report is written: {run}/report.html is a link: ", done.stderr)
        (run / "metrics.jsonl").rename(self.folder / "metrics")
        (run / "metrics.jsonl").symlink_to(self.folder / "metrics")
        before = (self.folder / "metrics").read_bytes()
        done = subprocess.run([REWIRE, "train", "--resume", run, "--set", "train.epochs=3"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{run}/metrics.jsonl is a link: ", done.stderr)
        self.assertEqual((other.read_text(), (self.folder / "metrics").read_bytes()), ("mine\n", before))

    def test_a_best_metric_that_is_no_name_is_refused(self):
        run = train(REWIRE, self.folder / "metric", "train.epochs=1", more=["--quiet"])
        file = run / "checkpoints" / "0001-00000004" / "checkpoint.json"
        told = json.loads(file.read_text())
        del told["blake3"], told["files"]
        old = {"steps": 0, "loss": 0.0, "correct": 0.0, "grad_norm": 0.0, "named": {}}
        told.update(format=1, sums={"line": old, "epoch": old})  # without checksums
        for metric in ("", "top 1", "loss\n", "\u001b[31m"):
            told["best"]["metric"] = metric
            file.write_text(json.dumps(told))
            done = subprocess.run([REWIRE, "train", "--resume", run, "--quiet"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, metric)
            self.assertIn("is no name of a metric", done.stderr)

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

    def start(self, out, *more):
        """A run that goes on until it is told to stop, and the address of its figures."""
        command = [REWIRE, "train", "vit_tiny_28", "--plugin", "none", "--quiet", *words((*SMALL, "train.epochs=10000")),
                   "--out", str(out), *more]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        told = re.fullmatch(r"metrics at (http://(\S+):(\d+)/metrics)\n", process.stderr.readline())
        self.assertIsNotNone(told)
        return process, told

    def crowd(self, port, url):
        """Of 40 clients that say nothing 32 are waited for; who comes behind them is served."""
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
        end = time.monotonic() + 3  # less than the patience with the others
        while len(closed := select.select(clients, [], [], 0)[0]) < 8:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.assertLessEqual(len(closed), 10)
        self.assertEqual({client.recv(1) for client in closed}, {b""})
        for client in clients:
            client.close()
        while True:
            try:
                with urllib.request.urlopen(url, timeout=10) as answer:
                    return samples(answer.read().decode())
            except (urllib.error.URLError, ConnectionError):  # until it has seen them go
                self.assertLess(time.monotonic(), end + 10)
                time.sleep(0.01)

    def test_figures_are_served_while_a_run_trains(self):
        out = self.folder / "served"
        process, told = self.start(f"{out}/", "--metrics-port", "0")
        self.assertEqual(told.group(2), "127.0.0.1")
        url, end = told.group(1), time.monotonic() + 60
        try:
            while True:  # until an evaluation was made
                with urllib.request.urlopen(url, timeout=10) as answer:
                    self.assertEqual(answer.headers["Content-Type"], "application/openmetrics-text; version=1.0.0; charset=utf-8")
                    found = samples(answer.read().decode())
                if any(dict(labels).get("kind") == "eval" for _, labels in found):
                    break
                self.assertLess(time.monotonic(), end)
                time.sleep(0.02)
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(url.replace("/metrics", "/"), timeout=10)
            self.assertEqual(refused.exception.code, 404)
            refused.exception.close()
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(url, data=b"x"), timeout=10)
            self.assertEqual(refused.exception.code, 405)
            refused.exception.close()
            taken = subprocess.run([REWIRE, "train", "vit_tiny_28", *words(SMALL), "--out", self.folder / "none", "--metrics-port",
                                    told.group(3)], capture_output=True, text=True)
            self.assertEqual(taken.returncode, 2)
            self.assertRegex(taken.stderr, rf"^rewire: cannot serve metrics on port {told.group(3)} of 127\.0\.0\.1: "
                                           r"Address already in use; choose another --metrics-port, or 0 for any that is free\n$")
            self.assertFalse((self.folder / "none").exists())
            self.crowd(int(told.group(3)), url)
            idle = socket.create_connection(("127.0.0.1", int(told.group(3))))  # says nothing, and holds nothing up
        finally:
            process.send_signal(signal.SIGTERM)
            asked = time.monotonic()
            process.communicate(timeout=60)
        self.assertLess(time.monotonic() - asked, 5)
        idle.close()
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        label = (("run", "served"),)
        self.assertEqual(found["rewire_planned_steps", label], 40000)
        self.assertGreaterEqual(found["rewire_steps_total", label], 4)
        for name in ("rewire_images_per_second", "rewire_left_seconds", "rewire_memory_peak_bytes", "rewire_loss"):
            self.assertGreater(found[name, label], 0)
        told_lines = {kind: {} for kind in ("train", "eval")}
        for line in lines(out):
            told_lines[line["kind"]][line["step"]] = line
        seen = {}
        for (name, labels), value in found.items():
            if name == "rewire_metric":
                seen.setdefault(dict(labels)["kind"], {})[dict(labels)["name"]] = value
        for kind, values in seen.items():
            line = told_lines[kind][values["step"]]
            self.assertEqual(set(values), set(line) - {"kind"})
            for name, value in values.items():
                self.assertEqual(value, line[name], name)

    def test_an_address_or_port_that_is_none_is_refused(self):
        for more, message in {("--metrics-port", "65536"): "train: --metrics-port 65536: a port is at most 65535",
                              ("--metrics-port", "0", "--metrics-address", "nowhere"): "--metrics-address nowhere is no address"}.items():
            done = subprocess.run([REWIRE, "train", "vit_tiny_28", *words(SMALL), "--out", self.folder / "none", *more],
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
