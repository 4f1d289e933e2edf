// A lower bound on the cost of a launch: the bytes that must move between memory and processor, each
// distinct window of a buffer once per direction, and the operations. Measured times are compared with it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "codegen/program.h"

namespace rewire::codegen {

struct LaunchCost {
  std::int64_t bytes = 0;
  std::int64_t flops = 0;  // a multiply-add is 2; every other pointwise op, and each reduced element, is 1
};
LaunchCost cost_of(const Program& program, const Launch& launch);

/// The work of a kernel's threads, over all members, for a model of its time.
struct KernelWork {
  std::int64_t bytes_read = 0;  // the part of LaunchCost::bytes that is read
  std::map<ir::Opcode, std::int64_t>
      ops;  // elements of each pointwise op and kind of random number; a power of two is an exp
  std::int64_t reduced = 0, accessed = 0;  // elements added up by reductions; elements loaded or stored
  std::vector<std::pair<const tile::Node*, std::int64_t>> products;  // flops of each Dot of the kernel
};
KernelWork work_of(const Program& program, const KernelLaunch& launch);

/// Returns a short name for people: the kernel's own (a table's ends in ", a table of 24"), "gemm
/// 3200x192x768 NN + bias", or the op of a host call with its operands' shapes.
std::string short_name(const Launch& launch);
/// Returns what a product computes besides the sum, as text that follows its sizes: " + bias, gelu, pre"
/// (pre is kept), ", gelu gradient", " + c".
std::string epilogue_text(GemmEpilogue epilogue, bool bias, bool pre, bool accumulate);
/// Returns "epilogue gelu, pre 12608x1536x384 bf16" (m, n, k): an epilogue's name in choices and records.
/// `tf32`: f32 operands may be rounded to TF32.
std::string epilogue_key(const ProductEpilogue& epilogue, bool tf32 = false);
/// Launches with equal keys run the same code on the same shapes.
std::string code_key(const Launch& launch);

}  // namespace rewire::codegen
