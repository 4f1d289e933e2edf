#!/usr/bin/env bash
# Proves that the packages of scripts/wheel.sh need nothing: installs each in minimal systems, which get Python and no
# compiler, and trains there; then adds a compiler, builds a plugin against the package and trains with that.
#
#   tests/fresh/wheel.sh [bookworm] [trixie] [jammy] [noble]    bookworm and trixie if none is named: two minutes each
#
# Takes the packages in dist/, and numpy and safetensors as wheels in the folder WHEELHOUSE, which `pip download` fills.
# tests/fresh/run.sh says what else it needs.
set -euo pipefail
cd "$(dirname "$0")"
exec ./run.sh --copy ../../dist --copy "${WHEELHOUSE:?names a folder with wheels of numpy and safetensors}" \
  --command "tests/fresh/inside_wheel.sh ~/dist ~/$(basename "$WHEELHOUSE")" "$@"
