#include "models/layers.h"

#include <cmath>
#include <utility>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/registry.h"
#include "ir/residual.h"
#include "ir/side_results.h"

namespace rewire::models {

using ir::Builder;
using ir::Init;
using ir::InitKind;
using ir::Opcode;
using ir::Value;

namespace {

const Init kZeros{InitKind::zeros};
const Init kOnes{InitKind::ones};
constexpr double kBatchNormEpsilon = 1e-5;  // PyTorch's

/// PyTorch's default for linear layers and convolutions: kaiming_uniform with a = sqrt(5), which is uniform
/// in +-1/sqrt(fan in). The bias starts the same way.
Init torch_default(std::int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return {InitKind::uniform, -bound, bound};
}

}  // namespace

ir::Parameter Layers::described(std::string_view leaf, ir::Shape shape, Init init,
                                std::string_view role) const {
  ir::Parameter p;
  p.name = b_.location().empty() ? std::string(leaf) : b_.location() + "." + std::string(leaf);
  p.decay = shape.size() > 1 && role != "cls_token" && role != "reg_token" && role != "mask_token" &&
            role != "pos_embed";
  p.type = {ir::DType::f32, std::move(shape)};
  p.init = std::move(init);
  p.role = role;
  p.site = site_;
  p.block = block_;
  p.layer = layer_;
  return p;
}

Value Layers::parameter(std::string_view leaf, ir::Shape shape, Init init, std::string_view role) {
  ir::Parameter p = described(leaf, std::move(shape), std::move(init), role);
  return b_.param(b_.module().add_parameter(std::move(p)).name);
}

Value Layers::decaying(std::string_view leaf, ir::Shape shape, Init init, std::string_view role) {
  ir::Parameter p = described(leaf, std::move(shape), std::move(init), role);
  p.decay = true;
  return b_.param(b_.module().add_parameter(std::move(p)).name);
}

Value Layers::frozen(std::string_view leaf, ir::Shape shape, Init init, std::string_view role) {
  ir::Parameter p = described(leaf, std::move(shape), std::move(init), role);
  p.trainable = p.decay = false;
  return b_.param(b_.module().add_parameter(std::move(p)).name);
}

Value Layers::linear(std::string_view name, Value x, std::int64_t out, const LinearOptions& options) {
  const Builder::Scope scope(b_, name);
  const std::string_view role = options.role.empty() ? name : options.role;
  const std::int64_t in = b_.shape(x).back();
  const bool xavier = options.start == LinearInit::xavier || options.start == LinearInit::xavier_weight;
  Init init = xavier ? Init{InitKind::xavier_uniform} : options.init;
  if (options.start == LinearInit::pytorch) init = torch_default(in);
  const Value weight = parameter("weight", {out, in}, init, role);
  if (!options.bias) return b_.linear(x, weight);
  const bool zero = options.start == LinearInit::timm || options.start == LinearInit::xavier;
  return b_.linear(x, weight, parameter("bias", {out}, zero ? kZeros : torch_default(in), role));
}

Value Layers::layer_norm(std::string_view name, Value x, const NormOptions& options) {
  const Builder::Scope scope(b_, name);
  const ir::Attributes attributes = {{"epsilon", options.epsilon}};
  if (!options.affine) return b_.emit(Opcode::layer_norm, {x}, attributes);
  const std::int64_t width = b_.shape(x).back();
  const Value weight = parameter("weight", {width}, kOnes, "norm");
  if (!options.bias) return b_.emit(Opcode::layer_norm, {x, weight}, attributes);
  const Value bias = parameter("bias", {width}, kZeros, "norm");
  return b_.emit(Opcode::layer_norm, {x, weight, bias}, attributes);
}

Value Layers::rms_norm(std::string_view name, Value x, double epsilon) {
  const Builder::Scope scope(b_, name);
  const Value weight = parameter("weight", {b_.shape(x).back()}, kOnes, "norm");
  return b_.emit(Opcode::rms_norm, {x, weight}, {{"epsilon", epsilon}});
}

Value Layers::conv(std::string_view name, Value maps, std::int64_t outputs, const ConvOptions& options) {
  const Builder::Scope scope(b_, name);
  const std::int64_t inputs = b_.shape(maps).at(1) / options.groups, kernel = options.kernel;
  const std::string_view role = options.role.empty() ? name : options.role;
  const auto fan_in = static_cast<double>(inputs * kernel * kernel);
  const auto fan_out = static_cast<double>(outputs * kernel * kernel);
  Init init = torch_default(inputs * kernel * kernel), bias_init = init;
  if (options.init != ConvInit::standard) bias_init = kZeros;
  if (options.init == ConvInit::kaiming) init = {InitKind::normal, std::sqrt(2 / fan_out)};
  if (options.init == ConvInit::xavier) {
    const double wide = std::sqrt(6 / (fan_in + fan_out));
    init = {InitKind::uniform, -wide, wide};
  }
  if (options.init == ConvInit::orthogonal) init = {InitKind::orthonormal};
  if (options.init == ConvInit::trunc_normal) init = kTruncNormal;
  const ir::Shape shape = {outputs, inputs, kernel, kernel};
  const Value weight =
      options.trains ? parameter("weight", shape, init, role) : frozen("weight", shape, init, role);
  const std::int64_t padding = options.padding < 0 ? kernel / 2 : options.padding;
  const Value y = b_.emit(Opcode::conv2d, {maps, weight},
                          {{"strides", ir::Ints{options.stride, options.stride}},
                           {"padding", ir::Ints{padding, padding}},
                           {"groups", options.groups}});
  if (!options.bias) return y;
  return b_.add(y, b_.reshape(parameter("bias", {outputs}, bias_init, role), {outputs, 1, 1}));
}

Value Layers::batch_norm(std::string_view name, Value maps, double gamma) {
  const Builder::Scope scope(b_, name);
  const std::int64_t channels = b_.shape(maps).at(1);
  const Value weight = parameter("weight", {channels}, {InitKind::constant, gamma}, "norm");
  const Value bias = parameter("bias", {channels}, kZeros, "norm");
  const auto running = [&](const char* leaf, const Init& init) {
    const std::string running_name = b_.location() + "." + leaf;
    return b_.module()
        .add_state(running_name, {ir::DType::f32, {channels}}, ir::StateKind::statistic, init)
        .name;
  };
  const std::string names[] = {running("running_mean", kZeros), running("running_var", kOnes)};
  const Value mean = b_.param(names[0]), variance = b_.param(names[1]);
  const Value operands[] = {maps, weight, bias, mean, variance, training()};
  const std::vector<Value> results = b_.emit_all(Opcode::batch_norm, operands);
  for (std::size_t i = 0; i < 2; ++i)
    updates_.push_back({std::string(ir::kUpdatePrefix) + names[i], results[i + 1]});
  return results[0];
}

Value Layers::frozen_batch_norm(std::string_view name, Value maps) {
  const Builder::Scope scope(b_, name);
  const std::int64_t channels = b_.shape(maps).at(1);
  const auto of_channels = [&](std::string_view leaf, const Init& init) {
    return b_.reshape(frozen(leaf, {channels}, init, "norm"), {channels, 1, 1});
  };
  const Value weight = of_channels("weight", kOnes), bias = of_channels("bias", kZeros);
  const Value mean = of_channels("running_mean", kZeros), variance = of_channels("running_var", kOnes);
  const Value scale = b_.mul(weight, b_.unary(Opcode::rsqrt, b_.add(variance, kBatchNormEpsilon)));
  return b_.add(b_.mul(maps, scale), b_.sub(bias, b_.mul(mean, scale)));
}

Value Layers::relu(std::string_view name, Value x) {
  const Builder::Scope scope(b_, name);
  return b_.emit(Opcode::relu, {x});
}

Value Layers::max_pool(std::string_view name, Value maps, std::int64_t kernel, std::int64_t stride,
                       std::int64_t padding) {
  const Builder::Scope scope(b_, name);
  return b_.emit(Opcode::max_pool, {maps},
                 {{"kernel", ir::Ints{kernel, kernel}},
                  {"strides", ir::Ints{stride, stride}},
                  {"padding", ir::Ints{padding, padding}}});
}

Value Layers::global_average(Value maps) {
  const ir::Shape shape = b_.shape(maps);
  return b_.reshape(b_.mean(maps, {2, 3}), {shape.at(0), shape.at(1)});
}

Value Layers::training() {
  return b_.emit(Opcode::is_training, {}, {}, ir::TensorType{ir::DType::i1, {}});
}

Value Layers::layer_scale(std::string_view name, Value x, double init) {
  const Builder::Scope scope(b_, name);
  return b_.mul(x, parameter("gamma", {b_.shape(x).back()}, {InitKind::constant, init}, "layer_scale"));
}

Value Layers::state(std::string_view name, ir::StateKind kind) {
  return b_.param(b_.module().add_state(name, {ir::DType::i64, {}}, kind).name);
}

Value Layers::drop(Opcode code, std::string_view name, Value x, double rate) {
  if (rate == 0) return x;
  const Builder::Scope scope(b_, name);
  const Value seed = state("rng.seed", ir::StateKind::random);
  const Value step = state("train.step", ir::StateKind::counter);
  return b_.emit(code, {x, seed, step, training()}, {{"probability", rate}, {"stream", b_.location()}});
}

Value Layers::dropout(std::string_view name, Value x, double rate) {
  return drop(Opcode::dropout, name, x, rate);
}

Value Layers::patch_embed(std::string_view name, Value image, std::int64_t width, std::int64_t patch,
                          bool has_bias) {
  const Builder::Scope scope(b_, name);
  return patches("proj", image, width, patch, "patch_embed", has_bias);
}

Layers::PatchWeights Layers::patch_weights(std::int64_t width, std::int64_t channels, std::int64_t patch,
                                           std::string_view role, bool has_bias) {
  const Init init = torch_default(channels * patch * patch);  // timm keeps PyTorch's default
  const Value weight = parameter("weight", {width, channels, patch, patch}, init, role);
  return {weight, has_bias ? parameter("bias", {width}, init, role) : Value{}};
}

Value Layers::patches(std::string_view name, Value maps, std::int64_t width, std::int64_t patch,
                      std::string_view role, bool has_bias) {
  const Builder::Scope scope(b_, name);
  const ir::Shape shape = b_.shape(maps);
  const PatchWeights weights = patch_weights(width, shape.at(1), patch, role, has_bias);
  const Value matrix = b_.reshape(weights.weight, {width, shape.at(1) * patch * patch});
  return b_.linear(patch_rows(maps, patch), matrix, weights.bias);
}

Value Layers::patch_rows(Value maps, std::int64_t patch) {
  const ir::Shape shape = b_.shape(maps);
  const std::int64_t batch = shape.at(0), c = shape.at(1), p = patch;
  const std::int64_t rows = shape.at(2) / p, columns = shape.at(3) / p;
  const Value x = b_.transpose(b_.reshape(maps, {batch, c, rows, p, columns, p}), {0, 2, 4, 1, 3, 5});
  return b_.reshape(x, {batch, rows * columns, c * p * p});
}

Value Layers::token_patches(std::string_view name, Value tokens, std::int64_t rows, std::int64_t columns,
                            std::int64_t patch, std::int64_t width, std::string_view role) {
  const Builder::Scope scope(b_, name);
  const std::int64_t batch = b_.shape(tokens).at(0), c = b_.shape(tokens).at(2), p = patch;
  const PatchWeights weights = patch_weights(width, c, p, role, true);
  // The weight is permuted to the tokens' order, channels last, because it is smaller than the tokens.
  const Value matrix = b_.reshape(b_.transpose(weights.weight, {0, 2, 3, 1}), {width, p * p * c});
  Value x = b_.reshape(tokens, {batch, rows / p, p, columns / p, p, c});
  x = b_.transpose(x, {0, 1, 3, 2, 4, 5});
  x = b_.reshape(x, {batch, rows / p * (columns / p), p * p * c});
  return b_.linear(x, matrix, weights.bias);
}

Value Layers::attend(Value query, Value key, Value value, Value key_bias) {
  const double scale = 1 / std::sqrt(static_cast<double>(b_.shape(query).back()));
  if (!key_bias) return b_.emit(Opcode::attention, {query, key, value}, {{"scale", scale}});
  return b_.emit(Opcode::attention, {query, key, value, key_bias}, {{"scale", scale}, {"bias", true}});
}

Value Layers::attention(Value x, std::int64_t heads, double dropout_rate, bool qkv_bias, LinearInit start,
                        Value key_bias) {
  const ir::Shape shape = b_.shape(x);
  const std::int64_t batch = shape.at(0), n = shape.at(1), d = shape.at(2), width = d / heads;
  Value qkv =
      b_.reshape(linear("qkv", x, 3 * d, {.start = start, .bias = qkv_bias}), {batch, n, 3, heads, width});
  qkv = b_.transpose(qkv, {2, 0, 3, 1, 4});
  Value part[3];
  for (int i = 0; i < 3; ++i) part[i] = b_.reshape(b_.slice(qkv, 0, i, i + 1), {batch, heads, n, width});
  const Value y = attend(part[0], part[1], part[2], key_bias);
  const Value merged = b_.reshape(b_.transpose(y, {0, 2, 1, 3}), {batch, n, d});
  return dropout("proj_drop", linear("proj", merged, d, {.start = start}), dropout_rate);
}

Value Layers::activate(std::string_view act_layer, Value x) {
  constexpr double kQuickGelu = 1.702;
  if (act_layer == "quick_gelu") return b_.mul(x, b_.unary(Opcode::sigmoid, b_.mul(x, kQuickGelu)));
  ir::Attributes attributes;
  if (act_layer == "gelu_tanh") attributes.set("approximate", std::string("tanh"));
  return b_.emit(Opcode::gelu, {x}, std::move(attributes));
}

Value Layers::mlp(Value x, std::int64_t hidden, std::string_view act_layer, double dropout_rate,
                  LinearInit start) {
  const std::int64_t width = b_.shape(x).back();
  Value h = linear("fc1", x, hidden, {.start = start});
  {
    const Builder::Scope scope(b_, "act");
    h = activate(act_layer, h);
  }
  h = dropout("drop1", h, dropout_rate);
  return dropout("drop2", linear("fc2", h, width, {.start = start}), dropout_rate);
}

Layers::Block::Block(Layers& layers, std::string_view name, std::string_view scope, std::int64_t stage)
    : layers_(layers),
      place_(layers.b_, name),
      outer_scope_(layers.scope_),
      outer_block_(layers.block_),
      outer_stage_(layers.stage_) {
  layers.scope_ = scope;
  layers.stage_ = stage;
  layers.block_ = static_cast<std::int32_t>(layers.counts_[layers.scope_].blocks++);
  layers.begin_layer();
}

Layers::Block::~Block() {
  layers_.scope_ = outer_scope_;
  layers_.block_ = outer_block_;
  layers_.stage_ = outer_stage_;
}

Value Layers::join(std::string_view site, Value x, const Layer& input_of, const Layer& branch_of,
                   const JoinOptions& options) {
  if (block_ < 0) internal_error("a join of site '{}' is outside every block", site);
  site_ = site;
  const Value input = input_of(x);
  const Value stream = options.shortcut ? options.shortcut(x, input) : x;
  std::string last = b_.location();
  Value branch;
  if (options.branch_in_site) {
    const Builder::Scope scope(b_, site);
    last = b_.location();
    branch = branch_of(input);
  } else {
    branch = branch_of(input);
  }
  if (options.scale) branch = options.scale(branch);
  const Builder::Scope scope(b_, site);
  branch = drop(Opcode::drop_path, "drop_path", branch, options.drop_path);
  const std::int64_t index = counts_[scope_].joins++;
  ir::Attributes facts = {{"block", std::int64_t{block_}},
                          {"site", site_},
                          {"scope", scope_},
                          {"stage", stage_},
                          {"join_index", index},
                          {"join_count", index + 1},
                          {"heads", options.heads},
                          {"batch_axis", std::int64_t{options.batch_axis}},
                          {"token_axis", std::int64_t{options.token_axis}},
                          {"channel_axis", std::int64_t{options.channel_axis}},
                          {"last_weight", last + "." + std::string(options.last) + ".weight"}};
  site_.clear();
  return b_.emit(Opcode::residual, {stream, branch, input, stream, branch}, std::move(facts));
}

void Layers::classify(Value features, std::int64_t classes,
                      const std::function<Value(Value features, std::int64_t classes)>& head) {
  begin_head();
  if (classes == 0) {
    b_.result("features", features);
  } else {
    b_.result("logits", head(features, classes));
  }
}

void Layers::finish() {
  for (const std::size_t at : ir::find_joins(b_.function())) {
    ir::Attributes& facts = b_.function().body[at].attributes;
    facts.set("join_count", counts_.at(facts.get_string("scope")).joins);
  }
  for (const ir::Argument& update : updates_) b_.result(update.name, update.value);
  updates_.clear();
}

Value bias_of_keys(Builder& b, Value valid) {
  constexpr double kHidden = -1e30;  // finite, so that equal logits remain equal
  const ir::Shape shape = b.shape(valid);
  const Value hidden = b.sub(b.max(valid, {1}), valid);
  return b.reshape(b.mul(hidden, kHidden), {shape.at(0), 1, 1, shape.at(1)});
}

double drop_path_rate(double last, std::int64_t index, std::int64_t depth) {
  return depth == 1 ? 0 : last * static_cast<double>(index) / static_cast<double>(depth - 1);
}

std::vector<std::int64_t> stage_depths(const ir::Attributes& options, std::size_t most) {
  std::vector<std::int64_t> depths;
  for (const double depth : options.get<ir::Doubles>("depths")) {
    if (depth != std::floor(depth))
      user_error("model.depths has {}; it takes whole numbers, one per stage", ir::value_text(depth));
    depths.push_back(static_cast<std::int64_t>(depth));
  }
  if (depths.empty() || depths.size() > most)
    user_error("model.depths has {} entries; it takes one per stage, for 1 to {} stages", depths.size(),
               most);
  return depths;
}

void check_image_side(std::int64_t image, std::int64_t stride, std::string_view other_stem) {
  if (stride > 1 && image <= stride / 2) {
    user_error(
        "model.image={} is too small: stem and stages reduce {} x {} pixels to one, so it takes {} or more; "
        "{}fewer stages take smaller images",
        image, stride, stride, stride / 2 + 1, other_stem.empty() ? "" : fmt::format("{} and ", other_stem));
  }
}

ir::Module forward_module(std::string_view name, const std::function<void(Layers&)>& build) {
  ir::Module module;
  module.name = name;
  ir::Function forward;
  forward.name = "forward";
  Builder builder(module, forward);
  Layers layers(builder);
  build(layers);
  layers.finish();
  module.functions.push_back(std::move(forward));
  return module;
}

}  // namespace rewire::models
