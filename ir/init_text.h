// How an Init is spelled in the text form: "zeros", "constant(0.5)", "trunc_normal(0.02, 2.0)". The kinds and
// how many numbers each takes stand in one table.
#pragma once

#include <string>
#include <string_view>

#include "ir/module.h"

namespace rewire::ir {

std::string to_string(const Init& init);
/// UserError saying which spellings there are.
Init init_from_string(std::string_view text);

/// The shortest text that reads back to the same bits, always with '.', 'e', "inf" or "nan" in it.
std::string spell_double(double value);

}  // namespace rewire::ir
