"""Writes goldens/augment.safetensors: what Pillow makes of images for timm's and torchvision's RandAugment. See README.md.

`op.K.image` is an image, `.fill` what comes from outside, `.NAME` the answers: NAME is an op, its argument and, of maps, the
interpolation, as in `rotate:27.0:bicubic`. `timm.IMAGE.MAGNITUDE.OP.SIGN.INTERPOLATION` and `torchvision.IMAGE.BIN.OP.SIGN` are
answers of the libraries' own RandAugment to `colour`, `grey` and `pixel`, `op` counting in the order of their lists; SIGN and
INTERPOLATION are left out where the op has none.
"""
import pathlib
import random

import numpy
from PIL import Image, ImageEnhance, ImageOps
from safetensors.numpy import save_file
from timm.data import auto_augment
from torchvision.transforms import InterpolationMode, autoaugment

SEED = 19
numbers = numpy.random.default_rng(SEED)
tensors = {}
INTERPOLATIONS = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def picture(height, width, channels=3, low=0, high=255):
    """Smooth, with edges and noise, as photographs are."""
    y, x = numpy.mgrid[0:height, 0:width]
    planes = [128 + 90 * numpy.sin(x / (3 + c) + y / (5 - c)) + 40 * ((x // 7 + y // 5) % 2) for c in range(channels)]
    noisy = numpy.stack(planes, axis=-1) + numbers.normal(0, 8, (height, width, channels))
    return numpy.clip(noisy, low, high).astype(numpy.uint8)


def image_of(array):
    return Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array)


def planes(image):
    array = numpy.asarray(image)
    return numpy.ascontiguousarray(array[None] if array.ndim == 2 else array.transpose(2, 0, 1))


ARRAYS = [picture(19, 67, low=20, high=200), numbers.integers(0, 256, (9, 13, 3), dtype=numpy.uint8), picture(31, 5, 1),
          picture(1, 1), numpy.full((9, 11, 3), 77, numpy.uint8), picture(2, 3)]
for number, array in enumerate(ARRAYS):
    image = image_of(array)
    fill = (124, 116, 104) if image.mode == "RGB" else 93
    name = f"op.{number}"
    tensors[f"{name}.image"] = planes(image)
    tensors[f"{name}.fill"] = numpy.array(fill, numpy.uint8).reshape(-1)
    made = {"posterize:3": ImageOps.posterize(image, 3), "solarize_add:99": auto_augment.solarize_add(image, 99),
            "invert:0": ImageOps.invert(image), "auto_contrast:0": ImageOps.autocontrast(image), "equalize:0": ImageOps.equalize(image)}
    for factor in (0.1, 0.7, 1.9):
        made[f"sharpness:{factor}"] = ImageEnhance.Sharpness(image).enhance(factor)
    for interpolation, number in INTERPOLATIONS.items():
        options = {"resample": number, "fillcolor": fill}
        maps = {"shear_x": lambda v: (1, v, 0, 0, 1, 0), "shear_y": lambda v: (1, 0, 0, v, 1, 0),
                "translate_x": lambda v: (1, 0, v, 0, 1, 0), "translate_y": lambda v: (1, 0, 0, 0, 1, v)}
        for degrees in (27.0, -8.5):
            made[f"rotate:{degrees}:{interpolation}"] = image.rotate(degrees, **options)
        for op, argument in (("shear_x", -0.27), ("shear_y", 0.13), ("translate_x", -4), ("translate_y", 3)):
            if interpolation != "nearest" and op.startswith("translate"):
                argument *= 1.37
            made[f"{op}:{argument}:{interpolation}"] = image.transform(image.size, Image.Transform.AFFINE, maps[op](argument), **options)
    for key, value in made.items():
        tensors[f"{name}.{key}"] = planes(value)

IMAGES = {"colour": image_of(picture(11, 14)), "grey": image_of(picture(9, 7, 1)), "pixel": image_of(picture(1, 1))}
SIGNED = {"Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY", "TranslateXRel", "TranslateYRel", "Brightness", "Color", "Contrast",
          "Sharpness", "BrightnessIncreasing", "ColorIncreasing", "ContrastIncreasing", "SharpnessIncreasing"}
MAPS = {"Rotate", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel"}

for name, image in IMAGES.items():
    tensors[f"{name}.image"] = planes(image)
    for magnitude in (3.7, 9.0):
        for number, op in enumerate(auto_augment._RAND_INCREASING_TRANSFORMS):
            for sign in (1, -1) if op in SIGNED else (0,):
                for interpolation in ("bilinear", "bicubic") if op in MAPS else ("",):
                    hparams = {"img_mean": (128, 128, 128) if image.mode == "RGB" else 128}
                    if interpolation:
                        hparams["interpolation"] = INTERPOLATIONS[interpolation]
                    # timm negates where the number is above one half.
                    random.random = lambda sign=sign: 0.75 if sign < 0 else 0.25
                    made = auto_augment.AugmentOp(op, prob=1.0, magnitude=magnitude, hparams=hparams)(image)
                    key = f"timm.{name}.{magnitude}.{number}"
                    key += f".{sign}" if sign else ""
                    tensors[key + (f".{interpolation}" if interpolation else "")] = planes(made)
    for bin_ in (9, 26):
        space = autoaugment.RandAugment()._augmentation_space(31, (image.size[1], image.size[0]))
        for number, (op, (magnitudes, signed)) in enumerate(space.items()):
            for sign in (1, -1) if signed else (0,):
                magnitude = float(magnitudes[bin_].item()) if magnitudes.ndim > 0 else 0.0
                made = autoaugment._apply_op(image, op, magnitude * (sign or 1), InterpolationMode.NEAREST, None)
                tensors[f"torchvision.{name}.{bin_}.{number}" + (f".{sign}" if sign else "")] = planes(made)

save_file(tensors, pathlib.Path(__file__).parent / "goldens" / "augment.safetensors")
