#!/usr/bin/env bash
# What tests/fresh/wheel.sh runs in each system: inside_wheel.sh PACKAGES WHEELHOUSE.
set -euo pipefail
packages=$1 wheelhouse=$2
cd "$(mktemp -d)"
say() { printf 'wheel: %s (%s s)\n' "$*" "$SECONDS"; }
get() { DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$@" >/dev/null 2>&1; }
# The network is small; the steps need every kind of kernel, and oneDNN.
small=(--set model.dim=24 --set model.depth=2 --set data.format=synthetic --set data.count=160 --set train.batch=8 --set train.epochs=1)
fits() {  # PROGRAM OUT: it trains, with a plugin that it finds, and reads the run
  "$1" doctor
  "$1" plugins | grep '^orthogonal ' >/dev/null
  "$1" train vit_tiny_28 "${small[@]}" --plugin orthogonal --out "$2" >/dev/null
  "$1" eval "$2"
}

apt-get -qq update
get python3 python3-venv zstd
! command -v g++ gcc cc >/dev/null
say "Python is installed, and no compiler"

python3 -m venv venv
venv/bin/pip install --quiet --no-index --find-links "$wheelhouse" "$packages"/*.whl
PATH=$PWD/venv/bin:$PATH
say "the wheel is installed"
fits rewire run
rewire export run --format torch --output network.py
python -c 'import rewire; print(rewire.command.find(), len(rewire.metrics("run", kind="eval")), "row")'
python -m rewire.export --help | grep timm: >/dev/null
share=$(dirname "$(python -c 'import rewire; print(rewire.__file__)')")/share
rewire dump "$share/rewire/recipes/fashion_vit.toml" | grep '^module ' >/dev/null
status=0
rewire dump nowhere 2>/dev/null || status=$?
[ $status -eq 2 ]
# With job control, and whatever this script inherits, a program in the background can be interrupted.
set -m
env --default-signal=INT rewire train vit_tiny_28 "${small[@]}" --set train.epochs=1000 --out stopped >/dev/null 2>&1 &
set +m
until [ -s stopped/metrics.jsonl ]; do sleep .1; done
kill -INT $!
status=0
wait $! || status=$?
[ $status -eq 130 ]
say "the wheel trains, exports, fails with 2, is interrupted with 130"

tar --extract --zstd --file "$packages"/*.tar.zst
fits "$(echo "$PWD"/rewire-*/bin/rewire)" unpacked
say "the archive trains"
dpkg --install "$packages"/*.deb >/dev/null
fits /usr/bin/rewire installed
say "the .deb trains"
# A system without the C++ library, in which apt would not work either.
hidden=$(ldconfig -p | awk '$1 == "libstdc++.so.6" {print $NF; exit}')
hidden=$(realpath "$hidden")
mv "$hidden" "$hidden.away" && ldconfig
fits /usr/bin/rewire without
mv "$hidden.away" "$hidden" && ldconfig
say "the .deb trains without libstdc++.so.6"
dpkg --remove rewire >/dev/null
hash -r

get g++ cmake make
say "g++ $(g++ -dumpfullversion) and $(cmake --version | head -n 1) are installed"
build=$(rewire plugin new mine | grep '^  cmake ')
eval "$build" >/dev/null
rewire plugin test mine/build/mine.so
rewire train vit_tiny_28 "${small[@]}" --plugin mine/build/mine.so:start=0.5 --out mine/run >/dev/null
rewire eval mine/run
say "a plugin is built against the wheel, tested, and trains"
