// The content of a folder: a kernel of a program, or the evidence of a failure.
#pragma once

#include <optional>
#include <string>

#include "codegen/compile.h"
#include "runtime/repro/case.h"

namespace rewire::runtime {

/// Returns a kernel of a program for the CPU, by its name in `rewire dump`, with the values that it reads in
/// a run from `state` and `inputs`. Throws UserError with the nearest match if there is no such kernel.
ReproCase kernel_case(const codegen::Compiled& compiled, const std::string& kernel, const TensorMap& inputs,
                      const TensorMap& state);

/// Returns the program's first kernel whose results differ from the evaluator's, given the evaluator's
/// inputs; nothing if each is right by itself.
std::optional<ReproCase> wrong_kernel(const codegen::Compiled& compiled, const TensorMap& inputs,
                                      const TensorMap& state);

/// Returns a digest of what identifies a kernel's machine code.
std::string code_digest(const codegen::tile::Kernel& kernel);
/// Returns true if a module with one cut-out function compiles to a kernel of this code.
bool compiles_to(const ir::Module& cut, const std::string& digest);

}  // namespace rewire::runtime
