#!/usr/bin/env bash
# Proves that a fresh Debian needs nothing but this repository: makes minimal systems with debootstrap (no
# compiler, no CMake), copies the committed tree into each and runs one command there: scripts/demo.sh in the first,
# scripts/test.sh in the second, and what they install again, which must find nothing to do.
#
#   tests/fresh/run.sh [--quick] [--user] [--copy FOLDER]… [--command 'CMD']… [bookworm] [trixie] [jammy] [noble]
#                       both releases of Debian if none is named; a system each command
#     --quick           the demo alone, its training cut after 60 steps: some ten minutes a release
#     --copy FOLDER     puts the folder into the home of the system
#     --user            as an ordinary user who may use sudo, instead of root
#
# Needs root, debootstrap and some 6 GB below $TMPDIR; takes an hour and more, so CI leaves it out. MIRROR names another Debian
# mirror, UBUNTU_MIRROR one for jammy and noble, CCACHE_DIR a folder of compiled objects that the systems share; without it each compiles all.
set -euo pipefail
cd "$(dirname "$0")/../.."

commands=()
copies=()
releases=()
quick=
user=
while [ $# -gt 0 ]; do
  case "$1" in
    --command)
      commands+=("${2:?--command takes the shell command to run}")
      shift 2
      ;;
    --copy)
      copies+=("$(realpath -e "${2:?--copy takes a folder}")")
      shift 2
      ;;
    --quick | --user)
      declare "${1#--}=1"
      shift
      ;;
    bookworm | trixie | jammy | noble)
      releases+=("$1")
      shift
      ;;
    *)
      printf "fresh: unknown argument '%s'; it takes --quick, --user, --copy FOLDER, --command CMD, bookworm, trixie, jammy, noble\n" "$1" >&2
      exit 2
      ;;
  esac
done
[ ${#releases[@]} -gt 0 ] || releases=(bookworm trixie)
again="./scripts/setup.sh | grep 'packages are installed'"
if [ -n "$quick" ]; then
  commands+=("./scripts/demo.sh --set train.epochs=1 --set train.max_steps=60 && $again")
elif [ ${#commands[@]} -eq 0 ]; then
  commands=("./scripts/demo.sh && $again" "./scripts/test.sh && $again")
fi
[ "$(id -u)" -eq 0 ] || { echo 'fresh: debootstrap and chroot need root' >&2; exit 1; }
command -v debootstrap >/dev/null || { echo 'fresh: install debootstrap first' >&2; exit 1; }

try() {  # try RELEASE COMMAND
  local release=$1 command=$2 cache=${CCACHE_DIR:-} home=/root began=$SECONDS
  [ -z "$user" ] || { home=/home/rewire cache=; }  # whose cache it is stays as it is
  root=$(mktemp -d "${TMPDIR:-/tmp}/rewire-fresh-$release.XXXXXX")
  trap 'rm -rf "$root"' EXIT
  chmod 755 "$root"
  echo "fresh: $release in $root: $command"
  local mirror=${MIRROR:-http://deb.debian.org/debian} options=(--variant=minbase) steps=/usr/share/debootstrap/scripts/$release
  case "$release" in
    jammy | noble)
      mirror=${UBUNTU_MIRROR:?names the mirror for $release}
      options+=(--components=main,universe)
      [ -e "$steps" ] || steps=${steps%/*}/jammy  # Debian 12's debootstrap does not know noble, and takes the same steps
      ;;
  esac
  debootstrap "${options[@]}" "$release" "$root" "$mirror" "$steps" >"$root.log" 2>&1 ||
    { tail -n 5 "$root.log" >&2; exit 1; }
  rm -f "$root.log"
  cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
  echo '127.0.0.1 localhost' >"$root/etc/hosts"  # as an installed system has it
  mkdir -p "$root$home/rewire" "$root$home/.cache/ccache"
  git archive HEAD | tar -x -C "$root$home/rewire"
  for folder in "${copies[@]}"; do cp -r "$folder" "$root$home/"; done
  # A mount namespace of its own: /proc, /dev and the cache vanish with it, whatever happens.
  unshare --mount bash -euc '
    mount --bind /proc "$1/proc"; mount --rbind /dev "$1/dev"
    [ -z "$3" ] || mount --bind "$3" "$1$4/.cache/ccache"
    as=()
    if [ "$4" != /root ]; then
      chroot "$1" sh -ec "apt-get -qq update; apt-get -qq install --yes --no-install-recommends sudo >/dev/null 2>&1
        useradd rewire; chown -R rewire $4; echo \"rewire ALL=(ALL) NOPASSWD: ALL\" >/etc/sudoers.d/rewire"
      as=(--userspec=rewire)
    fi
    chroot "${as[@]}" "$1" env -i HOME="$4" PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
      bash -ec "cd $4/rewire; $2"' fresh "$root" "$command" "$cache" "$home"
  echo "fresh: $release passed in $((SECONDS - began)) s: $command"
  rm -rf "$root"
  trap - EXIT
}

for release in "${releases[@]}"; do
  for command in "${commands[@]}"; do try "$release" "$command"; done
done
