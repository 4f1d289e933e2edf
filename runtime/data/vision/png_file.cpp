#include "runtime/data/vision/png_file.h"

#include <png.h>

#include <csetjmp>
#include <cstring>
#include <new>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

/// libpng reports errors by longjmp, so nothing with a destructor lives between setjmp and the call that
/// fails. Output goes to memory that is allocated beforehand, so that no allocation throws through libpng.
struct PngSink {
  std::jmp_buf back;
  char text[200] = {};
  std::span<std::byte> room;
  std::size_t size = 0;

  [[noreturn]] static void fail(png_structp png, png_const_charp text) {
    auto& sink = *static_cast<PngSink*>(png_get_error_ptr(png));
    std::strncpy(sink.text, text, sizeof(sink.text) - 1);
    std::longjmp(sink.back, 1);
  }
  static void ignore(png_structp, png_const_charp) {}
  static void take(png_structp png, png_bytep bytes, std::size_t count) {
    auto& sink = *static_cast<PngSink*>(png_get_io_ptr(png));
    if (count > sink.room.size() - sink.size) png_error(png, "more bytes than were expected");
    std::memcpy(sink.room.data() + sink.size, bytes, count);
    sink.size += count;
  }
  static void flush(png_structp) {}
};

/// Returns the pixels as [height, width, channels], as libpng takes rows.
std::vector<std::uint8_t> interleaved_rows(const DrawnImage& image) {
  std::vector<std::uint8_t> rows(image.pixels.size());
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::size_t plane = rows.size() / channels;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    for (std::size_t i = 0; i < plane; ++i) rows[i * channels + channel] = image.pixels[channel * plane + i];
  }
  return rows;
}

/// Returns false if libpng gave up; `sink` then has the reason.
bool write_rows(png_structp png, png_infop info, PngSink& sink, const DrawnImage& image,
                const std::uint8_t* rows) {
  if (setjmp(sink.back) != 0) return false;
  constexpr int kBits = 8, kMostWork = 9;
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_write_fn(png, &sink, PngSink::take, PngSink::flush);
  png_set_compression_level(png, kMostWork);
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height),
               kBits, image.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (std::int64_t y = 0; y < image.height; ++y) png_write_row(png, rows + y * image.width * image.channels);
  png_write_end(png, nullptr);
  return true;
}

}  // namespace

std::vector<std::byte> encode_png(const DrawnImage& image) {
  const bool is_whole = (image.channels == 1 || image.channels == 3) && image.height > 0 && image.width > 0 &&
                        std::ssize(image.pixels) == image.channels * image.height * image.width;
  if (!is_whole) internal_error("a PNG of {} x {} x {}", image.channels, image.height, image.width);
  const std::vector<std::uint8_t> rows = interleaved_rows(image);
  // Deflate adds less than a thousandth to incompressible data. Room is also for a filter byte per row,
  // headers, and 12 bytes per chunk.
  std::vector<std::byte> file(rows.size() + rows.size() / 64 + static_cast<std::size_t>(image.height) + 4096);
  PngSink sink{};
  sink.room = file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &sink, PngSink::fail, PngSink::ignore);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  if (info == nullptr) {
    png_destroy_write_struct(&png, nullptr);
    throw std::bad_alloc();
  }
  const bool done = write_rows(png, info, sink, image, rows.data());
  png_destroy_write_struct(&png, &info);
  if (!done) internal_error("cannot write a PNG: {}", static_cast<const char*>(sink.text));
  file.resize(sink.size);
  return file;
}

}  // namespace rewire::runtime
