#include "runtime/data/vision/subset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "codegen/files/digest.h"
#include "ir/error.h"
#include "ir/philox.h"
#include "ir/printable.h"
#include "ir/schema.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

class Subset final : public ImagesOver {
 public:
  Subset(std::unique_ptr<ImageSource> source, std::vector<std::uint32_t> images)
      : ImagesOver(std::move(source)), images_(std::move(images)) {}

  std::int64_t count() const override { return std::ssize(images_); }
  std::int64_t label(std::int64_t index) const override { return ImagesOver::label(at(index)); }
  StoredImage decode(std::int64_t index, ReadBuffer& buffer, const BoxFunction& needed) const override {
    return ImagesOver::decode(at(index), buffer, needed);
  }
  void read_further(std::int64_t index, Sample& sample) const override {
    ImagesOver::read_further(at(index), sample);
  }
  std::string sample_name(std::int64_t index) const override { return ImagesOver::sample_name(at(index)); }
  std::int64_t origin(std::int64_t index) const override { return ImagesOver::origin(at(index)); }
  /// Returns the source's order without the images that are not here.
  std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch) const override {
    constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
    std::vector<std::uint32_t> places(static_cast<std::size_t>(source().count()), kNone);
    for (std::size_t i = 0; i < images_.size(); ++i) places[images_[i]] = static_cast<std::uint32_t>(i);
    std::vector<std::uint32_t> order;
    order.reserve(images_.size());
    for (const std::uint32_t image : source().order(seed, epoch)) {
      if (places[image] != kNone) order.push_back(places[image]);
    }
    return order;
  }
  std::string fingerprint() const override {
    const std::string whole = source().fingerprint();
    if (whole.empty()) return {};
    codegen::Digest digest;
    digest.update(std::as_bytes(std::span(whole)));
    digest.update(std::as_bytes(std::span(images_)));
    return digest.hex();
  }

 private:
  std::int64_t at(std::int64_t index) const { return images_[static_cast<std::size_t>(index)]; }

  std::vector<std::uint32_t> images_;
};

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// Returns the last `slashes` + 1 parts of a path, which has at least as many.
std::string last_parts(const std::string& path, std::ptrdiff_t slashes) {
  if (std::ranges::count(path, '/') == slashes) return path;
  std::size_t begin = path.size();
  for (std::ptrdiff_t i = 0; i <= slashes; ++i) begin = path.rfind('/', begin - 1);
  return path.substr(begin + 1);
}

/// Finds images by the last parts of their names: as many parts as the wanted name has.
class NameEnds {
 public:
  static constexpr std::int64_t kSeveral = -1, kMissing = -2;

  explicit NameEnds(const ImageSource& source) : source_(source) {}

  std::int64_t find(std::string_view name) {
    const auto parts = std::ranges::count(name, '/');
    auto [known, is_new] = by_parts_.try_emplace(parts);
    if (is_new) collect(parts, known->second);
    const auto found = known->second.find(std::string(name));
    return found == known->second.end() ? kMissing : found->second;
  }

 private:
  using Images = std::unordered_map<std::string, std::int64_t>;

  void collect(std::ptrdiff_t parts, Images& images) const {
    for (std::int64_t i = 0; i < source_.count(); ++i) {
      const std::string name = source_.sample_name(i);
      if (std::ranges::count(name, '/') < parts) continue;
      const auto [at, is_new] = images.try_emplace(last_parts(name, parts), i);
      if (!is_new) at->second = kSeveral;
    }
  }

  const ImageSource& source_;
  std::map<std::ptrdiff_t, Images> by_parts_;
};

std::int64_t listed_image(const ImageSource& source, NameEnds& names, std::string_view line,
                          const std::string& place) {
  if (std::ranges::all_of(line, [](char c) { return c >= '0' && c <= '9'; })) {
    const std::optional<std::int64_t> index = ir::parse_int(line);
    if (!index || *index >= source.count())
      user_error("{}: {} is not an image of {}, which has {}", place, printable(line), source.name(),
                 source.count());
    return *index;
  }
  const std::int64_t image = names.find(line);
  if (image == NameEnds::kMissing)
    user_error("{}: {} has no image {}", place, source.name(), printable(line));
  if (image == NameEnds::kSeveral)
    user_error("{}: {} has several images {}: add their folders", place, source.name(), printable(line));
  return image;
}

}  // namespace

std::unique_ptr<ImageSource> take_images(std::unique_ptr<ImageSource> source,
                                         std::vector<std::uint32_t> images) {
  return std::make_unique<Subset>(std::move(source), std::move(images));
}

std::vector<std::uint32_t> listed_images(const ImageSource& source, const std::string& list_path) {
  constexpr std::size_t kMostListBytes = std::size_t{1} << 31;
  const std::vector<std::byte> bytes = read_file(list_path, kMostListBytes);
  NameEnds names(source);
  std::map<std::uint32_t, std::size_t> lines;  // by image
  std::size_t number = 0;
  for (const std::string_view line : lines_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
    ++number;
    if (line.empty()) continue;
    const std::string place = fmt::format("{}:{}", visible(list_path), number);
    const auto image = static_cast<std::uint32_t>(listed_image(source, names, line, place));
    const auto [at, is_new] = lines.try_emplace(image, number);
    if (!is_new) user_error("{}: {} is already in line {}", place, printable(line), at->second);
  }
  if (lines.empty()) user_error("{}: it names no image", visible(list_path));
  std::vector<std::uint32_t> images;
  for (const auto& [image, line] : lines) images.push_back(image);
  return images;
}

std::vector<std::uint32_t> images_of_each_class(const ImageSource& source, double share) {
  const ir::PhiloxStream stream{0, 0, ir::stream_hash("data.fraction")};
  std::map<std::int64_t, std::vector<std::pair<std::uint64_t, std::uint32_t>>>
      classes;  // images under random numbers
  for (std::int64_t i = 0; i < source.count(); ++i) {
    const auto draw = 2 * static_cast<std::uint64_t>(i);
    const std::uint64_t number = std::uint64_t{stream.bits(draw)} << 32 | stream.bits(draw + 1);
    classes[source.label(i)].emplace_back(number, static_cast<std::uint32_t>(i));
  }
  std::vector<std::uint32_t> images;
  for (auto& [label, members] : classes) {
    std::ranges::sort(members);
    const auto wanted = static_cast<std::size_t>(std::llround(share * static_cast<double>(members.size())));
    members.resize(std::clamp<std::size_t>(wanted, 1, members.size()));
    for (const auto& [number, image] : members) images.push_back(image);
  }
  std::ranges::sort(images);
  return images;
}

}  // namespace rewire::runtime
