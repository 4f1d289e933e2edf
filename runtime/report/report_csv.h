// The lines of runs as tables, for pandas and spreadsheets.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rewire::runtime {

/// Returns {"train.csv": TEXT, "eval.csv": …, "diagnose.csv": …} for the data of report_json(): one line for
/// each line of the runs' metrics.jsonl, run after run. The columns are run, group, seed, epoch, step and
/// each name in any line, in the order of their first use. A missing value, or one that is not finite, is
/// empty; numbers are as in metrics.jsonl. RFC 4180, with lines that end in \n. A kind that no run has is
/// left out.
std::map<std::string, std::string> report_csv(const nlohmann::ordered_json& report);

}  // namespace rewire::runtime
