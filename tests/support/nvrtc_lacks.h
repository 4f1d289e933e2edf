// Checks that NVRTC is there, and new enough.
#pragma once

#include <optional>
#include <string>

#include "codegen/cuda/nvrtc.h"
#include "ir/error.h"

namespace rewire::test {

/// Returns in one line why no code can be compiled for an architecture; nullopt if it can.
inline std::optional<std::string> nvrtc_lacks(int arch) {
  try {
    codegen::cuda::try_compile("", arch);
  } catch (const UserError& error) {
    return error.what();
  }
  return std::nullopt;
}

}  // namespace rewire::test
