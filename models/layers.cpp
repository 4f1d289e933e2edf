#include "models/layers.h"

#include <cmath>
#include <utility>

#include "ir/error.h"
#include "ir/residual.h"

namespace rewire::models {

using ir::Builder;
using ir::Init;
using ir::InitKind;
using ir::Opcode;
using ir::Value;

namespace {

const Init kZeros{InitKind::zeros};
const Init kOnes{InitKind::ones};

}  // namespace

Value Layers::parameter(std::string_view leaf, ir::Shape shape, Init init, std::string_view role) {
  ir::Parameter p;
  p.name = b_.location().empty() ? std::string(leaf) : b_.location() + "." + std::string(leaf);
  p.decay = shape.size() > 1 && role != "cls_token" && role != "pos_embed";
  p.type = {ir::DType::f32, std::move(shape)};
  p.init = std::move(init);
  p.role = role;
  p.site = site_;
  p.block = block_;
  p.layer = layer_;
  return b_.param(b_.module().add_parameter(std::move(p)).name);
}

Value Layers::linear(std::string_view name, Value x, std::int64_t out, const LinearOptions& options) {
  const Builder::Scope scope(b_, name);
  const std::string_view role = options.role.empty() ? name : options.role;
  const Value weight = parameter("weight", {out, b_.shape(x).back()}, options.init, role);
  return b_.linear(x, weight, parameter("bias", {out}, kZeros, role));
}

Value Layers::layer_norm(std::string_view name, Value x) {
  const Builder::Scope scope(b_, name);
  const std::int64_t width = b_.shape(x).back();
  const Value weight = parameter("weight", {width}, kOnes, "norm");
  const Value bias = parameter("bias", {width}, kZeros, "norm");
  return b_.emit(Opcode::layer_norm, {x, weight, bias}, {{"epsilon", 1e-6}});
}

Value Layers::state(std::string_view name, ir::StateKind kind) {
  return b_.param(b_.module().add_state(name, {ir::DType::i64, {}}, kind).name);
}

Value Layers::drop(Opcode code, std::string_view name, Value x, double rate) {
  if (rate == 0) return x;
  const Builder::Scope scope(b_, name);
  const Value seed = state("rng.seed", ir::StateKind::random);
  const Value step = state("train.step", ir::StateKind::counter);
  const Value training = b_.emit(Opcode::is_training, {}, {}, ir::TensorType{ir::DType::i1, {}});
  return b_.emit(code, {x, seed, step, training}, {{"probability", rate}, {"stream", b_.location()}});
}

Value Layers::dropout(std::string_view name, Value x, double rate) {
  return drop(Opcode::dropout, name, x, rate);
}

Value Layers::patch_embed(std::string_view name, Value image, std::int64_t width, std::int64_t patch) {
  const Builder::Scope outer(b_, name);
  const Builder::Scope inner(b_, "proj");
  const ir::Shape shape = b_.shape(image);
  const std::int64_t batch = shape.at(0), c = shape.at(1), p = patch;
  const std::int64_t rows = shape.at(2) / p, columns = shape.at(3) / p;
  // torch's Conv2d default: kaiming_uniform with a = sqrt(5) is uniform +-1/sqrt(fan in), bias alike.
  const double bound = 1 / std::sqrt(static_cast<double>(c * p * p));
  const Init init{InitKind::uniform, -bound, bound};
  const Value weight = parameter("weight", {width, c, p, p}, init, "patch_embed");
  const Value bias = parameter("bias", {width}, init, "patch_embed");
  const Value matrix = b_.reshape(weight, {width, c * p * p});
  // Each patch as one row, in the order of a convolution's weight.
  Value x = b_.reshape(image, {batch, c, rows, p, columns, p});
  x = b_.transpose(x, {0, 2, 4, 1, 3, 5});
  x = b_.reshape(x, {batch, rows * columns, c * p * p});
  return b_.linear(x, matrix, bias);
}

Value Layers::attention(Value x, std::int64_t heads, double dropout_rate) {
  const ir::Shape shape = b_.shape(x);
  const std::int64_t batch = shape.at(0), n = shape.at(1), d = shape.at(2), width = d / heads;
  Value qkv = b_.reshape(linear("qkv", x, 3 * d), {batch, n, 3, heads, width});
  qkv = b_.transpose(qkv, {2, 0, 3, 1, 4});
  Value part[3];
  for (int i = 0; i < 3; ++i) part[i] = b_.reshape(b_.slice(qkv, 0, i, i + 1), {batch, heads, n, width});
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const Value y = b_.emit(Opcode::attention, {part[0], part[1], part[2]}, {{"scale", scale}});
  const Value merged = b_.reshape(b_.transpose(y, {0, 2, 1, 3}), {batch, n, d});
  return dropout("proj_drop", linear("proj", merged, d), dropout_rate);
}

Value Layers::mlp(Value x, std::int64_t hidden, std::string_view act_layer, double dropout_rate) {
  const std::int64_t width = b_.shape(x).back();
  Value h = linear("fc1", x, hidden);
  {
    const Builder::Scope scope(b_, "act");
    ir::Attributes attributes;
    if (act_layer == "gelu_tanh") attributes.set("approximate", std::string("tanh"));
    h = b_.emit(Opcode::gelu, {h}, std::move(attributes));
  }
  return dropout("drop2", linear("fc2", dropout("drop1", h, dropout_rate), width), dropout_rate);
}

Layers::Block::Block(Layers& layers, std::string_view name, std::string_view scope)
    : layers_(layers), place_(layers.b_, name), outer_scope_(layers.scope_), outer_block_(layers.block_) {
  layers.scope_ = scope;
  layers.block_ = static_cast<std::int32_t>(layers.counts_[layers.scope_].blocks++);
  layers.begin_layer();
}

Layers::Block::~Block() {
  layers_.scope_ = outer_scope_;
  layers_.block_ = outer_block_;
}

Value Layers::join(std::string_view site, Value x, const Layer& input_of, const Layer& branch_of,
                   const JoinOptions& options) {
  if (block_ < 0) internal_error("a join of site '{}' stands in no block", site);
  site_ = site;
  const Value input = input_of(x);
  const Builder::Scope scope(b_, site);
  const Value branch = drop(Opcode::drop_path, "drop_path", branch_of(input), options.drop_path);
  const std::int64_t index = counts_[scope_].joins++;
  ir::Attributes facts = {{"block", std::int64_t{block_}},
                          {"site", site_},
                          {"scope", scope_},
                          {"join_index", index},
                          {"join_count", index + 1},
                          {"heads", options.heads},
                          {"batch_axis", std::int64_t{options.batch_axis}},
                          {"token_axis", std::int64_t{options.token_axis}},
                          {"channel_axis", std::int64_t{options.channel_axis}},
                          {"last_weight", b_.location() + "." + std::string(options.last) + ".weight"}};
  site_.clear();
  return b_.emit(Opcode::residual, {x, branch, input, x, branch}, std::move(facts));
}

void Layers::finish() {
  for (const std::size_t at : ir::find_joins(b_.function())) {
    ir::Attributes& facts = b_.function().body[at].attributes;
    facts.set("join_count", counts_.at(facts.get_string("scope")).joins);
  }
}

double drop_path_rate(double last, std::int64_t index, std::int64_t depth) {
  return depth == 1 ? 0 : last * static_cast<double>(index) / static_cast<double>(depth - 1);
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
