#!/usr/bin/env bash
# Installs what Rewire is built and tested with, on Debian 12 or 13, or Ubuntu 24.04. Says what it does; does nothing when
# all of it is there. Uses sudo unless it runs as root. On Ubuntu 24.04 only this script and half of a build were run.
#
#   scripts/setup.sh             what the build needs
#   scripts/setup.sh tests       and what some tests need besides: a browser, shells, man, MPI
#   scripts/setup.sh contribute  and what scripts/tidy.sh needs
#   scripts/setup.sh package     what the build and scripts/wheel.sh need
set -euo pipefail

say() { printf 'setup: %s\n' "$*"; }
fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

[ -r /etc/os-release ] || fail "this system has no /etc/os-release; the script knows Debian 12 and 13, Ubuntu 24.04"
# shellcheck source=/dev/null
. /etc/os-release
case "${ID:-}:${VERSION_ID:-}" in
  debian:12) boost=1.81 ;;
  debian:13 | ubuntu:24.04) boost=1.83 ;;
  ubuntu:22.04) fail "Ubuntu 22.04 has no LLVM 19, no toml++ and an older CMake; install the wheel or .deb: docs/start/install.md" ;;
  *) fail "${PRETTY_NAME:-this system} is none of Debian 12, Debian 13 and Ubuntu 24.04; install the packages listed in scripts/setup.sh by hand" ;;
esac

packages=(
  # the build
  g++ cmake ninja-build ccache mold
  # the compiler's backends
  llvm-19-dev llvm-19-tools libzstd-dev libedit-dev libdnnl-dev libopenblas-dev liblapacke-dev libfftw3-dev
  # the runtime and the command line
  "libboost$boost-dev" "libboost-context$boost-dev" zlib1g-dev libjpeg-dev libpng-dev libarchive-dev libfmt-dev libspdlog-dev nlohmann-json3-dev
  libtomlplusplus-dev libcli11-dev libdtl-dev libprotobuf-dev protobuf-compiler libpcre2-dev libsentencepiece-dev
  # the tests: unit tests, libFuzzer targets, layout, real data (images; the text that data.format=text reads by default)
  catch2 clang clang-format-19 libclang-rt-dev dataset-fashion-mnist perl-doc
)

extra=()
browser=(chromium chromium-driver)
[ "$ID" != ubuntu ] || browser=()  # Ubuntu has it as a snap: install one by hand, or the tests of pages are skipped
case "${1:-}" in
  '') ;;
  # the explorer's pages; completion at a terminal; manual pages; the bundle of scripts/gpu/pack.sh; several processes
  tests | contribute) extra=("${browser[@]}" python3-selenium zsh fish python3-pexpect man-db groff-base xz-utils openmpi-bin) ;;
  package) packages+=(patchelf python3 zstd) ;;
  *) fail "unknown argument '$1'; it takes tests, contribute or package" ;;
esac

[ "${1:-}" != contribute ] || packages+=(clang-tidy-19)

missing_of() {  # PACKAGE…: those that are not installed, a line each
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || printf '%s\n' "$package"
  done
}
mapfile -t missing < <(missing_of "${packages[@]}")
mapfile -t missing_extra < <(missing_of "${extra[@]}")
if [ ${#missing[@]} -eq 0 ] && [ ${#missing_extra[@]} -eq 0 ]; then
  say "all $((${#packages[@]} + ${#extra[@]})) packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || fail "not root, and there is no sudo; as root, install: ${missing[*]} ${missing_extra[*]}"
  as_root=(sudo)
fi
apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
"${as_root[@]}" "${apt[@]}" update || say "the lists of packages could not be brought up to date"
install() {
  say "installing $*"
  "${as_root[@]}" "${apt[@]}" install --yes --no-install-recommends "$@" >/dev/null && say "installed $# packages"
}
[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"
[ ${#missing_extra[@]} -eq 0 ] || install "${missing_extra[@]}" ||
  say "not all of these could be installed: tests that need the others are skipped"
