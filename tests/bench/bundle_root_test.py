"""The bundle of scripts/gpu/pack.sh in a root that holds nothing but it, the C and C++ libraries and the fake ones of
tests/fake_cuda: bundle_root_test.py BUNDLE.tar.xz FAKE_LIBRARY KERNEL_FOLDER PLACE

Needs user namespaces (`unshare --map-root-user --mount`), for a chroot and for /proc and /dev in it; exits with 77, and says so,
where there are none. The fake libraries compile kernels with the host's compiler, which the root has not: each command runs
outside first, and the root finds the compiled kernels.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
SKIPPED, LIMIT_BYTES = 77, 50 << 20
# As pack.sh has them: every system that runs the bundle has these.
SYSTEM = re.compile(r"(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s)\.so")
FAKE_VARIABLES = ("CUDA_DRIVER", "NVRTC", "CUBLASLT", "CUFFT", "CUDNN")
SMALL = ["vit_tiny_28", "--set", "model.dim=16", "--set", "model.depth=2", "--set", "model.heads=2", "--quiet"]
CUDA = ["--device", "cuda", "--no-autotune"]
ENTER = 'mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && mount --bind "$1" "$0/$1" && root=$0 && shift && exec chroot "$root" "$@"'


def needed(files):
    """The libraries of these files and of theirs, by name."""
    found = {}
    for line in subprocess.run(["ldd", *map(str, files)], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        words = line.split()
        if "=>" in words and len(words) > 2:
            found[words[0]] = words[2]
        elif words and words[0].startswith("/lib64/ld-"):
            found[pathlib.Path(words[0]).name] = words[0]
    return found


class BareRoot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(place, ignore_errors=True)
        cls.root = place / "root"
        for folder in ("proc", "dev", "tmp", "system", "fake", "lib64"):
            (cls.root / folder).mkdir(parents=True)
        with tarfile.open(packed) as tar:
            tar.extractall(cls.root, **({"filter": "fully_trusted"} if hasattr(tarfile, "data_filter") else {}))
        cls.bundle = cls.root / "rewire-gpu"
        programs = [file for folder in ("bin", "libexec/rewire") for file in (cls.bundle / folder).iterdir()]
        for name, path in needed(programs).items():
            if SYSTEM.match(name):
                shutil.copy(path, cls.root / ("lib64" if name.startswith("ld-") else "system") / name)
        (cls.root / "lib").symlink_to("system")
        (cls.root / "usr").mkdir()
        (cls.root / "usr" / "lib").symlink_to("../system")
        # What the fake library brings for itself stands apart, where nothing of the bundle is looked for unless it is asked.
        shutil.copy(fake, cls.root / "fake" / "libfake.so")
        for header in ("device.h", "interface.h"):  # which it reads
            copy = cls.root / str(SOURCE / "tests" / "cuda_shim" / header)[1:]
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / "tests" / "cuda_shim" / header, copy)
        (cls.root / str(kernels)[1:]).mkdir(parents=True, exist_ok=True)

    def inside(self, program, *words, **environment):
        return subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", ENTER, str(self.root), str(kernels), program, *words],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                              env={"PATH": os.environ["PATH"], "XDG_CACHE_HOME": "/tmp/cache", "LD_LIBRARY_PATH": "/system", **environment})

    def on_fake(self, program, *words):
        """First outside, for the compiled kernels."""
        library = str(self.root / "fake" / "libfake.so")
        subprocess.run([str(self.bundle / "bin" / program), *words], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "XDG_CACHE_HOME": str(place / "cache"), **{f"REWIRE_{name}": library for name in FAKE_VARIABLES}})
        # HASH.PID.so is being compiled by another process.
        objects = [path for path in pathlib.Path(kernels).glob("*.so") if len(path.suffixes) == 1]
        theirs = needed([fake, max(objects, key=lambda path: path.stat().st_mtime)])
        for name, path in theirs.items():
            if not name.startswith("ld-"):
                shutil.copy(path, self.root / "fake" / name)
        done = self.inside(f"/rewire-gpu/bin/{program}", *words, LD_LIBRARY_PATH="/system:/fake",
                           **{f"REWIRE_{name}": "/fake/libfake.so" for name in FAKE_VARIABLES})
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def test_size(self):
        self.assertLessEqual(pathlib.Path(packed).stat().st_size, LIMIT_BYTES)

    def test_every_strategy_and_what_it_opens_at_run_time(self):
        plugins = {row["name"] for row in json.loads(self.inside("/rewire-gpu/bin/rewire", "plugins", "--json").stdout)}
        self.assertEqual(plugins, {folder.name for folder in (SOURCE / "plugins").iterdir() if folder.is_dir()} - {"sdk"})
        for plugin in sorted(plugins):
            spec = plugin + ':join="x + 0.5 * f"' if plugin == "formula" else plugin  # it does nothing without a formula
            done = self.inside("/rewire-gpu/bin/rewire", "init", *SMALL, "--plugin", spec, "--output", f"/tmp/{plugin}.safetensors")
            self.assertEqual((done.returncode, done.stderr), (0, ""), plugin)
        done = self.inside("/rewire-gpu/bin/rewire", "verify", *SMALL, "--plugin", "skipless")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        # The root has no other LAPACK: without the bundle's, the same is refused.
        lapack = self.bundle / "lib/rewire/bundled/liblapack.so.3"
        lapack.rename(lapack.with_suffix(".away"))
        try:
            done = self.inside("/rewire-gpu/bin/rewire", "verify", *SMALL, "--plugin", "skipless")
        finally:
            lapack.with_suffix(".away").rename(lapack)
        self.assertEqual(done.returncode, 2)
        self.assertIn("liblapack.so.3 cannot be opened", done.stderr)

    def test_without_a_gpu(self):
        done = self.inside("/rewire-gpu/bin/rewire", "doctor", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(json.loads(done.stdout)["cuda"]["usable"])

    def test_on_the_fake_device(self):
        self.on_fake("rewire", "verify", *SMALL, *CUDA[:2], "--plugin", "skipless")
        result = json.loads(self.on_fake("rewire", "bench", *SMALL, *CUDA, "--batch", "2", "--steps", "1", "--json", "--plugin", "augment",
                                         "--set", "train.dtype=bf16"))
        self.assertGreater(result["unique_kernels"], 10)
        for kind in ("programs", "attention", "transforms"):
            self.assertIn(", 0 failures", self.on_fake("device_check", kind, "1", "1"))


def namespaces():
    """Why there can be no such root; "": there can."""
    try:
        done = subprocess.run(["unshare", "--map-root-user", "--mount", "chroot", "/", "true"], stderr=subprocess.PIPE, text=True)
    except FileNotFoundError as error:
        return f"{error.filename} is missing"
    return done.stderr.strip()


if __name__ == "__main__":
    packed, fake, kernels = sys.argv[1:4]
    place = pathlib.Path(sys.argv[4])
    if why := namespaces():
        print(f"skipped: no root of its own for the bundle: {why}")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
