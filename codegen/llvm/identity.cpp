// This function has a file of its own, since the build redefines the hash whenever a source of the code
// generator changes.
#include <llvm/Config/llvm-config.h>

#include "codegen/llvm/compile.h"

namespace rewire::codegen::cpu {

std::string_view compiler_identity() {
  return "LLVM " LLVM_VERSION_STRING ", code generator " REWIRE_CODE_GENERATOR_HASH;
}

}  // namespace rewire::codegen::cpu
