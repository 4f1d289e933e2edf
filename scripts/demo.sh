#!/usr/bin/env bash
# Installs what is missing, builds, and trains the main recipe: a vision transformer with orthogonal residual
# updates on Fashion-MNIST. Says where the run folder is.
#
#   scripts/demo.sh [TRAIN OPTION…]     e.g. --plugin none, --set seed=1; paths in them start at the repository
#
# JOBS bounds the parallel compiles (default: the machine's cores).
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
say() { printf 'demo: %s\n' "$*"; }

./scripts/setup.sh
say "packages took $SECONDS s"
mkdir -p build
say "building release into build/release"
cmake --preset release >build/release.configure.log || { cat build/release.configure.log >&2; exit 1; }
SECONDS=0
cmake --build build/release --parallel "$jobs" --target rewire rewire_plugins
say "building took $SECONDS s"
SECONDS=0
say "training examples/recipes/fashion_vit.toml"
build/release/bin/rewire train examples/recipes/fashion_vit.toml "$@"
say "training took $SECONDS s"
