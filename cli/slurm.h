// A SLURM job array that trains the runs of a sweep.
#pragma once

#include <string>
#include <vector>

namespace rewire::cli {

struct SlurmArray {
  std::string sweep;                 // the sweep's file, for its comment
  std::string name;                  // of the job
  std::string folder;                // of the sweep's results, absolute: output goes there too
  std::vector<std::string> runs;     // the names, one for each task
  std::vector<std::string> command;  // the words before `--only RUN`
};

/// Returns the script for sbatch. It can be submitted again: tasks whose run is finished end at once.
std::string slurm_script(const SlurmArray& array);

}  // namespace rewire::cli
