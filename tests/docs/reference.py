#!/usr/bin/env python3
"""docs/reference is what `rewire docs` writes.

    reference.py REWIRE SOURCE
"""
import pathlib
import subprocess
import sys
import tempfile


def main():
    rewire, source = sys.argv[1:]
    kept = pathlib.Path(source) / "docs/reference"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([rewire, "docs", "--output", folder, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        written = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
    assert len(written) == 7, sorted(written)
    committed = {path.name: path.read_text() for path in kept.iterdir()}
    for name in sorted(written.keys() | committed.keys()):
        if written.get(name) != committed.get(name):
            print(f"docs/reference/{name} is not what the program writes: run `rewire docs --output docs/reference`")
    return 0 if written == committed else 1


if __name__ == "__main__":
    sys.exit(main())
