#!/usr/bin/env bash
# Makes the packages for a machine without a compiler, without this project's dependencies and without a network. Each holds
# one install tree: the command, the plugins, the SDK, recipes, manual pages, and all libraries but the C library's.
#
#   scripts/wheel.sh    dist/rewire-VERSION-py3-none-manylinux_2_N_x86_64.whl, with the Python package
#                       dist/rewire-VERSION-linux-x86_64.tar.zst
#                       dist/rewire_VERSION_amd64.deb
#
# The tag is computed: 2.N is the newest version of the C library that a file of the tree needs. On Debian 12 it must not be
# above 2.35, that of Ubuntu 22.04. A tree gives the same bytes each time; SOURCE_DATE_EPOCH or the commit dates them.
# JOBS bounds the parallel compiles (default: the machine's cores). docs/start/install.md says how the packages are used.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
limit=$((60 * 1000 * 1000))  # bytes of a package
newest=35                    # 2.N, where this is Debian 12
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1 LC_ALL=C
say() { printf 'wheel: %s\n' "$*"; }
fail() {
  printf 'wheel: %s\n' "$*" >&2
  exit 1
}
for tool in patchelf zstd dpkg-deb; do command -v $tool >/dev/null || fail "$tool is missing: run scripts/setup.sh package"; done
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat --format=%Y LICENSE)}
export SOURCE_DATE_EPOCH
version=$(sed -nE 's/^project\(rewire VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)

say "building bundle into build/bundle"
mkdir -p build dist
cmake --preset bundle ${REWIRE_WERROR:+-DREWIRE_WERROR="$REWIRE_WERROR"} >build/bundle.configure.log || { cat build/bundle.configure.log >&2; exit 1; }
cmake --build build/bundle --parallel "$jobs" --target rewire nvrtc-worker sentencepiece-worker rewire_plugins man_pages
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/rewire-$version
umask 022
cmake --install build/bundle --prefix "$tree" --strip >"$work/install.log" || fail "$(tail -n 3 "$work/install.log")"

# The libraries that the programs are linked to, and those that they open by name (runtime/linalg/lapack.cpp).
bundled=$tree/lib/rewire/bundled fallback=$tree/lib/rewire/bundled/fallback
mkdir -p "$fallback" "$tree/share/doc/rewire/licenses"
system='^(linux-vdso|ld-linux-x86-64|libc|libm|libdl|libpthread|librt)\.so'
cxx='^(libstdc\+\+|libgcc_s)\.so'
path_of() { ldconfig -p | awk -v name="$1" '$1 == name && !found++ {print $NF}'; }
lapack=$(path_of liblapack.so.3)
[ -n "$lapack" ] || fail "liblapack.so.3 is not installed here: run scripts/setup.sh"
sources=()  # the files that are copied or linked in; their packages have the licenses
while read -r name path; do
  [[ $name =~ $system ]] && continue
  sources+=("$path")
  [[ $name =~ $cxx ]] || install -m 644 "$path" "$bundled/$name"
done < <({ for file in "$tree/bin/rewire" "$tree"/libexec/rewire/*-worker "$lapack"; do ldd "$file"; done
  echo "liblapack.so.3 => $lapack"; } | awk '$2 == "=>" {print $1, $3}' | sort -u)

# The C++ library. Programs and plugins of ours have it inside. oneDNN is linked to it, and so is a user's plugin, whose g++
# may be newer than ours. One process has one libstdc++.so.6, so it must be the newer one: the system's, which is at least as
# new as its C library. Only a system without any takes the fallback. It is made of the static library, because Debian 12's
# shared one needs arc4random of C library 2.36; the symbols have the versions that they have there.
where=/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:/usr/lib64:/usr/lib
for file in "$bundled"/*.so*; do
  ! readelf -d "$file" | grep -qE 'NEEDED.*\[libstdc\+\+' || patchelf --set-rpath "\$ORIGIN:$where:\$ORIGIN/fallback" "$file"
done
readelf -W --dyn-syms "$(path_of libstdc++.so.6)" |
  awk '$7 != "UND" && split($8, part, "@@") == 2 {names[part[2]] = names[part[2]] " " part[1] ";"}
       END {for (version in names) printf "%s { global:%s%s };\n", version, names[version], version == "GLIBCXX_3.4" ? " local: *;" : ""}' |
  sort >"$work/libstdc++.map"
gcc -O2 -fPIC -shared -s -o "$fallback/libstdc++.so.6" -Wl,-soname,libstdc++.so.6 "-Wl,--version-script=$work/libstdc++.map" \
  -Wl,--whole-archive "$(g++ -print-file-name=libstdc++.a)" -Wl,--no-whole-archive cmake/arc4random.c -lm -lgcc_s
install -m 644 "$(path_of libgcc_s.so.1)" "$fallback/"

# Licenses: of each package that a file comes from, Debian's copyright file.
sources+=("$(g++ -print-file-name=libstdc++.a)" /usr/lib/llvm-19/lib/libLLVMCore.a)
for part in libfftw3f.a libjpeg.a libpng.a libz.a libarchive.a libpcre2-8.a libprotobuf-lite.a; do sources+=("$(gcc -print-file-name=$part)"); done
for part in boost/version.hpp CLI/CLI.hpp dtl/dtl.hpp fmt/format.h nlohmann/json.hpp spdlog/spdlog.h toml++/toml.h; do sources+=("/usr/include/$part"); done
for path in "${sources[@]}"; do
  path=$(realpath "$path")
  package=$(dpkg -S "$path" 2>/dev/null || dpkg -S "${path#/usr}") || fail "no package has $path, so its license is unknown"
  package=${package%%:*}
  install -m 644 "/usr/share/doc/$package/copyright" "$tree/share/doc/rewire/licenses/$package"
done
install -m 644 LICENSE "$tree/share/doc/rewire/copyright"

# The newest version of the C library that a file needs: 2.N, the symbol, the file.
needed=$(find "$tree" -type f | while read -r file; do
  [ "$(head -c 4 "$file" | tr -d '\0')" = $'\x7fELF' ] || continue
  readelf -W --dyn-syms "$file" | awk -v file="${file#"$tree/"}" '$7 == "UND" && split($8, part, "@GLIBC_2.") == 2 {print part[2], part[1], file}'
done | sort -n | tail -n 1)
read -r minor symbol file <<<"$needed"
say "$file needs $symbol of C library 2.$minor, no file a newer one"
[ "$(. /etc/os-release && echo "$ID$VERSION_ID")" != debian12 ] || [ "$minor" -le $newest ] ||
  fail "$file needs $symbol@GLIBC_2.$minor; on Debian 12 nothing may be newer than 2.$newest"

find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
find "$tree" -type d -exec chmod 755 {} +
wheel=dist/rewire-$version-py3-none-manylinux_2_${minor}_x86_64.whl
archive=dist/rewire-$version-linux-x86_64.tar.zst
deb=dist/rewire_${version}_amd64.deb
python3 scripts/wheel.py "$tree" "$wheel"
tar --create --directory "$work" --sort=name --owner=0 --group=0 --numeric-owner "rewire-$version" | zstd -q -f -19 -T0 -o "$archive"
mkdir -p "$work/deb/DEBIAN"
mv "$tree" "$work/deb/usr"
cat >"$work/deb/DEBIAN/control" <<EOF
Package: rewire
Version: $version
Architecture: amd64
Maintainer: The authors of Rewire
Depends: libc6 (>= 2.$minor)
Section: science
Priority: optional
Description: compiler for residual connections
EOF
find "$work/deb" -maxdepth 1 -exec touch --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zzstd -z19 --build "$work/deb" "$deb" >/dev/null
for file in "$wheel" "$archive" "$deb"; do
  bytes=$(stat --format=%s "$file")
  say "$file: $((bytes / 1000 / 1000)) MB"
  [ "$bytes" -le $limit ] || fail "that is more than $((limit / 1000 / 1000)) MB"
done
say "took $SECONDS s"
