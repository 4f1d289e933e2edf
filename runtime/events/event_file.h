// Writes an event file for TensorBoard. Each record is one event, framed as in TFRecord,
//
//   length u64 | masked CRC32C of it u32 | an Event (event.proto) | masked CRC32C of that u32  little-endian
//
// where a masked checksum c is ((c >> 15) | (c << 17)) + 0xa282ead8. Each call writes its event whole, at
// once, so that a reader finds whole events at any time, also after the process was killed.
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

/// Returns the record of these bytes.
std::string event_record(std::string_view bytes);

class EventFile {
 public:
  /// Continues after the first `bytes` of an existing file; 0: makes a new file in its place, which begins
  /// with its version. The next event voids what a reader has of steps from `first_step` on. Throws
  /// UserError as AppendedFile does, as do all functions below.
  EventFile(const FilePlace& place, std::int64_t first_step, std::int64_t bytes = 0);

  /// Writes numbers by tag; "train/loss" is in the group "train". They are f32, all that TensorBoard has.
  void scalars(std::int64_t step, const std::vector<std::pair<std::string, double>>& values);
  /// Writes an image as PNG; `channels` is 1 or 3.
  void image(std::int64_t step, const std::string& tag, std::int64_t height, std::int64_t width,
             std::int64_t channels, std::span<const std::byte> png);
  void histograms(std::int64_t step, const std::vector<std::pair<std::string, Histogram>>& values);
  /// Writes a Graph (graph.h).
  void graph(const std::string& bytes);
  /// Records the settings at the run's start, and its end.
  void session_start(const FlatValues& hparams);
  void session_end();

  /// Returns the file's size in bytes, once all events are on disk.
  std::int64_t sync() { return file_.sync(); }

 private:
  AppendedFile file_;
};

}  // namespace rewire::runtime
