// What the translations of single ops share, and those of torch_shapes.cpp.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/export/torch_translation.h"

namespace rewire::runtime {

/// "2, 3"
std::string joined(const ir::Ints& values);
/// "2" or "(1, 2)"
std::string axes_text(const ir::Ints& axes);
/// Returns whether `axes`, which may count from the end, have the axis.
bool has_axis(const ir::Ints& axes, std::size_t axis, std::size_t rank);
/// Adds a call on the op's first operand: ".exp()".
void add_method(TorchTranslation& net, const ir::Op& op, const std::string& call, std::string hint = "y");
/// "torch.int64"
std::string torch_dtype(ir::DType dtype);
/// Returns dtype and device of a new tensor. A float is of the network's own dtype, whatever the user makes of it.
std::string dtype_of_new(ir::DType dtype);

void add_reshape(TorchTranslation& net, const ir::Op& op);
void add_transpose(TorchTranslation& net, const ir::Op& op);
void add_expand(TorchTranslation& net, const ir::Op& op);
void add_slice(TorchTranslation& net, const ir::Op& op);
void add_pad(TorchTranslation& net, const ir::Op& op);
void add_constant(TorchTranslation& net, const ir::Op& op);
void add_iota(TorchTranslation& net, const ir::Op& op);
void add_concat(TorchTranslation& net, const ir::Op& op);
void add_gather(TorchTranslation& net, const ir::Op& op);
void add_scatter(TorchTranslation& net, const ir::Op& op);
void add_sort(TorchTranslation& net, const ir::Op& op);
void add_reduction(TorchTranslation& net, const ir::Op& op);

}  // namespace rewire::runtime
