// What a data set holds: how many samples and of which fields; of labelled images classes and sizes, what mean and std transforms
// take, which images are there twice, and which cannot be read.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/registry.h"
#include "runtime/data/vision/contact_sheet.h"
#include "runtime/data/vision/image_source.h"

namespace rewire::runtime {

/// The format of the data at `path`, as the sources recognise it (SourceRow::is_at). UserError naming the formats
/// where none does, or more than one.
std::string detect_format(const std::string& path);

struct DataInfoOptions {
  int threads = 1;          // that decode; they change no number
  std::int64_t images = 0;  // of each split, spread evenly; 0: all
  /// Now and then, from one thread at a time: of all images of the split, how many have been decoded.
  std::function<void(Split split, std::int64_t done, std::int64_t all)> progress = nullptr;
};

/// The extents of images: all of one, least is greatest.
struct ExtentRange {
  std::int64_t least = 0, median = 0, greatest = 0;  // the lower of two in the middle
};

/// Two images of equal height, width and pixels.
struct EqualImages {
  std::string image, earlier;  // sample_name() of each; in the training split where they are of both
};

/// How many images equal an earlier one, or one of the training split.
struct EqualCount {
  std::int64_t images = 0;
  std::int64_t other_label = 0;    // of them: labelled otherwise
  std::vector<EqualImages> first;  // five at most
};

/// What a field of the samples holds that is neither the image nor its label.
struct FieldFacts {
  Field field;
  ExtentRange extent;              // of its first axis, where that is ragged: of boxes, how many
  double least = 0, greatest = 0;  // of all its numbers; both 0 where there are none
};

struct SplitInfo {
  Split split = Split::train;
  std::string problem;  // why it cannot be opened; then it has nothing below
  std::string name;     // of the source
  std::int64_t count = 0, examined = 0, channels = 0;
  std::map<std::int64_t, std::int64_t> classes;  // images by label: all, of named classes 0 too
  std::vector<std::string> class_names;          // by label, or none
  std::int64_t sizes = 0;                        // that differ in height or width
  ExtentRange height, width;
  std::vector<double> mean, deviation;  // a channel, of pixels in [0, 1]; exact sums, rounded once
  std::int64_t unreadable = 0;
  std::vector<std::string> first_unreadable;  // messages, five at most
  std::int64_t turned_by_exif = 0;            // images with another orientation than 1
  SourceNotes notes;
  EqualCount duplicates;
  std::vector<FieldFacts> fields;  // of samples that are no images all fields; of images those beside them
};

struct DataInfo {
  std::vector<SplitInfo> splits;  // train, test
  EqualCount leaks;               // test images that equal a training image
};

/// Reads both splits of the data. A split that cannot be opened has its problem; UserError where neither can.
DataInfo examine_data(const ir::Selection& selection, const DataInfoOptions& options);

/// A row a class: which class, and its images on the sheet.
struct SheetRow {
  std::int64_t label = 0;
  std::vector<std::int64_t> images;
};

struct ClassSheet {
  DrawnImage image;
  std::vector<SheetRow> rows;  // from the top
  Split split = Split::train;
};
/// At most 10 classes and 8 images of each, both chosen evenly, of the first split that can be opened. An image that
/// cannot be read leaves its cell empty.
ClassSheet draw_classes(const ir::Selection& selection);

}  // namespace rewire::runtime
