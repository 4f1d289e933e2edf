#include "tests/hostile/cases.h"

#include <set>
#include <stdexcept>

namespace rewire::test {

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto add :
       {add_recipe_cases, add_sweep_cases, add_module_cases, add_npy_cases, add_safetensors_cases,
        add_idx_cases, add_choices_cases, add_checkpoint_cases, add_run_folder_cases, add_link_cases,
        add_pipe_cases, add_cache_cases, add_plugin_cases, add_command_line_cases})
    add(cases);
  std::set<std::string> names;
  for (const Case& given : cases)
    if (!names.insert(given.name).second) throw std::logic_error("two cases are named " + given.name);
  return cases;
}

}  // namespace rewire::test
