#include "runtime/measure/given.h"

#include <algorithm>
#include <cstring>

#include "ir/error.h"
#include "programs/programs.h"
#include "runtime/io/npy.h"
#include "runtime/measure/non_finite.h"

namespace rewire::runtime {
namespace {

/// Batch `index` of a stack; the whole tensor if it is one batch.
HostTensor batch_of(const HostTensor& tensor, const ir::TensorType& type, std::int64_t index) {
  HostTensor batch(type);
  const std::size_t size = batch.bytes().size();
  const std::size_t offset = tensor.type() == type ? 0 : static_cast<std::size_t>(index) * size;
  std::memcpy(batch.bytes().data(), tensor.bytes().data() + offset, size);
  return batch;
}

/// `given` is one batch of the argument, or a stack of `batches` of them.
void check_stack(const GivenTensor& given, std::string_view argument, const ir::TensorType& type,
                 std::int64_t batches) {
  const ir::TensorType& actual = given.tensor.type();
  ir::TensorType stack = type;
  stack.shape.insert(stack.shape.begin(), batches);
  if (actual == type || actual == stack) return;
  user_error("{}: '{}' is {}; for {} batches the program takes {}, or {} to use one batch every time",
             given.file, argument, to_string(actual), batches, to_string(stack), to_string(type));
}

void check_categories(const ir::Module& module, std::string_view argument, const GivenTensor& given) {
  const std::int64_t categories = programs::categories(module, argument);
  if (categories == 0 || given.tensor.type().dtype != ir::DType::i64) return;
  for (const std::int64_t value : given.tensor.as<std::int64_t>()) {
    if (value < 0 || value >= categories) {
      user_error("{}: the {} {} is not one of the model's, which are 0 to {}", given.file, argument, value,
                 categories - 1);
    }
  }
}

bool flag(const TensorMap& results, std::string_view name) {
  return results.find(name)->second.as<std::uint8_t>()[0] != 0;
}

ir::TensorType argument_type(const ir::Function& function, std::string_view argument) {
  const ir::Value value = function.argument(argument);
  if (!value) user_error("function '{}' has no argument '{}'", function.name, argument);
  return function.type(value);
}

}  // namespace

GivenTensor read_given(const std::string& npy_path) {
  return {read_npy(FilePlace::of_user(npy_path)), npy_path};
}

std::int64_t batch_extent(const GivenTensor& given, int rank, bool stack, int batch_axis) {
  const ir::TensorType& type = given.tensor.type();
  const auto axis = static_cast<std::size_t>(batch_axis);
  if (type.rank() == rank) return type.shape[axis];
  if (stack && type.rank() == rank + 1) return type.shape[axis + 1];
  user_error("{}: {} has the wrong rank: one batch has {} axes{}", given.file, to_string(type), rank,
             stack ? fmt::format(", a stack of batches {}", rank + 1) : "");
}

void check_batch(const ir::Module& module, const ir::Function& function, std::string_view argument,
                 const GivenTensor& given) {
  const ir::TensorType type = argument_type(function, argument);
  const ir::TensorType& actual = given.tensor.type();
  if (actual != type) {
    const bool same_shape = actual.shape == type.shape;
    user_error("{}: '{}' is {}, but the program takes {}{}", given.file, argument, to_string(actual),
               to_string(type), same_shape ? fmt::format("; convert it to {}", dtype_name(type.dtype)) : "");
  }
  check_categories(module, argument, given);
}

std::vector<double> run_given_steps(Engine& engine, const ir::Module& module, const GivenInputs& inputs,
                                    std::int64_t steps, const programs::TrainOptions& options) {
  const std::int64_t batches = options.shards * options.accumulate;
  const std::int64_t refresh_period = programs::refresh_period(options.optimizer);
  const std::string program = batches == 1 ? "step" : "accumulate";
  const ir::Function& function = module.function(program);
  for (const auto& [name, given] : inputs) {
    check_stack(given, name, argument_type(function, name), steps * batches);
    check_categories(module, name, given);
  }
  std::vector<double> losses;
  for (std::int64_t step = 0; step < steps; ++step) {
    double loss = 0;
    for (std::int64_t number = 0; number < batches; ++number) {
      TensorMap batch;
      for (const auto& [name, given] : inputs)
        batch.emplace(name, batch_of(given.tensor, argument_type(function, name), step * batches + number));
      const TensorMap results = engine.run(program, batch);
      if (!flag(results, "finite")) {
        user_error("step {}: the loss or a gradient is not finite: {}", step + 1,
                   first_non_finite(module, program, engine, batch));
      }
      loss += to_double(results.find("loss")->second).scalar() / static_cast<double>(batches);
      if (options.shards > 1 && (number + 1) % options.accumulate == 0)
        engine.run(programs::fold_behind(number / options.accumulate), {});
    }
    if (batches > 1 && !flag(engine.run("apply", {}), "finite")) {
      user_error("step {}: the accumulated gradient is not finite", step + 1);
    }
    for (const std::string& refresh : programs::refreshes_behind(step + 1, step == 0, refresh_period)) {
      if (!flag(engine.run(refresh, {}), "finite"))
        user_error("step {}: the optimizer's state is not finite", step + 1);
    }
    losses.push_back(loss);
  }
  return losses;
}

}  // namespace rewire::runtime
