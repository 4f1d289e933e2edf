#!/usr/bin/env bash
# Times training steps on a GPU beside PyTorch's, from the unpacked bundle of scripts/gpu/pack.sh.
#
#   bench.sh [FOLDER] [RUN OPTION…]      results: FOLDER/DATE-DEVICE.json and .md; default: results; options as bench/run.py's
#
# Without options: vit_s_cifar at a batch of 1024, vit_s16_224 and vit_b16_224 at 256, in bf16, every strategy, beside PyTorch
# compiled with max-autotune, compiled, and eager. The most wanted comes first; what has not begun after BUDGET seconds (230) is
# left out, and listed, and what still runs 30 s later is ended. Exit 2 if something is missing without which nothing runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-results}
shift || true
[ $# -gt 0 ] || set -- --budget "${BUDGET:-230}" --case vit_s_cifar:1024 --case vit_s16_224:256 --case vit_b16_224:256 \
  --residual plain --residual decay --residual orthogonal --residual augment --residual skipless \
  --mode eager --mode compile --mode max-autotune --rounds 3 --steps 20
if python3 -c 'import torch' 2>/dev/null; then set -- --python python3 "$@"; else echo 'bench: no peers, python3 has no torch' >&2; fi
settings=$(python3 "$here/bench/gpu_libraries.py" --rewire "$here/bin/rewire") || exit 2  # which says what is missing
eval "$settings"

exec python3 "$here/bench/run.py" --rewire "$here/bin/rewire" --device cuda --dtype bf16 --out "$out" "$@"
