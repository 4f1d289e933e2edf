// Alone in its file, since the build defines the hash anew whenever a source of the code generator changes.
#include <llvm/Config/llvm-config.h>

#include "codegen/llvm/compile.h"

namespace rewire::codegen::cpu {

std::string_view compiler_identity() {
  return "LLVM " LLVM_VERSION_STRING ", code generator " REWIRE_CODE_GENERATOR_HASH;
}

}  // namespace rewire::codegen::cpu
