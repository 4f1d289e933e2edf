// An event file as TensorBoard reads it: records of one event each, framed as TFRecord frames them,
//
//   length u64 | masked CRC32C of it u32 | an Event (event.proto) | masked CRC32C of that u32        little-endian
//
// where a masked checksum c is ((c >> 15) | (c << 17)) + 0xa282ead8. Each call writes its event whole, at once, so that
// who reads meanwhile, or after the process was killed, finds whole events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/events/histogram.h"
#include "runtime/io/appended_file.h"
#include "runtime/recipe/flat_values.h"

namespace rewire::runtime {

/// The record of these bytes.
std::string event_record(std::string_view bytes);

class EventFile {
 public:
  /// Goes on behind the first `bytes` of one that is there; 0: a new one, in its place, which begins with its version.
  /// The next event says that what a reader has of steps from `first_step` on is void. UserError as AppendedFile, as from
  /// all that follow.
  EventFile(const FilePlace& place, std::int64_t first_step, std::int64_t bytes = 0);

  /// By tag; "train/loss" stands in the group "train". As f32: TensorBoard has no more.
  void scalars(std::int64_t step, const std::vector<std::pair<std::string, double>>& values);
  /// `png` of an image with `channels` 1 or 3.
  void image(std::int64_t step, const std::string& tag, std::int64_t height, std::int64_t width,
             std::int64_t channels, std::span<const std::byte> png);
  void histograms(std::int64_t step, const std::vector<std::pair<std::string, Histogram>>& values);
  /// A Graph (graph.h).
  void graph(const std::string& bytes);
  /// What the run is told by, and that it has come to its end.
  void session_start(const FlatValues& hparams);
  void session_end();

  /// All events are on disk when it returns; the file's size in bytes.
  std::int64_t sync() { return file_.sync(); }

 private:
  AppendedFile file_;
};

}  // namespace rewire::runtime
