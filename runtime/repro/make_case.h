// What a folder is made of: a kernel of a program, or what shows a failure.
#pragma once

#include <optional>
#include <string>

#include "codegen/compile.h"
#include "runtime/repro/case.h"

namespace rewire::runtime {

/// A kernel of a program for the CPU, by the name that dump prints, with the values that it reads in a run from `state`
/// and `inputs`. UserError with the nearest match where there is none of this name.
ReproCase kernel_case(const codegen::Compiled& compiled, const std::string& kernel, const TensorMap& inputs,
                      const TensorMap& state);

/// The first kernel of a program that the engine computes otherwise than the evaluator, given what the evaluator gives it;
/// nothing where each is right by itself.
std::optional<ReproCase> wrong_kernel(const codegen::Compiled& compiled, const TensorMap& inputs,
                                      const TensorMap& state);

/// A digest of what identifies a kernel's machine code.
std::string code_digest(const codegen::tile::Kernel& kernel);
/// Whether a module whose one function is cut out is compiled to a kernel of this code.
bool compiles_to(const ir::Module& cut, const std::string& digest);

}  // namespace rewire::runtime
