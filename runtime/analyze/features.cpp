#include "runtime/analyze/features.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "runtime/measure/block_program.h"

namespace rewire::runtime {
namespace {

using ir::Opcode;
using ir::Value;

constexpr std::string_view kNorm = "norm", kPool = "pool";

const ir::Op* definition_of(const ir::Function& f, const std::vector<std::int32_t>& definitions,
                            Value value) {
  const std::int32_t at = definitions[static_cast<std::size_t>(value.id)];
  return at < 0 ? nullptr : &f.body[static_cast<std::size_t>(at)];
}

/// Returns the parameters that `value` depends on.
std::vector<const ir::Parameter*> parameters_behind(const ir::Module& module, const ir::Function& f,
                                                    Value value) {
  const std::vector<std::int32_t> definitions = f.definitions();
  std::vector<bool> seen(f.types.size());
  std::vector<Value> pending = {value};
  std::vector<const ir::Parameter*> found;
  while (!pending.empty()) {
    const Value next = pending.back();
    pending.pop_back();
    if (seen[static_cast<std::size_t>(next.id)]) continue;
    seen[static_cast<std::size_t>(next.id)] = true;
    const ir::Op* op = definition_of(f, definitions, next);
    if (op == nullptr) continue;
    if (op->code == Opcode::param) found.push_back(module.find_parameter(op->attributes.get_string("name")));
    pending.insert(pending.end(), op->operands.begin(), op->operands.end());
  }
  return found;
}

/// Tokens before the patches: the class token, then registers.
struct Prefix {
  bool has_class = false;
  std::int64_t tokens = 0;
};

Prefix prefix_of(const ir::Module& module, const ir::Function& f, Value stream) {
  Prefix prefix;
  std::int64_t registers = 0;
  for (const ir::Parameter* parameter : parameters_behind(module, f, stream)) {
    if (parameter->role == "cls_token") prefix.has_class = true;
    if (parameter->role == "reg_token" && parameter->type.rank() == 3) registers += parameter->type.shape[1];
  }
  prefix.tokens = registers + (prefix.has_class ? 1 : 0);
  return prefix;
}

/// The norm of all tokens after the last block.
struct LastNorm {
  Opcode code{};
  std::vector<Value> parameters;  // weight and bias, or none
  ir::Attributes attributes;
  ir::DType dtype = ir::DType::f32;  // of what it reads
  bool of_mean = false;              // it comes after the pooling
};

/// A stream as tokens [batch, tokens, width].
struct Tokens {
  Value value;
  Prefix prefix;
  std::int64_t rows = 0, columns = 0;  // of a map, or of square patches
};

class FeatureBuilder {
 public:
  FeatureBuilder(ir::Module& module, ir::Function& f, FeatureKind kind)
      : module_(module), f_(f), b_(module, f), kind_(kind), blocks_(find_blocks(f)) {
    if (blocks_.empty()) user_error("the network has no residual joins, and so no blocks to analyze");
    find_end();
  }

  FeatureFacts build(std::vector<std::string> layers) {
    if (layers.empty()) layers = {default_layer()};
    FeatureFacts facts;
    std::vector<Value> parts;
    for (const std::string& layer : layers) {
      const auto [name, part] = of_layer(layer, facts);
      facts.layers.push_back(name);
      parts.push_back(part);
      const ir::Shape &first = b_.shape(parts.front()), &other = b_.shape(part);
      if (!std::equal(first.begin(), first.end() - 1, other.begin(), other.end() - 1))
        user_error("features of {} and {} cannot be concatenated: {} and {}", facts.layers.front(), name,
                   ir::to_string(first), ir::to_string(other));
    }
    const Value all = parts.size() == 1 ? parts.front() : b_.concat(parts, -1);
    const ir::Shape& shape = b_.shape(all);
    facts.blocks = std::ssize(blocks_);
    facts.width = shape.back();
    facts.patches = shape.size() == 3 ? shape[1] : 0;
    b_.result("features", b_.cast(all, ir::DType::f32));
    return facts;
  }

 private:
  /// Finds the values between the last block and the network's results.
  void find_end() {
    const std::vector<std::int32_t> definitions = f_.definitions();
    for (std::size_t i = blocks_.back().last_op + 1; i < f_.body.size(); ++i) {
      const ir::Op& op = f_.body[i];
      const int rank = f_.type(op.operands.empty() ? op.results.front() : op.operands.front()).rank();
      if (op.code == Opcode::sum && rank == 4 && !pooled_) pooled_ = op.operands.front();
      if ((op.code != Opcode::layer_norm && op.code != Opcode::rms_norm) || norm_) continue;
      norm_ = LastNorm{op.code,
                       {op.operands.begin() + 1, op.operands.end()},
                       op.attributes,
                       f_.type(op.operands.front()).dtype,
                       false};
      const ir::Op* before = definition_of(f_, definitions, op.operands.front());
      while (before != nullptr &&
             (before->code == Opcode::reshape || before->code == Opcode::div || before->code == Opcode::cast))
        before = definition_of(f_, definitions, before->operands.front());
      norm_->of_mean = before != nullptr && before->code == Opcode::sum;
    }
  }

  bool ends_in_maps() const { return f_.type(blocks_.back().exit).rank() == 4; }

  std::string default_layer() const {
    if (kind_ == FeatureKind::class_token && norm_) return std::string(kNorm);
    if (kind_ != FeatureKind::keys && ends_in_maps() && pooled_) return std::string(kPool);
    return blocks_.back().name;
  }

  std::pair<std::string, Value> of_layer(const std::string& layer, FeatureFacts& facts) {
    if (layer == kNorm) {
      if (kind_ == FeatureKind::keys)
        user_error("--layer norm has no keys: only a block's attention has them");
      if (!norm_) user_error("--layer norm: the network has no norm of tokens after its last block");
      const Value end = ends_in_maps() && pooled_ ? pooled_ : blocks_.back().exit;
      return {layer, pick(tokens_of(blocks_.back(), end), true, facts)};
    }
    if (layer == kPool && pooled_ && ends_in_maps())
      return {layer, pick(tokens_of(blocks_.back(), pooled_), false, facts)};
    const Block& block = find_block(layer);
    if (kind_ == FeatureKind::keys) return {block.name, keys_of(block, facts)};
    return {block.name, pick(tokens_of(block, block.exit), false, facts)};
  }

  const Block& find_block(const std::string& layer) const {
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(layer.data(), layer.data() + layer.size(), index);
    const std::int64_t count = std::ssize(blocks_);
    if (error == std::errc() && end == layer.data() + layer.size()) {
      const std::int64_t from_front = index < 0 ? count + index : index;
      if (from_front >= 0 && from_front < count) return blocks_[static_cast<std::size_t>(from_front)];
      user_error("--layer {}: the network has {} blocks, 0 ({}) to {} ({}), or -{} to -1", layer, count,
                 blocks_.front().name, count - 1, blocks_.back().name, count);
    }
    std::vector<std::string> names;
    for (const Block& block : blocks_) {
      if (block.name == layer) return block;
      names.push_back(block.name);
    }
    names.emplace_back(kNorm);
    user_error("--layer {}: the network has no such layer{}; it has {} blocks, {} to {}, and norm", layer,
               did_you_mean(layer, names), count, blocks_.front().name, blocks_.back().name);
  }

  Tokens tokens_of(const Block& block, Value stream) {
    const ir::Join& join = block.joins.back();
    const ir::Shape shape = b_.shape(stream);
    if (join.batch_axis != 0 || shape.size() < 3 || shape.size() > 4)
      user_error("{}: its stream is {}, which is neither tokens [batch, tokens, width] nor maps", block.name,
                 ir::to_string(shape));
    const bool channels_last = join.channel_axis == static_cast<int>(shape.size()) - 1;
    if (shape.size() == 3) {
      const Value tokens = channels_last ? stream : b_.transpose(stream, {0, 2, 1});
      return with_grid(tokens, prefix_of(module_, f_, stream));
    }
    const std::int64_t rows = shape[channels_last ? 1 : 2], columns = shape[channels_last ? 2 : 3];
    const Value flat =
        channels_last ? b_.reshape(stream, {shape[0], rows * columns, shape[3]})
                      : b_.transpose(b_.reshape(stream, {shape[0], shape[1], rows * columns}), {0, 2, 1});
    return {flat, {}, rows, columns};
  }

  Tokens with_grid(Value tokens, const Prefix& prefix) const {
    const std::int64_t patches = f_.type(tokens).shape[1] - prefix.tokens;
    const std::int64_t side = std::llround(std::sqrt(static_cast<double>(patches)));
    const bool square = side * side == patches;
    return {tokens, prefix, square ? side : 0, square ? side : 0};
  }

  Value pick(const Tokens& tokens, bool normed, FeatureFacts& facts) {
    const ir::Shape shape = b_.shape(tokens.value);
    const auto norm = [&](Value x) {
      std::vector<Value> operands = {b_.cast(x, norm_->dtype)};
      operands.insert(operands.end(), norm_->parameters.begin(), norm_->parameters.end());
      return b_.emit(norm_->code, operands, norm_->attributes);
    };
    const bool before = normed && !(norm_->of_mean && kind_ == FeatureKind::mean);
    Value x = tokens.value;
    if (kind_ == FeatureKind::class_token) {
      if (!tokens.prefix.has_class)
        user_error("--kind class: the network has no class token {}; --kind mean averages its patches",
                   ends_in_maps() ? "but maps" : "there");
      x = b_.reshape(b_.slice(x, 1, 0, 1), {shape[0], shape[2]});
      return before ? norm(x) : x;
    }
    if (tokens.prefix.tokens > 0) x = b_.slice(x, 1, tokens.prefix.tokens, shape[1]);
    if (before) x = norm(x);
    if (kind_ == FeatureKind::tokens) {
      facts.rows = tokens.rows, facts.columns = tokens.columns;
      return x;
    }
    x = b_.reshape(b_.mean(x, {1}), {shape[0], shape[2]});
    return normed && !before ? norm(x) : x;
  }

  Value keys_of(const Block& block, FeatureFacts& facts) {
    const std::vector<std::size_t> ops = attention_ops(f_, block);
    if (ops.empty())
      user_error("--kind keys: {} has no attention, and so no keys; --kind tokens gives its stream",
                 block.name);
    const Value keys = f_.body[ops.back()].operands.at(1);  // [batch, heads, tokens, width]
    const ir::Shape shape = b_.shape(keys);
    if (shape.size() != 4)
      user_error("--kind keys: the keys of {} are {}, not [batch, heads, tokens, width]", block.name,
                 ir::to_string(shape));
    const Value flat =
        b_.reshape(b_.transpose(keys, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
    const Tokens all = with_grid(flat, prefix_of(module_, f_, keys));
    facts.rows = all.rows, facts.columns = all.columns;
    return all.prefix.tokens == 0 ? flat : b_.slice(flat, 1, all.prefix.tokens, shape[2]);
  }

  ir::Module& module_;
  ir::Function& f_;
  ir::Builder b_;
  FeatureKind kind_;
  std::vector<Block> blocks_;
  std::optional<LastNorm> norm_;
  Value pooled_;  // the map that the network averages
};

}  // namespace

std::vector<std::string> feature_kind_names() {
  return {"class", "mean", "tokens", "keys"};
}

FeatureKind feature_kind(const std::string& name) {
  const std::vector<std::string> names = feature_kind_names();
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    user_error("unknown kind of features '{}'{}; choose from {}", name, did_you_mean(name, names),
               fmt::join(names, ", "));
  return static_cast<FeatureKind>(found - names.begin());
}

FeatureFacts add_features_program(ir::Module& module, const FeatureChoice& choice) {
  ir::Function function = module.function("forward");
  function.name = "features";
  function.results.clear();
  FeatureFacts facts = FeatureBuilder(module, function, choice.kind).build(choice.layers);
  module.functions.push_back(std::move(function));
  return facts;
}

}  // namespace rewire::runtime
