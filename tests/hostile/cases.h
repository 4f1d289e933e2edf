// The subjects of the table, a source each.
#pragma once

#include <vector>

#include "tests/hostile/table.h"

namespace rewire::test {

void add_recipe_cases(std::vector<Case>& cases);
void add_sweep_cases(std::vector<Case>& cases);
void add_module_cases(std::vector<Case>& cases);
void add_npy_cases(std::vector<Case>& cases);
void add_safetensors_cases(std::vector<Case>& cases);
void add_idx_cases(std::vector<Case>& cases);
void add_choices_cases(std::vector<Case>& cases);
void add_checkpoint_cases(std::vector<Case>& cases);
void add_run_folder_cases(std::vector<Case>& cases);
void add_link_cases(std::vector<Case>& cases);
void add_pipe_cases(std::vector<Case>& cases);
void add_cache_cases(std::vector<Case>& cases);
void add_plugin_cases(std::vector<Case>& cases);
void add_command_line_cases(std::vector<Case>& cases);

/// All of them; each has another name. Throws where two have the same.
std::vector<Case> all_cases();

}  // namespace rewire::test
