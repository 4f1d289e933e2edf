#include "tests/left_out/networks.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "codegen/lowering_steps.h"
#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/passes/mixed_precision.h"
#include "models/model.h"
#include "programs/programs.h"
#include "runtime/verify/engine_check.h"
#include "runtime/verify/perturbed_state.h"
#include "tests/support/catch.h"

namespace rewire::testing::left_out {

namespace {

using namespace runtime;
using ir::Builder;
using ir::Opcode;
using ir::Value;

constexpr Row kRows[] = {
    {"choose_lowerings", Effect::nothing,
     "no engine passes a chooser: choices are made before, in the module"},
    {"channels_last", Effect::rounding},
    {"pointwise_convolution", Effect::rounding},
    {"widen_convolutions", Effect::nothing, "none of the networks convolves in bf16"},
    {"lower_fourier", Effect::nothing, "the CPU's library takes transforms as they are"},
    {"dce", Effect::rounding},  // dead transpositions count as readers
    {"canonicalise", Effect::rounding},
    {"constant_fold", Effect::rounding},
    {"cse", Effect::rounding},
    {"chunk_rows", Effect::nothing, "none of the networks has rows that are too wide to be held"},
    {"recompute", Effect::rounding},
    {"split_pointwise", Effect::rounding},
    {codegen::kFuse, Effect::rounding},
    {codegen::kUnifyViews, Effect::bits},
    {codegen::kWideningCasts, Effect::rounding},
    {codegen::kLowerArgmax, Effect::rounding},
    {codegen::kLowerIndexed, Effect::rounding},
    {codegen::kMergePads, Effect::rounding, "", "canonicalise"},
    {codegen::kMergeGroups, Effect::rounding},
    {codegen::kBiasInCalls, Effect::rounding},
    {codegen::kTokenSums, Effect::nothing, "only GPUs have kernels that add up over tokens"},
    {codegen::kMergeAxes, Effect::rounding},
    {codegen::kConcatWindows, Effect::bits},
    {codegen::kCopyElision, Effect::bits},
    {codegen::kTwins, Effect::bits},
    {codegen::kAppendMaps, Effect::nothing,
     "the networks are so small that maps of sums fit their large kernels"},
    {codegen::kShareCode, Effect::bits},
    {codegen::kTables, Effect::bits},
};

/// Blocks that have what a ViT has not: transposes of all kinds, a circulant product, reductions over rows
/// and columns, pads that are joined, a slice of a pointwise chain, an index of the largest, rows
/// that are kept by an order, a value twice.
class Unlike {
 public:
  explicit Unlike(const std::string& lowering) {
    module_.name = "unlike";
    ir::Function forward;
    forward.name = "forward";
    Builder b(module_, forward);
    b_ = &b;
    write(lowering);
    module_.functions.push_back(std::move(forward));
  }
  ir::Module take() { return std::move(module_); }

 private:
  static constexpr std::int64_t kBatch = 3, kRowsOf = 8, kWidth = 16;

  Value weight(const std::string& name, ir::Shape shape) {
    ir::Parameter p;
    p.name = name;
    p.type = {ir::DType::f32, std::move(shape)};
    p.init = {ir::InitKind::normal, 0.2};
    p.decay = p.type.rank() > 1;
    p.role = "fc1";
    return b_->param(module_.add_parameter(std::move(p)).name);
  }

  void write(const std::string& lowering) {
    Builder& b = *b_;
    const Value image = b.argument("image", {ir::DType::f32, {kBatch, 1, kRowsOf, kWidth}});
    Value x = b.reshape(image, {kBatch, kRowsOf, kWidth});
    b.set_location("mix");
    x = b.linear(x, weight("mix.weight", {kWidth, kWidth}), weight("mix.bias", {kWidth}));
    b.set_location("circulant");
    x = b.add(x, b.emit(Opcode::circulant_matmul, {x, weight("circulant.lags", {2, 2, kWidth / 2})},
                        {{"lowering", lowering}}));
    b.set_location("norm");
    const Value centred = b.sub(x, b.mean(x, {-1}));
    const Value scale = b.unary(Opcode::rsqrt, b.add(b.mean(b.mul(centred, centred), {-1}), 1e-5));
    x = b.mul(centred, scale);
    b.set_location("columns");
    x = b.sub(x, b.mean(x, {1}));
    b.set_location("attention");
    const Value heads = b.transpose(b.reshape(x, {kBatch, kRowsOf, 2, kWidth / 2}), {0, 2, 1, 3});
    const Value mixed = b.emit(Opcode::attention, {heads, heads, b.mul(heads, heads)}, {{"scale", 0.35}});
    x = b.add(x, b.reshape(b.transpose(mixed, {0, 2, 1, 3}), {kBatch, kRowsOf, kWidth}));
    b.set_location("halves");
    const Value gated = b.unary(Opcode::tanh, b.mul(x, x));
    const Value left = b.slice(gated, 2, 0, kWidth / 2), right = b.slice(gated, 2, kWidth / 2, kWidth);
    const Value parts[] = {right, b.mul(left, right)};
    x = b.add(x, b.concat(parts, 2));
    b.set_location("padded");
    const auto window = [&](Value part, std::int64_t low) {
      return b.emit(
          Opcode::pad, {part},
          {{"low", ir::Ints{0, 0, low}}, {"high", ir::Ints{0, 0, kWidth / 2 - low}}, {"value", 0.0}});
    };
    x = b.mul(x, b.add(b.add(window(left, 0), window(b.mul(right, left), kWidth / 2)), 1.0));
    b.set_location("largest");
    const Value at = b.emit(Opcode::argmax, {x}, {{"axis", std::int64_t{2}}});
    x = b.add(x, b.mul(b.cast(at, ir::DType::f32), 0.01));
    b.set_location("kept");
    const Value noise = b.reshape(b.slice(image, 3, 0, 1), {kBatch, kRowsOf});
    const Value order = b.emit_all(Opcode::sort, std::array{noise}, {{"axis", std::int64_t{1}}})[1];
    const Value kept = b.emit(Opcode::gather, {x, b.slice(order, 1, 0, 3)}, {{"axis", std::int64_t{1}}});
    x = b.add(x, b.mul(b.sum(b.unary(Opcode::tanh, kept), {1}), 0.2));
    b.set_location("head");
    const Value pooled = b.reshape(b.mean(b.transpose(x, {0, 2, 1}), {2}), {kBatch, kWidth});
    b.result("logits", b.linear(pooled, weight("head.weight", {5, kWidth}), weight("head.bias", {5})));
  }

  ir::Module module_;
  Builder* b_ = nullptr;
};

/// Convolutions with batch norm behind the first, the second in groups and with strides, the third of one pixel; a slice of
/// its maps.
ir::Module convolutions() {
  constexpr std::int64_t kBatch = 5, kInner = 6, kOuter = 8;
  ir::Module module;
  module.name = "convolutions";
  ir::Function forward;
  forward.name = "forward";
  Builder b(module, forward);
  const auto weight = [&](const std::string& name, ir::Shape shape) {
    ir::Parameter p;
    p.name = name;
    p.type = {ir::DType::f32, std::move(shape)};
    p.init = {ir::InitKind::normal, 0.2};
    p.decay = p.type.rank() > 1;
    p.role = "conv1";
    return b.param(module.add_parameter(std::move(p)).name);
  };
  const Value image = b.argument("image", {ir::DType::f32, {kBatch, 2, 9, 7}});
  b.set_location("stem");
  const auto window = [](std::int64_t stride, std::int64_t groups) {
    return ir::Attributes{{"strides", ir::Ints{stride, 1}}, {"padding", ir::Ints{1, 0}}, {"groups", groups}};
  };
  Value x = b.emit(Opcode::conv2d, {image, weight("stem.weight", {kInner, 2, 3, 2})}, window(1, 1));
  x = b.add(x, b.reshape(weight("stem.bias", {kInner}), {kInner, 1, 1}));
  b.set_location("norm");
  const Value training = b.emit(Opcode::is_training, {}, {}, ir::TensorType{ir::DType::i1, {}});
  const Value zeros = b.constant(0, ir::DType::f32, {kInner}), ones = b.constant(1, ir::DType::f32, {kInner});
  x = b.emit(Opcode::batch_norm,
             {x, weight("norm.weight", {kInner}), weight("norm.bias", {kInner}), zeros, ones, training});
  x = b.emit(Opcode::relu, {x});
  b.set_location("groups");
  x = b.emit(Opcode::conv2d, {x, weight("groups.weight", {kOuter, kInner / 2, 3, 1})}, window(2, 2));
  x = b.unary(Opcode::tanh, b.mul(x, x));
  b.set_location("pixels");
  x = b.emit(Opcode::conv2d, {x, weight("pixels.weight", {kOuter, kOuter, 1, 1})},
             {{"strides", ir::Ints{1, 1}}, {"padding", ir::Ints{0, 0}}});
  b.set_location("head");
  const Value pooled = b.reshape(b.mean(b.slice(x, 3, 1, 6), {2, 3}), {kBatch, kOuter});
  b.result("logits", b.linear(pooled, weight("head.weight", {5, kOuter}), weight("head.bias", {5})));
  module.functions.push_back(std::move(forward));
  return module;
}

ir::Module vit(double dropout, const std::string& act_layer, bool narrow) {
  ir::Selection options{"vit"};
  options.set("dim", 16).set("depth", 2).set("heads", 2).set("patch", 4).set("image", 8).set("classes", 5);
  options.set("dropout", dropout).set("drop_path", dropout);
  options.set("act_layer", act_layer);
  ir::Module module = models::build(options, 3);
  if (narrow) ir::mixed_precision(module, module.function("forward"), {});
  return module;
}

/// eps of AdamW is no smaller than its moments: its step follows them smoothly, as an error bound needs.
Network trained(const std::string& name, ir::Module module, const std::string& optimizer) {
  Network network;
  network.name = name;
  programs::TrainOptions options;
  options.optimizer = {optimizer};
  options.optimizer.set("lr", 0.1).set("eps", 0.1);
  options.clip_norm = 1;
  options.objective.set("label_smoothing", 0.1);
  programs::add_step_program(module, options);
  for (auto& [parameter, tensor] : perturbed_state(module, {}, 7))
    network.state.emplace(parameter, to_host(tensor));
  const ir::Function& step = module.function("step");
  for (const ir::Argument& argument : step.arguments)
    network.inputs.emplace(argument.name, to_host(random_argument(module, step, argument, 7)));
  network.module = std::move(module);
  network.expected = run_step(*make_evaluator_engine(network.module), network);
  if (has_narrow_values(network.module))
    network.rounded = run_step(*make_evaluator_engine(network.module, Rounding::dtypes), network);
  return network;
}

double norm(const std::vector<double>& values) {
  double square = 0;
  for (const double value : values) square += value * value;
  return std::sqrt(square);
}

/// Relative to the tensor, or to a millionth of `all`, the norm of all tensors together.
double error_of(const HostTensor& actual, const HostTensor& expected, double all) {
  const std::vector<double> reference = to_double(expected).data;
  std::vector<double> difference = to_double(actual).data;
  for (std::size_t i = 0; i < reference.size(); ++i) difference[i] -= reference[i];
  const double distance = norm(difference);
  return distance == 0 ? 0 : distance / std::max(norm(reference), 1e-6 * all);
}

}  // namespace

std::span<const Row> rows() {
  return kRows;
}

ir::LeftOut left_out_by(const Row& row) {
  ir::LeftOut names = {std::string(row.name)};
  if (!row.beside.empty()) names.emplace(row.beside);
  return names;
}

TensorMap run_step(Engine& engine, const Network& network) {
  for (const auto& [name, tensor] : network.state) engine.write_state(name, tensor);
  TensorMap all = engine.run("step", network.inputs);
  for (const auto& [name, tensor] : network.state) all.emplace("state " + name, engine.read_state(name));
  return all;
}

std::vector<Network> networks() {
  std::vector<Network> all;
  all.push_back(trained("ViT", vit(0, "gelu", false), "adamw"));
  all.push_back(trained("ViT with dropout", vit(0.2, "gelu_tanh", false), "sgd"));
  all.push_back(trained("ViT in bf16", vit(0, "gelu_tanh", true), "sgd"));
  all.push_back(unlike_a_vit("auto"));
  all.push_back(trained("convolutions", convolutions(), "sgd"));
  return all;
}

Network unlike_a_vit(const std::string& lowering) {
  return trained("unlike a ViT", Unlike(lowering).take(), "sgd");
}

void check_numbers(const Network& network, const TensorMap& actual) {
  double square = 0;
  for (const auto& [name, tensor] : network.expected) {
    if (name.starts_with("state ")) square += std::pow(norm(to_double(tensor).data), 2);
  }
  for (const auto& [name, tensor] : network.expected) {
    INFO(name);
    double tolerance =
        name.starts_with("state ") || name == "grad_norm" ? kEngineGradientTolerance : kEngineOutputTolerance;
    if (!network.rounded.empty())
      tolerance += 2 * error_of(network.rounded.at(name), tensor, std::sqrt(square)) + 0x1p-9;
    CHECK(error_of(actual.at(name), tensor, std::sqrt(square)) <= tolerance);
  }
}

}  // namespace rewire::testing::left_out
