#!/usr/bin/env bash
# Runs clang-tidy, as .clang-tidy says, over C++ sources, and exits with 1 on a finding. Meant for those that a change
# touches: all of them take hours.
#
#   scripts/tidy.sh             what differs from HEAD's parent
#   scripts/tidy.sh COMMIT      what differs from COMMIT
#   scripts/tidy.sh FILE.cpp…   these
#
# Needs clang-tidy-19, which `scripts/setup.sh contribute` installs.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v clang-tidy-19 >/dev/null || { echo 'tidy: there is no clang-tidy-19; scripts/setup.sh contribute installs it' >&2; exit 1; }
if [ $# -gt 0 ] && [ -e "$1" ]; then
  files=("$@")
else
  mapfile -t files < <(git diff --name-only --diff-filter=d "${1:-HEAD~1}" -- '*.cpp')
fi
[ ${#files[@]} -gt 0 ] || { echo 'tidy: no source differs'; exit 0; }
mkdir -p build
cmake --preset dev >build/dev.configure.log || { cat build/dev.configure.log >&2; exit 1; }
echo "tidy: ${#files[@]} sources"
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "${JOBS:-$(nproc)}" clang-tidy-19 -p build/dev --quiet --warnings-as-errors='*'
