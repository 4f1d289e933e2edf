"""What scripts/gpu/pack.sh makes, of links into this tree: for tests of what runs from it."""
import os
import pathlib
import shutil

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent


def make(programs, place):
    """`programs`: the build's folder of binaries. A fresh folder with nothing in its cache."""
    place = pathlib.Path(place)
    shutil.rmtree(place, ignore_errors=True)
    (place / "bundle").mkdir(parents=True)
    (place / "bundle" / "bin").symlink_to(pathlib.Path(programs).resolve())
    (place / "bundle" / "commit").write_text("abc1234-dirty\n")
    shutil.copytree(SOURCE / "bench", place / "bundle" / "bench", ignore=shutil.ignore_patterns("results", "__pycache__"))
    for script in (SOURCE / "scripts" / "gpu").glob("call.py"):
        shutil.copy(script, place / "bundle")
    os.environ["XDG_CACHE_HOME"] = str(place.resolve() / "cache")
    return place / "bundle"


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path
