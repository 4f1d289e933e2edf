#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests.
#
#   scripts/test.sh                    release: every test, of the largest sets of cases one slice of four
#   scripts/test.sh full               the same with all of these sets, every loss of power, every fault (of memory 400 points)
#                                      and 600 kills, the bundle for a GPU and its calls that are killed, and each libFuzzer
#                                      target: two hours
#   scripts/test.sh asan               AddressSanitizer and UBSan: every test but those labelled `slow` or `program`, of
#                                      `rewire plugin test` a slice of the strategies, and the libFuzzer targets,
#                                      a slice of them FUZZ_SECONDS each (30), the others a second
#   scripts/test.sh sanitized          one of four parts of asan and tsan: asan of ir, codegen and models; asan of runtime's
#                                      first half; asan of its second, of the strategies and the fuzz targets; tsan
#   scripts/test.sh asan-program       the tests labelled `program` there: the binary as a user meets it
#   scripts/test.sh tsan               ThreadSanitizer: the tests labelled `threads`
#   scripts/test.sh bare               the tests of ir, codegen and runtime, but those labelled `slow`, in a build without any
#                                      plugins/NAME and as on a machine without CUDA; after release, those whose program
#                                      differs from release's
#   scripts/test.sh release asan tsan  one after the other
#
# REWIRE_WERROR=ON makes warnings errors in every set; asan and tsan have it so.
# JOBS bounds the parallel compiles and tests (default: the machine's cores). REWIRE_REQUIRE_NVRTC=1 lets tests that need NVRTC fail
# where it is missing; without it they are skipped. REWIRE_SLICE=K/4 takes that slice of the large sets and
# REWIRE_PART=K/4 that part of `sanitized`; without them the commit's hash says which, and the day where there is no commit.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
# Another checkout of the same files finds this one's objects.
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
say() { printf 'test: %s\n' "$*"; }

build() {  # build PRESET [TARGET…]
  local preset=$1
  shift
  say "building $preset into build/$preset"
  # These change the compiler: an older tree of another one would lose the preset's settings on the way.
  local fresh=()
  case "$preset" in asan | tsan) fresh=(--fresh) ;; esac
  cmake "${fresh[@]}" --preset "$preset" ${REWIRE_WERROR:+-DREWIRE_WERROR="$REWIRE_WERROR"} >"build/$preset.configure.log" || { cat "build/$preset.configure.log" >&2; exit 1; }
  local began=$SECONDS
  cmake --build "build/$preset" --parallel "$jobs" ${1:+--target "$@"}
  say "building $preset took $((SECONDS - began)) s"
}

check() {  # check PRESET [CTest options…]
  local preset=$1
  shift
  say "running the tests of $preset${REWIRE_SLICE:+, slice $REWIRE_SLICE of large sets (REWIRE_SLICE=$REWIRE_SLICE repeats it)}"
  local began=$SECONDS status=0
  ctest --test-dir "build/$preset" --parallel "$jobs" --timeout 1800 --output-on-failure --no-tests=error "$@" |
    tee "build/$preset.tests.log" || status=$?
  say "the tests of $preset took $((SECONDS - began)) s, the slowest first:"
  sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) \.*(.*[^0-9.])([0-9.]+) sec.*/\3 s  \1/p' "build/$preset.tests.log" | sort -rn
  return $status
}

# check_folders PRESET PATTERNS [CTest options…]: the tests of the folders of tests/ that match, as many folders at once as there are jobs.
# A folder's tests alone know no target of another's.
check_folders() {
  local preset=$1 patterns=$2
  shift 2
  (cd "build/$preset/tests" && printf '%s\n' $patterns) | xargs -P "$jobs" -I{} \
    ctest --test-dir "build/$preset/tests/{}" --timeout 1800 --output-on-failure "$@"
}

# The folders of tests/ in each part of `sanitized`; the fourth part is tsan. The first needs nothing of runtime (codegen_cuda_shim
# would, and has only slow tests).
parts=('ir* codegen_cuda codegen_[d-z]* models' 'runtime_[a-e]*' 'runtime_[f-z]* plugins fuzz')

# The tests of bare whose program is release's to the byte, with | between them; but those that look for CUDA themselves.
same_tests() {
  local program test
  sed -nE 's/^add_test\((\[=\[)?([^] ]+)(\]=\])? "([^"]*\/build\/bare\/bin\/[^"]*)".*/\4 \2/p' \
    build/bare/tests/{ir,codegen,runtime}*/CTestTestfile.cmake |
    while read -r program test; do
      case "$test" in codegen_cuda_test | runtime_device_test) continue ;; esac
      ! cmp -s "$program" "${program/build\/bare/build\/release}" || printf '%s\n' "$test"
    done | paste -sd '|'
}

[ $# -gt 0 ] || set -- release
for set in "$@"; do
  case "$set" in
    release | full | bare | asan | asan-program | tsan | sanitized) ;;
    *)
      printf "test: unknown set of tests '%s'; it takes release, full, bare, asan, asan-program, tsan, sanitized\n" "$set" >&2
      exit 2
      ;;
  esac
done

./scripts/setup.sh tests
mkdir -p build
number=$(git rev-parse --short=7 HEAD 2>/dev/null) && number=0x$number || number=$(($(date +%s) / 86400))
export REWIRE_SLICE=${REWIRE_SLICE:-$((number % 4))/4}
part=${REWIRE_PART:-$((number / 4 % 4))/4}
case "$part" in
  [0-3]/4) ;;
  *)
    printf "test: REWIRE_PART is '%s'; it takes 0/4 to 3/4\n" "$part" >&2
    exit 2
    ;;
esac
passed=()
for set in "$@"; do
  folders=
  if [ "$set" = sanitized ]; then
    say "of the sanitizers, part $part (REWIRE_PART=$part repeats it)"
    folders=${parts[${part%/4}]:-}
    set=${folders:+asan}
    set=${set:-tsan}
  fi
  case "$set" in
    release)
      build release
      check release --label-exclude full
      ;;
    full)
      build release
      (
        unset REWIRE_SLICE
        export HOSTILE_ALL=1
        check release --timeout 14400
        build asan fuzzers
        check asan --label-regex fuzz
      )
      ;;
    bare)
      build bare floor_tests
      rest=(--no-tests=error)
      if [[ " ${passed[*]} " == *" release "* ]]; then
        same=$(same_tests)
        rest=(--no-tests=ignore --exclude-regex "^($same)\$")
        say "leaving out tests that passed in release, whose program is the same here: ${same//|/ }"
      fi
      (
        unset REWIRE_REQUIRE_NVRTC
        export REWIRE_CUDA_DRIVER=/nowhere REWIRE_NVRTC=/nowhere REWIRE_CUBLASLT=/nowhere REWIRE_CUFFT=/nowhere
        export REWIRE_CUDNN=/nowhere
        check_folders bare 'ir* codegen* runtime*' --label-exclude slow "${rest[@]}"
      )
      ;;
    asan)
      if [ -z "$folders" ]; then
        build asan
        check asan --label-exclude 'slow|program'
      else
        build asan $(cd tests && printf 'tests/%s/all ' $folders) $(case "$folders" in *plugins*) echo rewire rewire_plugins ;; esac)
        check_folders asan "$folders" --no-tests=ignore --label-exclude 'slow|program'
      fi
      ;;
    asan-program)
      build asan cli_test terminal_test rewire rewire_plugins
      check asan --label-regex program
      ;;
    tsan)
      build tsan threaded_tests
      check tsan --label-regex threads
      ;;
  esac
  passed+=("$set")
done
say "passed in $SECONDS s: $*"
