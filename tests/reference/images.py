"""Writes goldens/images.safetensors: what Pillow reads of JPEG and PNG files and makes of images at other sizes. See README.md.

`large.NAME.bytes` and `wide.KIND.bytes` are files alone. `file.NAME.bytes` is a file, `.rgb` and `.grey` its pixels, u8 [channels, height, width]. `resize.K.image` is an image, `.frame` what is
asked of it (box: top, left, height, width; height and width it is scaled to; window: top, left, height, width), `.bilinear` and
`.bicubic` the answers. `colour.IMAGE` are images, `answer.OP.K.IMAGE` what Pillow makes of them with the number in `factor.OP`, f64[K],
at K: a factor, a share of the circle of hues, a deviation or a threshold.
"""
import io
import pathlib
import struct
import zlib

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



def png_chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_of(pixels, interlaced=False):
    """What Pillow cannot write: colours of 16 bits, and Adam7's seven passes. Rows are not filtered."""
    bits = 8 * pixels.dtype.itemsize
    big_endian = pixels.astype(f">u{pixels.dtype.itemsize}")
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)] if interlaced else [(0, 0, 1, 1)]
    parts = [big_endian[top::down, left::right] for top, left, down, right in passes]
    rows = b"".join(b"\0" + row.tobytes() for part in parts if part.size for row in part)
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], bits, 2 if pixels.ndim == 3 else 0, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b"")


def add_bytes(name, file, rgb=None):
    """Pixels as Pillow reads them, but where it cuts 16 bits off."""
    tensors[f"file.{name}.bytes"] = numpy.frombuffer(file, numpy.uint8).copy()
    colours = planes(Image.open(io.BytesIO(file)).convert("RGB")) if rgb is None else rgb
    tensors[f"file.{name}.rgb"] = colours
    tensors[f"file.{name}.grey"] = planes(Image.fromarray(numpy.ascontiguousarray(colours.transpose(1, 2, 0))).convert("L"))


def jpeg_bytes(image, **options):
    stream = io.BytesIO()
    image.save(stream, "JPEG", **options)
    return stream.getvalue()


def relabelled(file, factors, width, height):
    """A JPEG whose header says other sampling factors, of as many blocks a unit, and another size, of as many units: the
    pixels are others, but what they are is as well defined. Pillow writes no such sampling itself."""
    bytes_ = bytearray(file)
    at = file.index(b"\xff\xc0")  # start of frame: length, precision, height, width, components of 3 bytes
    bytes_[at + 5 : at + 9] = struct.pack(">HH", height, width)
    bytes_[at + 11] = factors
    return bytes(bytes_)


photograph = Image.fromarray(picture(40, 48))
# 3 x 5 units of 16 x 8 pixels become 5 x 3 of 8 x 16; 3 x 3 of 16 x 16 become 3 x 3 of 32 x 8.
add_bytes("jpeg_440", relabelled(jpeg_bytes(photograph, quality=85, subsampling=1), 0x12, 38, 47))
add_bytes("jpeg_411", relabelled(jpeg_bytes(Image.fromarray(picture(48, 48)), quality=85, subsampling=2), 0x41, 91, 23))
add_bytes("png_adam7", png_of(picture(21, 19), interlaced=True))
add_bytes("png_adam7_one_row", png_of(picture(1, 3), interlaced=True))
deep = numbers.integers(0, 65536, (12, 9, 3), dtype=numpy.uint16)
add_bytes("png_16_bits_rgb", png_of(deep), rgb=((deep.astype(numpy.int64) * 255 + 32895) >> 16).astype(numpy.uint8).transpose(2, 0, 1).copy())
for name, image, transparency in (("palette", colour.quantize(9), 3), ("grey", colour.convert("L"), 77), ("rgb", colour, (1, 2, 3))):
    stream = io.BytesIO()
    image.save(stream, "PNG", transparency=transparency)
    add_bytes(f"png_transparent_{name}", stream.getvalue())

# As some programs write them: inks without Adobe's mark, and as YCCK (the mark's last byte is 2).
inks = tensors["file.jpeg_cmyk.bytes"].tobytes()
mark = inks.index(b"\xff\xee\x00\x0eAdobe")
end = mark + 16
add_bytes("jpeg_cmyk_unmarked", inks[:mark] + inks[end:])
add_bytes("jpeg_ycck", inks[:end - 1] + b"\2" + inks[end:])

# As wide as the formats and a row allow: read, but not compared with Pillow's.
ramp = numpy.broadcast_to((numpy.arange(65500) // 257).astype(numpy.uint8), (2, 65500))
tensors["wide.jpeg.bytes"] = numpy.frombuffer(jpeg_bytes(Image.fromarray(ramp), quality=90, optimize=True), numpy.uint8).copy()
tensors["wide.png.bytes"] = numpy.frombuffer(png_of(ramp[:, :30000]), numpy.uint8).copy()

save_file(tensors, pathlib.Path(__file__).parent / "goldens" / "images.safetensors")
