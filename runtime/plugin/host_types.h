// Conversions between the boundary's C types and the IR's.
#pragma once

#include <string>
#include <vector>

#include "ir/attribute.h"
#include "ir/module.h"
#include "ir/opcode.h"
#include "ir/types.h"
#include "plugins/sdk/rewire_plugin.h"

namespace rewire::runtime {

/// Throws InternalError if the type has more axes than the boundary carries.
rewire_type to_c_type(const ir::TensorType& type);
/// The others throw UserError on what a plugin should not have passed.
ir::TensorType from_c_type(const rewire_type* type);
ir::Attributes from_c_attributes(const rewire_attribute* attributes, std::uint32_t count);
/// Converts the Init of a weight whose name and type are set.
ir::Init from_c_init(const rewire_new_weight& weight);

/// Returns an opcode that plugins may emit; throws UserError with the nearest match for another name.
ir::Opcode plugin_opcode(std::string_view name);
/// Returns one line per op that plugins may emit, with operands, results and attributes:
/// plugins/sdk/rewire_ops.txt, part of the ABI.
std::vector<std::string> plugin_op_lines();

}  // namespace rewire::runtime
