#!/usr/bin/env bash
# Checks Rewire on a GPU, from the unpacked bundle of scripts/gpu/pack.sh: kernels against the evaluator, networks and their
# gradients against PyTorch in float64, the same bits twice, and a small set under compute-sanitizer.
#
#   check.sh [FOLDER]        results: FOLDER/*.log, FOLDER/parity.json; default: results
#
# SEEDS bounds the cases of every op (4), PROGRAMS the random programs (160), TRANSFORMS those of Fourier transforms by
# cuFFT (48), JOBS the processes that compile (8).
# What is missing (PyTorch, compute-sanitizer) is said and left out. Exit 1 if anything that ran failed, 3 if something was left out.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-results}
mkdir -p "$out"
out=$(cd "$out" && pwd)
seeds=${SEEDS:-4} programs=${PROGRAMS:-160} transforms=${TRANSFORMS:-48} jobs=${JOBS:-8}
failed=0 missing=0
say() { printf 'check: %s\n' "$*"; }
step() {  # step NAME COMMAND…: into NAME.log, its last line shown
  local name=$1 start=$SECONDS status=0
  shift
  "$@" >"$out/$name.log" 2>&1 || status=$?
  [ "$status" -eq 0 ] || { failed=1; grep -v '^$' "$out/$name.log" | tail -n 5; }
  say "$name: $([ "$status" -eq 0 ] && echo ok || echo "FAILED with $status"), $((SECONDS - start)) s, $(tail -n 1 "$out/$name.log")"
}
shards() {  # shards KIND COUNT: so many seeds, shared by $jobs processes
  local each=$((($2 + jobs - 1) / jobs)) first status=0 pids=()
  for ((first = 1; first <= $2; first += each)); do
    "$here/bin/device_check" "$1" "$first" "$((first + each > $2 + 1 ? $2 + 1 - first : each))" & pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  return "$status"
}

# cuDNN comes with PyTorch where the toolkit has none.
if [ -z "${REWIRE_CUDNN:-}" ] && ! compgen -G '/usr/local/cuda*/lib*/libcudnn.so.9' >/dev/null; then
  cudnn=$(python3 -c 'import nvidia.cudnn as c; print(list(c.__path__)[0])' 2>/dev/null || true)/lib/libcudnn.so.9
  if [ -e "$cudnn" ]; then export REWIRE_CUDNN=$cudnn; fi
fi

say "commit $(cat "$here/commit"), $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)"
step doctor "$here/bin/rewire" doctor
cat "$out/doctor.log"
step ops shards ops "$seeds"
step programs shards programs "$programs"
step transforms shards transforms "$transforms"
step tf32 "$here/bin/rewire" verify vit_tiny_28 --set model.dim=48 --set model.depth=2 --set train.tf32=true --device cuda
for dtype in f32 bf16; do  # GELU by tanh, with its products
  step "gelu_$dtype" "$here/bin/rewire" verify vit_tiny_28 --set model.dim=48 --set model.depth=2 --set model.act_layer=gelu_tanh \
    --set train.dtype=$dtype --device cuda
done
step attention "$here/bin/device_check" attention 0 16
if python3 -c 'import torch, safetensors' 2>/dev/null; then
  step parity python3 "$here/bench/parity.py" --device cuda --out "$out/parity.json"
  cat "$out/parity.log"
  step parity_large python3 "$here/bench/parity.py" --device cuda --case vit_s16_224:2 --case vit_b16_224:1 --residual plain \
    --residual orthogonal --dtype bf16 --out "$out/parity_large.json"
  cat "$out/parity_large.log"
else
  missing=1
  say "parity: not run, python3 has no torch or no safetensors"
fi
sanitize() {  # sanitize TOOL NAME BENCH OPTION…
  local tool=$1 name=$2
  shift 2
  step "$name" compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 "$here/bin/rewire" bench vit_tiny_28 \
    --set model.dim=48 --set model.depth=2 --batch 3 --steps 2 --device cuda "$@"
}
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck synccheck; do
    sanitize "$tool" "$tool" --plugin orthogonal
    sanitize "$tool" "${tool}_bf16" --plugin augment --set train.dtype=bf16
  done
else
  missing=1
  say "compute-sanitizer: not run, there is none"
fi
[ "$failed" -eq 0 ] || { say FAILED; exit 1; }
[ "$missing" -eq 0 ] || { say "passed, but for what was left out"; exit 3; }
say passed
