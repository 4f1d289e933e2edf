#!/usr/bin/env python3
"""`rewire bench --trace` beside the profile of the same command.

    trace_test.py REWIRE
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from runs import SMALL, words

REWIRE = sys.argv.pop(1)


class Trace(unittest.TestCase):
    def test_each_launch_of_the_profile_is_an_event_in_the_program_s_order(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "trace.json"
            done = subprocess.run([REWIRE, "bench", "vit_tiny_28", "--plugin", "none", *words(SMALL), "--batch", "4", "--steps", "3",
                                   "--profile", "--json", "--trace", file], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            profile = json.loads(done.stdout)["profile"]
            trace = json.loads(file.read_text())
        events = trace["traceEvents"]
        tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        self.assertEqual(tracks, {1: "start-up", 2: "step"})
        spans = {track: [event for event in events if event["ph"] == "X" and event["tid"] == track] for track in tracks}
        for of_track in spans.values():
            at = 0.0
            for event in of_track:
                self.assertAlmostEqual(event["ts"], at, delta=1e-3)
                self.assertGreaterEqual(event["dur"], 0)
                at = event["ts"] + event["dur"]
        self.assertEqual([event["name"] for event in spans[1]],
                         ["recipe and plugins", "programs", "choices", "engine and weights", "compile step"])
        self.assertEqual(len(spans[2]), sum(row["launches"] for row in profile))
        for row in profile:
            mine = [event for event in spans[2] if event["name"] == row["name"]]
            self.assertGreaterEqual(len(mine), row["launches"])  # two codes may have one name
        for key in ("bytes", "flops"):
            self.assertEqual(sum(event["args"][key] for event in spans[2]), sum(row[key] for row in profile))
        self.assertAlmostEqual(sum(event["dur"] for event in spans[2]), sum(row["ms"] for row in profile) * 1e3, delta=1e-3)
        places = [event["args"]["place"] for event in spans[2]]
        for place in places:
            self.assertRegex(place, r"^([\w.]+(, [\w.]+)*)?$")
        # Forwards through the blocks, then backwards.
        first = {block: next(i for i, place in enumerate(places) if f"blocks.{block}." in place) for block in (0, 1)}
        last = {block: max(i for i, place in enumerate(places) if f"blocks.{block}.attn.qkv" in place) for block in (0, 1)}
        self.assertLess(first[0], first[1])
        self.assertGreater(last[0], last[1])


if __name__ == "__main__":
    unittest.main()
