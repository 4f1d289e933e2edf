"""What bench/run.py does on a GPU, in which order, and what it makes of contenders that fail: stubs stand in for all of them."""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import bundle

sys.path.insert(0, str(bundle.SOURCE / "bench"))
sys.path.insert(0, str(bundle.SOURCE / "scripts/gpu"))
import call  # noqa: E402
import contenders  # noqa: E402
import gpu_ceilings  # noqa: E402

PRODUCTS = {"calls": 2, "batch": 1, "m": 64, "n": 32, "k": 16, "a_transposed": False, "b_transposed": True, "a_repeats": False,
            "b_repeats": False, "dtype": "bf16", "result": "f32", "tf32": False}
GEMM = {"name": "gemm 64x32x16 bf16>f32 a=16,1@64 b=1,16@64 c=32,1@64, 2 calls, algorithm 7", "launches": 3, "ms": 0.6,
        "bytes": 1, "flops": 393216, "products": PRODUCTS}
PROFILE = [GEMM, {"name": "attention forward 2x2x50x50x8 bf16, cuDNN", "launches": 1, "ms": 0.4, "bytes": 500000, "flops": 5},
           {"name": "blocks_0_attn_qkv_rows_2x50x16", "launches": 2, "ms": 0.2, "bytes": 500000, "flops": 5}]

# Each bench adds a line to $LOG, a process of several one for itself. `orthogonal` has no steps.
REWIRE = """#!{python}
import json, os, sys
words = sys.argv[1:]
def log(*words):
    with open(os.environ["LOG"], "a") as file:
        print(*words, file=file)
def bench(words):
    log("rewire", words[0], words[2], *(word for word in ("--profile", "--kernels") if word in words))
    if words[2] == "orthogonal":
        return dict(error="rewire: no such thing")
    return dict(step_ms=3.0 if "--resident" in words else 2.0, resident_step_ms=2.0, device_mb=5.0, peak_mb=5.0, compile_s=1.0,
                ceilings=dict(copy_gb_s=1.0, gemm_gflop_s=2.0), profile={profile})
if words[0] == "models":
    print(json.dumps([dict(name=name, family="vit", image=28, channels=1, classes=10, patch=4, dim=16, depth=1, heads=2) for name in ("one", "two")]))
elif words[0] == "doctor":
    print(json.dumps(dict(cuda=dict(parts=dict([("device 0", dict(found="Stub"))])))))
elif "--pipe" in words:
    log("pipe", "of", os.getpid())
    for line in sys.stdin:
        given = json.loads(line)
        log("forget") if not given else None
        print(json.dumps(bench(given) if given else dict()), flush=True)
else:
    print(json.dumps(bench(words[1:])))
"""
# `eager` fails as it starts, `compile` never answers a round and leaves a child behind, `max-autotune` is a peer.
PEER = """#!{python}
import os, subprocess, sys, time
mode = sys.argv[sys.argv.index("--mode") + 1]
with open(os.environ["LOG"], "a") as log:
    print(mode, sys.argv[sys.argv.index("--residual") + 1], os.getpid(), file=log)
if mode == "eager" or "--prepare" in sys.argv and "orthogonal" in sys.argv:
    sys.exit("out of memory, it says")
if "--prepare" in sys.argv:
    sys.exit()
print("not of the protocol")
print('{{"torch": "stub", "imported_mb": 2.0}}', flush=True)
for line in sys.stdin:
    if mode == "compile":
        child = subprocess.Popen(["sleep", "600"])
        with open(os.environ["LOG"], "a") as log:
            print("child", "of", child.pid, file=log)
        time.sleep(600)
    print('{{"attention": ["flash"]}}' if line == "kernels\\n" else '{{"step_ms": 4.0, "peak_mb": 10.0}}', flush=True)
"""


class Work(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.place = pathlib.Path(self.folder.name)
        self.rewire = bundle.write_program(self.place / "rewire", REWIRE.format(python=sys.executable, profile=PROFILE))
        self.peer = bundle.write_program(self.place / "peer", PEER.format(python=sys.executable))

    def bench(self, *more, device="cuda", signal_after=None):
        """The result, and what ran, a line each."""
        log = self.place / "log"
        log.write_text("")
        process = subprocess.Popen([sys.executable, str(bundle.SOURCE / "bench" / "run.py"), "--rewire", str(self.rewire), "--device",
                                    device, "--case", "one:8", "--case", "two:4", "--rounds", "2", "--out", str(self.place / "out"),
                                    *more], env={**os.environ, "LOG": str(log)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True)
        if signal_after:
            while signal_after not in log.read_text():
                self.assertIsNone(process.poll(), "it ended before")
                time.sleep(0.02)
            process.terminate()
        _, said = process.communicate()
        self.assertEqual(process.returncode, 143 if signal_after else 0, said)
        (written,) = (self.place / "out").glob("*.json")
        return json.loads(written.read_text()), log.read_text().splitlines()

    def assert_ended(self, log):
        pids = [int(line.split()[2]) for line in log if not line.startswith(("rewire", "forget"))]
        self.assertTrue(pids)
        for pid in pids:
            patience = time.monotonic() + 10  # a process that was killed may take a moment
            while self.lives(pid):
                self.assertLess(time.monotonic(), patience, pid)
                time.sleep(0.02)

    def lives(self, pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
        except FileNotFoundError:
            return False

    def test_most_wanted_first(self):
        result, log = self.bench("--residual", "plain", "--residual", "decay", "--python", str(self.peer), "--mode", "max-autotune")
        self.assertEqual(sum(line.startswith("pipe") for line in log), 1)  # one process of ours, which forgets what is no longer needed
        self.assertIn("forget", log)
        self.assertEqual([" ".join(line.split()[:2] if line[0] == "m" else line.split()) for line in log
                          if "--kernels" not in line and not line.startswith(("pipe", "forget"))], self.expected_order())
        one = result["cases"][0]
        self.assertEqual(one["ratios"]["pytorch max-autotune / rewire, plain"], 2)
        self.assertEqual(one["ratios"]["peak memory: rewire / pytorch max-autotune, decay"], 0.5)
        self.assertEqual([(c["step_ms"], c.get("fed_step_ms")) for c in one["contenders"] if c["residual"] == "plain"], [(2, 3), (4, None)])
        self.assertEqual([c["about"].get("attention") for c in one["contenders"] if c["name"] == "pytorch max-autotune"], 2 * [["flash"]])
        # 1.2 ms of launches in a step of 2; the shortest of the six takes 0.1 ms.
        self.assertAlmostEqual(one["ratios"]["between launches, share of the step, at least, plain"], 0.4)
        self.assertAlmostEqual(one["ratios"]["between launches, share of the step, at most, plain"], 0.7)
        # 3 launches of 2 calls at 2 GFLOP/s, and 1 MB at 1 GB/s.
        self.assertAlmostEqual(one["floors"]["plain"]["floor_ms"], 3 * 2 * 2 * 64 * 32 * 16 / 2e9 * 1e3 + 1)
        self.assertEqual([row[0] for row in one["classes"]["plain"]], ["matrix products", "attention", "rows, columns, maps"])
        self.assertEqual(result["left_out"], [])
        self.assert_ended(log)

    def expected_order(self):
        def beside(model, residual):
            return [f"max-autotune {residual}", *2 * [f"rewire {model} {'none' if residual == 'plain' else residual}"]]

        own = {residual: [f"rewire {model} {residual} --profile" for model in ("one", "two")] for residual in ("none", "decay")}
        return [*beside("one", "plain"), *beside("two", "plain"), *own["none"], *beside("one", "decay"), *beside("two", "decay"),
                *own["decay"], *2 * ["rewire one none"]]

    def test_all_take_turns_on_a_cpu(self):
        result, log = self.bench("--residual", "plain", "--residual", "decay", "--python", str(self.peer), "--mode", "max-autotune",
                                 "--ceilings", str(self.place / "none"), device="cpu")
        turns = [line.split()[1:] for line in log if line.startswith("rewire")]
        self.assertEqual(sum(line.startswith("pipe") for line in log), 4)  # a process for each, which has its own peak of memory
        for model in ("one", "two"):
            self.assertEqual([turn[1:] for turn in turns if turn[0] == model][:4], [["none"], ["decay"], ["none"], ["decay"]])
        for case in result["cases"]:
            self.assertEqual([(c["name"], c["residual"], len(c["rounds"])) for c in case["contenders"]],
                             [(name, residual, 2) for name in ("rewire", "pytorch max-autotune") for residual in ("plain", "decay")])
            self.assertEqual(case["ratios"]["rewire decay / plain"], 1)
            self.assertEqual(case["ratios"]["pytorch max-autotune / rewire, decay"], 2)
            self.assertEqual(case["ratios"]["peak memory: rewire / pytorch max-autotune beyond `import torch`, plain"], 5 / 8)
        self.assert_ended(log)

    def test_peer_that_dies_between_rounds(self):
        options = argparse.Namespace(python=str(self.peer), threads=1, device="cuda", dtype="bf16", end=time.monotonic() + 60)
        os.environ["LOG"] = str(self.place / "log")
        peer = contenders.PyTorch(options, {}, 1, "plain", "max-autotune")
        peer.attempt(peer.start)
        self.assertEqual(peer.attempt(peer.measure, 1)["step_ms"], 4)
        process = peer.piped.process
        process.kill()
        process.wait()
        self.assertIsNone(peer.attempt(peer.measure, 1))
        self.assertTrue(peer.failed)
        self.assertIsNone(peer.piped)
        peer.close()

    def test_who_fails_is_out_alone(self):
        start = time.monotonic()
        result, log = self.bench("--residual", "plain", "--residual", "orthogonal", "--python", str(self.peer), "--mode", "eager",
                                 "--mode", "max-autotune")
        failed = {(c["name"], c["residual"]): c.get("failed") for c in result["cases"][0]["contenders"]}
        self.assertEqual(failed, {("rewire", "plain"): None, ("rewire", "orthogonal"): "rewire: no such thing",
                                  ("pytorch max-autotune", "plain"): None, ("pytorch max-autotune", "orthogonal"): None,
                                  ("pytorch eager", "plain"): "out of memory, it says",
                                  ("pytorch eager", "orthogonal"): "out of memory, it says"})
        (written,) = (self.place / "out").glob("*.md")
        self.assertIn("| rewire | orthogonal | failed: rewire: no such thing |", written.read_text())
        self.assert_ended(log)
        self.assertLess(time.monotonic() - start, 60)

    def test_goes_on_where_it_was_ended(self):
        given = ("--residual", "plain", "--residual", "decay", "--python", str(self.peer), "--mode", "compile", "--mode", "max-autotune")
        self.peer.write_text(self.peer.read_text().replace('if mode == "compile"', 'if mode == "max-autotune"'))
        before, log = self.bench(*given, signal_after="child")  # compile was measured, max-autotune does not answer
        self.assert_ended(log)
        done = sum(line.startswith("rewire") and "--kernels" not in line for line in log)
        self.peer.write_text(self.peer.read_text().replace('if mode == "max-autotune"', "if False"))
        result, log = self.bench(*given, "--resume")
        again = [line for line in log if line.startswith("rewire") and "--kernels" not in line]
        self.assertFalse([line for line in again if "--profile" in line])
        self.assertEqual(result["left_out"], [])
        for case, earlier in zip(result["cases"], before["cases"]):
            self.assertEqual(case["floors"], earlier["floors"])
            self.assertEqual({(c["name"], c["residual"]): (len(c["rounds"]), c.get("failed")) for c in case["contenders"]},
                             {**{("rewire", residual): (5, None) for residual in ("plain", "decay")},
                              **{(f"pytorch {mode}", residual): (2, None) for mode in ("compile", "max-autotune")
                                 for residual in ("plain", "decay")}})
            self.assertEqual(case["ratios"]["pytorch max-autotune / rewire, decay"], 2)
        whole, log = self.bench(*given)  # nothing is left to go on with
        self.assertEqual(done + len(again), sum(line.startswith("rewire") and "--kernels" not in line for line in log) + 1)

    def start_compiling(self, *more):
        (self.place / "log").write_text("")
        return subprocess.Popen([sys.executable, str(bundle.SOURCE / "bench" / "run.py"), "--rewire", str(self.rewire), "--device", "cuda",
                                 "--case", "two:4+plain", "--python", str(self.peer), "--compile-peers", "--out", str(self.place / "out"),
                                 *more], env={**os.environ, "LOG": str(self.place / "log")}, stderr=subprocess.PIPE, text=True)

    def test_peers_that_take_long_to_compile(self):
        self.peer.write_text(self.peer.read_text().replace("    sys.exit()\n", "    time.sleep(600)\n"))
        process = self.start_compiling("--budget", "2")
        self.assertIn("prepare: failed: it was not done when time was up", process.communicate()[1])
        self.assertEqual(process.returncode, 0)
        self.assertTrue((self.place / "out" / "uncompiled").exists())  # for another run
        for with_signal, status in ((signal.SIGTERM, 143), (signal.SIGKILL, -9)):
            process = self.start_compiling()
            while "compile" not in (self.place / "log").read_text():
                time.sleep(0.02)
            process.send_signal(with_signal)
            process.communicate()
            self.assertEqual(process.returncode, status)
            self.assert_ended((self.place / "log").read_text().splitlines())

    def test_peers_are_compiled_beforehand(self):
        log = self.place / "log"
        for case, status in (("one:8+plain+decay", 0), ("one:8+plain+orthogonal", 1)):
            process = self.start_compiling("--case", case)
            said = process.communicate()[1]
            self.assertEqual(process.returncode, status, said)
            self.assertFalse((self.place / "out" / "uncompiled").exists())
            joins = [*case.split("+")[1:], "plain"]
            self.assertEqual(sorted(line.split()[:2] for line in log.read_text().splitlines()), sorted(["compile", join] for join in joins))
            self.assertEqual("orthogonal, prepare: failed: out of memory, it says" in said, status == 1)
            self.assertRegex(said, r"one:8 plain: compiled in \d s")

    def test_budget(self):
        result, log = self.bench("--residual", "plain", "--python", str(self.peer), "--mode", "max-autotune", "--budget", "0")
        self.assertEqual(result["cases"], [])
        self.assertEqual(len(result["left_out"]), 2 + 2 + 1)
        self.assertEqual([line for line in log if "--kernels" not in line], [])

    def test_peers_are_ended_with_the_benchmark(self):
        self.peer.write_text(self.peer.read_text().replace('if mode == "compile"', 'if mode == "max-autotune"'))
        result, log = self.bench("--residual", "plain", "--python", str(self.peer), "--mode", "compile", "--mode", "max-autotune",
                                 signal_after="child")
        self.assertIn("plain", result["cases"][0]["floors"])  # what was done by then is written down
        self.assert_ended(log)

    def test_peer_that_does_not_answer(self):
        options = argparse.Namespace(python=str(self.peer), threads=1, device="cuda", dtype="bf16", end=time.monotonic() + 2)
        os.environ["LOG"] = str(self.place / "log")
        peer = contenders.PyTorch(options, {}, 1, "plain", "compile")
        peer.attempt(peer.start)
        self.assertEqual(peer.about, {"torch": "stub", "imported_mb": 2.0})
        self.assertIsNone(peer.attempt(peer.measure, 1))
        self.assertEqual(peer.failed, "it was not done when time was up")
        self.assert_ended((self.place / "log").read_text().splitlines())

    def test_peer_that_compiles_for_too_long(self):
        silent = bundle.write_program(self.place / "silent", f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
        options = argparse.Namespace(python=str(silent), threads=1, device="cuda", dtype="bf16", end=time.monotonic() + 4)
        peer = contenders.PyTorch(options, {}, 1, "plain", "compile")
        start = time.monotonic()
        peer.attempt(peer.start)
        self.assertEqual(peer.failed, "it was not ready after 2 s")
        self.assertLess(time.monotonic() - start, 4)
        self.assertIsNone(peer.piped)

    def test_floor_is_the_longer_of_bytes_and_flops(self):
        class Ceilings:
            def copy_bandwidth(self):
                return 1e9

            def peak(self, dtype="bf16", tf32=False):
                return {("bf16", False): 8e9, ("f32", True): 4e9, ("f32", False): 1e9}[dtype, tf32]

        def launch(name, bytes, flops, **rest):
            return {"name": name, "launches": 1, "ms": 9, "bytes": bytes, "flops": flops, **rest}

        found = gpu_ceilings.floor(Ceilings(), [
            launch("gemm 1x1x1 bf16", 1e6, 16e6, products=dict(PRODUCTS, dtype="bf16", tf32=False)),  # 2 ms of FLOPs
            launch("gemm 1x1x1 f32", 3e6, 1e6, products=dict(PRODUCTS, dtype="f32", tf32=False)),  # 3 ms of bytes
            launch("convolution forward 1x1x1x1 by 1x1x1x1 nhwc tf32, cuDNN 9", 1e6, 20e6),  # 5 ms of FLOPs
            launch("blocks_0_attn_attention_2x50", 1e6, 56e6),  # 7 ms of FLOPs, at the best rate
            launch("blocks_0_attn_qkv_rows_2x50x16", 11e6, 8e6)])  # 11 ms of bytes
        self.assertAlmostEqual(found["gemm"]["ms"], 10)
        self.assertAlmostEqual(found["kernels"]["ms"], 18)
        self.assertAlmostEqual(found["floor_ms"], 28)

    def test_product_without_sizes(self):
        with self.assertRaisesRegex(ValueError, "no sizes of 'gemm 8x8x8'"):
            gpu_ceilings.floor(gpu_ceilings.ReportedByRewire({"copy_gb_s": 1, "gemm_gflop_s": 1}),
                               [{"name": "gemm 8x8x8", "launches": 1, "ms": 1, "bytes": 1, "flops": 1}])


class LastLineTest(unittest.TestCase):
    def test_the_cause_not_the_request_for_a_report(self):
        printed = "this is a bug in Rewire"
        self.assertIn(f'"{printed}: ', (bundle.SOURCE / "cli/main.cpp").read_text())
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            log.write_text(f"step 1\nrewire: internal error: X\nrewire: {printed}: please report it\n\n")
            self.assertEqual(call.last_line(log), "rewire: internal error: X")


if __name__ == "__main__":
    unittest.main()
