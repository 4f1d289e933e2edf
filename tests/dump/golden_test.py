"""The text of each stage of a small network, as it stands in golden/; for one GPU, so that no processor has a say. LLVM IR and
assembly are this processor's: LLVM's own tools read them.

    golden_test.py REWIRE PLUGIN LLVM_AS LLVM_MC           compares
    golden_test.py REWIRE PLUGIN LLVM_AS LLVM_MC --write   writes golden/ anew: look at the difference
"""

import difflib
import pathlib
import subprocess
import sys

REWIRE, PLUGIN, LLVM_AS, LLVM_MC = sys.argv[1:5]
GOLDEN = pathlib.Path(__file__).parent / "golden"
MODEL = ["--set", "optimizer.name=sgd", "--plugin", f"{PLUGIN}:factor=3"]
STAGES = {
    "ir": [],
    "rewritten": [],
    "step": ["--arch", "sm_90"],
    "fused": ["--arch", "sm_90"],
    "tile": ["--arch", "sm_90", "--kernel", "head_columns_5x4x6"],
    "plan": ["--arch", "sm_90"],
    "cuda": ["--arch", "sm_90", "--kernel", "head_columns_5x4x6"],
    "rewritten-diff": ["--diff", "plain"],
}


def dump(stage, options):
    command = [REWIRE, "dump", str(GOLDEN / "small.rir"), *MODEL, "--stage", stage.removesuffix("-diff"), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def differences(stage, options):
    text, file = dump(stage, options), GOLDEN / f"{stage}.txt"
    if "--write" in sys.argv:
        file.write_text(text)
    return list(difflib.unified_diff(file.read_text().splitlines(), text.splitlines(), str(file), "now", lineterm=""))


def main():
    wrong = [line for stage, options in STAGES.items() for line in differences(stage, options)]
    print("\n".join(wrong))
    kernel = ["--kernel", "head_columns_5x4x6"]
    subprocess.run([LLVM_AS, "-o", "/dev/null", "-"], input=dump("llvm", kernel), text=True, check=True)
    subprocess.run([LLVM_MC, "-filetype=obj", "-o", "/dev/null", "-"], input=dump("asm", kernel), text=True, check=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
