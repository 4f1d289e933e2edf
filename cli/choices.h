// --choices and --no-autotune, and a description of the choices, for commands that compile a network.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "runtime/exec/make_engine.h"
#include "runtime/exec/tune/choice_record.h"

namespace rewire::cli {

struct ChoiceRequest {
  std::string file;
  bool no_autotune = false;
  std::vector<std::string> tune = {};  // KEY=VALUE of runtime/exec/tune/tune_keys.h
};
void declare_choices(ChoiceRequest& request, Options& options);

/// Declares --tune.
void declare_tune(std::vector<std::string>& tune, Options& options);

/// Reads the choice file; --tune replaces its numbers, the last of a key. Throws UserError if it is not such a
/// file, and on an unknown key or value.
runtime::ChoiceOptions choice_options(const ChoiceRequest& request);

/// Returns the choice, its source and the candidates' times: one line, and another per schedule of a kernel.
std::string describe(const runtime::MadeChoice& choice);

}  // namespace rewire::cli
