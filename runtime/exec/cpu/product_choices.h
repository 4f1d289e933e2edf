// Whether our own code (codegen/llvm/product.h) or oneDNN computes each product and convolution of a CPU's programs: chosen
// once a shape, as a tuner chooses, by timing on this machine; an engine takes the answers from the record. The key of a
// choice, and its answers:
//
//   product gemm 192x768x832 TN                                     ours | oneDNN
//   product conv2d 64x32x32x64 64x64x3x3 > 64x32x32x64              ours | oneDNN
#pragma once

#include <string>
#include <vector>

#include "codegen/program.h"
#include "ir/module.h"
#include "runtime/exec/tune/choice_record.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// Seconds that candidates of all products may run together.
inline constexpr double kProductSeconds = 6;

/// By launch: whether our code computes it, as the record has it; of those that are not in it where `preferred` and it can.
std::vector<bool> own_products(const codegen::Program& program, const ChoiceRecord& choices, bool preferred);

/// For the functions of these names. Products that take less than a five-hundredth of their program's arithmetic are the
/// model's. `cache_directory`: of machine code.
void choose_products(const ir::Module& module, const std::vector<std::string>& functions,
                     const std::string& cache_directory, Tuner& tuner);

}  // namespace rewire::runtime
