// The spelling of an Init in the text form: "zeros", "constant(0.5)", "trunc_normal(0.02, 2.0)". One table
// has the kinds and the count of numbers that each takes.
#pragma once

#include <string>
#include <string_view>

#include "ir/module.h"

namespace rewire::ir {

std::string to_string(const Init& init);
/// Reads an Init. Throws UserError with the known spellings.
Init init_from_string(std::string_view text);

/// Returns the shortest text that reads back to the same bits, always with '.', 'e', "inf" or "nan" in it.
std::string spell_double(double value);

}  // namespace rewire::ir
