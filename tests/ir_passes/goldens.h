// Reading the golden .rir files of this folder and comparing functions in them.
#pragma once

#include <string>
#include <string_view>

#include "ir/module.h"

namespace rewire::ir {

/// "canonicalise/add_zero" is the file canonicalise/add_zero.rir.
Module load_golden(std::string_view name);

/// The function's text without dead ops and without its name.
std::string text_of(const Module& module, std::string_view function_name);

}  // namespace rewire::ir
