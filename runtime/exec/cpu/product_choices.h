// Chooses our own code (codegen/llvm/product.h) or oneDNN for each product and convolution of a CPU's
// programs. A tuner chooses once per shape, by timing on this machine; an engine takes the answers from the
// record. Keys and answers:
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

/// The most seconds that candidates of all products may run together.
inline constexpr double kProductSeconds = 6;

/// Returns, by launch, true if our code computes it: as recorded, or, without an entry, if `preferred` and
/// possible.
std::vector<bool> own_products(const codegen::Program& program, const ChoiceRecord& choices, bool preferred);

/// Chooses for the functions of these names. Products of less than a five-hundredth of their program's
/// arithmetic are skipped. `cache_directory` is for machine code.
void choose_products(const ir::Module& module, const std::vector<std::string>& functions,
                     const std::string& cache_directory, Tuner& tuner);

}  // namespace rewire::runtime
