#!/usr/bin/env python3
"""The explorer's data beside what `rewire dump` prints of the same network.

    data_test.py REWIRE

Checks that each stage in the data is the object that `dump --json` prints, that the op lines are those of its text, and that what
refers to something by number refers to what there is.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

REWIRE = sys.argv.pop(1)
NETWORK = ["vit_tiny_28", "--set", "model.depth=2", "--set", "train.batch=4", "--plugin", "orthogonal"]


def rewire(*arguments):
    return subprocess.run([REWIRE, *arguments], check=True, capture_output=True, text=True).stdout


def dump(stage, *more):
    return rewire("dump", *NETWORK, "--stage", stage, *more)


def page_of(*more):
    with tempfile.NamedTemporaryFile(suffix=".html") as file:
        rewire("explore", *NETWORK, "--output", file.name, *more)
        return pathlib.Path(file.name).read_text(encoding="utf-8")


class Data(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = json.loads(rewire("explore", *NETWORK, "--json"))

    def test_modules_are_those_of_dump(self):
        for stage in ("ir", "rewritten", "step"):
            with self.subTest(stage=stage):
                self.assertEqual(self.data[stage], json.loads(dump(stage, "--json")))

    def test_ops_are_the_lines_of_the_text(self):
        for stage in ("ir", "rewritten", "step"):
            lines = re.findall(r"^    (?:%.* = |update ).*$", dump(stage), re.MULTILINE)
            ops = [op for function in self.data[stage]["functions"] for op in function["ops"]]
            self.assertEqual([re.sub(r' loc\(".*"\)$', "", line.strip()) for line in lines], [op["text"] for op in ops])
            for line, op in zip(lines, ops):
                place = re.search(r' loc\("(.*)"\)$', line)
                self.assertEqual(place.group(1) if place else "", op["at"])
                self.assertIn(op["op"], line)

    def test_programs_and_memory_are_those_of_dump(self):
        fused = json.loads(dump("fused", "--json"))
        for key in ("buffers", "launches"):
            self.assertEqual(self.data[key], fused[key])
        self.assertEqual(self.data["memory"], json.loads(dump("plan", "--json")))

    def test_codes_are_those_of_dump(self):
        for stage in ("tile", "llvm", "asm"):
            kernels = json.loads(dump(stage, "--json"))["kernels"]
            self.assertEqual([(code["name"], code[stage].rstrip("\n")) for code in self.data["codes"]],
                             [(kernel["name"], kernel["text"].rstrip("\n")) for kernel in kernels])
        cuda = {kernel["name"]: kernel["text"].rstrip("\n") for kernel in json.loads(dump("cuda", "--json"))["kernels"]}
        for code in (code for code in self.data["codes"] if "cuda" in code):
            if code["name"] in cuda:  # dump prints one kernel of each text
                self.assertEqual(code["cuda"].rstrip("\n"), cuda[code["name"]])

    def test_lines_of_code_name_values_of_the_tile_ir(self):
        for code in self.data["codes"]:
            values = set(map(int, re.findall(r"%(\d+)", code["tile"])))
            for text in ("llvm", "asm"):
                lines, of = code[text].splitlines(), code[text + "_values"]
                self.assertEqual(len(lines), len(of), code["name"])
                self.assertLessEqual(set(of), values | {-1}, code["name"])
        norm = next(code for code in self.data["codes"] if code["name"].startswith("blocks_0_norm2_rows"))
        sums = set(map(int, re.findall(r"%(\d+) : \S+ = sum", norm["tile"])))
        self.assertGreater(len(sums), 3)
        for text, adds in (("llvm", r"fadd|fma"), ("asm", r"v?f?m?add")):
            added = {of for line, of in zip(norm[text].splitlines(), norm[text + "_values"]) if re.search(adds, line)}
            self.assertLessEqual(sums, added, text)

    def test_cuda_stands_beside_a_kernel_that_computes_the_same(self):
        def kernels(*more):
            program = json.loads(dump("fused", "--json", *more))
            buffers = [buffer["name"] for buffer in program["buffers"]]
            return {member["name"]: (member["ops"], [buffers[i] for i in member["reads"]], [buffers[i] for i in member["writes"]])
                    for launch in program["launches"] if launch["kind"] == "kernel" for member in launch["members"]}
        cpu, gpu = kernels(), kernels("--arch", "sm_90")
        beside = [code["name"] for code in self.data["codes"] if "cuda" in code]
        self.assertGreater(len(beside), len(self.data["codes"]) / 2)
        for name in beside:
            ops, reads, writes = cpu[name]
            self.assertEqual((sorted(ops), sorted(reads), sorted(writes)), tuple(map(sorted, gpu[name])), name)

    def test_numbers_refer_to_what_there_is(self):
        data = self.data
        for launch in data["launches"]:
            self.assertEqual(launch["kind"] == "kernel", launch["code"] >= 0)
            self.assertLess(launch["code"], len(data["codes"]))
            self.assertIsNone(launch["ms"])
            for member in launch["members"]:
                for buffer in member["reads"] + member["writes"]:
                    self.assertLess(buffer, len(data["buffers"]))
        for buffer in data["memory"]["buffers"]:
            self.assertLess(buffer["last"], len(data["launches"]))
            self.assertEqual(data["buffers"][buffer["buffer"]]["kind"], "temporary")
        self.assertIsNone(data["ceilings"])

    def test_passes_add_up(self):
        passes = self.data["passes"]
        self.assertGreater(len(passes), 3)
        for before, after in zip(passes, passes[1:]):
            self.assertEqual(before["ops_after"], after["ops_before"])
        for one in passes:
            change = sum(sum(place["added"].values()) - sum(place["removed"].values()) for place in one["places"])
            self.assertEqual(one["ops_after"] - one["ops_before"], change, one["name"])

    def test_joins_have_formulas(self):
        self.assertEqual([join["at"] for join in self.data["joins"]],
                         ["blocks.0.attn", "blocks.0.mlp", "blocks.1.attn", "blocks.1.mlp"])
        for join in self.data["joins"]:
            self.assertTrue(join["rewritten"])
            self.assertEqual(join["plain"]["text"], "y = x + f")
            self.assertEqual([formula["text"] for formula in join["formulas"]],
                             ["y = x + f − (⟨x, f⟩ / (‖x‖² + 1e-06)) x"])

    def test_the_page_holds_the_data_and_no_address(self):
        page = page_of()
        inside = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL).group(1)
        found = json.loads(inside)
        for one in found["passes"] + self.data["passes"]:
            one.pop("ms", None)  # each run takes its own time
        self.assertEqual(found, self.data)
        rest = page.replace(inside, "")
        addresses = set(re.findall(r'https?:[^"\'\s]*|@import|url\([^)]*|src=[^\s>]*', rest))
        self.assertLessEqual(addresses, {"http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML"})
        for placeholder in ("@STYLE@", "@SCRIPT@", "@DATA@", "@TITLE@"):
            self.assertFalse(placeholder in rest, placeholder)

    def test_it_says_what_it_needs_and_spares_what_it_reads(self):
        done = subprocess.run([REWIRE, "explore", *NETWORK], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (
            2, "rewire: explore: give --output FILE, the page to write, or --json, which prints its data\n"))
        with tempfile.TemporaryDirectory() as folder:
            module = pathlib.Path(folder, "network.rir")
            module.write_text(dump("ir"))
            done = subprocess.run([REWIRE, "explore", str(module), "--output", str(module)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(module.read_text(), dump("ir"))
            done = subprocess.run([REWIRE, "explore", str(module), "--output", folder + "/none/page.html"],
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))

    def test_a_profile_has_times(self):
        data = json.loads(rewire("explore", *NETWORK, "--json", "--profile"))
        self.assertGreater(data["ceilings"]["gflops"], 1)
        self.assertGreater(data["ceilings"]["gb_per_s"], 1)
        for launch in data["launches"]:
            self.assertGreater(launch["ms"], 0, launch["name"])


if __name__ == "__main__":
    unittest.main()
