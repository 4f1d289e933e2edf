// --choices and --no-autotune, and a description of the choices, for commands that compile a network.
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

/// Reads the choice file. Throws UserError if it is not one.
runtime::ChoiceOptions choice_options(const ChoiceRequest& request);

/// Returns the choice, its source and the candidates' times: one line, and another per schedule of a kernel.
std::string describe(const runtime::MadeChoice& choice);

}  // namespace rewire::cli
