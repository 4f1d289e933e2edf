#!/usr/bin/env bash
# Proves that a fresh Debian needs nothing but this repository: makes a minimal system with debootstrap (no
# compiler, no CMake), copies the committed tree into it and runs scripts/test.sh and scripts/demo.sh there.
#
#   tests/fresh/run.sh [--command 'CMD'] [bookworm] [trixie]        both releases if none is named
#
# Needs root, debootstrap and some 6 GB below $TMPDIR for each release; takes most of an hour, so CI leaves it out.
# MIRROR names another Debian mirror.
set -euo pipefail
cd "$(dirname "$0")/../.."

command='./scripts/test.sh && ./scripts/demo.sh'
releases=()
while [ $# -gt 0 ]; do
  case "$1" in
    --command)
      command=${2:?--command takes the shell command to run}
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
[ "$(id -u)" -eq 0 ] || { echo 'fresh: debootstrap and chroot need root' >&2; exit 1; }
command -v debootstrap >/dev/null || { echo 'fresh: install debootstrap first' >&2; exit 1; }

for release in "${releases[@]}"; do
  root=$(mktemp -d "${TMPDIR:-/tmp}/rewire-fresh-$release.XXXXXX")
  trap 'rm -rf "$root"' EXIT
  chmod 755 "$root"
  echo "fresh: $release in $root"
  debootstrap --variant=minbase "$release" "$root" "${MIRROR:-http://deb.debian.org/debian}" >"$root.log" 2>&1 ||
    { tail -n 5 "$root.log" >&2; exit 1; }
  rm -f "$root.log"
  cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
  mkdir -p "$root/root/rewire"
  git archive HEAD | tar -x -C "$root/root/rewire"
  # A mount namespace of its own: /proc and /dev vanish with it, whatever happens.
  unshare --mount bash -euc '
    mount --bind /proc "$1/proc"; mount --rbind /dev "$1/dev"
    chroot "$1" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
      bash -ec "cd /root/rewire; $2"' fresh "$root" "$command"
  echo "fresh: $release passed"
  rm -rf "$root"
  trap - EXIT
done
