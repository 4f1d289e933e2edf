#!/usr/bin/env bash
# Checks Rewire on a GPU, from the unpacked bundle of scripts/gpu/pack.sh: kernels against the evaluator, networks and their
# gradients against the evaluator and against PyTorch in float64, the same bits twice, and a small set under compute-sanitizer.
#
#   check.sh [FOLDER] [quick|sanitizers|all]     results: FOLDER/*.log, FOLDER/parity_*.json; default: results, all
#
# quick is what takes least for what it finds; between it and the sanitizers bench.sh may run, and all three are done in 8
# minutes. LIMIT bounds the seconds of the
# whole call (quick: 150, sanitizers: 60, all: both); every step has a limit of its own besides. SEEDS bounds the cases of every
# op (4), PROGRAMS the random programs (160), TRANSFORMS those of Fourier transforms by cuFFT (48), RESIDUALS the strategies (all:
# "none decay orthogonal augment skipless"), JOBS the processes (8).
# What is missing (PyTorch, compute-sanitizer, time) is said and left out. Exit 1 if anything that ran failed, 2 if nothing can
# run, 3 if something was left out.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-results} part=${2:-all}
case $part in quick) default=150 ;; sanitizers) default=60 ;; all) default=210 ;; *) echo "check: no part '$part'" >&2; exit 2 ;; esac
mkdir -p "$out"
out=$(cd "$out" && pwd)
seeds=${SEEDS:-4} programs=${PROGRAMS:-160} transforms=${TRANSFORMS:-48} jobs=${JOBS:-8} limit=${LIMIT:-$default}
read -ra residuals <<<"${RESIDUALS:-none decay orthogonal augment skipless}"
failed=0 missing=0
say() { printf 'check: %s\n' "$*"; }
left_out() { missing=1; say "$1: not run, $2"; }
step() {  # step NAME SECONDS COMMAND…: into NAME.log, its last line shown
  local name=$1 most=$2 start=$SECONDS status=0 left=$((limit - SECONDS)) told=ok
  shift 2
  [ "$left" -ge 5 ] || { left_out "$name" "no time is left"; return; }
  timeout --kill-after=5 $((most < left ? most : left)) "$@" >"$out/$name.log" 2>&1 || status=$?
  if { [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; } && [ "$left" -lt "$most" ]; then
    missing=1 told="ended, no time is left"
  elif [ "$status" -ne 0 ]; then
    failed=1 told="FAILED with $status"
    [ "$status" -ne 124 ] || told="FAILED, not done"
    grep -v '^$' "$out/$name.log" | tail -n 5
  fi
  say "$name: $told, $((SECONDS - start)) s, $(tail -n 1 "$out/$name.log")"
}
shards() {  # shards KIND SECONDS COUNT: so many seeds of device_check, shared by $jobs processes
  local each=$((($3 + jobs - 1) / jobs)) first list=()
  [ "$3" -gt 0 ] || { left_out "$1" "0 seeds"; return; }
  for ((first = 1; first <= $3; first += each)); do list+=("$1 $first $((first + each > $3 + 1 ? $3 + 1 - first : each))"); done
  step "$1" "$2" xargs -P "$jobs" -L 1 -a <(printf '%s\n' "${list[@]}") "$here/bin/device_check"
}
each() {  # each NAME SECONDS COMMAND…: with the options of every line KEY OPTION… of `list`, into NAME_KEY.log, $jobs at a time
  local name=$1 most=$2 command
  printf -v command '%q ' "${@:3}"
  # shellcheck disable=SC2016
  step "$name" "$most" xargs -P "$jobs" -L 1 -a <(printf '%s\n' "${list[@]}") env LOG="$out/$name" bash -c "$command"'"$@" >"${LOG}_$0.log" 2>&1 &&
    echo "$0 ok" && exit; tail -n 3 "${LOG}_$0.log"; echo "$0 FAILED"; exit 1'
}
small=(vit_tiny_28 --set model.dim=48 --set model.depth=2)

quick() {
  # Also without PyTorch: every strategy's gradients against the evaluator's; GELU by tanh with its products; TF32.
  local case residual dtype list=("tf32 --set train.tf32=true")
  for dtype in f32 bf16; do
    for residual in "${residuals[@]}"; do
      list+=("${residual}_$dtype --plugin $residual --set train.dtype=$dtype")
    done
    list+=("gelu_$dtype --set model.act_layer=gelu_tanh --set train.dtype=$dtype")
  done
  each verify 90 "$here/bin/rewire" verify "${small[@]}" --device cuda
  list=()
  for residual in "${residuals[@]}"; do list+=("$residual --residual $residual"); done
  each steps 60 python3 "$here/bench/device_steps.py" --rewire "$here/bin/rewire"
  if [ -z "$no_attention" ]; then step attention 60 "$here/bin/device_check" attention 0 16; else left_out attention "$no_attention"; fi
  if python3 -c 'import torch, safetensors' 2>/dev/null; then
    list=()
    for residual in "${residuals[@]/none/plain}"; do
      for case in vit_tiny_28:5 vit_s_cifar:3; do
        list+=("${case%:*}_$residual --case $case --residual $residual --out \"$out/parity_${case%:*}_$residual.json\"")
      done
    done
    for case in vit_s16_224:2 vit_b16_224:1; do
      list+=("${case%:*}_plain --case $case --residual plain --dtype bf16 --out \"$out/parity_${case%:*}_plain.json\"")
    done
    each parity 90 python3 "$here/bench/parity.py" --device cuda
    grep -h '^vit_' "$out"/parity_*.log
  else
    left_out parity "python3 has no torch or no safetensors"
  fi
  shards ops 90 "$seeds"
  shards programs 90 "$programs"
  if [ -z "$no_transforms" ]; then shards transforms 60 "$transforms"; else left_out transforms "$no_transforms"; fi
}

sanitize() {  # sanitize TOOL NAME BENCH OPTION…
  step "$2" 60 compute-sanitizer --tool "$1" --report-api-errors no --error-exitcode 9 "$here/bin/rewire" bench "${small[@]}" \
    --batch 3 --steps 2 --no-autotune --device cuda "${@:3}"
}
sanitizers() {
  command -v compute-sanitizer >/dev/null || { left_out sanitizers "there is no compute-sanitizer"; return; }
  local tool
  for tool in memcheck synccheck racecheck initcheck; do
    sanitize "$tool" "$tool" --plugin orthogonal
    sanitize "$tool" "${tool}_bf16" --plugin augment --set train.dtype=bf16
  done
}

say "commit $(cat "$here/commit"), $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)"
settings=$(python3 "$here/bench/gpu_libraries.py" --rewire "$here/bin/rewire" 2>"$out/libraries.log") || { cat "$out/libraries.log"; exit 2; }
eval "$settings"
cat "$out/libraries.log"
no_attention=$(grep -o 'without cuDNN: .*' "$out/libraries.log") no_transforms=$(grep -o 'without cuFFT: .*' "$out/libraries.log")
step doctor 30 "$here/bin/rewire" doctor --quiet
cat "$out/doctor.log"
[ "$part" = sanitizers ] || quick
[ "$part" = quick ] || sanitizers
say "$part: $SECONDS s"
[ "$failed" -eq 0 ] || { say FAILED; exit 1; }
[ "$missing" -eq 0 ] || { say "passed, but for what was left out"; exit 3; }
say passed
