"""Writes a wheel of an install tree and the package in python/: wheel.py TREE WHEEL. scripts/wheel.sh calls it.

The tree is put into the package's folder. SOURCE_DATE_EPOCH is the time of all files; the order is fixed, so the bytes are.
"""

import base64
import hashlib
import os
import pathlib
import stat
import sys
import time
import tomllib
import zipfile

tree, wheel = map(pathlib.Path, sys.argv[1:])
root = pathlib.Path(__file__).resolve().parents[1]
project = tomllib.loads((root / "python/pyproject.toml").read_text())["project"]
name, version, tag = wheel.stem.split("-", 2)
assert (name, version) == (project["name"], project["version"]), "CMakeLists.txt and python/pyproject.toml differ"
info = f"{name}-{version}.dist-info"

files = {f"{info}/licenses/LICENSE": (root / "LICENSE").read_bytes()}
programs = set()
for file in (root / "python" / name).rglob("*.py"):
    files[str(file.relative_to(root / "python"))] = file.read_bytes()
for file in tree.rglob("*"):
    if file.is_file():
        inside = f"{name}/{file.relative_to(tree)}"
        files[inside] = file.read_bytes()
        if file.stat().st_mode & stat.S_IXUSR:
            programs.add(inside)
files[f"{info}/METADATA"] = "\n".join([
    "Metadata-Version: 2.1",
    f"Name: {name}",
    f"Version: {version}",
    f"Summary: {project['description']}",
    f"Requires-Python: {project['requires-python']}",
    *(f"Requires-Dist: {package}" for package in project["dependencies"]),
    f"License: Apache-2.0; libraries under {name}/share/doc/{name}/licenses, among them FFTW (GPL-2.0-or-later)",
    "License-File: LICENSE",
    "",
]).encode()
files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: {name}\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{name} = {name}.command:main\n".encode()
rows = []
for path, content in sorted(files.items()):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    rows.append(f"{path},sha256={digest},{len(content)}\n")
record = f"{info}/RECORD"
files[record] = "".join([*rows, f"{record},,\n"]).encode()

with zipfile.ZipFile(wheel, "w") as archive:
    # The folder dist-info last, as the format recommends.
    for path, content in sorted(files.items(), key=lambda file: (file[0].startswith(info), file[0] == record, file[0])):
        entry = zipfile.ZipInfo(path, time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6])
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (stat.S_IFREG | (0o755 if path in programs else 0o644)) << 16
        archive.writestr(entry, content, compresslevel=9)
