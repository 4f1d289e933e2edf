// Random shapes and tensors, and the one-op function of a case.
#include "tests/support/case_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace rewire::testing {

using namespace rewire::ir;

CaseBuilder::CaseBuilder(std::uint64_t seed) : engine_(seed) {
  case_.module.name = "case";
  Function function;
  function.name = "main";
  case_.module.functions.push_back(std::move(function));
}

std::int64_t CaseBuilder::integer(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
}

double CaseBuilder::real(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(engine_);
}

std::int64_t CaseBuilder::extent(std::int64_t largest) {
  constexpr std::array<std::int64_t, 14> kExtents = {1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 50, 64, 97};
  const auto end = std::upper_bound(kExtents.begin(), kExtents.end(), largest);
  return kExtents[static_cast<std::size_t>(integer(0, std::distance(kExtents.begin(), end) - 1))];
}

Shape CaseBuilder::shape(int min_rank, int max_rank, std::int64_t max_elements) {
  const auto rank = static_cast<std::size_t>(integer(min_rank, max_rank));
  Shape shape(rank, 1);
  std::int64_t room = max_elements;
  // In random order, so that not always the last axes are left with extent 1.
  for (std::int64_t position : permutation(rank)) {
    std::int64_t& chosen = shape[static_cast<std::size_t>(position)];
    chosen = extent(room);
    room /= chosen;
  }
  return shape;
}

std::int64_t CaseBuilder::axis(std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  return integer(-signed_rank, signed_rank - 1);
}

Ints CaseBuilder::permutation(std::size_t count) {
  Ints order(count);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), engine_);
  return order;
}

Tensor CaseBuilder::tensor(TensorType type, double low, double high) {
  Tensor tensor(std::move(type));
  const DType dtype = tensor.type.dtype;
  for (double& value : tensor.data) {
    value = dtype == DType::i1 ? static_cast<double>(chance(0.5)) : round_to(dtype, real(low, high));
    if (dtype == DType::u8) value = std::abs(value);
  }
  return tensor;
}

Tensor CaseBuilder::away_from_zero(Shape shape, double low, double high) {
  Tensor tensor({DType::f32, std::move(shape)});
  for (double& value : tensor.data) {
    value = round_to(DType::f32, chance(0.5) ? real(low, high) : -real(low, high));
  }
  return tensor;
}

Tensor CaseBuilder::distinct(Shape shape) {
  Tensor tensor({DType::f32, std::move(shape)});
  const Ints order = permutation(tensor.data.size());
  const double middle = static_cast<double>(tensor.data.size()) / 2;
  for (std::size_t i = 0; i < order.size(); ++i) {
    tensor.data[i] = (static_cast<double>(order[i]) - middle) / 128;
  }
  return tensor;
}

std::string CaseBuilder::stream() {
  return fmt::format("blocks.{}.dropout", integer(0, 11));
}

Value CaseBuilder::input(Tensor tensor, bool differentiable) {
  Builder builder(case_.module, case_.module.functions[0]);
  const Value value = builder.argument(fmt::format("a{}", case_.inputs.size()), tensor.type);
  case_.differentiable.push_back(differentiable && is_float(tensor.type.dtype));
  case_.inputs.push_back(std::move(tensor));
  return value;
}

void CaseBuilder::apply(Opcode code, std::span<const Value> operands, Attributes attributes,
                        std::optional<TensorType> requested) {
  Builder builder(case_.module, case_.module.functions[0]);
  const Builder::Scope scope(builder, "case");
  const std::vector<Value> results =
      builder.emit_all(code, operands, std::move(attributes), std::move(requested));
  for (std::size_t i = 0; i < results.size(); ++i) builder.result(fmt::format("r{}", i), results[i]);
}

}  // namespace rewire::testing
