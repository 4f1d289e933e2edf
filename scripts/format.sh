#!/usr/bin/env bash
# Lays out the C++ sources as .clang-format says. With --check it changes nothing: it names what is laid out otherwise
# and exits with 1. By clang-format 19 alone: another version breaks other lines.
set -euo pipefail
cd "$(dirname "$0")/.."

options=(-i)
case "${1:-}" in
  '') ;;
  --check) options=(--dry-run --Werror) ;;
  *)
    printf "format: unknown argument '%s'; it takes --check\n" "$1" >&2
    exit 2
    ;;
esac
command -v clang-format-19 >/dev/null || { echo 'format: there is no clang-format-19; scripts/setup.sh installs it' >&2; exit 1; }
find bench cli codegen examples ir models plugins programs runtime tests \( -name '*.cpp' -o -name '*.h' -o -name '*.hpp' \) -print0 |
  xargs -0 -n 64 -P 2 clang-format-19 "${options[@]}"
