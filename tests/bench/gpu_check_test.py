"""scripts/gpu/check.sh on the fake libraries, with little of everything: gpu_check_test.py PROGRAMS PLACE"""
import os
import subprocess
import sys
import unittest

import bundle

# Does what it is given, without looking.
SANITIZER = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift 2; done
exec "$@"
"""
# Another Python than this one has no PyTorch.
PYTHON = """#!/bin/sh
case "$2" in import\\ torch*) exit 1 ;; esac
exec {} "$@"
"""
# In place of bench/parity.py, of which one comparison is wrong.
PARITY = """import pathlib, sys
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
pathlib.Path(given["--out"]).write_text("[]")
wrong = given["--case"] == "vit_s_cifar:3"
print(given["--case"].replace(":", " "), given["--residual"], given.get("--dtype", "both"), "FAILED" if wrong else "ok")
sys.exit(wrong)
"""
LITTLE = {"RESIDUALS": "orthogonal", "SEEDS": "0", "PROGRAMS": "1", "TRANSFORMS": "1", "JOBS": "2", "REWIRE_CUDNN": "/nowhere/libcudnn.so.9"}


class Check(unittest.TestCase):
    def setUp(self):
        self.root = bundle.make(programs, place)
        bundle.write_program(self.root.parent / "path" / "python3", PYTHON.format(sys.executable))

    def check(self, part, **more):
        return subprocess.run(["bash", str(self.root / "check.sh"), str(self.root / "out"), part], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, "PATH": f"{self.root.parent / 'path'}:{os.environ['PATH']}", **LITTLE, **more})

    def test_scripts_can_be_read(self):
        for script in self.root.glob("*.sh"):
            subprocess.run(["bash", "-n", str(script)], check=True)

    def test_all_of_it(self):
        bundle.write_program(self.root.parent / "path" / "compute-sanitizer", SANITIZER)
        done = self.check("all", LIMIT="400")
        self.assertEqual(done.returncode, 3, done.stdout)  # PyTorch, cuDNN and ops are left out
        for name in ("doctor", "verify", "steps", "programs", "transforms", "memcheck", "synccheck_bf16", "racecheck", "initcheck_bf16"):
            self.assertRegex(done.stdout, rf"(?m)^check: {name}: ok, \d+ s, ")
        self.assertIn("check: attention: not run, without cuDNN: REWIRE_CUDNN is '/nowhere/libcudnn.so.9'", done.stdout)
        self.assertIn("check: parity: not run, python3 has no torch", done.stdout)
        self.assertIn("orthogonal_bf16 ok", (self.root / "out" / "verify.log").read_text())

    def test_what_fails_is_told(self):
        done = self.check("quick", LIMIT="400", PROGRAMS="0", TRANSFORMS="0", REWIRE_FAKE_CUDA_FAIL="cuGraphLaunch:1:719")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^check: verify: FAILED with 123, ")
        self.assertIn("cuGraphLaunch", done.stdout)

    def test_parity_beside_pytorch(self):
        bundle.write_program(self.root.parent / "path" / "python3", f'#!/bin/sh\n[ "$1" = -c ] || exec {sys.executable} "$@"\n')
        (self.root / "bench" / "parity.py").write_text(PARITY)
        done = self.check("quick", LIMIT="400", PROGRAMS="0", TRANSFORMS="0", RESIDUALS="none")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^check: parity: FAILED with 123, ")
        self.assertEqual(sorted(line for line in done.stdout.splitlines() if line.startswith("vit_") and " plain " in line and
                                not line.endswith("FAILED")),
                         ["vit_b16_224 1 plain bf16 ok", "vit_s16_224 2 plain bf16 ok", "vit_tiny_28 5 plain both ok"])
        self.assertIn("vit_s_cifar 3 plain both FAILED", done.stdout)
        self.assertTrue((self.root / "out" / "parity_vit_b16_224_plain.json").exists())

    def test_time_that_is_up(self):
        done = self.check("quick", LIMIT="3")
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("check: verify: not run, no time is left", done.stdout)

    def test_what_nothing_runs_without(self):
        for variable, name in (("REWIRE_CUDA_DRIVER", "a GPU"), ("REWIRE_CUBLASLT", "cuBLASLt")):
            done = self.check("quick", **{variable: "/nowhere/lib.so"})
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertRegex(done.stdout, rf"(?m)^libraries: nothing can run: missing {name} \(.*{variable} is '/nowhere/lib.so'.*\)$")

    def test_libraries_of_wheels(self):
        wheel = self.root.parent / "site" / "nvidia" / "cublas" / "lib" / "libcublasLt.so.12"
        wheel.parent.mkdir(parents=True)
        wheel.symlink_to(os.environ["REWIRE_CUBLASLT"])
        done = subprocess.run([sys.executable, str(self.root / "bench" / "gpu_libraries.py"), "--rewire", str(self.root / "bin" / "rewire")],
                              stdout=subprocess.PIPE, text=True, check=True,
                              env={**os.environ, "REWIRE_CUBLASLT": "/nowhere/lib.so", "PYTHONPATH": str(wheel.parents[3])})
        self.assertEqual(done.stdout, f"export REWIRE_CUBLASLT={wheel}\n")


if __name__ == "__main__":
    programs, place = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
