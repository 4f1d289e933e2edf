"""Runs the command `rewire`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from rewire.errors import RewireError

PACKAGE = Path(__file__).resolve().parent
BUNDLED = PACKAGE / "bin" / "rewire"  # in a wheel


def main() -> None:
    """The script `rewire` of a wheel: becomes the bundled command, so that signals and the terminal reach it."""
    os.execv(BUNDLED, ["rewire", *sys.argv[1:]])


def find() -> str:
    """Returns the command: $REWIRE, that of this package, that of a build next to it, or that of the PATH."""
    if chosen := os.environ.get("REWIRE"):
        return chosen
    for place in (BUNDLED, PACKAGE.parents[1] / "build" / "release" / "bin" / "rewire"):
        if os.access(place, os.X_OK):
            return str(place)
    if found := shutil.which("rewire"):
        return found
    raise RewireError("the command rewire is neither in this package nor on the PATH; REWIRE can name it")


def run(*words: object, quiet: bool = True) -> str:
    """Runs `rewire WORDS` and returns what it prints. Throws RewireError with its message if it fails.

    With quiet=False its log goes to this process's stderr as it comes.
    """
    command = [find(), *(str(word) for word in words)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE if quiet else None, text=True)
    except OSError as error:
        raise RewireError(f"{command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        lines = [line for line in (done.stderr or "").splitlines() if line.startswith("rewire: ")]
        said = lines[-1].removeprefix("rewire: ") if lines else f"it ended with code {done.returncode}"
        raise RewireError(f"rewire {words[0] if words else ''}: {said}")
    return done.stdout
