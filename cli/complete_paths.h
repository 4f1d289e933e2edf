// Files, folders and runs as completion candidates.
#pragma once

#include <string>
#include <vector>

#include "cli/complete.h"

namespace rewire::cli {

/// Returns whether the folder is a run: it has recipe.toml and metrics.jsonl.
bool is_run_folder(const std::string& path);

/// Returns files whose path begins with `word` and ends in one of `endings` (any if there are none), and
/// folders on the way, with a final '/'.
std::vector<Candidate> files_at(const std::string& word, const std::vector<std::string>& endings);
std::vector<Candidate> folders_at(const std::string& word);
/// Returns runs, without '/', and the folders on the way. Runs in runs/ are offered at once.
std::vector<Candidate> runs_at(const std::string& word);

}  // namespace rewire::cli
