#!/usr/bin/env bash
# Draws docs/pictures/TRANSFORM.png, what each transform does to docs/pictures/original.png, which stands at the left.
#
#   scripts/pictures.sh     the build folder is BUILD (default: build/release)
set -euo pipefail
cd "$(dirname "$0")/../docs/pictures"

rewire="$PWD/../../${BUILD:-build/release}/bin/rewire"
draw() {  # NAME SEED KEY=VALUE…
  local name=$1 seed=$2 settings=()
  shift 2
  for setting in "$@"; do settings+=(--set "transforms.$setting"); done
  "$rewire" data try original.png --output "$name.png" --count 6 --size 96 --seed "$seed" "${settings[@]}"
}

draw resized_crop 0 resize=bicubic 'scale=[0.08, 1]'
draw random_crop 0 crop_padding=12
draw horizontal_flip 2 horizontal_flip=true
draw color_jitter 0 'color_jitter=[0.4, 0.4, 0.4, 0.1]'
draw rand_augment 0 rand_augment=torchvision
draw grayscale 1 grayscale_prob=0.5
draw gaussian_blur 0 blur_prob=1 'blur_sigma=[0.1, 2]'
draw solarize 3 solarize_prob=0.5
draw composed 0 resize=bicubic 'scale=[0.25, 1]' horizontal_flip=true 'color_jitter=[0.3, 0.3, 0.3, 0]' erase_prob=0.5
draw random_erasing 0 erase_prob=1 erase_mode=pixel 'mean=[0.5]' 'std=[0.25]'

# They take images of a batch, here of Fashion-MNIST.
for name in mixup cutmix; do
  "$rewire" data preview vit_tiny_28 --output "$name.png" --images 8 --batch 4 --set "transforms.$name=1" \
    --set objective.targets=probabilities
done
