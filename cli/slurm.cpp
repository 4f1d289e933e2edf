#include "cli/slurm.h"

#include <fmt/format.h>

#include <filesystem>

#include "cli/complete.h"
#include "ir/printable.h"

namespace rewire::cli {
namespace {

std::string in_quotes(std::string_view word) {
  return "'" + shell_escaped(word, '\'') + "'";
}

/// Doubles each %, which begins a pattern in a file name of sbatch.
std::string without_patterns(std::string_view path) {
  std::string doubled;
  for (const char c : path) doubled += c == '%' ? "%%" : std::string(1, c);
  return doubled;
}

}  // namespace

std::string slurm_script(const SlurmArray& array) {
  std::string runs, command;
  for (const std::string& run : array.runs) runs += fmt::format("  {}\n", in_quotes(run));
  for (const std::string& word : array.command) command += in_quotes(word) + " ";
  return fmt::format(R"(#!/bin/bash
#SBATCH --job-name={}
#SBATCH --array=0-{}
#SBATCH --output={}
#SBATCH --signal=B:USR1@120
# Trains the runs of {}, one in each task of the array. Add what your cluster needs,
# such as --time, --cpus-per-task, --gpus or --partition. Two minutes before the time limit, a run saves and ends.
# Submit this file again for what is left; each task adds its run to the tables.
cd {} || exit 1
runs=(
{})
exec {}--only "${{runs[SLURM_ARRAY_TASK_ID]}}"
)",
                     in_quotes(visible(array.name)), array.runs.size() - 1,
                     in_quotes(without_patterns(visible(array.folder)) + "/slurm-%A_%a.txt"),
                     visible(array.sweep), in_quotes(std::filesystem::current_path().string()), runs,
                     command);
}

}  // namespace rewire::cli
