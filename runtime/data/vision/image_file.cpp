#include "runtime/data/vision/image_file.h"

// jpeglib.h needs <cstdio> before it.
#include <cstdio>
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>

#include "codegen/library/vector_clones.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/vision/colour_ops.h"

namespace rewire::runtime {
namespace {

[[noreturn]] void refuse(std::string_view name, std::string_view what) {
  user_error("{}: {}", visible(name), visible(what));
}

void check_size(std::string_view name, std::int64_t height, std::int64_t width) {
  if (height < 1 || width < 1) refuse(name, "an image without pixels");
  if (width > kMostImagePixels / height) {
    user_error("{}: {} x {} pixels are more than the {} that an image may have", visible(name), height, width,
               kMostImagePixels);
  }
}

REWIRE_VECTOR_CLONES
void split_colours(const std::uint8_t* __restrict row, std::uint8_t* __restrict red,
                   std::uint8_t* __restrict green, std::uint8_t* __restrict blue, std::int64_t width) {
  for (std::int64_t x = 0; x < width; ++x) {
    red[x] = row[3 * x];
    green[x] = row[3 * x + 1];
    blue[x] = row[3 * x + 2];
  }
}

/// Writes rows of pixels with `from` samples each to planes.
class Planes {
 public:
  Planes(std::int64_t channels, ImageSize size, std::vector<std::uint8_t>& pixels)
      : channels_(channels), width_(size.width), plane_(size.height * size.width) {
    pixels.resize(static_cast<std::size_t>(channels * plane_));
    pixels_ = pixels.data();
  }

  /// Writes columns [left, left + width) of row y.
  void put(std::int64_t y, std::int64_t left, std::int64_t width, const std::uint8_t* row, int from) const {
    std::uint8_t* out = pixels_ + y * width_ + left;
    if (channels_ == 1) {
      for (std::int64_t x = 0; x < width; ++x)
        out[x] = from == 1 ? row[x] : luma(row[3 * x], row[3 * x + 1], row[3 * x + 2]);
    } else if (from == 1) {
      for (std::int64_t channel = 0; channel < channels_; ++channel)
        std::copy_n(row, width, out + channel * plane_);
    } else {
      split_colours(row, out, out + plane_, out + 2 * plane_, width);
    }
  }

 private:
  std::int64_t channels_, width_, plane_;
  std::uint8_t* pixels_ = nullptr;
};

// --- JPEG ------------------------------------------------------------------------------------------------

/// libjpeg reports errors by longjmp over C frames, so nothing with a destructor
/// lives between it and setjmp.
struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf back;
  char text[JMSG_LENGTH_MAX];

  static JpegErrors& of(j_common_ptr info) { return *reinterpret_cast<JpegErrors*>(info->err); }
  [[noreturn]] static void fail(j_common_ptr info) {
    info->err->format_message(info, of(info).text);
    std::longjmp(of(info).back, 1);
  }
  /// Limits the number of scans. Ten bytes of an empty scan cost a pass over the image;
  /// encoders write about ten scans.
  static void watch(j_common_ptr info) {
    constexpr std::int64_t kLeast = 16, kMost = 64, kMostPixelsOfAll = std::int64_t{1} << 32;
    const auto& image = *reinterpret_cast<j_decompress_ptr>(info);
    const std::int64_t pixels = std::int64_t{image.image_height} * image.image_width;
    const std::int64_t most = std::clamp(kMostPixelsOfAll / std::max<std::int64_t>(pixels, 1), kLeast, kMost);
    if (image.input_scan_number <= most) return;
    std::snprintf(of(info).text, JMSG_LENGTH_MAX,
                  "it has more than %d scans, each a pass over all its pixels", static_cast<int>(most));
    std::longjmp(of(info).back, 1);
  }
  /// Data that ends too early is an error. Other faults, after which libjpeg reads on, are not.
  static void note(j_common_ptr info, int level) {
    if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) fail(info);
  }
};

class JpegReader {
 public:
  JpegReader(std::span<const std::byte> file, std::string_view name) : name_(name) {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = JpegErrors::fail;
    errors_.base.emit_message = JpegErrors::note;
    progress_.progress_monitor = JpegErrors::watch;
    const bool made = guarded([&] {
      jpeg_create_decompress(&info_);
      info_.progress = &progress_;
      jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file.data()), file.size());
      jpeg_read_header(&info_, TRUE);
    });
    if (!made) fail();
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  ImageSize size() const {
    return {static_cast<std::int64_t>(info_.image_height), static_cast<std::int64_t>(info_.image_width)};
  }

  /// Returns true if a file of so many bytes can hold what its header claims: arithmetic coding takes less
  /// than a bit for each empty block of 8 x 8.
  bool is_plausible(std::size_t file_bytes) const {
    return static_cast<double>(size().height * size().width) <= 4096.0 * static_cast<double>(file_bytes);
  }

  /// Entropy-decodes down to the box's last row. Transforms only the box and the neighbours
  /// that its pixels depend on.
  void read(const Planes& planes, const Box& box) {
    const bool grey = info_.jpeg_color_space == JCS_GRAYSCALE;
    const bool four = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = grey ? JCS_GRAYSCALE : four ? JCS_CMYK : JCS_RGB;
    row_.resize(static_cast<std::size_t>(size().width) * (grey ? 1 : four ? 4 : 3));
    std::uint8_t* row = row_.data();
    const bool done = guarded([&] {
      info_.do_block_smoothing = FALSE;  // it looks further than the neighbours that a part keeps
      jpeg_start_decompress(&info_);
      // Half of the colours at a cut's edge comes from their neighbours, so one block of
      // these is kept on each side.
      const auto block = static_cast<std::int64_t>(DCTSIZE * info_.max_h_samp_factor);
      const auto first = std::max<std::int64_t>(box.left - block, 0);
      auto left = static_cast<JDIMENSION>(first);
      auto width = static_cast<JDIMENSION>(std::min(box.left + box.width + block, size().width) - first);
      if (width < info_.output_width) jpeg_crop_scanline(&info_, &left, &width);
      const std::int64_t above = std::max<std::int64_t>(box.top - 2 * DCTSIZE * info_.max_v_samp_factor, 0);
      if (above > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(above));
      while (info_.output_scanline < static_cast<JDIMENSION>(box.top + box.height)) {
        const std::int64_t y = info_.output_scanline;
        jpeg_read_scanlines(&info_, &row, 1);
        if (four) to_colours(row);
        planes.put(y, left, info_.output_width, row, grey ? 1 : 3);
      }
    });
    if (!done) fail();
  }

 private:
  /// Returns false if libjpeg gave up. `work` must have no object with a destructor.
  template <class Work>
  bool guarded(Work work) {
    if (setjmp(errors_.back) != 0) return false;
    work();
    return true;
  }
  [[noreturn]] void fail() {
    const std::string what = std::string("not a readable JPEG: ") + errors_.text;
    jpeg_destroy_decompress(&info_);  // twice does no harm
    refuse(name_, what);
  }

  /// Converts in place. Files hold ink as 255 - ink, as Adobe's do. One without Adobe's mark is read
  /// the same way, as in Pillow.
  void to_colours(std::uint8_t* row) const {
    for (std::int64_t x = 0; x < info_.output_width; ++x) {
      std::uint8_t ink[4];
      for (int i = 0; i < 4; ++i) ink[i] = static_cast<std::uint8_t>(255 - row[4 * x + i]);
      for (int i = 0; i < 3; ++i) {
        const int light = 255 - ink[3], product = ink[i] * light + 128;
        row[3 * x + i] =
            static_cast<std::uint8_t>(std::clamp(light - ((product + (product >> 8)) >> 8), 0, 255));
      }
    }
  }

  std::string_view name_;
  jpeg_decompress_struct info_{};
  JpegErrors errors_{};
  jpeg_progress_mgr progress_{};
  std::vector<std::uint8_t> row_;
};

// --- PNG -------------------------------------------------------------------------------------------------

/// As in JpegErrors, nothing with a destructor lives between setjmp and libpng.
struct PngErrors {
  std::jmp_buf back;
  char text[200] = {};

  [[noreturn]] static void fail(png_structp png, png_const_charp text) {
    auto& errors = *static_cast<PngErrors*>(png_get_error_ptr(png));
    std::strncpy(errors.text, text, sizeof(errors.text) - 1);
    std::longjmp(errors.back, 1);
  }
  static void ignore(png_structp, png_const_charp) {}
};

class PngReader {
 public:
  PngReader(std::span<const std::byte> file, std::string_view name) : rest_(file), name_(name) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &errors_, PngErrors::fail, PngErrors::ignore);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
    const bool made = guarded([&] {
      png_set_read_fn(png_, this, take);
      png_set_chunk_cache_max(png_, 1);  // texts are not kept: each may be packed a thousandfold
      png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_size() has the better message
      png_read_info(png_, info_);
    });
    if (!made) fail();
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  ImageSize size() const {
    return {static_cast<std::int64_t>(png_get_image_height(png_, info_)),
            static_cast<std::int64_t>(png_get_image_width(png_, info_))};
  }

  /// Deflate makes at most 1032 bytes of one.
  bool is_plausible(std::size_t file_bytes) const {
    return static_cast<double>(png_get_rowbytes(png_, info_)) * static_cast<double>(size().height) <=
           1032.0 * static_cast<double>(file_bytes);
  }

  void read(const Planes& planes, const Box&) {
    std::size_t row_bytes = 0;
    const bool ready = guarded([&] {
      png_set_expand(png_);  // palettes to colours, and fewer bits to 8
      png_set_scale_16(png_);
      png_set_strip_alpha(png_);
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
      row_bytes = png_get_rowbytes(png_, info_);
    });
    if (!ready) fail();
    const int from = png_get_channels(png_, info_) == 1 ? 1 : 3;
    const bool at_once = png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE;
    const auto height = static_cast<std::size_t>(size().height);
    rows_.resize(row_bytes * (at_once ? height : 1));
    const bool done = guarded([&] {
      for (int pass = at_once ? png_set_interlace_handling(png_) : 1; pass > 0; --pass) {
        for (std::size_t y = 0; y < height; ++y) {
          std::uint8_t* row = rows_.data() + (at_once ? y * row_bytes : 0);
          png_read_row(png_, row, nullptr);
          if (pass == 1) planes.put(static_cast<std::int64_t>(y), 0, size().width, row, from);
        }
      }
      png_read_end(png_, nullptr);
    });
    if (!done) fail();
  }

 private:
  static void take(png_structp png, png_bytep out, std::size_t count) {
    auto& rest = static_cast<PngReader*>(png_get_io_ptr(png))->rest_;
    if (count > rest.size()) png_error(png, "it ends too early");
    std::memcpy(out, rest.data(), count);
    rest = rest.subspan(count);
  }
  template <class Work>
  bool guarded(Work work) {
    if (setjmp(errors_.back) != 0) return false;
    work();
    return true;
  }
  [[noreturn]] void fail() {
    const std::string what = std::string("not a readable PNG: ") + errors_.text;
    png_destroy_read_struct(&png_, &info_, nullptr);
    refuse(name_, what);
  }

  std::span<const std::byte> rest_;
  std::string_view name_;
  PngErrors errors_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::vector<std::uint8_t> rows_;
};

template <class Reader>
ImageSize decode(Reader&& reader, std::span<const std::byte> file, std::string_view name,
                 std::int64_t channels, std::vector<std::uint8_t>& pixels, const BoxFunction& needed) {
  const ImageSize size = reader.size();
  check_size(name, size.height, size.width);
  if (!reader.is_plausible(file.size()))
    user_error("{}: its header claims more pixels than {} bytes can hold", visible(name), file.size());
  const Box whole{0, 0, size.height, size.width};
  reader.read(Planes(channels, size, pixels), needed ? needed(size.height, size.width) : whole);
  return size;
}

constexpr std::string_view kJpegMagic = "\xFF\xD8", kPngMagic = "\x89PNG\r\n\x1A\n";

bool begins(std::span<const std::byte> file, std::string_view magic) {
  return file.size() >= magic.size() && std::memcmp(file.data(), magic.data(), magic.size()) == 0;
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::string suffix_of(std::string_view name) {
  constexpr std::size_t kLongest = 5;
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  std::string suffix = lower_case(name.substr(dot + 1));
  const bool is_suffix = !suffix.empty() && suffix.size() <= kLongest && is_letter(suffix[0]) &&
                         std::ranges::all_of(suffix, [&](char c) { return is_letter(c) || is_digit(c); });
  return is_suffix ? suffix : std::string();
}

bool is_image_name(std::string_view name) {
  constexpr std::string_view kRead[] = {"jpg", "jpeg", "jpe", "jfif", "png"};
  return std::ranges::find(kRead, suffix_of(name)) != std::end(kRead);
}

bool is_other_image_name(std::string_view name) {
  constexpr std::string_view kOthers[] = {"apng", "avif", "bmp", "gif", "heic", "heif",
                                          "j2k",  "jp2",  "jpx", "jxl", "pbm",  "pgm",
                                          "pnm",  "ppm",  "tga", "tif", "tiff", "webp"};
  return std::ranges::find(kOthers, suffix_of(name)) != std::end(kOthers);
}

bool begins_as_image(std::span<const std::byte> file) {
  return begins(file, kJpegMagic) || begins(file, kPngMagic);
}

ImageSize decode_image(std::span<const std::byte> file, std::string_view name, std::int64_t channels,
                       std::vector<std::uint8_t>& pixels, const BoxFunction& needed) {
  if (begins(file, kJpegMagic)) return decode(JpegReader(file, name), file, name, channels, pixels, needed);
  if (begins(file, kPngMagic)) return decode(PngReader(file, name), file, name, channels, pixels, needed);
  if (file.empty()) refuse(name, "the file is empty");
  refuse(name, "neither JPEG nor PNG");
}

}  // namespace rewire::runtime
