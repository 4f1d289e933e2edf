#!/usr/bin/env bash
# Fuzzes the readers of what others wrote, until each target has had its seconds of CPU time; what is found stays.
#
#   scripts/fuzz.sh                 every target of tests/fuzz, an hour each
#   scripts/fuzz.sh 600 rir npy     two of them, ten minutes each
#
# Every slice of 120 s is a line in FUZZ_FOLDER (build/fuzz): `slices.tsv` has target, CPU seconds, inputs tried, edges
# covered, inputs kept, findings. What an earlier run did counts, so it may be stopped and started at will; a second
# one beside it takes other targets. Findings lie in FUZZ_FOLDER/TARGET.findings; the exit code is 1 if there are any.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

seconds=3600
if [[ ${1:-} =~ ^[0-9]+$ ]]; then seconds=$1; shift; fi
known=$(ls tests/fuzz/corpus)
for target in "$@"; do
  grep -qxF -- "$target" <<<"$known" || { printf "fuzz: no target '%s'; there are %s\n" "$target" "${known//$'\n'/, }" >&2; exit 2; }
done
folder=${FUZZ_FOLDER:-build/fuzz}
mkdir -p "$folder/bin"
folder=$(cd "$folder" && pwd)
table=$folder/slices.tsv
touch "$table"

# The programs are copied: a build meanwhile does not touch what runs.
if [ ! -e "$folder/bin/built" ]; then
  CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 cmake --preset asan >"$folder/configure.log"
  cmake --build build/asan --parallel "${JOBS:-$(nproc)}" --target fuzzers
  cp build/asan/bin/fuzz_* "$folder/bin/"
  git rev-parse HEAD >"$folder/bin/built"
fi

spent() { awk -v t="$1" '$1 == t { s += $2 } END { printf "%d\n", s }' "$table"; }

slice() {  # slice TARGET
  local target=$1 log=$folder/$1.log found=$folder/$1 findings=$folder/$1.findings
  mkdir -p "$found" "$findings"
  local status=0
  /usr/bin/time -o "$log.time" -f '%U %S' "$folder/bin/fuzz_$target" -max_total_time=120 -timeout=25 -rss_limit_mb=1024 \
    -malloc_limit_mb=256 -print_final_stats=1 -artifact_prefix="$findings/" "$found" "$root/tests/fuzz/corpus/$target" \
    >"$log" 2>&1 || status=$?
  local cpu tried edges
  cpu=$(tail -1 "$log.time" | awk '{ printf "%.1f", $1 + $2 }')
  tried=$(awk '/stat::number_of_executed_units/ { print $2 }' "$log")
  edges=$(grep -o 'cov: [0-9]*' "$log" | tail -1 | cut -d' ' -f2)
  printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$target" "$cpu" "${tried:-0}" "${edges:-0}" "$(ls "$found" | wc -l)" \
    "$(ls "$findings" | wc -l)" >>"$table"
  [ "$status" = 0 ] || printf 'fuzz: %s ended with %s; its input is in %s\n' "$target" "$status" "$findings"
}

cd "$folder"  # where targets make their files
for target in ${*:-$known}; do
  exec 9>"$folder/$target.lock"
  flock -n 9 || continue
  while [ "$(spent "$target")" -lt "$seconds" ]; do slice "$target" 9>&-; done
done
awk -F'\t' '{ cpu[$1] += $2; tried[$1] += $3; edges[$1] = $4; kept[$1] = $5; bad[$1] = $6 }
  END { for (t in cpu) printf "%-14s %8.1f min %12d inputs %6d edges %6d kept %3d findings\n", t, cpu[t] / 60, tried[t], edges[t], kept[t], bad[t] }' \
  "$table" | sort
[ -z "$(find "$folder" -path '*.findings/*' -type f -print -quit)" ]
