// The CPU that code is compiled for.
#pragma once

#include <string>

namespace rewire::codegen::cpu {

struct CpuTarget {
  std::string name;      // as LLVM calls it: "sapphirerapids"
  std::string features;  // "+avx512f,…": its features beyond the name
  int vector_width = 4;  // f32 lanes of a vector: 16 with AVX-512, 8 with AVX2
  bool avx512 = false;
  bool fma = false;
};

/// Returns a target. `cpu`: LLVM's name of an x86-64 CPU; "" for the one that $REWIRE_CPU names, or else the
/// host. Throws UserError for a name that LLVM does not know, and for a $REWIRE_CPU with instructions that
/// the host lacks.
CpuTarget find_target(const std::string& cpu);

/// Returns whether $REWIRE_CPU names the CPU.
bool is_target_named();

}  // namespace rewire::codegen::cpu
