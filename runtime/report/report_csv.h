// The lines of runs as tables, for pandas and spreadsheets.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rewire::runtime {

/// {"train.csv": TEXT, "eval.csv": …, "diagnose.csv": …} of what report_json() gives: a line for each line of the runs'
/// metrics.jsonl, one run behind the other, by the columns run, group, seed, epoch, step and each name that any of the
/// lines has, in the order of their first. A value that a line lacks, or that is not finite, is empty; numbers are as in
/// metrics.jsonl. RFC 4180, with lines that end in \n. A kind that no run has is left out.
std::map<std::string, std::string> report_csv(const nlohmann::ordered_json& report);

}  // namespace rewire::runtime
