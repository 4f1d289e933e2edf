// --choices and --no-autotune, and what was chosen, for the commands that compile a network.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/command.h"
#include "runtime/exec/make_engine.h"
#include "runtime/exec/tune/choice_record.h"

namespace rewire::cli {

struct ChoiceRequest {
  std::string file;
  bool no_autotune = false;
};
void declare_choices(ChoiceRequest& request, Options& options);

/// Reads the file. UserError on one that is none.
runtime::ChoiceOptions choice_options(const ChoiceRequest& request);

/// What was taken, by what, and the times of the candidates: one line, and one more a schedule of a kernel.
std::string describe(const runtime::MadeChoice& choice);

}  // namespace rewire::cli
