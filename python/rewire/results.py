"""What a run folder holds: its metrics, and its weights for the module that the network came from."""

from __future__ import annotations

import json
import os
import re
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewire import command
from rewire.errors import RewireError

if TYPE_CHECKING:
    from torch import nn

Path_ = str | os.PathLike[str]
# Constant tables that export keeps among the weights; a module has them under no name, or as a buffer.
TABLE = re.compile(r"(.*\.)?constant_table\d*\Z")


def metrics(run: Path_, kind: str | None = None) -> Any:
    """Returns the lines of metrics.jsonl, of one `kind` (train, eval, diagnose) or of all: a pandas frame where pandas
    is installed, else a list of dicts."""
    file = Path(run) / "metrics.jsonl"
    try:
        # The last line of a run that is going on may be half written.
        rows = [json.loads(line) for line in file.read_text().split("\n")[:-1] if line.strip()]
    except ValueError as error:
        raise RewireError(f"{file}: {error}") from None
    except OSError as error:
        raise RewireError(f"{file}: {error.strerror}") from None
    rows = [row for row in rows if kind is None or row.get("kind") == kind]
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)


def load(module: nn.Module, run: Path_, *, ema: bool = False) -> nn.Module:
    """Puts a run's weights into the module that was exported, and returns it.

    Refused where the run's strategy changes what the network computes: the module would compute something else with the
    same weights. `ema` takes their moving averages.
    """
    import torch
    from safetensors import safe_open

    file = Path(run) / ("weights_ema.safetensors" if ema else "weights.safetensors")
    if not file.is_file():
        raise RewireError(f"{file}: there is no such file")
    try:
        with safe_open(str(file), framework="pt") as stored:
            origin = json.loads((stored.metadata() or {}).get("rewire", "{}"))
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118, it is no dict
    except Exception as error:  # safetensors has its own
        raise RewireError(f"{file}: {str(error).splitlines()[0][:200]}") from None
    _require_same_function(Path(run), origin, type(module).__name__)
    own = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers())
    unknown = [name for name in tensors if name not in own and not TABLE.match(name)]
    other = [
        f"{name} {list(tensors[name].shape)} there, {list(own[name].shape)} here"
        for name in tensors
        if name in own and tensors[name].shape != own[name].shape
    ]
    # A tied weight has several names in the module and one in the file.
    given = {id(own[name]) for name in tensors if name in own}
    network = Path(run) / "network.rir"
    text = network.read_text() if network.is_file() else None
    missing = [
        name
        for name, value in module.named_parameters()
        if id(value) not in given and (text is None or f"@{name} " in text)  # a weight that forward does not use
    ]
    for what, names in (
        ("that the module lacks", unknown),
        ("of other shapes", other),
        ("that the file lacks", missing),
    ):
        if names:
            raise RewireError(f"{file}: {len(names)} weights {what}: {', '.join(names[:3])}")
    with torch.no_grad():
        for name, tensor in tensors.items():
            if name in own:
                own[name].copy_(tensor)
    return module


def _require_same_function(run: Path, origin: dict[str, Any], module: str) -> None:
    plugins = [plugin["name"] for plugin in origin.get("plugins", [])]
    if not plugins:
        return
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "plain.safetensors"
        command.run(
            "init", run / "recipe.toml", "--plugin", "none", "--set", "train.weights=", "--output", plain, "--quiet"
        )
        from safetensors import safe_open

        with safe_open(str(plain), framework="np") as stored:
            here = json.loads((stored.metadata() or {}).get("rewire", "{}"))
    if here.get("forward") != origin.get("forward"):
        raise RewireError(
            f"{run}: {' + '.join(plugins)} changed what the network computes, so {module} would compute something "
            f"else with these weights; `rewire export {run} --output net.py` writes the network that they belong to"
        )


def convert(source: Path_, output: Path_ | None = None, *, key: str | None = None) -> str:
    """Writes the tensors of a checkpoint of PyTorch (.pth, .pt, .bin) as safetensors; returns the file's name.

    Only tensors are read; no code in the file runs. `key` names the part that holds them: "state_dict", "model.ema".
    """
    import torch
    from safetensors.torch import save_file

    path = Path(source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RewireError(f"{path}: not a checkpoint of tensors alone: {reason[:200]}") from None
    for part in key.split(".") if key else []:
        if not isinstance(found, dict) or part not in found:
            raise RewireError(f"{path}: no '{part}' in it; it has {_keys(found)}")
        found = found[part]
    if not isinstance(found, dict):
        raise RewireError(f"{path}: it holds a {type(found).__name__}, not tensors by name")
    others = [name for name, value in found.items() if not isinstance(value, torch.Tensor)]
    if others:
        raise RewireError(f"{path}: '{others[0]}' is no tensor; key= chooses a part: {_keys(found)}")
    target = Path(output) if output else path.with_suffix(".safetensors")
    # Tensors that share memory are written apart.
    save_file(
        {name: value.detach().clone().contiguous() for name, value in found.items()}, str(target), {"format": "pt"}
    )
    return str(target)


def _keys(found: Any, most: int = 8) -> str:
    names = [str(name) for name in found] if isinstance(found, dict) else []
    return ", ".join(names[:most]) + (", …" if len(names) > most else "") if names else "no keys"
