// What libjpeg-turbo alone takes to decode whole JPEG files to colours: rewire_bench_jpeg FOLDER SECONDS prints images a
// second, of one thread, for bench/data.py. Files are read again each time, as data loaders read them.
#include <fmt/format.h>

#include <cstdio>
// clang-format off
#include <jpeglib.h>
// clang-format on

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

/// libjpeg ends the program where a file is damaged: these are made up by bench/data.py.
void decode_whole(const std::string& file, std::vector<unsigned char>& pixels) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  const std::size_t row_bytes = std::size_t{3} * info.output_width;
  pixels.resize(row_bytes * info.output_height);
  while (info.output_scanline < info.output_height) {
    unsigned char* row = pixels.data() + info.output_scanline * row_bytes;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
}

}  // namespace

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  if (argc != 3) return 2;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[1])) {
    if (entry.path().extension() == ".jpg") paths.push_back(entry.path());
  }
  const double seconds = std::atof(argv[2]);
  std::vector<unsigned char> pixels;
  std::string file;
  std::size_t images = 0;
  const Clock::time_point start = Clock::now();
  double taken = 0;
  while (!paths.empty() && taken < seconds) {
    const std::filesystem::path& path = paths[images % paths.size()];
    file.resize(std::filesystem::file_size(path));
    std::ifstream(path, std::ios::binary).read(file.data(), static_cast<std::streamsize>(file.size()));
    decode_whole(file, pixels);
    ++images;
    taken = std::chrono::duration<double>(Clock::now() - start).count();
  }
  fmt::print("{}\n", static_cast<double>(images) / taken);
}
