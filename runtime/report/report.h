// One page about training runs: their curves, figures and recipes (docs/guide/reports.md has the data).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/io/place.h"

namespace rewire::runtime {

/// Of run folders, which are read alone, and may be trained in meanwhile. UserError where one is no run folder, or a file in
/// it is not what it should be.
nlohmann::ordered_json report_json(const std::vector<std::string>& folders);

/// The page of what report_json() gives.
std::string report_page(const nlohmann::ordered_json& report);
/// Both, into a file, which appears whole. UserError also where it cannot be written.
void write_report(const std::vector<std::string>& folders, const FilePlace& file);

}  // namespace rewire::runtime
