#!/usr/bin/env bash
# Times training steps on a GPU beside PyTorch's, from the unpacked bundle of scripts/gpu/pack.sh.
#
#   bench.sh [FOLDER] [RUN OPTION…]      results: FOLDER/DATE-DEVICE.json and .md; default: results; options as bench/run.py's
#
# Without options: vit_s_cifar at a batch of 1024, vit_s16_224 and vit_b16_224 at 256, in bf16, every strategy, beside PyTorch
# eager, compiled, and compiled with max-autotune; what has not begun after BUDGET seconds (360) is left out, and listed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-results}
shift || true
[ $# -gt 0 ] || set -- --budget "${BUDGET:-360}" --case vit_s_cifar:1024 --case vit_s16_224:256 --case vit_b16_224:256 --residual plain --residual decay --residual orthogonal --residual augment \
  --residual skipless --mode eager --mode compile --mode max-autotune
# cuDNN comes with PyTorch where the toolkit has none.
if [ -z "${REWIRE_CUDNN:-}" ] && ! compgen -G '/usr/local/cuda*/lib*/libcudnn.so.9' >/dev/null; then
  cudnn=$(python3 -c 'import nvidia.cudnn as c; print(list(c.__path__)[0])' 2>/dev/null || true)/lib/libcudnn.so.9
  if [ -e "$cudnn" ]; then export REWIRE_CUDNN=$cudnn; fi
fi

exec python3 "$here/bench/run.py" --rewire "$here/bin/rewire" --python python3 --device cuda --dtype bf16 --rounds 5 \
  --steps 20 --out "$out" "$@"
