"""The command line of `python -m rewire.export`."""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from rewire.errors import RewireError

EXAMPLES = """
examples:
  python -m rewire.export timm:convnext_tiny --kwargs num_classes=10 --output convnext.rir
  python -m rewire.export torchvision:resnet50 --pretrained --output resnet50.rir
  python -m rewire.export my_package.nets:make_net --input 3x64x64 --output net.rir
  python -m rewire.export net.pt2 --output net.rir
"""


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="python -m rewire.export",
        description="Write a network of PyTorch as net.rir, with its weights in net.safetensors, and list its joins.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument(
        "network", help="timm:NAME, torchvision:NAME, package.module:CALLABLE, or a file of torch.export (.pt2)"
    )
    options.add_argument("--output", required=True, metavar="FILE", help="the .rir file to write")
    options.add_argument(
        "--kwargs", nargs="*", default=[], metavar="KEY=VALUE", help="arguments of the network's constructor"
    )
    options.add_argument(
        "--pretrained", action="store_true", help="its published weights, which are downloaded if they are not here"
    )
    options.add_argument("--weights", metavar="FILE", help="safetensors of the network's weights")
    options.add_argument(
        "--input",
        metavar="SHAPE",
        help="an input without the batch: 3x224x224; for token ids i64:128. Default: the network's own",
    )
    options.add_argument(
        "--join",
        action="append",
        default=[],
        metavar="±NAME",
        help="-blocks.3.attn is no join; +add_7, a node of the graph, is one; repeatable",
    )
    options.add_argument("--seed", type=int, default=0, help="of the network's first weights (0)")
    options.add_argument("--json", action="store_true", help="print the report as an object")
    return options


def main(words: list[str] | None = None) -> int:
    request = parser().parse_args(words)
    try:
        report = _export(request)
    except RewireError as error:
        print(f"rewire.export: {error}", file=sys.stderr)
        return 2
    with contextlib.suppress(BrokenPipeError):  # head took its lines
        print(json.dumps(report.__dict__, indent=2) if request.json else report, flush=True)
        return 0
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _export(request: argparse.Namespace) -> Any:
    import torch

    from rewire.exporting.export import export

    torch.manual_seed(request.seed)
    module: Any
    if request.network.endswith(".pt2"):
        if request.kwargs or request.pretrained or request.weights:
            raise RewireError("a .pt2 file has its own weights: drop --kwargs, --pretrained and --weights")
        module = _opened(request.network)
        inputs = tuple(module.example_inputs[0])
    else:
        module = _made(request, _keywords(request.kwargs))
        if request.weights:
            _load(module, request.weights)
        inputs = (_example(request.input, module),)
    return export(module, inputs, request.output, joins=request.join)


def _opened(path: str) -> Any:
    import torch

    from rewire.exporting.trace import quiet

    try:
        with quiet():
            return torch.export.load(path)
    except Exception as error:
        raise RewireError(f"{path}: torch.export.load cannot read it: {str(error).splitlines()[0][:200]}") from None


def _keywords(words: list[str]) -> dict[str, Any]:
    """Values are Python literals; a word that is none is a string."""
    keywords = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise RewireError(f"--kwargs {word}: it is KEY=VALUE")
        try:
            keywords[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            keywords[key] = value
    return keywords


def _made(request: argparse.Namespace, keywords: dict[str, Any]) -> Any:
    source, colon, name = request.network.partition(":")
    if not colon:
        raise RewireError(
            f"{request.network}: it is timm:NAME, torchvision:NAME, package.module:CALLABLE or a .pt2 file"
        )
    try:
        if source == "timm":
            timm = importlib.import_module("timm")
            return timm.create_model(name, pretrained=request.pretrained, **keywords)
        if source == "torchvision":
            models = importlib.import_module("torchvision.models")
            return models.get_model(name, weights="DEFAULT" if request.pretrained else None, **keywords)
        if request.pretrained:
            raise RewireError("--pretrained is for timm and torchvision")
        sys.path.insert(0, str(Path.cwd()))
        made = getattr(importlib.import_module(source), name)
    except (ImportError, SyntaxError) as error:
        raise RewireError(f"{request.network}: {error}") from None
    except AttributeError:
        raise RewireError(f"{request.network}: {source} has no '{name}'") from None
    except (ValueError, TypeError, RuntimeError) as error:
        raise RewireError(f"{request.network}: {str(error).splitlines()[0][:300]}") from None
    import torch

    if isinstance(made, torch.nn.Module) and not keywords:
        return made
    if not callable(made):
        raise RewireError(f"{request.network}: it is a {type(made).__name__}, neither a module nor something to call")
    try:
        module = made(**keywords)
    except (TypeError, ValueError, RuntimeError) as error:
        raise RewireError(f"{request.network}: {str(error).splitlines()[0][:300]}") from None
    if not isinstance(module, torch.nn.Module):
        raise RewireError(f"{request.network}: it returns a {type(module).__name__}, not a torch.nn.Module")
    return module


def _load(module: Any, path: str) -> None:
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
    except Exception as error:  # safetensors has its own
        raise RewireError(f"{path}: {str(error).splitlines()[0][:200]}") from None
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise RewireError(f"{path}: {' '.join(str(error).split())[:300]}") from None


def _example(shape: str | None, module: Any) -> Any:
    import torch

    if shape is None:
        size = (getattr(module, "pretrained_cfg", None) or {}).get("input_size", (3, 224, 224))
        image = getattr(getattr(module, "patch_embed", None), "img_size", None)
        if isinstance(image, (tuple, list)):
            size = (size[0], *image)
        return torch.zeros(2, *size)
    kind, _, extents = shape.rpartition(":")
    try:
        size = tuple(int(extent) for extent in extents.split("x"))
        if kind not in ("", "f32", "i64") or not size or min(size) < 1:
            raise ValueError
    except ValueError:
        raise RewireError(f"--input {shape}: it is 3x224x224, or i64:128 for token ids") from None
    return torch.zeros(2, *size, dtype=torch.int64 if kind == "i64" else torch.float32)
