// Examines a data set: the number of its samples and their fields. For labelled images also classes, sizes,
// mean and std for transforms, duplicates, and images that cannot be read. For tokens their numbers.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/registry.h"
#include "runtime/data/text/token_info.h"
#include "runtime/data/vision/contact_sheet.h"
#include "runtime/data/vision/image_source.h"

namespace rewire::runtime {

/// Returns the format of the data at `path`, as the sources recognise it (SourceRow::is_at). Throws
/// UserError naming the formats if none or several do.
std::string detect_format(const std::string& path);

struct DataInfoOptions {
  int threads = 1;          // decoding threads; results do not depend on them
  std::int64_t images = 0;  // per split, spread evenly; 0: all
  /// Called now and then, from one thread at a time: `done` of `all` images of the split are decoded.
  std::function<void(Split split, std::int64_t done, std::int64_t all)> progress = nullptr;
};

/// The extents of images; least equals greatest if all are the same.
struct ExtentRange {
  std::int64_t least = 0, median = 0, greatest = 0;  // the lower of the two in the middle
};

/// Two images of equal height, width and pixels.
struct EqualImages {
  std::string image, earlier;  // sample_name() of each; `earlier` is in the training split if splits differ
};

/// Counts images that equal an earlier one, or one of the training split.
struct EqualCount {
  std::int64_t images = 0;
  std::int64_t other_label = 0;    // images with another label
  std::vector<EqualImages> first;  // at most five
};

/// A field of the samples other than the image and its label.
struct FieldFacts {
  Field field;
  ExtentRange extent;              // extent of a ragged first axis, such as the number of boxes
  double least = 0, greatest = 0;  // over all its numbers; both 0 if there are none
};

struct SplitInfo {
  Split split = Split::train;
  std::string problem;  // why it cannot be opened; all below is then empty
  std::string name;     // the source's name
  std::int64_t count = 0, examined = 0, channels = 0;
  std::map<std::int64_t, std::int64_t> classes;  // images by label, of all; named classes may have 0
  std::vector<std::string> class_names;          // names by label; empty if unnamed
  std::int64_t sizes = 0;                        // different pairs of height and width
  ExtentRange height, width;
  std::vector<double> mean, deviation;  // per channel, of pixels in [0, 1]; exact sums, rounded once
  std::int64_t unreadable = 0;
  std::vector<std::string> first_unreadable;  // messages, at most five
  std::int64_t turned_by_exif = 0;            // images whose orientation is not 1
  SourceNotes notes;
  EqualCount duplicates;
  std::vector<FieldFacts> fields;  // all fields; for images, those besides image and label
  std::optional<TokenFacts>
      tokens;  // if the samples are windows of tokens; of all above, only `name` is then set
};

struct DataInfo {
  std::vector<SplitInfo> splits;  // train, test
  EqualCount leaks;               // test images that equal a training image
};

/// Reads both splits of the data. A split that cannot be opened has its problem; throws UserError if neither
/// can.
DataInfo examine_data(const ir::Selection& selection, const DataInfoOptions& options);

/// A class, which is one row of the sheet, and its images there.
struct SheetRow {
  std::int64_t label = 0;
  std::vector<std::int64_t> images;
};

struct ClassSheet {
  DrawnImage image;
  std::vector<SheetRow> rows;  // from top to bottom
  Split split = Split::train;
};
/// Draws at most 10 classes with 8 images each, both spread evenly, of the first split that can be opened.
/// The cell of an unreadable image stays empty.
ClassSheet draw_classes(const ir::Selection& selection);

}  // namespace rewire::runtime
