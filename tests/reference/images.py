"""Writes goldens/images.safetensors: what Pillow reads of JPEG and PNG files and makes of images at other sizes. See README.md.

`large.NAME.bytes` is a file alone. `file.NAME.bytes` is a file, `.rgb` and `.grey` its pixels, u8 [channels, height, width]. `resize.K.image` is an image, `.frame` what is
asked of it (box: top, left, height, width; height and width it is scaled to; window: top, left, height, width), `.bilinear` and
`.bicubic` the answers. `colour.IMAGE` are images, `answer.OP.K.IMAGE` what Pillow makes of them with the number in `factor.OP`, f64[K],
at K: a factor, a share of the circle of hues, a deviation or a threshold.
"""
import io
import pathlib

import numpy
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from safetensors.numpy import save_file

SEED = 18
numbers = numpy.random.default_rng(SEED)
tensors = {}


def picture(height, width, channels=3):
    """Smooth, with edges and noise, as photographs are."""
    y, x = numpy.mgrid[0:height, 0:width]
    planes = [128 + 90 * numpy.sin(x / (3 + c) + y / (5 - c)) + 40 * ((x // 7 + y // 5) % 2) for c in range(channels)]
    noisy = numpy.stack(planes, axis=-1) + numbers.normal(0, 8, (height, width, channels))
    return numpy.clip(noisy, 0, 255).astype(numpy.uint8)


def planes(image):
    array = numpy.asarray(image)
    return numpy.ascontiguousarray(array[None] if array.ndim == 2 else array.transpose(2, 0, 1))


def add_file(name, image, kind, rgb=None, grey=None, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    read = Image.open(io.BytesIO(stream.getvalue()))
    colours = planes(read.convert("RGB")) if rgb is None else rgb
    tensors[f"file.{name}.bytes"] = numpy.frombuffer(stream.getvalue(), numpy.uint8).copy()
    tensors[f"file.{name}.rgb"] = colours
    tensors[f"file.{name}.grey"] = planes(Image.fromarray(colours.transpose(1, 2, 0)).convert("L")) if grey is None else grey


colour = Image.fromarray(picture(37, 53))
for sampling, subsampling in (("444", 0), ("422", 1), ("420", 2)):
    add_file(f"jpeg_{sampling}", colour, "JPEG", quality=90, subsampling=subsampling)
add_file("jpeg_progressive", colour, "JPEG", quality=75, progressive=True)
add_file("jpeg_grey", colour.convert("L"), "JPEG")
add_file("jpeg_cmyk", colour.convert("CMYK"), "JPEG", quality=95)
add_file("jpeg_one_pixel", Image.fromarray(picture(1, 1)), "JPEG")
add_file("png_rgb", colour, "PNG")
add_file("png_grey", colour.convert("L"), "PNG")
add_file("png_one_bit", colour.convert("1"), "PNG")
add_file("png_palette", colour.quantize(17), "PNG")
alpha = Image.fromarray(picture(19, 23, 4), "RGBA")
add_file("png_alpha", alpha, "PNG", rgb=planes(alpha)[:3])
deep = numbers.integers(0, 65536, (11, 13), dtype=numpy.uint16)
eight = ((deep.astype(numpy.int64) * 255 + 32895) >> 16).astype(numpy.uint8)
add_file("png_16_bits", Image.fromarray(deep), "PNG", rgb=numpy.stack([eight] * 3), grey=eight[None])

# Of these, parts are held to the whole as the test reads it: large enough that rows of blocks are passed over.
large = Image.fromarray(numpy.asarray(Image.fromarray(picture(51, 77)).resize((307, 203), Image.Resampling.BICUBIC)))
for name, options in (("420", dict(subsampling=2)), ("422", dict(subsampling=1)), ("444", dict(subsampling=0)),
                      ("420_progressive", dict(subsampling=2, progressive=True)),
                      ("420_restarts", dict(subsampling=2, restart_marker_blocks=5))):
    stream = io.BytesIO()
    large.save(stream, "JPEG", quality=55, **options)
    tensors[f"large.{name}.bytes"] = numpy.frombuffer(stream.getvalue(), numpy.uint8).copy()

CASES = [  # image, box, scaled to, window
    ((37, 53), (0, 0, 37, 53), (37, 53), (0, 0, 37, 53)),
    ((37, 53), (0, 0, 37, 53), (13, 17), (0, 0, 13, 17)),
    ((37, 53), (0, 0, 37, 53), (91, 64), (0, 0, 91, 64)),
    ((37, 53), (5, 9, 21, 30), (16, 16), (0, 0, 16, 16)),
    ((37, 53), (36, 52, 1, 1), (9, 7), (0, 0, 9, 7)),
    ((37, 53), (0, 3, 37, 2), (11, 40), (0, 0, 11, 40)),
    ((37, 53), (0, 0, 37, 53), (20, 28), (2, 6, 16, 16)),
    ((64, 200), (0, 0, 64, 200), (9, 28), (1, 10, 7, 7)),
    ((130, 127), (1, 2, 128, 125), (65, 70), (0, 0, 65, 70)),
    ((1, 1), (0, 0, 1, 1), (5, 3), (0, 0, 5, 3)),
]
for number, (size, box, scaled, window) in enumerate(CASES):
    pixels = picture(*size) if number % 3 else numbers.integers(0, 256, (*size, 3), dtype=numpy.uint8)
    top, left, height, width = box
    cut = Image.fromarray(pixels).crop((left, top, left + width, top + height))
    name = f"resize.{number}"
    tensors[f"{name}.image"] = planes(pixels)
    tensors[f"{name}.frame"] = numpy.array([*box, *scaled, *window], numpy.int64)
    for kind in ("bilinear", "bicubic"):
        # Rows first, as Pillow itself did up to 12; a later one may begin with the columns, which moves some bytes by one.
        rows = cut.resize((scaled[1], height), Image.Resampling[kind.upper()])
        whole = rows.resize((scaled[1], scaled[0]), Image.Resampling[kind.upper()])
        tensors[f"{name}.{kind}"] = planes(whole.crop((window[1], window[0], window[1] + window[3], window[0] + window[2])))


def turn_hue(image, factor):
    """As torchvision does on Pillow's images."""
    if image.mode == "L":
        return image
    hue, saturation, value = image.convert("HSV").split()
    turned = numpy.array(hue) + numpy.uint8(int(factor * 255) % 256)
    return Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")


def rounded(*factors):
    """To f32, of which factors are."""
    return [float(numpy.float32(factor)) for factor in factors]


OPS = {
    "brightness": (lambda image, x: ImageEnhance.Brightness(image).enhance(x), rounded(0, 0.3, 0.999, 1, 1.7, 3)),
    "contrast": (lambda image, x: ImageEnhance.Contrast(image).enhance(x), rounded(0, 0.3, 0.999, 1, 1.7, 3)),
    "saturation": (lambda image, x: ImageEnhance.Color(image).enhance(x), rounded(0, 0.3, 0.999, 1, 1.7, 3)),
    "hue": (turn_hue, rounded(-0.5, -0.31, -0.004, 0, 0.1, 0.25, 0.5)),
    "grey": (lambda image, x: image.convert("L").convert(image.mode), [0]),
    "solarize": (lambda image, x: ImageOps.solarize(image, x), [0, 1, 128, 255, 256]),
    "blur": (lambda image, x: image.filter(ImageFilter.GaussianBlur(x)), [0, 0.1, 0.5, 1, 1.4142, 2, 5.3, 20]),
}
IMAGES = {
    "photograph": picture(7, 67),
    "noise": numbers.integers(0, 256, (7, 13, 3), dtype=numpy.uint8),
    # Red, green and blue of four levels each: equal ones, greys, black and white.
    "levels": (numpy.array([0, 1, 128, 255])[numpy.indices((4, 4, 4)).reshape(3, 8, 8).transpose(1, 2, 0)]).astype(numpy.uint8),
    "pixel": picture(1, 1),
    "row": picture(1, 9),
    "column": picture(8, 1),
    "grey": picture(9, 14, 1)[:, :, 0],
}
for name, pixels in IMAGES.items():
    tensors[f"colour.{name}"] = planes(pixels)
for op, (work, factors) in OPS.items():
    tensors[f"factor.{op}"] = numpy.array(factors, numpy.float64)
    for number, factor in enumerate(factors):
        for name, pixels in IMAGES.items():
            tensors[f"answer.{op}.{number}.{name}"] = planes(work(Image.fromarray(pixels), factor))

save_file(tensors, pathlib.Path(__file__).parent / "goldens" / "images.safetensors")
