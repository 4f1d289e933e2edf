#!/usr/bin/env python3
"""docs/reference is what `rewire docs` writes.

    reference.py REWIRE SOURCE
"""
import pathlib
import subprocess
import sys
import tempfile


def sections(text):
    """Of a page, by heading."""
    return {part.split("\n", 1)[0]: part.strip() for part in text.split("\n## ")}


def same(name, written, committed):
    """A build may lack plugins."""
    if name != "plugins.md" or not written or not committed:
        return written == committed
    kept = sections(committed)
    return all(kept.get(heading) == part for heading, part in sections(written).items())


def main():
    rewire, source = sys.argv[1:]
    kept = pathlib.Path(source) / "docs/reference"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([rewire, "docs", "--output", folder, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        written = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
    assert len(written) == 7, sorted(written)
    committed = {path.name: path.read_text() for path in kept.iterdir()}
    failed = False
    for name in sorted(written.keys() | committed.keys()):
        if not same(name, written.get(name), committed.get(name)):
            print(f"docs/reference/{name} is not what the program writes: run `rewire docs --output docs/reference`")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
