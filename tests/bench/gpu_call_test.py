"""scripts/gpu/call.py on the fake libraries, with little of everything: gpu_call_test.py PROGRAMS PLACE [Calls|Killed]

Times say nothing there. What is asked: that each call ends within its limit and leaves its three files whole, also when it is
killed; that the next one takes up what is done, kernels and choices; that what fails or is missing is told; and that every
product of a step is found in its floor.
"""
import csv
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
# In place of bench/run.py: what a peer's compiler leaves, where it is told to.
PEERS = """import os, pathlib, sys
def by_class(launches): return []
if __name__ == "__main__" and "--compile-peers" in sys.argv:
    places = [(pathlib.Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]), "graph"), (pathlib.Path(os.environ["TRITON_CACHE_DIR"]), "kernel")]
    print("found", *(name for place, name in places if (place / name).exists()))
    for place, name in places:
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(name)
"""
# In place of bench/pytorch_layers.py: where it writes.
LAYERS = """import json, sys
with open(sys.argv[sys.argv.index("--out") + 1], "w") as file:
    json.dump({"attention": [{"of": "vit_s", "ms": {"cudnn": {"forward": 1.0}}}]}, file)
"""
VARIANTS = """[[variant]]
name = "as it is"
[[variant]]
name = "cut"
tune = ["group_ops=4"]
"""
# In place of ncu: its line of kernels, and the program.
COUNTERS = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do
  [ "$1" = --kernel-id ] && counted=$2
  [ "$1" = --log-file ] && file=$2
  case "$1" in --csv) shift;; *) shift 2;; esac
done
"$@" || exit
echo '==PROF== some words
"ID","Kernel Name","Block Size","Grid Size","Section Name","Metric Name","Metric Unit","Metric Value"' >"$file"
[ -z "$NO_COUNTERS" ] && echo "\\"1\\",\\"$counted\\",\\"(96, 1, 1)\\",\\"(2, 1, 1)\\",\\"Launch\\",\\"Duration\\",\\"ns\\",\\"1,024\\"" >>"$file"
exit 0
"""
CASE, TINY = "vit_tiny_28:2", ["model.dim=16", "model.depth=1", "model.heads=2"]
CONVOLUTIONS = ["resnetv2_18@8:2", "model.width=4", "model.depths=[1,1]"]
NETWORKS = {"vit_s": [CASE, "train.dtype=bf16", *TINY], "other": [CASE + "+orthogonal", *TINY],
            "resnet": CONVOLUTIONS, "resnet_tf32": [*CONVOLUTIONS, "train.tf32=true"]}
LITTLE = [*(word for text in TINY for word in ("--set", text)), "--peer", CASE + "+plain+orthogonal", "--steps", "2", "--rounds", "1",
          "--jobs", "2", "--strategy", "orthogonal", "--attention", "1", "--engines", "1", "--seeds", "0", "--programs", "1",
          "--transforms", "1"]
FILES = ["results.json", "results.tar.gz", "summary.txt"]
RIGHT = ["doctor", "verify_plain", "goldens", "attention", "convolutions", "verify_convolutions", "verify", "verify_objectives",
         "determinism", "step_vit_s_untuned", "step_vit_s", "variants", "step_other", "step_resnet", "step_resnet_tf32", "counters", "tuned",
         "programs", "ops", "transforms", "sanitizers"]
LARGEST = 16 << 20


class Bundle(unittest.TestCase):
    def setUp(self):
        self.root = bundle.make(programs, place)
        self.out = self.root.parent / "out"
        bundle.write_program(self.root.parent / "path" / "compute-sanitizer", SANITIZER)
        bundle.write_program(self.root.parent / "path" / "ncu", COUNTERS)
        (self.root / "networks.json").write_text(json.dumps(NETWORKS))
        (self.root / "variants.toml").write_text(VARIANTS)
        goldens = self.root / "references" / "goldens"
        goldens.mkdir(parents=True)
        (goldens / "vit_odd_tanh_plain.safetensors").symlink_to(bundle.SOURCE / "tests/reference/goldens/vit_odd_tanh_plain.safetensors")
        (goldens.parent / "autocast.json").symlink_to(bundle.SOURCE / "tests/reference/autocast.json")
        self.torch("raise ImportError")  # whatever this machine has

    def torch(self, text):
        for module in ("torch", "safetensors"):
            bundle.write_program(self.root.parent / "site" / f"{module}.py", text)

    def start(self, number, *more, out=None, **environment):
        path = f"{self.root.parent / 'path'}:{os.environ['PATH']}"
        (self.root.parent / "tmp").mkdir(exist_ok=True)
        return subprocess.Popen([sys.executable, str(self.root / "call.py"), str(number), "--out", str(out or self.out),
                                 "--networks", str(self.root / "networks.json"), *LITTLE, *more],
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

    def packed(self):
        with tarfile.open(self.out / "results.tar.gz") as tar:
            return tar.getnames()

    def statuses(self, result):
        return {name.partition(".")[2]: told["status"] for name, told in result["steps"].items()}

    def running(self, program):
        """The processes that name a program of the bundle."""
        lines = subprocess.run(["ps", "-eo", "pid,args"], stdout=subprocess.PIPE, text=True).stdout.splitlines()
        return [int(line.split()[0]) for line in lines if f" {self.root.resolve() / program}" in line]

    def assert_nothing_runs(self):
        patience = time.monotonic() + 10
        while left := self.running("bin"):
            self.assertLess(time.monotonic(), patience, left)
            time.sleep(0.05)


class Calls(Bundle):
    def test_both_calls(self):
        start = time.monotonic()
        said = self.call(1, "--limit", "200", expected=3)  # there are no seeds of ops
        self.assertLess(time.monotonic() - start, 200)
        self.assertIn("call: ops: not run, 0 seeds", said)
        self.assertIn("call: next: step_vit_s, at most ", said)
        self.assertIn("next: call.py 2, how fast is it", said)
        first = self.results()
        self.assertEqual(list(self.statuses(first)), RIGHT)
        self.assertEqual({name for name, status in self.statuses(first).items() if status != "ok"}, {"ops"}, said)
        for suffix in (".kernel", ".choice", ".log"):
            self.assertTrue(any(name.endswith(suffix) for name in self.names), suffix)
        with tarfile.open(self.out / "results.tar.gz") as tar:
            self.assertIn(b"vit_odd_tanh_plain: gradients, 1 runs", tar.extractfile("logs/1_goldens_0.log").read())
            counters = tar.extractfile("counters.csv").read().decode()
        self.assertEqual(first["steps"]["1.counters"]["text"], "1 kernels")
        self.assertRegex(counters, r"::regex:\^\((\w+\|){4}\w+\)\$:2")
        tuned = first["figures"]["1_step_vit_s"]
        self.assertEqual([choice["by"] for choice in tuned["attention"]], ["timing", "timing"])
        self.assertIn("cuDNN", tuned["attention"][0]["taken"])
        self.assertIn("ceilings", tuned)
        self.assertEqual(first["figures"]["1_step_vit_s_untuned"]["attention"][0]["taken"], "ours")
        self.assertGreater(first["figures"]["1_step_vit_s_untuned"]["classes_ms"]["attention"], 0)
        whole, cut = first["figures"]["variants"]
        self.assertEqual((whole["name"], whole["ratio"], whole["same_bits"]), ("as it is", 1, True))
        self.assertGreater(cut["moved_gb"], whole["moved_gb"])
        self.assertRegex(first["steps"]["1.variants"]["text"], r"as it is 1\.000, cut \d")
        for kind in ("resnet", "resnet_tf32"):
            self.assertGreater(first["figures"][f"1_step_{kind}"]["classes_ms"]["convolutions"], 0)
        self.check_predicted()

        other = self.root.parent / "elsewhere"  # as on a fresh machine, with the first call's results beside the bundle
        said = self.call(2, "--limit", "200", "--from", str(self.out / "results.tar.gz"), out=other, expected=3)  # no peers are compiled
        self.assertIn("call: compile_peers: not run, python3 has no torch", said)
        second = self.results(other)
        self.assertLessEqual(first["steps"].keys(), second["steps"].keys())
        with tarfile.open(other / "results.tar.gz") as tar:
            (name,) = (name for name in tar.getnames() if re.fullmatch(r"bench_2/.*\.json", name))
            self.assertIn(name.replace(".json", ".md"), tar.getnames())
            self.check_benchmark(json.load(tar.extractfile(name)))
        self.assertIn("beside_pytorch: ok in an earlier call", self.call(2, "--limit", "30", out=other, expected=3))
        self.check_kept(other, set(first["figures"]) - {"variants"})

    def test_what_the_peers_compiled_is_carried(self):
        self.torch("")
        (self.root / "bench" / "run.py").write_text(PEERS)
        (self.root / "bench" / "pytorch_layers.py").write_text(LAYERS)
        said = self.call(2, "--limit", "60", expected=0)
        self.assertIn("call: compile_peers: ok", said)
        self.assertIn("call: attention_peers: ok", said)
        with tarfile.open(self.out / "results.tar.gz") as tar:
            self.assertEqual(json.load(tar.extractfile("attention.json"))["attention"][0]["of"], "vit_s")
        with tarfile.open(self.out / "peers.tar.gz") as tar:
            self.assertIn("peers/torchinductor/graph", tar.getnames())
            self.assertIn("peers/triton/kernel", tar.getnames())
        (self.out / "results.tar.gz").rename(self.root.parent / "results.tar.gz")
        (self.out / "peers.tar.gz").rename(self.root.parent / "peers.tar.gz")
        said = self.call(2, "--limit", "60", "--again", "compile_peers", "--from", str(self.root.parent / "results.tar.gz"), expected=0)
        with tarfile.open(self.out / "results.tar.gz") as tar:
            self.assertIn(b"found graph kernel", tar.extractfile("logs/2_compile_peers.log").read())

    def check_kept(self, out, steps):
        """What the repository keeps of these results."""
        stem = self.root.parent / "kept" / "card"
        stem.parent.mkdir()
        subprocess.run([sys.executable, str(bundle.SOURCE / "scripts/gpu/keep.py"), str(out / "results.tar.gz"), "--stem", str(stem)],
                       check=True)
        kept = {path.name.removeprefix("card-"): path.read_text() for path in stem.parent.iterdir()}
        self.assertEqual(kept.keys(), {"correct.json", "networks.json", "counters.csv", "beside-pytorch.json", "beside-pytorch.md"})
        self.assertIn("2.beside_pytorch", json.loads(kept["correct.json"])["steps"])
        networks = json.loads(kept["networks.json"])
        self.assertEqual({f"1_step_{name}" for name in networks["networks"]}, steps)
        self.assertEqual({choice["by"] for choice in networks["choices"]}, {"timing"})
        self.assertTrue(all(network["profile"] for network in (*networks["networks"].values(), *networks["variants"].values())))
        self.assertEqual([variant["tune"] for variant in networks["variants"].values()], [[], ["group_ops=4"]])
        counters = list(csv.DictReader(kept["counters.csv"].splitlines()))
        self.assertEqual([(row["grid"], row["metric"], row["value"]) for row in counters], [("(2, 1, 1)", "Duration", "1024")])

    def check_predicted(self):
        """What the step's launches should take, beside what they took."""
        model, batch = CASE.split(":")
        predicted = self.root.parent / "predicted.json"
        predicted.write_text(subprocess.run(
            [str(self.root / "bin" / "rewire"), "dump", model, "--set", f"train.batch={batch}", "--set", "train.dtype=bf16",
             *(word for text in TINY for word in ("--set", text)), "--stage", "times", "--json"],
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
            # Without PyTorch all launches have one peak.
            peak, bandwidth = (result["ceilings"][name] * 1e6 for name in ("gemm_gflop_s", "copy_gb_s"))
            for part, chosen in (("gemm", products), ("kernels", [launch for launch in launches if launch not in products])):
                self.assertAlmostEqual(floor[part]["ms"],
                                       sum(max(launch["bytes"] / bandwidth, launch["flops"] / peak) for launch in chosen))
            self.assertAlmostEqual(floor["floor_ms"], floor["gemm"]["ms"] + floor["kernels"]["ms"])
            classes = {name: row for name, *row in case["classes"][residual]}
            self.assertEqual(set(classes), {"matrix products", "attention", "optimizer, gradient norm", "rows, columns, maps"})
            self.assertEqual(classes["matrix products"][0], floor["gemm"]["launches"])
            self.assertEqual(classes["attention"][0], 2)  # cuDNN's or ours
            self.assertAlmostEqual(sum(row[1] for row in classes.values()), case["launches_ms"][residual])
            least, most = (case["ratios"][f"between launches, share of the step, at {bound}, {residual}"] for bound in ("least", "most"))
            self.assertTrue(0 <= least <= most <= 1)

    def test_what_fails_is_told(self):
        said = self.call(1, "--only", "verify_plain", "--only", "doctor", expected=1, REWIRE_FAKE_CUDA_FAIL="cuGraphLaunch:1:719")
        self.assertRegex(said, r"(?m)^call: verify_plain: failed, \d+ s, 5 of 5: verify_plain f32: status 1, .*cuGraphLaunch")
        self.assertEqual(self.statuses(self.results()), {"doctor": "ok", "verify_plain": "failed"})
        self.assertIn("verify_plain: failed in an earlier call", self.call(1, "--only", "verify_plain", expected=1))
        self.call(1, "--only", "verify_plain", "--again", "verify_plain", expected=0)

    def test_counters_of_nothing(self):
        said = self.call(1, "--only", "step_vit_s", "--only", "counters", expected=1, NO_COUNTERS="1")
        self.assertIn("call: counters: failed", said)
        self.assertEqual(self.results()["steps"]["1.counters"]["text"], "0 kernels")

    def test_results_of_another_commit_give_their_cache_alone(self):
        self.call(1, "--only", "doctor", "--only", "step_vit_s_untuned", expected=0)
        (self.root / "commit").write_text("later\n")
        said = self.call(1, "--only", "step_vit_s_untuned", expected=0)
        self.assertIn("of commit abc1234-dirty on Fake CUDA device", said)
        result = self.results()
        self.assertEqual(self.statuses(result), {"step_vit_s_untuned": "ok"})
        figures = result["figures"]["1_step_vit_s_untuned"]
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
        for variable in ("REWIRE_CUDA_DRIVER", "REWIRE_CUBLASLT"):
            said = self.call(1, expected=2, **{variable: "/nowhere/lib.so"})
            self.assertRegex(said, rf"(?m)^call: nothing can run: {variable} is '/nowhere/lib.so', which cannot be loaded: ")
        said = self.call(1, "--from", "/nowhere/results.tar.gz", expected=2)
        self.assertIn("call: --from /nowhere/results.tar.gz: there is no such file", said)
        said = self.call(1, "--only", "attention", expected=3, REWIRE_CUDNN="/nowhere/libcudnn.so.9")
        self.assertIn("call: attention: not run, without cuDNN: REWIRE_CUDNN is '/nowhere/libcudnn.so.9'", said)

    def test_libraries_of_wheels(self):
        environment = self.root.parent / "environment"
        wheel = environment / "lib" / "python3.12" / "site-packages" / "nvidia" / "cublas" / "lib" / "libcublasLt.so.12"
        wheel.parent.mkdir(parents=True)
        wheel.symlink_to(os.environ["REWIRE_CUBLASLT"])
        nowhere = {"REWIRE_CUBLASLT": "", "REWIRE_CUDA_ROOT": "/nowhere", "CUDA_HOME": "", "CONDA_PREFIX": "", "LD_LIBRARY_PATH": ""}
        self.call(1, "--only", "doctor", expected=0, VIRTUAL_ENV=str(environment), **nowhere)
        said = self.call(1, "--only", "doctor", expected=2, VIRTUAL_ENV="/nowhere", PATH="/usr/bin:/bin", HOME="/nowhere", **nowhere)
        self.assertIn("call: nothing can run: cuBLASLt (libcublasLt.so.13) was not found; pip install nvidia-cublas, or ", said)

    def test_time_that_is_up(self):
        start = time.monotonic()
        said = self.call(1, "--limit", "14", expected=3)
        self.assertLess(time.monotonic() - start, 14 + 2)
        told = self.statuses(self.results())
        self.assertEqual((told["doctor"], told["tuned"]), ("ok", "cut"), said)
        self.assertIn("call: tuned: not run, time is up", said)


class Killed(Bundle):
    def kill_in(self, number, step, with_signal, *more):
        """Killed as the step begins, and then for good; what it said."""
        process = self.start(number, "--limit", "200", *more)
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
                steps = [word for name in ("doctor", "step_vit_s_untuned", "step_vit_s", "verify") for word in ("--only", name)]
                self.kill_in(1, "step_vit_s", with_signal, *steps)
                told = self.statuses(self.results())
                self.assertEqual(told, {"doctor": "ok", "verify": "ok", "step_vit_s_untuned": "ok", "step_vit_s": "running"})
                said = self.call(1, "--limit", "200", *steps, "--only", "step_other", expected=0)
                self.assertIn("step_vit_s_untuned: ok in an earlier call", said)
                # What the call was killed in comes behind what has not been tried.
                self.assertLess(said.index("call: step_other: at most"), said.index("call: step_vit_s: at most"))
                self.assertEqual(set(self.statuses(self.results()).values()), {"ok"})

    def test_a_benchmark_that_is_killed_goes_on_where_it_was(self):
        process = self.start(2, "--limit", "200")
        log = None
        while log is None or "start-up of" not in log.read_text():  # its own steps are measured by then
            self.assertIsNone(process.poll())
            log = log or next((self.root.parent / "tmp").glob("rewire-gpu-*/logs/2_beside_pytorch.log"), None)
            time.sleep(0.02)
        (benchmark,) = self.running("bench/run.py")
        os.kill(benchmark, signal.SIGSTOP)  # or it may end before what it has is packed
        while not (self.out / "results.tar.gz").exists() or "bench_2/unfinished" not in self.packed():
            self.assertIsNone(process.poll())
            time.sleep(0.1)
        process.kill()
        process.communicate()
        self.assert_nothing_runs()
        self.assertEqual(self.statuses(self.results())["beside_pytorch"], "running")
        shutil.rmtree(log.parent.parent)
        self.call(2, "--limit", "200", expected=3)
        self.assertEqual(self.results()["figures"]["bench_2 vit_tiny_28:2"]["left_out"], [])
        with tarfile.open(self.out / "results.tar.gz") as tar:
            self.assertRegex(tar.extractfile("logs/2_beside_pytorch.log").read().decode(), "going on behind vit_tiny_28:2 plain")


if __name__ == "__main__":
    programs, place = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
