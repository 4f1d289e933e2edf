// A page about training runs: their curves, figures and recipes (docs/guide/reports.md has the data).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/io/place.h"

namespace rewire::runtime {

/// Returns the data of run folders. It only reads them, and training may go on meanwhile. Throws UserError
/// if one is no run folder, or has a bad file.
nlohmann::ordered_json report_json(const std::vector<std::string>& folders);

/// Returns the page for the data of report_json().
std::string report_page(const nlohmann::ordered_json& report);
/// Writes that page to a file, which appears whole. Also throws UserError if it cannot be written.
void write_report(const std::vector<std::string>& folders, const FilePlace& file);

}  // namespace rewire::runtime
