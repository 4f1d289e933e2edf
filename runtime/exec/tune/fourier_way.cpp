#include "runtime/exec/tune/fourier_way.h"

#include <fmt/format.h>

#include "codegen/library/cufft.h"

namespace rewire::runtime {

std::string fourier_key(const ir::FourierRows& rows) {
  return fmt::format("{} {}", kFourierChoice, codegen::full_name(rows));
}

ir::FourierWay fourier_way(const ChoiceRecord& choices, const ir::FourierRows& rows) {
  const bool by_library = rows.dtype == ir::DType::f32 || rows.dtype == ir::DType::f64;
  const MadeChoice* choice = choices.find(fourier_key(rows));
  if (by_library && choice != nullptr && choice->taken.starts_with(kCufftAnswer))
    return ir::FourierWay::pairs;
  if (ir::has_fourier_product(rows)) return ir::FourierWay::product;
  return by_library ? ir::FourierWay::pairs : ir::FourierWay::op;
}

}  // namespace rewire::runtime
