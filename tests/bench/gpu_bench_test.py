"""scripts/gpu/bench.sh on the fake libraries, with a network of one small block: gpu_bench_test.py PROGRAMS PLACE

Times say nothing there. That every product of a step is found in its floor does, that classes add up, and what is written down.
"""
import json
import subprocess
import sys
import unittest

import bundle

TINY = ["--set", "model.dim=16", "--set", "model.depth=1", "--set", "model.heads=2"]


class Bench(unittest.TestCase):
    def test_floor_and_classes(self):
        root = bundle.make(programs, place)
        # No Python of this machine is asked for PyTorch.
        without = bundle.write_program(root.parent / "path" / "python3", f"""#!/bin/sh
[ "$1 $2" != "-c import torch" ] || exit 1
exec {sys.executable} "$@"
""")
        subprocess.run(["bash", str(root / "bench.sh"), str(root / "out"), "--case", "vit_tiny_28:2", "--residual", "plain",
                        "--residual", "orthogonal", "--rounds", "1", "--steps", "1", *TINY], check=True,
                       env={**bundle.os.environ, "PATH": f"{without.parent}:{bundle.os.environ['PATH']}"})
        (written,) = (root / "out").glob("*.json")
        self.assertTrue(written.with_suffix(".md").read_text().startswith("# "))
        result = json.loads(written.read_text())
        self.assertEqual(result["commit"], "abc1234-dirty")
        self.assertEqual(result["left_out"], [])
        (case,) = result["cases"]
        self.assertEqual([(c["name"], c["residual"], c.get("failed")) for c in case["contenders"]],
                         [("rewire", "plain", None), ("rewire", "orthogonal", None)])
        for contender in case["contenders"]:
            self.assertFalse([key for key in contender["about"] if key.endswith("_failed")])
        self.assertIn("cold_compile_s", case["contenders"][0]["about"])
        for residual in ("plain", "orthogonal"):
            launches, floor = case["launches"][residual], case["floors"][residual]
            products = [launch for launch in launches if launch["name"].startswith("gemm")]
            self.assertGreater(len(products), 10)
            self.assertEqual(floor["gemm"]["launches"], sum(launch["launches"] for launch in products))
            flops = 0
            for launch in products:
                p = launch["products"]
                self.assertIn(p["dtype"], launch["name"])
                flops += 2 * launch["launches"] * p["calls"] * p["batch"] * p["m"] * p["n"] * p["k"]
            self.assertEqual(flops, sum(launch["flops"] for launch in products))
            # Without PyTorch all products go at one rate.
            self.assertAlmostEqual(floor["gemm"]["ms"], flops / (result["ceilings"]["gemm_gflop_s"] * 1e6))
            others = sum(launch["bytes"] for launch in launches if launch not in products)
            self.assertAlmostEqual(floor["kernels"]["ms"], others / (result["ceilings"]["copy_gb_s"] * 1e6))
            self.assertAlmostEqual(floor["floor_ms"], floor["gemm"]["ms"] + floor["kernels"]["ms"])
            classes = {name: row for name, *row in case["classes"][residual]}
            self.assertEqual(set(classes), {"matrix products", "attention", "optimizer, gradient norm", "rows, columns, maps"})
            self.assertEqual(classes["matrix products"][0], floor["gemm"]["launches"])
            self.assertEqual(classes["attention"][0], 2)  # cuDNN's or ours
            self.assertAlmostEqual(sum(row[1] for row in classes.values()), case["launches_ms"][residual])
            least, most = (case["ratios"][f"between launches, share of the step, at {bound}, {residual}"] for bound in ("least", "most"))
            self.assertTrue(0 <= least <= most <= 1)


if __name__ == "__main__":
    programs, place = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
