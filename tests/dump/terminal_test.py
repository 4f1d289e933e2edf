"""rewire dump as a terminal gets it: colours, and the pager; and that a pipe gets plain text.

    terminal_test.py REWIRE"""

import os
import pty
import re
import select
import subprocess
import sys
import time
import unittest

REWIRE = sys.argv.pop(1)
MODEL = ["vit_tiny_28", "--set", "model.depth=1", "--set", "model.dim=16", "--set", "model.heads=2"]
STAGES = ["ir", "rewritten", "step", "fused", "tile", "llvm", "asm", "cuda", "plan"]
ESCAPE = re.compile(rb"\x1b\[[0-9;]*m")


def dump(*options, **environment):
    done = subprocess.run([REWIRE, "dump", *MODEL, *options], capture_output=True, check=True, env=os.environ | environment)
    return done.stdout


def on_terminal(*options, keys=b"", **environment):
    """What the terminal shows, and the exit code; `keys` are pressed once it is quiet."""
    base = {name: value for name, value in os.environ.items() if name not in ("PAGER", "REWIRE_PAGER", "NO_COLOR", "LESS")}
    child, terminal = pty.fork()
    if child == 0:
        os.execve(REWIRE, [REWIRE, "dump", *MODEL, *options], base | {"TERM": "xterm-256color"} | environment)
    shown, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 1)[0]:
            if keys and shown:
                os.write(terminal, keys)
                keys = b""
            continue
        try:
            some = os.read(terminal, 65536)
        except OSError:
            break
        if not some:
            break
        shown += some
    os.close(terminal)
    return shown.replace(b"\r\n", b"\n"), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Pipe(unittest.TestCase):
    def test_colours_are_all_that_is_added(self):
        for stage in STAGES:
            plain = dump("--stage", stage)
            colours = dump("--stage", stage, "--color", "always")
            self.assertNotIn(b"\x1b", plain, stage)
            self.assertGreater(len(ESCAPE.findall(colours)), 20, stage)
            self.assertEqual(ESCAPE.sub(b"", colours), plain, stage)

    def test_the_same_bytes_every_time(self):
        for stage in STAGES:
            self.assertEqual(dump("--stage", stage), dump("--stage", stage, TERM="dumb", PAGER="false"), stage)

    def test_what_is_coloured(self):
        line = next(l for l in dump("--color", "always").splitlines() if b"layer_norm" in l)
        self.assertRegex(line, rb"\x1b\[36m%\d+\x1b\[0m = \x1b\[1mlayer_norm\x1b\[0m .*\x1b\[34mf32\[\d+,\d+,\d+\]\x1b\[0m")
        self.assertTrue(line.endswith(b'\x1b[2mloc("blocks.0.norm1")\x1b[0m'), line)

    def test_json_has_no_colours(self):
        self.assertNotIn(b"\x1b", dump("--json", "--color", "always"))


class Terminal(unittest.TestCase):
    def test_a_terminal_has_colours_and_the_users_pager(self):
        shown, code = on_terminal(PAGER="cat")
        self.assertEqual(code, 0)
        self.assertEqual(ESCAPE.sub(b"", shown), dump())
        self.assertNotEqual(ESCAPE.sub(b"", shown), shown)
        shown, code = on_terminal(PAGER="false", REWIRE_PAGER="wc -l")
        self.assertEqual(int(shown), dump().count(b"\n"))

    def test_colours_may_be_refused(self):
        for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            self.assertEqual(on_terminal(PAGER="cat", **variables)[0], dump())
        self.assertEqual(on_terminal("--color", "never", "--no-pager")[0], dump())

    def test_a_pager_may_be_left_early(self):
        shown, code = on_terminal("--stage", "asm", PAGER="head -n 3", NO_COLOR="1")
        self.assertEqual(code, 0)
        self.assertEqual(shown, b"".join(dump("--stage", "asm").splitlines(keepends=True)[:3]))

    def test_less_is_the_pager_where_nothing_is_said(self):
        if not any(os.access(f"{folder}/less", os.X_OK) for folder in os.environ["PATH"].split(":")):
            self.skipTest("there is no less")
        shown, code = on_terminal("--stage", "asm", keys=b"q")
        self.assertEqual(code, 0)
        self.assertLess(len(shown), len(dump("--stage", "asm")) // 4)

    def test_without_the_pager_that_is_named_all_is_printed(self):
        shown, code = on_terminal(PAGER="/nowhere/pager", NO_COLOR="1")
        self.assertEqual(code, 0)
        self.assertTrue(shown.endswith(dump()), shown[-200:])


if __name__ == "__main__":
    unittest.main(verbosity=1)
