#include "programs/diagnose_blocks.h"

#include <utility>

#include "ir/opcodes.h"

namespace rewire::programs {
namespace {

using ir::Opcode;
using ir::Value;

/// Follows one token of a value back to the parameter that it starts as.
class TokenOrigin {
 public:
  TokenOrigin(const ir::Module& module, const ir::Function& function)
      : module_(module), function_(function), definitions_(function.definitions()) {}

  /// Returns the parameter's role, or "" if the token comes
  /// from the network's input or from an op that mixes tokens.
  std::string role(Value value, std::int64_t token) const {
    const std::int32_t at = definitions_[static_cast<std::size_t>(value.id)];
    if (at < 0) return "";
    const ir::Op& op = function_.body[static_cast<std::size_t>(at)];
    switch (op.code) {
      case Opcode::param: {
        const ir::Parameter* parameter = module_.find_parameter(op.attributes.get_string("name"));
        const bool is_prefix = parameter->role == "cls_token" || parameter->role == "reg_token";
        return is_prefix ? parameter->role : "";
      }
      case Opcode::concat:
        return of_part(op, token);
      case Opcode::slice:
        return of_slice(op, token);
      case Opcode::broadcast:
        return role(op.operands[0], tokens_of(op.operands[0]) == 1 ? 0 : token);
      case Opcode::add:
      case Opcode::sub:
      case Opcode::mul: {
        const std::string first = role(op.operands[0], token);
        return first.empty() ? role(op.operands[1], token) : first;
      }
      case Opcode::reshape:
      case Opcode::residual:
      case Opcode::layer_norm:
      case Opcode::rms_norm:
      case Opcode::dropout:
      case Opcode::drop_path:
      case Opcode::cast:
      case Opcode::matmul:
        return role(op.operands[0], token);
      default:
        return "";
    }
  }

 private:
  std::int64_t tokens_of(Value value) const {
    const ir::Shape& shape = function_.type(value).shape;
    return shape.size() == 3 ? shape[1] : 1;
  }

  std::string of_part(const ir::Op& op, std::int64_t token) const {
    const std::int64_t axis = op.attributes.get_int("axis");
    const auto rank = static_cast<std::int64_t>(function_.type(op.results[0]).shape.size());
    if (rank != 3 || (axis + rank) % rank != 1) return role(op.operands[0], token);
    for (const Value part : op.operands) {
      if (token < tokens_of(part)) return role(part, token);
      token -= tokens_of(part);
    }
    return "";
  }

  std::string of_slice(const ir::Op& op, std::int64_t token) const {
    const ir::Ints &starts = op.attributes.get_ints("starts"), &strides = op.attributes.get_ints("strides");
    if (starts.size() != 3) return "";
    return role(op.operands[0], starts[1] + token * (strides.empty() ? 1 : strides[1]));
  }

  const ir::Module& module_;
  const ir::Function& function_;
  const std::vector<std::int32_t> definitions_;
};

}  // namespace

std::vector<Block> find_blocks(const ir::Function& function) {
  const std::vector<std::int32_t> definitions = function.definitions();
  std::vector<Block> blocks;
  for (const std::size_t at : ir::find_joins(function)) {
    const ir::Op& op = function.body[at];
    const ir::Join join = ir::read_join(op);
    const bool begins = blocks.empty() || blocks.back().joins.back().block != join.block ||
                        blocks.back().joins.back().scope != join.scope;
    if (begins) {
      Block block;
      block.name = join.place;
      block.entrance = join.stream;
      block.first_op = static_cast<std::size_t>(definitions[static_cast<std::size_t>(join.stream.id)] + 1);
      blocks.push_back(std::move(block));
    }
    blocks.back().joins.push_back(join);
    blocks.back().join_ops.push_back(at);
    blocks.back().exit = op.results.at(0);
    blocks.back().last_op = at;
  }
  return blocks;
}

std::vector<std::size_t> attention_ops(const ir::Function& function, const Block& block) {
  std::vector<std::size_t> ops;
  for (std::size_t i = block.first_op; i <= block.last_op; ++i) {
    if (function.body[i].code == Opcode::attention) ops.push_back(i);
  }
  return ops;
}

Prefix find_prefix(const ir::Module& module, const ir::Function& function, Value stream) {
  const TokenOrigin origin(module, function);
  const std::int64_t tokens = function.type(stream).shape.at(1);
  Prefix prefix;
  for (; prefix.tokens < tokens; ++prefix.tokens) {
    const std::string role = origin.role(stream, prefix.tokens);
    if (role.empty()) break;
    if (prefix.tokens == 0) prefix.class_token = role == "cls_token";
  }
  return prefix;
}

double width_over_depth(const ir::Function& function) {
  double widths = 0, count = 0;
  for (const Block& block : find_blocks(function)) {
    const ir::Join& join = block.joins.front();
    if (join.scope != "encoder") continue;
    widths +=
        static_cast<double>(function.type(block.exit).shape.at(static_cast<std::size_t>(join.channel_axis)));
    ++count;
  }
  return count == 0 ? 0 : widths / (count * count);
}

}  // namespace rewire::programs
