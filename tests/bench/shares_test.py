"""What bench/shares.py reads out of a result: shares of the median step, the floor's and the faster PyTorch's."""
import sys
import unittest

import bundle

sys.path.insert(0, str(bundle.SOURCE / "bench"))
import shares  # noqa: E402

CASE = {"model": "one", "batch": 4, "classes": {"plain": [["matrix products", 2, 6.0, 1, 1], ["attention", 1, 1.0, 1, 1]],
                                                "decay": [["matrix products", 2, 9.0, 1, 1]]},
        "floors": {"plain": {"floor_from_peak_ms": 7.0}},
        "contenders": [{"name": "rewire", "residual": "plain", "step_ms": 10.0}, {"name": "rewire", "residual": "decay", "step_ms": 8.0},
                       {"name": "pytorch eager", "residual": "plain", "step_ms": 15.0},
                       {"name": "pytorch compile", "residual": "plain", "step_ms": 12.0},
                       {"name": "pytorch eager", "residual": "decay", "failed": "it was not ready"}]}


class Shares(unittest.TestCase):
    def test_of_a_step(self):
        plain, decay = shares.bars_of({"cases": [CASE]})
        name, parts, floor, peer = plain
        self.assertEqual(name, "one, 4")
        self.assertEqual([part for part, _ in parts], ["matrix products", "attention", shares.WAITING])
        for (_, share), expected in zip(parts, (0.6, 0.1, 0.3)):
            self.assertAlmostEqual(share, expected)
        self.assertAlmostEqual(floor, 0.7)
        self.assertAlmostEqual(peer, 1.2)
        name, parts, floor, peer = decay
        self.assertEqual(name, "one, 4, decay")
        self.assertEqual((parts[-1][1], floor, peer), (0.0, None, None))  # launches alone may take longer than a step

    def test_floors_without_their_convolutions_are_none(self):
        case = dict(CASE, classes={"plain": [["convolutions", 2, 6.0, 1, 1]]}, floors={"plain": {"floor_from_peak_ms": 7.0}})
        self.assertIsNone(shares.bars_of({"cases": [case]})[0][2])
        case["floors"] = {"plain": {"floor_from_peak_ms": 7.0, "kernels": {"convolution_gflop": 1.0}}}
        self.assertAlmostEqual(shares.bars_of({"cases": [case]})[0][2], 0.7)


if __name__ == "__main__":
    unittest.main()
