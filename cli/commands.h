// One function per command, in cli/<name>.cpp. cli/commands.cpp lists them in the order of `rewire --help`.
#pragma once

#include "cli/command.h"

namespace rewire::cli {

Command train_command();
Command sweep_command();
Command eval_command();
Command sample_command();
Command init_command();
Command run_command();
Command grad_command();
Command step_command();
Command export_command();
Command verify_command();
Command trace_command();
Command report_command();
Command analyze_command();
Command features_command();
Command probe_command();
Command tokencut_command();
Command dump_command();
Command explore_command();
Command diff_command();
Command repro_command();
Command bench_command();
Command models_command();
Command models_info_command();
Command plugins_command();
Command plugins_info_command();
Command plugin_new_command();
Command plugin_test_command();
Command data_info_command();
Command data_preview_command();
Command data_try_command();
Command data_pack_command();
Command data_bench_command();
Command detect_eval_command();
Command doctor_command();
Command help_command();
Command docs_command();
Command completion_command();
Command man_command();
/// Returns sources, transforms, objectives, optimizers and schedules, each with its info command.
std::vector<Command> resident_commands();

}  // namespace rewire::cli
