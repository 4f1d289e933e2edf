#!/usr/bin/env python3
"""The peers of bench/inference.py: forward passes of the same network by PyTorch, ONNX Runtime or OpenVINO.

    inference_peer.py --engine eager|compile|onnxruntime|openvino --model '{"image": 32, …}' --batch 1 [--threads 2]

The network is bench/pytorch_step.py's, random images, f32. Both runtimes read what torch.onnx.export makes of it. Prints one line
of JSON about itself, then reads numbers of passes from stdin, one a line; for each it does that many, behind two that are not
timed, and prints their median in ms.
"""
import argparse
import json
import statistics
import sys
import tempfile
import time

import torch

import pytorch_resnetv2
import pytorch_step

WARM_UP = 2  # passes before each round, as many as `rewire bench` does


def by_pytorch(network, images, mode):
    forward = network if mode == "eager" else torch.compile(network, dynamic=False)

    def run():
        with torch.inference_mode():
            forward(images)
    return run, torch.__version__


def exported(network, images, folder):
    path = f"{folder}/network.onnx"
    torch.onnx.export(network, (images,), path, dynamo=True, external_data=False, verbose=False)
    return path


def by_onnxruntime(network, images, folder, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(exported(network, images, folder), options, providers=["CPUExecutionProvider"])
    given = {session.get_inputs()[0].name: images.numpy()}
    return lambda: session.run(None, given), onnxruntime.__version__


def by_openvino(network, images, folder, threads):
    import openvino
    model = openvino.Core().compile_model(exported(network, images, folder), "CPU", {
        "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})
    given = [images.numpy()]
    return lambda: model(given), openvino.__version__


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("eager", "compile", "onnxruntime", "openvino"), required=True)
    parser.add_argument("--model", required=True, help="JSON: family, and the arguments of its network")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    shape = json.loads(options.model)
    make = {"vit": pytorch_step.VisionTransformer, "resnetv2": pytorch_resnetv2.ResNetV2}[shape.pop("family", "vit")]
    network = make(**shape, residual="plain").eval()
    images = torch.randn(options.batch, shape["channels"], shape["image"], shape["image"])
    with tempfile.TemporaryDirectory() as folder:
        if options.engine == "onnxruntime":
            run, version = by_onnxruntime(network, images, folder, options.threads)
        elif options.engine == "openvino":
            run, version = by_openvino(network, images, folder, options.threads)
        else:
            run, version = by_pytorch(network, images, options.engine)
    run()
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        for _ in range(WARM_UP):
            run()
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        print(json.dumps({"step_ms": statistics.median(times) * 1e3}), flush=True)


if __name__ == "__main__":
    main()
