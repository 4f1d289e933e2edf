"""Writes tests/python/recorded/exported, which tests/cli/export_test.cpp compares with what `rewire export` writes.

    record_export.py

Before it writes, it holds the sources against PyTorch: those of recorded networks against what their modules computed
(record_import.py), that of the zoo by check_export.py. Needs torch, safetensors, numpy and build/release/bin/rewire.
"""

import pathlib
import re
import sys
import tempfile

import numpy
import torch
from check_export import ROOT, check, module_of, run
from safetensors.torch import load_file

RECORDED = ROOT / "tests/python/recorded"
GAIN = ROOT / "build/release/tests/runtime_plugin/fixtures/gain.so"
VIT = ["vit_tiny_28", "model.depth=3", "model.drop_path=0.1", "model.dim=24"]


def neutral(text):
    """The text without what differs from build to build."""
    text = re.sub("SHA-256 [0-9a-f]+", "SHA-256 …", text)
    return re.sub("Written by rewire [^ ]+ export", "Written by rewire … export", text)


def main():
    (RECORDED / "exported").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for network in ("resnet", "swin"):
            base, file = RECORDED / network, folder / f"{network}.py"
            run("export", f"{base}.rir", "--weights", f"{base}.safetensors", "--output", file)
            net = module_of(file).Net().double().eval()
            net.load_state_dict(load_file(file.with_suffix(".safetensors")), strict=True)
            with torch.no_grad():
                logits = net(torch.from_numpy(numpy.load(f"{base}.npy")).double())
            wanted = load_file(f"{base}.expected.safetensors")["logits"].double()
            apart = float((logits - wanted).norm() / wanted.norm())
            print(f"{network}: logits {apart:.1e}")
            if apart > 1e-6:
                return 1
            (RECORDED / "exported" / f"{network}.py").write_text(neutral(file.read_text()))
        if not check([VIT[0], str(GAIN), *VIT[1:]], 0):
            return 1
        settings = [word for setting in VIT[1:] for word in ("--set", setting)]
        run("export", VIT[0], *settings, "--plugin", GAIN, "--output", folder / "vit.py")
        (RECORDED / "exported" / "vit.py").write_text(neutral((folder / "vit.py").read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
