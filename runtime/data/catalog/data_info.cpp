#include "runtime/data/catalog/data_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "codegen/files/digest.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/catalog/sources.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kMostNamed = 5;
constexpr std::int64_t kSheetClasses = 10, kSheetImages = 8;
/// The image shape requested of a source that has no size or channels of its own.
const ir::Shape kAskedImage = {3, 32, 32};

using PixelTotal = unsigned __int128;

/// Half of a BLAKE3 digest: images with equal keys are taken as equal.
using PixelKey = std::array<std::uint64_t, 2>;

struct ImageFacts {
  PixelKey key{};
  std::int32_t height = 0, width = 0;  // 0: it cannot be read
};

/// Sums over the pixels of one channel.
struct PixelSums {
  PixelTotal pixels = 0, squares = 0;
};

/// The findings of one thread.
struct ScanPart {
  std::vector<PixelSums> channels;
  std::int64_t unreadable = 0, turned_by_exif = 0;
  std::vector<std::pair<std::int64_t, std::string>> messages;  // of its first unreadable images, by place
  std::exception_ptr error;
};

PixelKey pixel_key(const StoredImage& image) {
  codegen::Digest digest;
  const std::int64_t size[] = {image.height, image.width};
  digest.update(std::as_bytes(std::span(size)));
  digest.update(std::as_bytes(image.pixels));
  const std::string hex = digest.hex();
  PixelKey key{};
  for (std::size_t i = 0; i < key.size(); ++i)
    std::from_chars(hex.data() + 16 * i, hex.data() + 16 * (i + 1), key[i], 16);
  return key;
}

void add_pixels(std::span<const std::uint8_t> plane, PixelSums& sums) {
  std::uint64_t pixels = 0, squares = 0;  // an image has 2^28 pixels at most: far from overflow
  for (const std::uint8_t pixel : plane) {
    pixels += pixel;
    squares += std::uint64_t{pixel} * pixel;
  }
  sums.pixels += pixels;
  sums.squares += squares;
}

std::vector<std::int64_t> evenly_spread(std::int64_t count, std::int64_t wanted) {
  if (wanted == 0 || wanted > count) wanted = count;
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < wanted; ++i)
    places.push_back(static_cast<std::int64_t>(static_cast<PixelTotal>(i) * static_cast<PixelTotal>(count) /
                                               static_cast<PixelTotal>(wanted)));
  return places;
}

/// Decodes the images of a split on several threads. Each image's facts have a place of their own and sums
/// are of integers. So the result does not depend on the order of the threads.
class Examination {
 public:
  Examination(const ImageSource& source, std::int64_t images)
      : source_(source), places_(evenly_spread(source.count(), images)), facts_(places_.size()) {}

  void run(int threads, const std::function<void(std::int64_t done, std::int64_t all)>& progress) {
    progress_ = progress;
    found_.resize(static_cast<std::size_t>(threads));
    for (ScanPart& found : found_) found.channels.resize(static_cast<std::size_t>(source_.shape()[0]));
    std::vector<std::jthread> workers;
    try {
      for (std::size_t i = 1; i < found_.size(); ++i) workers.emplace_back([this, i] { work(found_[i]); });
    } catch (const std::system_error&) {
      // This thread and those that have started do the work.
    }
    work(found_.front());
    workers.clear();
    for (const ScanPart& found : found_) {
      if (found.error) std::rethrow_exception(found.error);
    }
  }

  const std::vector<std::int64_t>& places() const { return places_; }
  const std::vector<ImageFacts>& facts() const { return facts_; }

  /// Returns the sums over all pixels, by channel.
  std::vector<PixelSums> sums() const {
    std::vector<PixelSums> all(found_.front().channels.size());
    for (const ScanPart& found : found_) {
      for (std::size_t c = 0; c < all.size(); ++c) {
        all[c].pixels += found.channels[c].pixels;
        all[c].squares += found.channels[c].squares;
      }
    }
    return all;
  }

  void tell_found(SplitInfo& info) const {
    std::vector<std::pair<std::int64_t, std::string>> all;
    for (const ScanPart& found : found_) {
      info.unreadable += found.unreadable;
      info.turned_by_exif += found.turned_by_exif;
      all.insert(all.end(), found.messages.begin(), found.messages.end());
    }
    std::ranges::sort(all);
    for (std::size_t i = 0; i < std::min(all.size(), kMostNamed); ++i)
      info.first_unreadable.push_back(all[i].second);
  }

 private:
  void work(ScanPart& found) {
    ReadBuffer buffer;
    try {
      for (std::size_t i = next_++; i < places_.size(); i = next_++) {
        examine(i, found, buffer);
        report();
      }
    } catch (...) {
      found.error = std::current_exception();
      next_ = places_.size();
    }
  }

  void examine(std::size_t i, ScanPart& found, ReadBuffer& buffer) {
    StoredImage image;
    try {
      image = source_.decode(places_[i], buffer, nullptr);
    } catch (const UserError& error) {
      ++found.unreadable;
      // A thread takes images in their order, so its first five messages suffice.
      if (found.messages.size() < kMostNamed) found.messages.emplace_back(places_[i], error.what());
      return;
    }
    found.turned_by_exif += image.orientation == 1 ? 0 : 1;
    facts_[i] = {pixel_key(image), static_cast<std::int32_t>(image.height),
                 static_cast<std::int32_t>(image.width)};
    const std::size_t plane = image.pixels.size() / found.channels.size();
    for (std::size_t c = 0; c < found.channels.size(); ++c)
      add_pixels(image.pixels.subspan(c * plane, plane), found.channels[c]);
  }

  void report() {
    constexpr std::int64_t kSome = 64;
    const std::int64_t done = ++done_;
    if (!progress_ || done % kSome != 0) return;
    const std::unique_lock lock(progress_mutex_, std::try_to_lock);
    if (lock) progress_(done, std::ssize(places_));
  }

  const ImageSource& source_;
  std::vector<std::int64_t> places_;  // in the source
  std::vector<ImageFacts> facts_;     // of each
  std::vector<ScanPart> found_;       // by thread
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::int64_t> done_ = 0;
  std::function<void(std::int64_t, std::int64_t)> progress_;
  std::mutex progress_mutex_;
};

ExtentRange extents_of(std::vector<std::int32_t> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  return {values.front(), values[(values.size() - 1) / 2], values.back()};
}

void tell_sizes(const std::vector<ImageFacts>& facts, SplitInfo& info) {
  std::set<std::pair<std::int32_t, std::int32_t>> sizes;
  std::vector<std::int32_t> heights, widths;
  for (const ImageFacts& image : facts) {
    if (image.height == 0) continue;
    sizes.emplace(image.height, image.width);
    heights.push_back(image.height);
    widths.push_back(image.width);
  }
  info.sizes = std::ssize(sizes);
  info.height = extents_of(std::move(heights));
  info.width = extents_of(std::move(widths));
}

void tell_statistics(const std::vector<ImageFacts>& facts, const std::vector<PixelSums>& sums,
                     SplitInfo& info) {
  PixelTotal pixels = 0;  // a channel
  for (const ImageFacts& image : facts)
    pixels += static_cast<PixelTotal>(image.height) * static_cast<PixelTotal>(image.width);
  if (pixels == 0) return;
  constexpr double kWhite = 255;
  const auto count = static_cast<double>(pixels);
  for (const PixelSums& channel : sums) {
    // The variance times count squared; it is not negative.
    const PixelTotal spread = pixels * channel.squares - channel.pixels * channel.pixels;
    info.mean.push_back(static_cast<double>(channel.pixels) / count / kWhite);
    info.deviation.push_back(std::sqrt(static_cast<double>(spread)) / count / kWhite);
  }
}

void tell_classes(const ImageSource& source, SplitInfo& info) {
  info.class_names = source.class_names();
  for (std::int64_t label = 0; label < std::ssize(info.class_names); ++label) info.classes[label] = 0;
  for (std::int64_t i = 0; i < source.count(); ++i) ++info.classes[source.label(i)];
}

/// Returns the readable images by key; equal ones keep their order.
std::vector<std::pair<PixelKey, std::int64_t>> by_key(const Examination& images) {
  std::vector<std::pair<PixelKey, std::int64_t>> all;
  for (std::size_t i = 0; i < images.facts().size(); ++i) {
    if (images.facts()[i].height != 0) all.emplace_back(images.facts()[i].key, images.places()[i]);
  }
  std::ranges::sort(all);
  return all;
}

/// Collects pairs of an image and the earlier one that it equals, to report them.
class EqualPairs {
 public:
  EqualPairs(const ImageSource& images, const ImageSource& earlier) : images_(images), earlier_(earlier) {}

  void add(std::int64_t image, std::int64_t earlier) { pairs_.emplace_back(image, earlier); }

  EqualCount count() {
    std::ranges::sort(pairs_);
    EqualCount count;
    count.images = std::ssize(pairs_);
    for (const auto& [image, earlier] : pairs_) {
      count.other_label += images_.label(image) != earlier_.label(earlier) ? 1 : 0;
      if (count.first.size() < kMostNamed)
        count.first.push_back({images_.sample_name(image), earlier_.sample_name(earlier)});
    }
    return count;
  }

 private:
  const ImageSource& images_;
  const ImageSource& earlier_;
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs_;
};

/// Pairs each image that equals an earlier one with the first of its kind.
EqualCount equal_within(const ImageSource& source, const Examination& images) {
  EqualPairs pairs(source, source);
  const auto all = by_key(images);
  std::size_t first = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].first == all[first].first) {
      pairs.add(all[i].second, all[first].second);
    } else {
      first = i;
    }
  }
  return pairs.count();
}

EqualCount equal_between(const ImageSource& train, const Examination& train_images, const ImageSource& test,
                         const Examination& test_images) {
  EqualPairs pairs(test, train);
  const auto trained = by_key(train_images);
  for (const auto& [key, image] : by_key(test_images)) {
    const auto same = std::ranges::lower_bound(trained, std::pair{key, std::int64_t{0}});
    if (same != trained.end() && same->first == key) pairs.add(image, same->second);
  }
  return pairs.count();
}

/// Returns the extents and numbers of the fields of the samples at `places`. Each sample that `read` cannot
/// read adds a message to `unreadable`.
std::vector<FieldFacts> examine_fields(const std::vector<Field>& fields,
                                       const std::vector<std::int64_t>& places,
                                       const std::function<void(std::int64_t place, Sample& sample)>& read,
                                       std::vector<std::string>& unreadable) {
  std::vector<FieldFacts> facts;
  for (const Field& field : fields) facts.push_back({field, {}, 0, 0});
  std::vector<std::vector<std::int64_t>> extents(fields.size());
  std::vector<bool> is_seen(fields.size(), false);
  Sample sample;
  for (const std::int64_t place : places) {
    try {
      read(place, sample);
    } catch (const UserError& error) {
      unreadable.emplace_back(error.what());
      continue;
    }
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const HostTensor& tensor = sample.at(fields[i].name);
      if (!tensor.type().shape.empty()) extents[i].push_back(tensor.type().shape.front());
      for (const double number : to_double(tensor).data) {
        FieldFacts& of = facts[i];
        of.least = is_seen[i] ? std::min(of.least, number) : number;
        of.greatest = is_seen[i] ? std::max(of.greatest, number) : number;
        is_seen[i] = true;
      }
    }
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].shape.empty() || fields[i].shape.front() != kRagged || extents[i].empty()) continue;
    std::ranges::sort(extents[i]);
    facts[i].extent = {extents[i].front(), extents[i][(extents[i].size() - 1) / 2], extents[i].back()};
  }
  return facts;
}

struct OpenSplit {
  std::unique_ptr<ImageSource> source;
  std::unique_ptr<Examination> images;
};

OpenSplit examine_split(std::unique_ptr<ImageSource> source, const DataInfoOptions& options,
                        SplitInfo& info) {
  info.name = source->name();
  info.count = source->count();
  info.channels = source->shape()[0];
  info.notes = source->notes();
  tell_classes(*source, info);
  auto images = std::make_unique<Examination>(*source, options.images);
  images->run(options.threads, [&](std::int64_t done, std::int64_t all) {
    if (options.progress) options.progress(info.split, done, all);
  });
  info.examined = std::ssize(images->places());
  tell_sizes(images->facts(), info);
  tell_statistics(images->facts(), images->sums(), info);
  images->tell_found(info);
  info.duplicates = equal_within(*source, *images);
  std::vector<std::string> unread;
  if (const std::vector<Field> further = source->further_fields(); !further.empty()) {
    info.fields = examine_fields(
        further, images->places(),
        [&](std::int64_t place, Sample& sample) { source->read_further(place, sample); }, unread);
  }
  return {std::move(source), std::move(images)};
}

void examine_split(const TokenSource& source, SplitInfo& info) {
  info.name = source.name();
  try {
    info.tokens = examine_tokens(source);
  } catch (const DataError& error) {
    info.problem = error.what();
  }
}

/// Examines samples that are not images.
void examine_samples(const Source& source, const DataInfoOptions& options, SplitInfo& info) {
  const std::vector<std::int64_t> places = evenly_spread(source.count(), options.images);
  info.name = source.name();
  info.count = source.count();
  info.examined = std::ssize(places);
  info.class_names = source.class_names();
  info.notes = source.notes();
  std::vector<std::string> unreadable;
  info.fields = examine_fields(
      source.fields(), places, [&](std::int64_t place, Sample& sample) { source.read(place, sample); },
      unreadable);
  info.unreadable = std::ssize(unreadable);
  unreadable.resize(std::min(unreadable.size(), kMostNamed));
  info.first_unreadable = std::move(unreadable);
}

/// Returns null if the split cannot be opened; `problem` then says why.
std::unique_ptr<Source> open_split(const ir::Selection& selection, Split split, std::string& problem) {
  try {
    SourceContext asked = source_context({split, kAskedImage});
    asked.asked.push_back({std::string(kTokensField), ir::DType::i32, {1}, FieldKind::tokens});
    return make_source(selection, asked);
  } catch (const UserError& error) {
    problem = error.what();
    return nullptr;
  }
}

/// Returns the places of the images of each class.
std::map<std::int64_t, std::vector<std::int64_t>> images_by_class(const ImageSource& source) {
  std::map<std::int64_t, std::vector<std::int64_t>> classes;
  for (std::int64_t i = 0; i < source.count(); ++i) classes[source.label(i)].push_back(i);
  return classes;
}

std::vector<SheetRow> choose_rows(const ImageSource& source) {
  const auto classes = images_by_class(source);
  std::vector<SheetRow> rows;
  for (const std::int64_t place : evenly_spread(std::ssize(classes), kSheetClasses)) {
    const auto& [label, images] = *std::next(classes.begin(), place);
    SheetRow& row = rows.emplace_back(SheetRow{label, {}});
    for (const std::int64_t i : evenly_spread(std::ssize(images), kSheetImages))
      row.images.push_back(images[static_cast<std::size_t>(i)]);
  }
  return rows;
}

}  // namespace

std::string detect_format(const std::string& path) {
  std::vector<std::string> found;
  for (const SourceRow* row : sources()) {
    if (row->is_at != nullptr && row->is_at(path)) found.emplace_back(row->name);
  }
  if (found.size() == 1) return found.front();
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    if (!error) error = std::make_error_code(std::errc::no_such_file_or_directory);
    user_error("{}: {}", visible(path), error.message());
  }
  if (found.empty()) {
    user_error("{}: cannot tell the format of the data there: give one of {} with --format", visible(path),
               fmt::join(ir::row_names(sources()), "|"));
  }
  user_error("{}: it may be {}: choose one with --format", visible(path), fmt::join(found, " or "));
}

DataInfo examine_data(const ir::Selection& selection, const DataInfoOptions& options) {
  DataInfo info;
  std::vector<std::unique_ptr<Source>> opened;
  for (const Split split : {Split::train, Split::test}) {
    SplitInfo& part = info.splits.emplace_back();
    part.split = split;
    opened.push_back(open_split(selection, split, part.problem));
  }
  if (opened[0] == nullptr && opened[1] == nullptr) throw UserError(info.splits[0].problem);
  OpenSplit parts[2];
  for (std::size_t i = 0; i < opened.size(); ++i) {
    if (opened[i] == nullptr) continue;
    if (const TokenSource* const tokens = tokens_of(*opened[i])) {
      examine_split(*tokens, info.splits[i]);
    } else if (std::unique_ptr<ImageSource> images = images_of(opened[i])) {
      parts[i] = examine_split(std::move(images), options, info.splits[i]);
    } else {
      examine_samples(*opened[i], options, info.splits[i]);
    }
  }
  const auto& [train, test] = parts;
  if (train.source != nullptr && test.source != nullptr)
    info.leaks = equal_between(*train.source, *train.images, *test.source, *test.images);
  return info;
}

ClassSheet draw_classes(const ir::Selection& selection) {
  ClassSheet sheet;
  std::string problem, ignored;
  std::unique_ptr<Source> opened = open_split(selection, Split::train, problem);
  if (opened == nullptr) {
    sheet.split = Split::test;
    opened = open_split(selection, Split::test, ignored);
  }
  if (opened == nullptr) throw UserError(problem);
  const std::unique_ptr<ImageSource> source = images_of(opened);
  if (source == nullptr)
    user_error("{}: its samples are not images, so no sheet can be drawn", opened->name());
  sheet.rows = choose_rows(*source);
  const std::int64_t channels = source->shape()[0];
  SheetLayout layout;
  layout.rows = std::ssize(sheet.rows);
  layout.columns = kSheetImages;
  layout.channels = channels >= 3 ? 3 : 1;
  ContactSheet cells(layout);
  ReadBuffer buffer;
  for (std::int64_t row = 0; row < layout.rows; ++row) {
    const std::vector<std::int64_t>& images = sheet.rows[static_cast<std::size_t>(row)].images;
    for (std::size_t column = 0; column < images.size(); ++column) {
      try {
        const StoredImage image = source->decode(images[column], buffer, nullptr);
        cells.put(row, static_cast<std::int64_t>(column), image.pixels, channels, image.height, image.width);
      } catch (const UserError&) {
        // The examination names what cannot be read.
      }
    }
  }
  sheet.image = cells.image();
  return sheet;
}

}  // namespace rewire::runtime
