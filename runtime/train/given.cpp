#include "runtime/train/given.h"

#include <algorithm>
#include <cstring>

#include "ir/error.h"
#include "runtime/io/npy.h"
#include "runtime/train/non_finite.h"

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
  user_error("{}: '{}' is {}; {} batches of the program are {}, or {} for one that is used every time",
             given.file, argument, to_string(actual), batches, to_string(stack), to_string(type));
}

void check_labels(const ir::Module& module, const GivenTensor& given) {
  const ir::Function& forward = module.function("forward");
  const ir::Value logits = forward.result("logits");
  if (!logits || given.tensor.type().dtype != ir::DType::i64) return;
  const std::int64_t classes = forward.type(logits).shape.back();
  for (const std::int64_t label : given.tensor.as<std::int64_t>()) {
    if (label < 0 || label >= classes) {
      user_error("{}: the label {} is no class of the model, which has 0 to {}", given.file, label,
                 classes - 1);
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
  return {read_npy(npy_path), npy_path};
}

std::int64_t batch_extent(const GivenTensor& given, int rank, bool stack) {
  const ir::TensorType& type = given.tensor.type();
  if (type.rank() == rank) return type.shape[0];
  if (stack && type.rank() == rank + 1) return type.shape[1];
  user_error("{}: {} has the wrong rank: one batch has {} axes{}", given.file, to_string(type), rank,
             stack ? fmt::format(", a stack of batches {}", rank + 1) : "");
}

void check_batch(const ir::Module& module, const ir::Function& function, std::string_view argument,
                 const GivenTensor& given) {
  const ir::TensorType type = argument_type(function, argument);
  const ir::TensorType& actual = given.tensor.type();
  if (actual != type) {
    const bool same_shape = actual.shape == type.shape;
    user_error("{}: '{}' is {}; the program takes {}{}", given.file, argument, to_string(actual),
               to_string(type), same_shape ? fmt::format("; convert it to {}", dtype_name(type.dtype)) : "");
  }
  if (argument == "label") check_labels(module, given);
}

std::vector<double> run_given_steps(Engine& engine, const ir::Module& module, const GivenTensor& images,
                                    const GivenTensor& labels, std::int64_t steps, std::int64_t accumulate) {
  const std::string program = accumulate == 1 ? "step" : "accumulate";
  const ir::Function& function = module.function(program);
  const ir::TensorType image_type = argument_type(function, "image");
  const ir::TensorType label_type = argument_type(function, "label");
  check_stack(images, "image", image_type, steps * accumulate);
  check_stack(labels, "label", label_type, steps * accumulate);
  check_labels(module, labels);

  std::vector<double> losses;
  for (std::int64_t step = 0; step < steps; ++step) {
    double loss = 0;
    for (std::int64_t micro = 0; micro < accumulate; ++micro) {
      const std::int64_t index = step * accumulate + micro;
      TensorMap inputs;
      inputs.emplace("image", batch_of(images.tensor, image_type, index));
      inputs.emplace("label", batch_of(labels.tensor, label_type, index));
      const TensorMap results = engine.run(program, inputs);
      if (!flag(results, "finite")) {
        user_error("step {}: the loss or a gradient is not finite: {}", step + 1,
                   first_non_finite(module, program, engine, inputs));
      }
      loss += to_double(results.find("loss")->second).scalar() / static_cast<double>(accumulate);
    }
    if (accumulate > 1 && !flag(engine.run("apply", {}), "finite")) {
      user_error("step {}: the accumulated gradient is not finite", step + 1);
    }
    losses.push_back(loss);
  }
  return losses;
}

}  // namespace rewire::runtime
