// Applies one op to tensors, as the tests of its meaning write it down.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/tensor.h"

namespace rewire::testing {

/// An f32 tensor; the values in row-major order.
ir::Tensor f32(ir::Shape shape, std::vector<double> values);
ir::Tensor i32(ir::Shape shape, std::vector<double> values);
ir::Tensor i64(ir::Shape shape, std::vector<double> values);
ir::Tensor i1(ir::Shape shape, std::vector<double> values);
ir::Tensor scalar(ir::DType dtype, double value);
/// Uniform in [-2, 2], a function of the seed.
ir::Tensor random_f32(ir::Shape shape, std::uint64_t seed);

/// All results of the op on these operands.
std::vector<ir::Tensor> run_op(ir::Opcode code, const std::vector<ir::Tensor>& operands,
                               ir::Attributes attributes = {}, std::optional<ir::TensorType> requested = {});
/// The first result's values.
std::vector<double> values_of(ir::Opcode code, const std::vector<ir::Tensor>& operands,
                              ir::Attributes attributes = {}, std::optional<ir::TensorType> requested = {});

/// The results of a function built by `build` from the operands' values.
std::vector<ir::Tensor> run(
    const std::vector<ir::Tensor>& operands,
    const std::function<std::vector<ir::Value>(ir::Builder&, const std::vector<ir::Value>&)>& build);

/// Largest absolute difference; infinite where the sizes differ.
double distance(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace rewire::testing
