#include "cli/commands.h"

namespace rewire::cli {

std::vector<Command> commands() {
  std::vector<Command> all = {
      train_command(),        sweep_command(),      eval_command(),        sample_command(),
      init_command(),         run_command(),        grad_command(),        step_command(),
      export_command(),       verify_command(),     trace_command(),       report_command(),
      diff_command(),         analyze_command(),    features_command(),    probe_command(),
      tokencut_command(),     dump_command(),       explore_command(),     repro_command(),
      bench_command(),        models_command(),     models_info_command(), plugins_command(),
      plugins_info_command(), plugin_new_command(), plugin_test_command(), data_info_command(),
      data_preview_command(), data_try_command(),   data_pack_command(),   data_bench_command(),
      detect_eval_command(),  doctor_command(),     help_command(),        docs_command(),
      completion_command(),   man_command()};
  const std::vector<Command> residents = resident_commands();
  all.insert(all.end() - 5, residents.begin(), residents.end());
  return all;
}

}  // namespace rewire::cli
