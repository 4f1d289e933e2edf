#!/usr/bin/env bash
# Makes the bundle that runs on a machine with an NVIDIA GPU and the CUDA toolkit, without a compiler, without this
# project's dependencies and without a network: the binary with LLVM inside, the strategies, the test that takes a device,
# the libraries that they are linked to or open at run time, and the benchmarks.
#
#   scripts/gpu/pack.sh [FILE]        default: build/gpu/rewire-gpu.tar.xz
#
# scripts/gpu/README.md says how it is used. What it is built on bounds where it runs; scripts/wheel.sh says how.
set -euo pipefail
cd "$(dirname "$0")/../.."

file=${1:-build/gpu/rewire-gpu.tar.xz}
jobs=${JOBS:-$(nproc)}
limit=$((50 * 1024 * 1024))
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
say() { printf 'pack: %s\n' "$*"; }

# Found in every system that runs the bundle, or older than that system's own: the C library, and oneDNN's C++ library.
system='^(linux-vdso|ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s)\.so'
tests=(device_check device_goldens)
# What PyTorch computed in float64: each family, each strategy, and all that autocast.json has.
goldens=(dino_even_plain dino_odd_orthogonal mae_none_plain mae_paper_augment pvt_three_augment pvt_two_plain resnet_post_plain
  resnetv2_basic_plain resnetv2_large_neck_orthogonal resnetv2_timm_augment sit_none_decay sit_unet_plain t2t_performer_plain
  t2t_transformer_augment vit_avg_orthogonal_global vit_avg_plain vit_clip_plain vit_deep_attnres vit_deep_denseformer
  vit_deep_hyper_mhc vit_deep_hyper_static vit_deep_laurel_previous vit_deep_layerscale vit_deep_x0_lambdas_backout
  vit_deep_postnorm_keel vit_deep_value_residual_learnable vit_odd_augment_dense
  vit_odd_decay_learnable vit_odd_orthogonal_probability vit_odd_skipless_attn vit_odd_tanh_plain vit_oru_orthogonal
  vit_registers_plain vit_slim_augment vit_slim_augment_stream vit_slim_decay vit_slim_decay_branch vit_slim_skipless
  vit_slim_tanh_plain vit_token_orthogonal_feature vit_token_plain)
# Opened by name at run time, so that ldd does not show them. CUDA's own libraries are the other machine's.
opened=(liblapack.so.3)  # runtime/linalg/lapack.cpp

say "building bundle into build/bundle"
mkdir -p build
# As the tests' own build has it, so that its objects are found again.
cmake --preset bundle ${REWIRE_WERROR:+-DREWIRE_WERROR="$REWIRE_WERROR"} >build/bundle.configure.log || { cat build/bundle.configure.log >&2; exit 1; }
cmake --build build/bundle --parallel "$jobs" --target rewire nvrtc-worker sentencepiece-worker rewire_plugins "${tests[@]}"

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
root=$tree/rewire-gpu
bundled=$root/lib/rewire/bundled
mkdir -p "$root"/{bin,lib/rewire/plugins,libexec/rewire,bench} "$bundled"
for program in rewire "${tests[@]}"; do
  strip -o "$root/bin/$program" "build/bundle/bin/$program"
done
for worker in nvrtc-worker sentencepiece-worker; do strip -o "$root/libexec/rewire/$worker" "build/bundle/libexec/rewire/$worker"; done
for plugin in build/bundle/lib/rewire/plugins/*.so; do strip -o "$root/lib/rewire/plugins/$(basename "$plugin")" "$plugin"; done
for name in "${opened[@]}"; do
  path=$(ldconfig -p | awk -v name="$name" '$1 == name && !found++ {print $NF}')
  [ -n "$path" ] || { say "$name is not installed here: run scripts/setup.sh" >&2; exit 1; }
  cp --dereference "$path" "$bundled/$name"
done
for program in "$root"/bin/* "$root"/libexec/rewire/* "$root"/lib/rewire/plugins/*.so "$bundled"/*.so*; do ldd "$program"; done |
  awk '$2 == "=>" {print $1, $3}' | sort -u | while read -r name path; do
    [[ $name =~ $system ]] || [ -e "$bundled/$name" ] || cp --dereference "$path" "$bundled/$name"
  done
cp bench/*.py "$root/bench/"
mkdir -p "$root/references/goldens"
cp tests/reference/autocast.json "$root/references/"
for name in "${goldens[@]}"; do cp "tests/reference/goldens/$name.safetensors" "$root/references/goldens/"; done
cp scripts/gpu/call.py scripts/gpu/variants.toml scripts/gpu/README.md "$root/"
{ git describe --always --dirty 2>/dev/null || echo unknown; } >"$root/commit"  # an archive has no history

mkdir -p "$(dirname "$file")"
# A dictionary that spans two programs: each has the same LLVM inside.
tar --create --directory "$tree" --sort=name --owner=0 --group=0 rewire-gpu | xz --lzma2=preset=2,dict=128MiB >"$file.tmp"
mv "$file.tmp" "$file"
bytes=$(stat --format=%s "$file")
say "$file: $((bytes / 1024 / 1024)) MiB"
[ "$bytes" -le "$limit" ] || { say "that is more than $((limit / 1024 / 1024)) MiB" >&2; exit 1; }
