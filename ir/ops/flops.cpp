#include "ir/ops/flops.h"

#include "ir/ops/op_info.h"

namespace rewire::ir {

std::int64_t flops_per_element(Opcode code) {
  switch (code) {
    case Opcode::exp:
    case Opcode::log:
    case Opcode::sin:
    case Opcode::cos:
    case Opcode::tanh:
    case Opcode::erf:
    case Opcode::sigmoid:
      return 20;
    case Opcode::pow:
    case Opcode::random_uniform:
      return 40;
    case Opcode::random_normal:
      return 80;
    case Opcode::sqrt:
    case Opcode::rsqrt:
    case Opcode::div:
    case Opcode::gather:
    case Opcode::pad:
      return 4;
    default:
      return op_info(code).op_class == OpClass::shape ? 0 : 1;
  }
}

}  // namespace rewire::ir
