"""Runs the models that runtime_export_test writes, one for each case of an op, and holds ONNX Runtime against the
evaluator.

    REWIRE_ONNX_CASES=FOLDER build/release/bin/runtime_export_test; check_onnx_ops.py FOLDER

One line for each op that fails; exit 1 if one does. Needs numpy, onnx and onnxruntime.
"""

import collections
import pathlib
import sys

import numpy
import onnx
import onnxruntime

RANDOM = ("random_uniform", "random_normal")  # other numbers of the same distribution
ERROR = 1e-5  # of the largest number; float32 against float64


def main():
    folder = pathlib.Path(sys.argv[1])
    right, lacks, wrong = collections.Counter(), collections.Counter(), collections.defaultdict(list)
    for file in sorted(folder.glob("*.onnx")):
        op, name = file.stem.rpartition("_")[0], file.stem
        try:
            onnx.checker.check_model(str(file), full_check=True)
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            session = onnxruntime.InferenceSession(str(file), options)
            if any("float16" in value.type for value in session.get_inputs() + session.get_outputs()):
                continue  # which NumPy lacks in part
            inputs = {i.name: numpy.load(folder / f"{name}.{i.name}.npy") for i in session.get_inputs()}
            results = session.run(None, inputs)
        except Exception as fault:  # noqa: BLE001  the others are of interest too
            if "NOT_IMPLEMENTED" in str(fault):
                lacks[op] += 1  # of the format, not of this runtime
            else:
                wrong[op].append(f"{name}: {str(fault)[:200]}")
            continue
        right[op] += 1
        if op in RANDOM:
            continue
        for output, got in zip(session.get_outputs(), results, strict=True):
            true = numpy.load(folder / f"{name}.{output.name}.npy")
            finite = numpy.isfinite(true)
            largest = max(numpy.abs(true[finite]).max(initial=0), 1e-30)
            same = numpy.array_equal(numpy.where(finite, 0, true), numpy.where(finite, 0, got), equal_nan=True)
            error = numpy.abs(numpy.where(finite, got.astype(float) - true, 0)).max(initial=0) / largest
            if got.shape != true.shape or not same or not error <= ERROR:
                wrong[op].append(f"{name}: {output.name} is apart by {error:.1e}, {got.shape} {true.shape}")
    for op, faults in wrong.items():
        print(f"{op}: {len(faults)} wrong; {faults[0]}")
    print(f"{sum(right.values())} cases of {len(right)} ops run, {len(wrong)} ops wrong")
    print("not in this runtime:", ", ".join(f"{op} {count}" for op, count in lacks.items()) or "nothing")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
