#!/usr/bin/env python3
"""What `rewire doctor` says of made-up machines: tests/doctor/golden/NAME.txt, with the machine's root folder as "/".

    doctor_test.py REWIRE FAKE_CUDA GOLDEN [--write]

A machine is a folder with the files that a driver, a toolkit or an environment would install. Each is a link to the
fake libraries (tests/fake_cuda), whose answers $REWIRE_FAKE_CUDA_MACHINE sets. Where --device cuda is not usable, a
command that asks for it must end with 2 and doctor's reason.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

REWIRE, FAKE, GOLDEN = (pathlib.Path(argument) for argument in sys.argv[1:4])
WRITE = "--write" in sys.argv

SYSTEM = "usr/lib/x86_64-linux-gnu/"
VENV = "home/user/venv"
PACKAGES = VENV + "/lib/python3.12/site-packages/"
CONDA = "opt/conda/lib/"
PARTS = ("", "_graph", "_ops", "_cnn", "_heuristic", "_engines_precompiled", "_engines_runtime_compiled")

H100 = "device=NVIDIA_H100_80GB_HBM3:90:132:232448:79.1:78.6"
L4 = "device=NVIDIA_L4:89:58:101376:22.0:21.7"
RTX5090 = "device=NVIDIA_GeForce_RTX_5090:120:170:101376:31.4:30.9"
T4 = "device=Tesla_T4:75:40:65536:14.6:14.5"
KNOWN_12_4, KNOWN_13 = "archs=80,86,89,90", "archs=80,86,89,90,100,103,120"

DRIVER_535 = {SYSTEM + "libcuda.so.1": "535.183.01", SYSTEM + "libnvidia-ml.so.1": "535.183.01"}
DRIVER_580 = {SYSTEM + "libcuda.so.1": "580.65.06", SYSTEM + "libnvidia-ml.so.1": "580.65.06"}
ON_535, ON_580 = "driver=12020 release=535.183.01 ", "driver=13000 release=580.65.06 "


def toolkit(folder, nvrtc, blas, fft):
    return {f"{folder}libnvrtc.so.{nvrtc.split('.')[0]}": nvrtc, f"{folder}libcublasLt.so.{blas.split('.')[0]}": blas,
            f"{folder}libcufft.so.{fft.split('.')[0]}": fft}


def cudnn(folder, version, parts=PARTS):
    return {f"{folder}libcudnn{part}.so.{version.split('.')[0]}": version for part in parts}


TOOLKIT_12 = toolkit("usr/local/cuda-12.4/lib64/", "12.4.127", "12.4.5.8", "11.2.1.3")
TOOLKIT_13 = toolkit("usr/local/cuda-13.0/lib64/", "13.0.88", "13.0.2.14", "12.0.0.61")
IS_12 = "nvrtc=12.4 cublaslt=120405 cufft=11201 cudnn_for=12040 nccl=22105 "
IS_13 = "nvrtc=13.0 cublaslt=130002 cufft=12000 cudnn_for=13000 nccl=22703 "
NCCL = {SYSTEM + "libnccl.so.2": "2.21.5"}

# Of each machine: its files with their versions, the answers of the libraries, and variables.
MACHINES = {
    "driver_535_nvrtc_13_only": (DRIVER_535 | TOOLKIT_13, ON_535 + H100, {}),
    "driver_535_nvrtc_13_by_variable": (DRIVER_535 | TOOLKIT_12 | TOOLKIT_13,
                                        ON_535 + "nvrtc=13.0 cublaslt=120405 cufft=11201 " + KNOWN_13 + " " + H100,
                                        {"REWIRE_NVRTC": "usr/local/cuda-13.0/lib64/libnvrtc.so.13"}),
    "driver_580_both_toolkits": (DRIVER_580 | TOOLKIT_12 | TOOLKIT_13 | NCCL | cudnn(SYSTEM, "9.13.0"),
                                 ON_580 + IS_13 + KNOWN_13 + " cudnn=91300 " + H100, {}),
    "driver_535_both_toolkits": (DRIVER_535 | TOOLKIT_12 | TOOLKIT_13 | NCCL | cudnn(SYSTEM, "9.13.0"),
                                 ON_535 + IS_12 + KNOWN_12_4 + " cudnn=91300 " + H100, {}),
    "no_driver": (TOOLKIT_13, IS_13 + KNOWN_13, {}),
    "no_nvrtc": (DRIVER_580, ON_580 + H100, {}),
    "no_cudnn": (DRIVER_580 | TOOLKIT_13, ON_580 + IS_13 + KNOWN_13 + " " + H100, {}),
    "cudnn_8": (DRIVER_535 | TOOLKIT_12 | cudnn(SYSTEM, "8.9.7", ("",)),
                ON_535 + IS_12 + KNOWN_12_4 + " " + L4, {}),
    "two_cudnns": (DRIVER_535 | TOOLKIT_12 | NCCL | cudnn(SYSTEM, "9.19.0", PARTS[:2]) |
                   cudnn(CONDA, "9.10.2") | cudnn("usr/local/cuda-12.4/lib64/", "9.8.0"),
                   ON_535 + IS_12 + KNOWN_12_4 + " cudnn=91002 " + L4, {"CONDA_PREFIX": "opt/conda"}),
    "card_too_old": (DRIVER_580 | TOOLKIT_13, ON_580 + IS_13 + KNOWN_13 + " " + T4, {}),
    "nvrtc_too_old_for_card": (DRIVER_580 | TOOLKIT_12, ON_580 + IS_12 + KNOWN_12_4 + " " + RTX5090, {}),
    "one_card_full": (DRIVER_580 | TOOLKIT_13 | NCCL | cudnn(SYSTEM, "9.13.0"),
                      ON_580 + IS_13 + KNOWN_13 + " cudnn=91300 " + H100.replace("78.6", "0.4") + " " + H100, {}),
    "wheels_only": (DRIVER_580 | cudnn(PACKAGES + "nvidia/cudnn/lib/", "9") | {
        PACKAGES + "nvidia/cu13/lib/libnvrtc.so.13": "13", PACKAGES + "nvidia/cu13/lib/libcublasLt.so.13": "13",
        PACKAGES + "nvidia/cu13/lib/libcufft.so.12": "12", PACKAGES + "nvidia/nccl/lib/libnccl.so.2": "2",
        PACKAGES + "nvidia_cudnn_cu13-9.13.0.50.dist-info/METADATA": "", PACKAGES + "torch/lib/libtorch.so": ""},
                    ON_580 + IS_13 + KNOWN_13 + " cudnn=91300 " + H100, {"VIRTUAL_ENV": VENV}),
    "none_visible": (DRIVER_580 | TOOLKIT_13, ON_580 + IS_13 + KNOWN_13 + " " + H100, {"CUDA_VISIBLE_DEVICES": ""}),
    "same_major": (DRIVER_580 | toolkit("opt/toolkit/lib64/", "12.8.93", "12.8.4.1", "11.3.3.83") | NCCL |
                   cudnn(SYSTEM, "9.13.0"),
                   ON_580 + IS_12.replace("12.4", "12.8") + "archs=80,86,89,90,100,120 cudnn=91300 " +
                   "device=NVIDIA_B300:103:160:232448:268.0:267.1", {"CUDA_HOME": "opt/toolkit"}),
}


def build(root, files):
    """Makes the links: NAME -> NAME with its version, where that is longer -> the fake libraries."""
    for name, version in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        stem, _, number = path.name.partition(".so.")
        if number and version.startswith(number + "."):
            path.symlink_to(f"{stem}.so.{version}")
            path = path.with_name(f"{stem}.so.{version}")
        path.symlink_to(FAKE) if ".so" in path.name else path.touch()


class Doctor(unittest.TestCase):
    maxDiff = None

    def command(self, root, machine, *arguments):
        _, answers, variables = machine
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("REWIRE_", "CUDA_", "CONDA_", "LD_LIBRARY")) and name != "VIRTUAL_ENV"}
        environment |= {"REWIRE_CUDA_ROOT": str(root), "REWIRE_FAKE_CUDA_MACHINE": answers, "PATH": "/nowhere",
                        "HOME": str(root / "home/user"), "XDG_CACHE_HOME": str(root / "cache")}
        for name, value in variables.items():
            environment[name] = value if name == "CUDA_VISIBLE_DEVICES" else str(root / value)
        done = subprocess.run([REWIRE, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
        return done.returncode, *(text.replace(str(root), "").replace(str(FAKE.resolve()), "/libfake.so")
                                  for text in (done.stdout, done.stderr))

    def test_machines(self):
        self.assertEqual(set(MACHINES), {path.stem for path in GOLDEN.glob("*.txt")} if not WRITE else set(MACHINES))
        for name, machine in MACHINES.items():
            with self.subTest(machine=name), tempfile.TemporaryDirectory() as folder:
                root = pathlib.Path(folder).resolve()
                build(root, machine[0])
                code, out, err = self.command(root, machine, "doctor", "--quiet")
                self.assertEqual((code, err), (0, ""))
                text = out[out.index("CUDA "):]
                golden = GOLDEN / f"{name}.txt"
                if WRITE:
                    golden.write_text(text)
                self.assertEqual(text, golden.read_text())
                first = text.splitlines()[0]
                _, refused, why = first.partition("--device cuda is not usable: ")
                if refused:
                    asked = self.command(root, machine, "bench", "vit_tiny_28", "--device", "cuda", "--quiet")
                    self.assertEqual(asked, (2, "", f"rewire: --device cuda: {why}\n"))

    def test_libraries_of_others_are_not_opened(self):
        machine = MACHINES["wheels_only"]
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            build(root, machine[0])
            (root / PACKAGES / "nvidia/cu13/lib").chmod(0o777)
            code, out, err = self.command(root, machine, "doctor", "--quiet")
            self.assertEqual((code, err), (0, ""))
            found = f"/{PACKAGES}nvidia/cu13/lib"
            self.assertIn(f"NVRTC was found only as {found}/libnvrtc.so.13 ('{found}' is writable by everybody", out)
            self.assertIn(f"usable      cuDNN     9.13.0 in /{PACKAGES}nvidia/cudnn/lib/libcudnn.so.9", out)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
