// The lines of a metrics.jsonl by kind, as columns.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/io/place.h"

namespace rewire::runtime {

/// Returns {"train": {"epoch": [0, …], "loss": [2.3, null, …]}, "eval": {…}, "diagnose": {…}}. All columns
/// of a kind have one length, with null for a missing value. A missing file has no lines; an incomplete last
/// line is left out. Throws UserError with file and line if another line is no object of numbers, lacks
/// epoch and step as whole numbers, or brings more names or more missing values than any run has.
nlohmann::ordered_json read_run_lines(const FilePlace& file);

}  // namespace rewire::runtime
