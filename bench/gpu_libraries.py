#!/usr/bin/env python3
"""Finds the libraries that `rewire --device cuda` opens: as `rewire doctor` finds them, else in the wheels that PyTorch brings.

    eval "$(bench/gpu_libraries.py --rewire build/release/bin/rewire)"

Prints the settings that lead to those in wheels, as a shell reads them. Where a driver, a device or a library is missing that
nothing runs without, it says so in one line and exits with 2; cuDNN and cuFFT are done without, with a line.
"""
import argparse
import importlib.util
import json
import pathlib
import shlex
import subprocess
import sys

# As doctor names them: the variable, the files in order of preference, and whether nothing runs without.
LIBRARIES = {"NVRTC": ("REWIRE_NVRTC", ("libnvrtc.so.13", "libnvrtc.so.12"), True),
             "cuBLASLt": ("REWIRE_CUBLASLT", ("libcublasLt.so.13", "libcublasLt.so.12"), True),
             "cuFFT": ("REWIRE_CUFFT", ("libcufft.so.12", "libcufft.so.11"), False),
             "cuDNN": ("REWIRE_CUDNN", ("libcudnn.so.9",), False)}


def say(text):
    print(f"libraries: {text}", file=sys.stderr, flush=True)


def wheels():
    """The folders of this Python's NVIDIA wheels: nvidia/cu13/lib, nvidia/cublas/lib, …"""
    nvidia = importlib.util.find_spec("nvidia")
    roots = nvidia.submodule_search_locations if nvidia else ()
    return [folder for root in roots for folder in sorted(pathlib.Path(root).glob("*/lib"))]


def in_wheels(folders, names):
    return next((str(folder / name) for name in names for folder in folders if (folder / name).exists()), "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rewire", required=True)
    options = parser.parse_args()
    done = subprocess.run([options.rewire, "doctor", "--json", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        say(f"`{options.rewire} doctor` fails: {(done.stderr.strip().splitlines() or ['it says nothing'])[-1]}")
        sys.exit(2)
    cuda = json.loads(done.stdout)["cuda"]
    missing = []
    if cuda["driver_fault"] or not cuda["devices"]:
        missing.append(f"a GPU ({cuda['driver_fault'] or 'the driver lists none'})")
    folders = wheels()
    for name, (variable, files, needed) in LIBRARIES.items():
        fault = cuda["toolkit"][name]["fault"]
        found = in_wheels(folders, files) if fault else ""
        if found:
            print(f"export {variable}={shlex.quote(found)}")
            say(f"{name} is {found}")
        elif fault and needed:
            missing.append(f"{name} ({fault})")
        elif fault:
            say(f"without {name}: {fault}")
    if missing:
        say("nothing can run: missing " + "; ".join(missing))
        sys.exit(2)


if __name__ == "__main__":
    main()
