#!/usr/bin/env bash
# Times training steps on a GPU beside PyTorch's, from the unpacked bundle of scripts/gpu/pack.sh.
#
#   bench.sh [FOLDER] [RUN OPTION…]      results: FOLDER/DATE-DEVICE.json and .md; default: results; options as bench/run.py's
#
# Without options: vit_s_cifar at a batch of 1024 in bf16, every strategy, beside PyTorch eager, compiled, and compiled with
# max-autotune.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-results}
shift || true
[ $# -gt 0 ] || set -- --case vit_s_cifar:1024 --residual plain --residual decay --residual orthogonal --residual augment \
  --residual skipless --mode eager --mode compile --mode max-autotune
exec python3 "$here/bench/run.py" --rewire "$here/bin/rewire" --python python3 --device cuda --dtype bf16 --rounds 5 \
  --steps 20 --out "$out" "$@"
