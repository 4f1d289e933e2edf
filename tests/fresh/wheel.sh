#!/usr/bin/env bash
# Proves that the packages of scripts/wheel.sh need nothing: installs each in minimal systems, which get Python and no
# compiler, and trains there; then adds a compiler, builds a plugin against the package and trains with that.
#
#   tests/fresh/wheel.sh [bookworm] [trixie] [jammy] [noble]    bookworm and trixie if none is named: two minutes each
#
# Takes the packages in dist/, and numpy and safetensors as wheels in the folder WHEELHOUSE, which `pip download` fills.
# tests/fresh/run.sh says what else it needs.
set -euo pipefail
wheelhouse=$(realpath -e "${WHEELHOUSE:?names a folder with wheels of numpy and safetensors}")
exec "$(dirname "$0")/run.sh" --copy dist --copy "$wheelhouse" \
  --command "tests/fresh/inside_wheel.sh ~/dist ~/$(basename "$wheelhouse")" "$@"
