// Where training data end and validation data begin.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/schema.h"
#include "runtime/data/source.h"

namespace rewire::runtime {

/// The keys by which `tokens` and `text` choose the validation split.
ir::Schema split_parameters();

/// Returns the first of `count` parts that belong to validation, as nanoGPT splits: floor(count (1 - fraction)).
std::int64_t validation_begin(std::int64_t count, double fraction);

/// Lists the files of data.path: one file, the files of a folder (with `endings`, if there are any, and in its
/// folders if `nested`), or those that a shell pattern matches; in the order of their paths. Hidden files are
/// left out. Throws UserError if there are none.
std::vector<std::string> files_of_path(const std::string& path, const std::vector<std::string>& endings,
                                       bool nested);

/// Returns whether a file's name has the word "val", "valid" or "validation": "val.bin",
/// "fineweb_val_000000.bin".
bool is_validation_name(const std::string& path);

}  // namespace rewire::runtime
