// Whether NVRTC is there, and new enough.
#pragma once

#include <optional>
#include <string>

#include "codegen/cuda/nvrtc.h"
#include "ir/error.h"

namespace rewire::test {

/// Why nothing can be compiled for an architecture, in one line; nullopt: it can.
inline std::optional<std::string> nvrtc_lacks(int arch) {
  try {
    codegen::cuda::try_compile("", arch);
  } catch (const UserError& error) {
    return error.what();
  }
  return std::nullopt;
}

}  // namespace rewire::test
