#!/usr/bin/env bash
# Formats C++ sources as .clang-format says: those that differ from HEAD, or all.
#
#   scripts/format.sh           the changed and new ones
#   scripts/format.sh --all     all of them
#   scripts/format.sh --check   changes nothing; names each source that is not formatted, and exits with 1
#
# Needs clang-format 19: other versions break lines in other places.
set -euo pipefail
cd "$(dirname "$0")/.."

folders=(bench cli codegen examples formula ir models plugins programs runtime tests)
options=(-i)
case "${1:-}" in
  '') ;;
  --all) ;;
  --check) options=(--dry-run --Werror) ;;
  *)
    printf "format: unknown argument '%s'; it takes --all or --check\n" "$1" >&2
    exit 2
    ;;
esac
command -v clang-format-19 >/dev/null || { echo 'format: there is no clang-format-19; scripts/setup.sh installs it' >&2; exit 1; }
if [ -z "${1:-}" ]; then
  git rev-parse HEAD >/dev/null
  {
    git diff -z --name-only --diff-filter=d HEAD -- "${folders[@]}"
    git ls-files -z --others --exclude-standard -- "${folders[@]}"
  } | { grep -zE '\.(cpp|h|hpp)$' || true; }
else
  find "${folders[@]}" \( -name '*.cpp' -o -name '*.h' -o -name '*.hpp' \) -print0
fi | xargs -0 -r -n 64 -P 2 clang-format-19 "${options[@]}"
