// A kernel whose CUDA C++ comes from a file in place of the emitted text: the output of `rewire dump --stage
// cuda --kernel NAME`, edited. It keeps its name, its arguments and its launch. The prelude comes before it.
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

/// Reads the override of `kernel`. Throws UserError if the file cannot be read or has no kernel of this
/// name; if it has a table with a member of this name, the error gives the table's name.
KernelOverride read_kernel_override(const std::string& kernel, const FilePlace& place);
/// Reads options "NAME=FILE". Throws UserError also if one is not such a pair, or a name occurs twice.
std::vector<KernelOverride> read_kernel_overrides(std::span<const std::string> options);

/// Returns the first launch of the kernel's name. Throws UserError if there is none, with the table of which
/// the kernel is a later member, or the nearest name.
const codegen::KernelLaunch& overridden_launch(const KernelOverride& given,
                                               std::span<const codegen::KernelLaunch* const> launches);

/// Compares with `emitted`, the kernel's own text here. Throws UserError if the file lacks a line of its
/// head that says how axes are cut into parts, or how many blocks and threads are launched: written for
/// another batch or GPU, it would leave elements out or write past the end.
void require_same_launch(const KernelOverride& given, std::string_view emitted);

/// Returns the text that follows the prelude, with the file's line numbers.
std::string override_text(const KernelOverride& given);
/// Throws UserError with the first error of NVRTC's log, which names file and line.
[[noreturn]] void refuse_override(const KernelOverride& given, std::string_view log);

}  // namespace rewire::runtime
