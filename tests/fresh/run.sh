#!/usr/bin/env bash
# Proves that a fresh Debian needs nothing but this repository: makes minimal systems with debootstrap (no
# compiler, no CMake), copies the committed tree into each and runs one command there: scripts/demo.sh in the first,
# scripts/test.sh in the second, and what they install again, which must find nothing to do.
#
#   tests/fresh/run.sh [--command 'CMD']… [bookworm] [trixie]       both releases if none is named; a system each command
#
# Needs root, debootstrap and some 6 GB below $TMPDIR; takes an hour and more, so CI leaves it out. MIRROR names another Debian
# mirror, CCACHE_DIR a folder of compiled objects that the systems share; without it each compiles all.
set -euo pipefail
cd "$(dirname "$0")/../.."

commands=()
releases=()
while [ $# -gt 0 ]; do
  case "$1" in
    --command)
      commands+=("${2:?--command takes the shell command to run}")
      shift 2
      ;;
    bookworm | trixie)
      releases+=("$1")
      shift
      ;;
    *)
      printf "fresh: unknown argument '%s'; it takes --command CMD, bookworm, trixie\n" "$1" >&2
      exit 2
      ;;
  esac
done
[ ${#releases[@]} -gt 0 ] || releases=(bookworm trixie)
again="./scripts/setup.sh | grep 'packages are installed'"
[ ${#commands[@]} -gt 0 ] || commands=("./scripts/demo.sh && $again" "./scripts/test.sh && $again")
[ "$(id -u)" -eq 0 ] || { echo 'fresh: debootstrap and chroot need root' >&2; exit 1; }
command -v debootstrap >/dev/null || { echo 'fresh: install debootstrap first' >&2; exit 1; }

try() {  # try RELEASE COMMAND
  local release=$1 command=$2 cache=${CCACHE_DIR:-}
  root=$(mktemp -d "${TMPDIR:-/tmp}/rewire-fresh-$release.XXXXXX")
  trap 'rm -rf "$root"' EXIT
  chmod 755 "$root"
  echo "fresh: $release in $root: $command"
  debootstrap --variant=minbase "$release" "$root" "${MIRROR:-http://deb.debian.org/debian}" >"$root.log" 2>&1 ||
    { tail -n 5 "$root.log" >&2; exit 1; }
  rm -f "$root.log"
  cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
  mkdir -p "$root/root/rewire" "$root/root/.cache/ccache"
  git archive HEAD | tar -x -C "$root/root/rewire"
  # A mount namespace of its own: /proc, /dev and the cache vanish with it, whatever happens.
  unshare --mount bash -euc '
    mount --bind /proc "$1/proc"; mount --rbind /dev "$1/dev"
    [ -z "$3" ] || mount --bind "$3" "$1/root/.cache/ccache"
    chroot "$1" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
      bash -ec "cd /root/rewire; $2"' fresh "$root" "$command" "$cache"
  echo "fresh: $release passed: $command"
  rm -rf "$root"
  trap - EXIT
}

for release in "${releases[@]}"; do
  for command in "${commands[@]}"; do try "$release" "$command"; done
done
