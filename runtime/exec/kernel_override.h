// A kernel whose CUDA C++ comes from a file in place of what is emitted: what `rewire dump --stage cuda
// --kernel NAME` writes, edited. It keeps its name, its arguments and its launch; the prelude stands before
// it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/program.h"
#include "runtime/io/place.h"

namespace rewire::runtime {

struct KernelOverride {
  std::string kernel, file, text;
};

/// UserError if the file cannot be read or has no kernel of this name; where it has a table with a member of
/// this name, the error says what the table goes by.
KernelOverride read_kernel_override(const std::string& kernel, const FilePlace& place);
/// Of options "NAME=FILE". UserError also where one is no such pair, or a name stands twice.
std::vector<KernelOverride> read_kernel_overrides(std::span<const std::string> options);

/// The first launch of the kernel's name. UserError where there is none: it names the table of which the
/// kernel is a later member, or the nearest name.
const codegen::KernelLaunch& overridden_launch(const KernelOverride& given,
                                               std::span<const codegen::KernelLaunch* const> launches);

/// `emitted` is what the kernel's own text would be here. UserError where the file lacks a line of its head
/// that says what is cut into how many parts, or how many blocks and threads are launched: written for
/// another batch or another GPU, it would leave elements out or write past the end.
void require_same_launch(const KernelOverride& given, std::string_view emitted);

/// What stands behind the prelude: lines count as in the file.
std::string override_text(const KernelOverride& given);
/// UserError with the first error of NVRTC's log, which names file and line.
[[noreturn]] void refuse_override(const KernelOverride& given, std::string_view log);

}  // namespace rewire::runtime
