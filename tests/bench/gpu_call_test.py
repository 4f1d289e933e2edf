"""scripts/gpu/call.py on the fake libraries, with little of everything: gpu_call_test.py PROGRAMS PLACE

Times say nothing there. What is asked: that each call ends within its limit and leaves its three files whole, also when it is
killed; that the next one takes up what is done, kernels and choices; that what fails or is missing is told; and that every
product of a step is found in its floor.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import unittest

import bundle

# Does what it is given, without looking.
SANITIZER = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift 2; done
exec "$@"
"""
# In place of bench/parity.py, of which one comparison is wrong.
PARITY = """import pathlib, sys
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
pathlib.Path(given["--out"]).write_text("[]")
wrong = given["--residual"] == "decay"
print(given["--case"].replace(":", " "), given["--residual"], given.get("--dtype", "both"), "FAILED" if wrong else "ok")
sys.exit(wrong)
"""
LITTLE = ["--case", "vit_tiny_28:2", "--set", "model.dim=16", "--set", "model.depth=1", "--set", "model.heads=2", "--steps", "2",
          "--convolutions", "resnetv2_18:2", "--convolutions-set", "model.width=4", "--convolutions-set", "model.depths=[1,1]",
          "--convolutions-set", "model.image=8", "--rounds", "1", "--jobs", "2", "--strategy", "orthogonal",
          "--attention", "1", "--engines", "1", "--seeds", "0", "--programs", "1", "--transforms", "1"]
FILES = ["results.json", "results.tar.gz", "summary.txt"]
LARGEST = 16 << 20


class Calls(unittest.TestCase):
    def setUp(self):
        self.root = bundle.make(programs, place)
        self.out = self.root.parent / "out"
        bundle.write_program(self.root.parent / "path" / "compute-sanitizer", SANITIZER)
        self.torch("raise ImportError")  # whatever this machine has

    def torch(self, text):
        for module in ("torch", "safetensors"):
            bundle.write_program(self.root.parent / "site" / f"{module}.py", text)

    def start(self, number, *more, out=None, **environment):
        path = f"{self.root.parent / 'path'}:{os.environ['PATH']}"
        (self.root.parent / "tmp").mkdir(exist_ok=True)
        return subprocess.Popen([sys.executable, str(self.root / "call.py"), str(number), "--out", str(out or self.out), *LITTLE, *more],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**os.environ, "PATH": path, "PYTHONPATH": str(self.root.parent / "site"),
                                     "TMPDIR": str(self.root.parent / "tmp"), **environment})

    def call(self, number, *more, expected, **rest):
        process = self.start(number, *more, **rest)
        said, _ = process.communicate()
        self.assertEqual(process.returncode, expected, said)
        return said

    def results(self, out=None):
        """What is in results.json, once all three files are seen to be whole."""
        out = out or self.out
        files = sorted(path.name for path in out.iterdir() if not path.name.endswith(".new"))  # one may be killed as it is written
        self.assertEqual(files, FILES)
        self.assertTrue(all((out / name).stat().st_size < LARGEST for name in FILES))
        result = json.loads((out / "results.json").read_text())
        with tarfile.open(out / "results.tar.gz") as tar:
            state = json.load(tar.extractfile("state.json"))
            self.names = tar.getnames()
        # What is killed between two files leaves the state of the tar one step behind the others.
        self.assertLessEqual(state["steps"].keys(), result["steps"].keys())
        summary = (out / "summary.txt").read_text()
        for name in result["steps"]:
            self.assertIn(name, summary)
        return result

    def statuses(self, result):
        return {name.partition(".")[2]: told["status"] for name, told in result["steps"].items()}

    def assert_nothing_runs(self):
        patience = time.monotonic() + 10
        while True:
            lines = subprocess.run(["ps", "-eo", "pid,args"], stdout=subprocess.PIPE, text=True).stdout.splitlines()
            left = [line for line in lines if str(self.root / "bin") in line and " ps " not in line]
            if not left:
                return
            self.assertLess(time.monotonic(), patience, left)
            time.sleep(0.05)

    def test_the_four_calls(self):
        start = time.monotonic()
        said = self.call(1, "--limit", "200", expected=3)  # parity beside PyTorch is left out
        self.assertLess(time.monotonic() - start, 200)
        self.assertIn("call: parity_small: not run, python3 has no torch", said)
        self.assertIn("call: next: step_tuned, at most 1", said)
        self.assertIn("next: call.py 2, is it right everywhere", said)
        first = self.results()
        self.assertEqual(self.statuses(first), {"doctor": "ok", "verify_plain": "ok", "attention": "ok", "step_untuned": "ok",
                                                "step_tuned": "ok", "convolutions": "ok", "verify_convolutions": "ok",
                                                "step_convolutions": "ok", "tuned": "ok", "verify": "ok",
                                                "parity_small": "left out"})
        for suffix in (".kernel", ".choice", ".log"):
            self.assertTrue(any(name.endswith(suffix) for name in self.names), suffix)
        tuned = first["figures"]["1_step_tuned"]
        self.assertEqual([choice["by"] for choice in tuned["attention"]], ["timing", "timing"])
        self.assertIn("cuDNN", tuned["attention"][0]["taken"])
        self.assertEqual(first["figures"]["1_step_untuned"]["attention"][0]["taken"], "ours")
        self.assertGreater(first["figures"]["1_step_untuned"]["classes_ms"]["attention"], 0)
        for kind in ("f32", "tf32"):
            self.assertGreater(first["figures"][f"1_step_convolutions_{kind}"]["classes_ms"]["convolutions"], 0)
        self.check_predicted()

        said = self.call(2, "--limit", "200", expected=3)  # parity and ops are left out
        told = self.statuses(self.results())
        for name in ("determinism", "verify_objectives", "programs", "transforms", "memcheck", "synccheck_bf16", "racecheck", "initcheck_bf16"):
            self.assertEqual(told[name], "ok", said)

        other = self.root.parent / "elsewhere"  # as on a fresh machine, with the first calls' results beside the bundle
        said = self.call(3, "--limit", "200", "--from", str(self.out / "results.tar.gz"), out=other, expected=0)
        third = self.results(other)
        self.assertLessEqual(first["steps"].keys(), third["steps"].keys())
        ceilings = third["figures"]["3_ceilings"]
        self.assertEqual(ceilings["cache_hits"], ceilings["unique_kernels"])  # it starts warm,
        self.assertEqual([choice["taken"] for choice in ceilings["attention"]], [choice["taken"] for choice in tuned["attention"]])
        self.assertEqual([choice["ms"] for choice in ceilings["attention"]], [choice["ms"] for choice in tuned["attention"]])  # timed once
        with tarfile.open(other / "results.tar.gz") as tar:
            (name,) = (name for name in tar.getnames() if re.fullmatch(r"bench_3/.*\.json", name))
            self.assertIn(name.replace(".json", ".md"), tar.getnames())
            self.check_benchmark(json.load(tar.extractfile(name)))
        self.assertIn("beside_pytorch: ok in an earlier call", self.call(3, "--limit", "30", out=other, expected=0))

    def check_predicted(self):
        """What the step's launches should take, beside what they took."""
        model, batch = LITTLE[1].split(":")
        predicted = self.root.parent / "predicted.json"
        predicted.write_text(subprocess.run(
            [str(self.root / "bin" / "rewire"), "dump", model, "--set", f"train.batch={batch}", "--set", "train.dtype=bf16",
             *(word for before, text in zip(LITTLE, LITTLE[1:]) if before == "--set" for word in ("--set", text)), "--stage", "times", "--json"],
            check=True, stdout=subprocess.PIPE, text=True).stdout)
        table = subprocess.run([sys.executable, str(self.root / "bench" / "predicted.py"), str(predicted),
                                str(self.out / "results.tar.gz")], stdout=subprocess.PIPE, text=True)
        self.assertEqual(table.returncode, 0, table.stdout)
        rows = [line.strip("| ").split(" | ") for line in table.stdout.splitlines()[2:-1]]
        launches = json.loads(predicted.read_text())["predicted"]
        self.assertEqual(len(rows), len(launches))
        differences = [abs(float(row[2]) - float(row[1])) for row in rows]
        self.assertTrue(all(here >= later - 0.002 for here, later in zip(differences, differences[1:])), differences)
        self.assertIn(f"| {sum(launch['launches'] for launch in launches)} |", table.stdout.splitlines()[-1])

    def check_benchmark(self, result):
        self.assertEqual(result["commit"], "abc1234-dirty")
        self.assertEqual(result["left_out"], [])
        (case,) = result["cases"]
        self.assertEqual([(c["name"], c["residual"], c.get("failed")) for c in case["contenders"]],
                         [("rewire", "plain", None), ("rewire", "orthogonal", None)])
        for contender in case["contenders"]:
            self.assertFalse([key for key in contender["about"] if key.endswith("_failed")])
            self.assertGreater(contender["fed_step_ms"], 0)
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

    def kill_in(self, number, step, with_signal):
        """Killed as the step begins, and then for good; what it said."""
        process = self.start(number, "--limit", "200")
        said = ""
        for line in process.stdout:
            said += line
            if line.startswith(f"call: {step}: at most"):
                time.sleep(0.5)
                process.send_signal(with_signal)
                break
        said += process.communicate()[0]
        self.assertNotIn(f"{step}: ok", said)
        self.assertEqual(process.returncode, 143 if with_signal == signal.SIGTERM else -with_signal, said)
        self.assert_nothing_runs()
        return said

    def test_a_call_that_is_killed_is_taken_up(self):
        for with_signal in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(with_signal):
                shutil.rmtree(self.out, ignore_errors=True)
                self.kill_in(1, "step_tuned", with_signal)
                told = self.statuses(self.results())
                self.assertEqual(told, {"doctor": "ok", "verify_plain": "ok", "attention": "ok", "step_untuned": "ok", "step_tuned": "running"})
                said = self.call(1, "--limit", "200", expected=3)
                self.assertIn("step_untuned: ok in an earlier call", said)
                # What the call was killed in comes behind what has not been tried.
                self.assertLess(said.index("call: verify: at most"), said.index("call: step_tuned: at most"))
                self.assertEqual(set(self.statuses(self.results()).values()), {"ok", "left out"})

    def test_a_benchmark_that_is_killed_goes_on_where_it_was(self):
        process = self.start(3, "--limit", "200")
        log = None
        while log is None or "start-up of" not in log.read_text():  # its own steps are measured by then
            self.assertIsNone(process.poll())
            log = log or next((self.root.parent / "tmp").glob("rewire-gpu-*/logs/3_beside_pytorch.log"), None)
            time.sleep(0.02)
        process.kill()
        process.communicate()
        self.assert_nothing_runs()
        self.assertEqual(self.statuses(self.results())["beside_pytorch"], "running")
        shutil.rmtree(log.parent.parent)
        self.call(3, "--limit", "200", expected=0)
        self.assertEqual(self.results()["figures"]["bench_3 vit_tiny_28:2"]["left_out"], [])

    def test_time_that_is_up(self):
        start = time.monotonic()
        said = self.call(1, "--limit", "14", expected=3)
        self.assertLess(time.monotonic() - start, 14 + 2)
        told = self.statuses(self.results())
        self.assertEqual((told["doctor"], told["verify"]), ("ok", "cut"), said)
        self.assertIn("call: verify: not run, time is up", said)

    def test_what_fails_is_told(self):
        said = self.call(1, "--only", "verify_plain", "--only", "doctor", expected=1, REWIRE_FAKE_CUDA_FAIL="cuGraphLaunch:1:719")
        self.assertRegex(said, r"(?m)^call: verify_plain: failed, \d+ s, 5 of 5: verify_plain f32: status 1, .*cuGraphLaunch")
        self.assertEqual(self.statuses(self.results()), {"doctor": "ok", "verify_plain": "failed"})
        self.assertIn("verify_plain: failed in an earlier call", self.call(1, "--only", "verify_plain", expected=1))
        self.call(1, "--only", "verify_plain", "--again", "verify_plain", expected=0)

    def test_parity_beside_pytorch(self):
        self.torch("")
        (self.root / "bench" / "parity.py").write_text(PARITY)
        said = self.call(2, "--only", "parity", "--only", "parity_large", "--strategy", "decay", expected=1)
        self.assertIn("call: parity: failed, 0 s, 1 of 3: parity vit_s_cifar_decay: status 1, vit_s_cifar 3 decay both FAILED", said)
        self.assertIn("call: parity_large: ok, 0 s, 2 done", said)
        self.assertEqual(self.statuses(self.results()), {"parity": "failed", "parity_large": "ok"})
        self.assertIn("parity_vit_s_cifar_decay.json", self.names)

    def test_results_of_another_commit_give_their_cache_alone(self):
        self.call(1, "--only", "doctor", "--only", "step_untuned", expected=0)
        (self.root / "commit").write_text("later\n")
        said = self.call(1, "--only", "step_untuned", expected=0)
        self.assertIn("of commit abc1234-dirty on Fake CUDA device", said)
        result = self.results()
        self.assertEqual(self.statuses(result), {"step_untuned": "ok"})
        figures = result["figures"]["1_step_untuned"]
        self.assertEqual(figures["cache_hits"], figures["unique_kernels"])

    def test_a_cache_that_grows_too_large_loses_its_kernels_and_keeps_its_choices(self):
        before = self.root.parent / "before"
        (before / "cache" / "rewire").mkdir(parents=True)
        (before / "cache" / "rewire").chmod(0o700)
        (before / "cache" / "rewire" / "large.kernel").write_bytes(os.urandom(LARGEST))
        (before / "cache" / "rewire" / "small.choice").write_text("{}")
        (before / "state.json").write_text(json.dumps({"commit": "", "device": "", "steps": {}}))
        with tarfile.open(self.root.parent / "before.tar.gz", "w:gz") as tar:
            for path in before.iterdir():
                tar.add(path, path.name)
        self.call(1, "--only", "doctor", "--from", str(self.root.parent / "before.tar.gz"), expected=0)
        self.results()
        self.assertIn("cache/rewire/small.choice", self.names)
        self.assertNotIn("cache/rewire/large.kernel", self.names)

    def test_what_nothing_runs_without(self):
        for variable, name in (("REWIRE_CUDA_DRIVER", "a GPU"), ("REWIRE_CUBLASLT", "cuBLASLt")):
            said = self.call(1, expected=2, **{variable: "/nowhere/lib.so"})
            self.assertRegex(said, rf"(?m)^libraries: nothing can run: missing {name} \(.*{variable} is '/nowhere/lib.so'.*\)$")
        said = self.call(1, "--from", "/nowhere/results.tar.gz", expected=2)
        self.assertIn("call: --from /nowhere/results.tar.gz: there is no such file", said)
        said = self.call(1, "--only", "attention", expected=3, REWIRE_CUDNN="/nowhere/libcudnn.so.9")
        self.assertIn("call: attention: not run, without cuDNN: REWIRE_CUDNN is '/nowhere/libcudnn.so.9'", said)

    def test_libraries_of_wheels(self):
        wheel = self.root.parent / "site" / "nvidia" / "cublas" / "lib" / "libcublasLt.so.12"
        wheel.parent.mkdir(parents=True)
        wheel.symlink_to(os.environ["REWIRE_CUBLASLT"])
        done = subprocess.run([sys.executable, str(self.root / "bench" / "gpu_libraries.py"), "--rewire", str(self.root / "bin" / "rewire")],
                              stdout=subprocess.PIPE, text=True, check=True,
                              env={**os.environ, "REWIRE_CUBLASLT": "/nowhere/lib.so", "PYTHONPATH": str(wheel.parents[3])})
        self.assertEqual(done.stdout, f"export REWIRE_CUBLASLT={wheel}\n")
        self.call(1, "--only", "doctor", expected=0, REWIRE_CUBLASLT="/nowhere/lib.so")


if __name__ == "__main__":
    programs, place = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
