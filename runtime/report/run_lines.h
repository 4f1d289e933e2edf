// The lines of a metrics.jsonl by kind, as columns.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/io/place.h"

namespace rewire::runtime {

/// {"train": {"epoch": [0, …], "loss": [2.3, null, …]}, "eval": {…}, "diagnose": {…}}: all columns of a kind have one length,
/// null where a line lacks the value. A file that is not there has no lines; a last line without its end is left out. UserError
/// with file and line on another that is no object of numbers, does not tell epoch and step as whole numbers, or brings more
/// names, or more that lines lack, than those of any run.
nlohmann::ordered_json read_run_lines(const FilePlace& file);

}  // namespace rewire::runtime
