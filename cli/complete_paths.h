// Files, folders and runs as candidates of completion.
#pragma once

#include <string>
#include <vector>

#include "cli/complete.h"

namespace rewire::cli {

/// Whether it holds what a run has: recipe.toml and metrics.jsonl.
bool is_run_folder(const std::string& path);

/// Files whose path begins with `word` and ends as one of `endings` (any where there are none), and the folders on the way,
/// with '/' at their end.
std::vector<Candidate> files_at(const std::string& word, const std::vector<std::string>& endings);
std::vector<Candidate> folders_at(const std::string& word);
/// Runs, without '/', and the folders on the way. Those in runs/ are offered at once.
std::vector<Candidate> runs_at(const std::string& word);

}  // namespace rewire::cli
