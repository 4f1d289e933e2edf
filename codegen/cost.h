// What a launch costs at least: the bytes that must move between memory and processor, each distinct window
// of a buffer once a direction, and the operations it computes. What a measured time is held against.
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

/// What the threads of a kernel do, of all its members: for a model of its time.
struct KernelWork {
  std::int64_t bytes_read = 0;             // of LaunchCost::bytes
  std::map<ir::Opcode, std::int64_t> ops;  // elements of pointwise ops, and of random numbers
  std::int64_t reduced = 0, accessed = 0;  // elements that are added up; that are loaded or stored
  std::vector<std::pair<const tile::Node*, std::int64_t>> products;  // flops of each Dot of the kernel
};
KernelWork work_of(const Program& program, const KernelLaunch& launch);

/// A short name for people: the kernel's own (", a table of 24" behind it), "gemm 3200x192x768 + bias", the
/// op of a host call.
std::string short_name(const Launch& launch);
/// What a product computes beside the sum, as it stands behind its sizes: " + bias, gelu, pre" with what is
/// kept, ", gelu gradient", " + c".
std::string epilogue_text(GemmEpilogue epilogue, bool bias, bool pre, bool accumulate);
/// "epilogue gelu, pre 12608x1536x384 bf16": what a choice and its record call it; m, n and k in this order.
/// `tf32`: f32 operands may be rounded to it.
std::string epilogue_key(const ProductEpilogue& epilogue, bool tf32 = false);
/// Launches with one key run the same code on the same shapes.
std::string code_key(const Launch& launch);

}  // namespace rewire::codegen
