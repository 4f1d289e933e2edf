#!/usr/bin/env python3
"""The event files of a run as TensorBoard's own reader has them.

    tensorboard_test.py REWIRE

Exit code 77: TensorBoard is not installed, nothing was tested.
"""
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from runs import MAE, killed, scalars_of, train

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata
except ImportError:
    print("skipped: there is no tensorboard for", sys.executable)
    sys.exit(77)

REWIRE = sys.argv.pop(1)


def accumulator(run):
    told = EventAccumulator(str(run), size_guidance={"scalars": 0, "images": 0, "histograms": 0})
    return told.Reload()


class Board(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def same(self, board, run):
        expected = scalars_of(run)
        self.assertEqual(set(board.Tags()["scalars"]), set(expected))
        for tag, values in expected.items():
            got = [(event.step, event.value) for event in board.Scalars(tag)]
            self.assertEqual([step for step, _ in got], [step for step, _ in values], tag)
            for (_, mine), (_, wanted) in zip(got, values):
                self.assertTrue(mine == wanted or math.isnan(mine) and math.isnan(wanted), tag)
        return sum(map(len, expected.values()))

    def test_a_run_is_there_with_all_that_it_told(self):
        run = train(REWIRE, self.folder / "mae", "train.epochs=2", "diagnose.every=3", *MAE, model="mae_vit_tiny_28", more=["--quiet"])
        board = accumulator(run)
        count = self.same(board, run)
        tags = board.Tags()
        self.assertEqual(tags["images"], ["eval/pictures"])
        self.assertEqual([(image.step, image.encoded_image_string) for image in board.Images("eval/pictures")],
                         [(4 * epoch, (run / "pictures" / f"epoch-{epoch:04}.png").read_bytes()) for epoch in (1, 2)])
        for tag in tags["histograms"]:
            self.assertEqual([event.step for event in board.Histograms(tag)], [4, 8])
            for event in board.Histograms(tag):
                self.assertEqual(sum(event.histogram_value.bucket), event.histogram_value.num)
        start = metadata.parse_session_start_info_plugin_data(
            board.SummaryMetadata("_hparams_/session_start_info").plugin_data.content)
        self.assertEqual(start.hparams["train.batch"].number_value, 16)
        self.assertEqual(start.hparams["model.name"].string_value, "mae_vit_tiny_28")
        end = metadata.parse_session_end_info_plugin_data(board.SummaryMetadata("_hparams_/session_end_info").plugin_data.content)
        self.assertEqual(end.status, 1)
        names = [node.name for node in board.Graph().node]
        self.assertIn("blocks/0/attn/qkv/matmul", names)
        print(f"{count} scalars, {len(tags['images'])} tag of images, {len(tags['histograms'])} of histograms, {len(names)} nodes")

    def test_a_board_that_looks_on_while_a_run_is_killed_and_resumed_has_each_step_once(self):
        run = killed(REWIRE, self.folder / "killed", 2, "train.epochs=500")
        board = accumulator(run)  # has read what the resumed run takes back
        kept = sorted(path.name for path in (run / "checkpoints").iterdir() if path.is_dir() and path.name[0] != ".")[-1]
        epochs = int(kept.split("-")[0])
        done = subprocess.run([REWIRE, "train", "--resume", run, "--quiet", "--set", f"train.epochs={epochs + 2}"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        board.Reload()
        self.same(board, run)
        self.same(accumulator(run), run)


if __name__ == "__main__":
    unittest.main()
