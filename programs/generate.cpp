#include "programs/generate.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/attention.h"
#include "ir/ops/op_info.h"
#include "ir/residual.h"
#include "programs/program.h"

namespace rewire::programs {

using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Shape;
using ir::Value;

namespace {

struct Face {
  Value tokens, documents, logits;  // documents: of packed windows; a text that is drawn is one document
  ir::TensorType type;              // of tokens
  std::int64_t words = 0;
};

Face face_of(const ir::Function& forward) {
  Face face{forward.argument("tokens"), forward.argument("documents"), forward.result("logits"), {}, 0};
  const std::size_t known = face.documents ? 2 : 1;
  const bool fits = face.tokens && face.logits && forward.arguments.size() == known &&
                    forward.type(face.tokens).rank() == 2 && forward.type(face.tokens).shape[0] == 1 &&
                    forward.type(face.logits).rank() == 3 &&
                    forward.type(face.logits).shape[1] == forward.type(face.tokens).shape[1];
  if (!fits) {
    user_error("text is drawn from networks that take 'tokens' [1, T] alone and give 'logits' [1, T, words]");
  }
  face.type = forward.type(face.tokens);
  face.words = forward.type(face.logits).shape[2];
  return face;
}

/// Copies forward for some tokens of T.
class Reading {
 public:
  Reading(ir::Module& module, std::int64_t count)
      : module_(module),
        forward_(module.function("forward")),
        face_(face_of(forward_)),
        count_(count),
        all_(face_.type.shape[1]),
        program_(module, fmt::format("read_{}", count)),
        b_(program_.b),
        renamed_(forward_.types.size()),
        axis_(forward_.types.size(), -1) {}

  void write() {
    Value& tokens = at(face_.tokens);
    tokens = b_.argument("tokens", {face_.type.dtype, {1, count_}});
    position_ = b_.argument("position", {DType::i32, {}});
    const Value last = b_.argument("last", {DType::i32, {}});
    axis(face_.tokens) = 1;
    if (face_.documents) {
      at(face_.documents) = b_.constant(0, forward_.type(face_.documents).dtype, {1, count_});
      axis(face_.documents) = 1;
    }
    b_.set_location("read");
    own_ = b_.add(index(count_), b_.reshape(position_, {1}));
    for (const Op& op : forward_.body) copy(op);
    if (axis(face_.logits) != 1) user_error("the result 'logits' does not depend on the tokens");
    b_.set_location("read");
    const Value row =
        b_.emit(Opcode::gather, {at(face_.logits), b_.reshape(last, {1})}, {{"axis", std::int64_t{1}}});
    b_.result("logits", b_.cast(b_.reshape(row, {face_.words}), DType::f32));
    program_.finish(false);
  }

 private:
  Value& at(Value value) { return renamed_.at(static_cast<std::size_t>(value.id)); }
  int& axis(Value value) { return axis_.at(static_cast<std::size_t>(value.id)); }
  const Shape& shape(Value value) const { return forward_.type(value).shape; }
  int rank(Value value) const { return forward_.type(value).rank(); }

  Value index(std::int64_t extent) {
    return b_.emit(Opcode::iota, {}, {{"axis", std::int64_t{0}}}, ir::TensorType{DType::i32, {extent}});
  }

  [[noreturn]] static void refuse(const Op& op) {
    user_error(
        "the op {} at {} mixes tokens, so keys and values cannot be kept; compute each token anew "
        "(--no-cache)",
        op_info(op.code).name, op.location.empty() ? "the top" : op.location);
  }

  void copy(const Op& op) {
    const bool fixed = std::ranges::none_of(op.operands, [&](Value operand) { return axis(operand) >= 0; });
    if (fixed) {
      if (op.code == Opcode::param) {
        b_.set_location(op.location);
        at(op.results[0]) = program_.param(op.attributes.get_string("name"));
      } else {
        inline_op(program_, forward_, op, renamed_, {.trains = false});
      }
      return;
    }
    b_.set_location(op.location);
    if (op.code == Opcode::attention) return copy_attention(op);
    const int to = axis_of_result(op);
    if (to < 0 || shape(op.results[0])[static_cast<std::size_t>(to)] != all_) refuse(op);
    for (Value result : op.results) axis(result) = to;
    at(op.results[0]) = computed(op, to);
  }

  /// Returns an operand for the tokens at hand, which are along `along`. All tokens of a constant are cut.
  Value chunk(Value value, int along) {
    if (axis(value) >= 0) return at(value);
    return b_.emit(Opcode::gather, {at(value), own_}, {{"axis", std::int64_t{along}}});
  }

  /// Returns the axis of the tokens in all of the first result; -1 if the op mixes tokens.
  int axis_of_result(const Op& op) {
    const int from = op.operands.empty() ? -1 : axis(op.operands[0]);
    const auto unless_along = [&](bool mixes) { return mixes || from < 0 ? -1 : from; };
    switch (op.code) {
      case Opcode::dropout:
      case Opcode::drop_path:
      case Opcode::gelu:
      case Opcode::silu:
      case Opcode::relu:
        return from;
      case Opcode::residual:
        return common_axis(op, ir::kFirstJoinTerm);
      case Opcode::layer_norm:
      case Opcode::rms_norm:
      case Opcode::circulant_matmul:
        return others_fixed(op) ? unless_along(from == rank(op.operands[0]) - 1) : -1;
      case Opcode::softmax:
      case Opcode::argmax:
        return unless_along(positive(op.attributes.get_int("axis"), rank(op.operands[0])) == from);
      case Opcode::sum:
      case Opcode::max: {
        const ir::Ints& axes = op.attributes.get_ints("axes");
        return unless_along(std::ranges::any_of(
            axes, [&](std::int64_t one) { return positive(one, rank(op.operands[0])) == from; }));
      }
      case Opcode::rope:
        return op.operands.size() == 1 || axis(op.operands[1]) == 1 ? unless_along(from != 2) : -1;
      case Opcode::reshape:
        return reshaped_axis(op);
      case Opcode::transpose: {
        const ir::Ints& order = op.attributes.get_ints("permutation");
        return static_cast<int>(std::ranges::find(order, from) - order.begin());
      }
      case Opcode::broadcast:
        return from;
      case Opcode::slice: {
        const auto a = static_cast<std::size_t>(from);
        const bool whole = shape(op.results[0])[a] == shape(op.operands[0])[a];
        return unless_along(!whole);
      }
      case Opcode::concat: {
        const int along = common_axis(op, 0);
        return positive(op.attributes.get_int("axis"), rank(op.operands[0])) == along ? -1 : along;
      }
      case Opcode::gather:
        return gathered_axis(op);
      case Opcode::matmul:
        return product_axis(op);
      default:
        return op_info(op.code).op_class == ir::OpClass::pointwise ? common_axis(op, 0) : -1;
    }
  }

  static int positive(std::int64_t value, int rank) {
    return static_cast<int>(value < 0 ? value + rank : value);
  }

  bool others_fixed(const Op& op) {
    return std::all_of(op.operands.begin() + 1, op.operands.end(),
                       [&](Value other) { return axis(other) < 0; });
  }

  /// Returns the axis that all operands from `first` on have that depend on tokens; -1 if they differ.
  int common_axis(const Op& op, std::size_t first) {
    int common = -1;
    for (std::size_t i = first; i < op.operands.size(); ++i) {
      const int one = axis(op.operands[i]);
      if (one < 0) continue;
      if (common >= 0 && one != common) return -1;
      common = one;
    }
    return common;
  }

  int reshaped_axis(const Op& op) {
    const Shape& from = shape(op.operands[0]);
    const Shape& to = shape(op.results[0]);
    std::int64_t before = 1, passed = 1;
    for (int i = 0; i < axis(op.operands[0]); ++i) before *= from[static_cast<std::size_t>(i)];
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (passed == before && to[i] == all_) return static_cast<int>(i);
      passed *= to[i];
    }
    return -1;
  }

  int gathered_axis(const Op& op) {
    const Value x = op.operands[0], indices = op.operands[1];
    const int along = positive(op.attributes.get_int("axis"), rank(x));
    if (rank(indices) != 1) return -1;
    if (axis(x) < 0) return along;
    return axis(indices) < 0 && axis(x) != along ? axis(x) : -1;
  }

  int product_axis(const Op& op) {
    const Value a = op.operands[0], b = op.operands[1];
    const int last = rank(op.results[0]) - 1;
    const bool shared = rank(b) == 2;
    const int row = last - (op.attributes.get_bool("transpose_a") ? 0 : 1);
    const int column = rank(b) - (op.attributes.get_bool("transpose_b") ? 2 : 1);
    if (axis(a) >= 0 && axis(a) < last - 1)  // one of the products' axes
      return axis(b) < 0 || (!shared && axis(b) == axis(a)) ? axis(a) : -1;
    if (axis(a) >= 0) return axis(a) == row && axis(b) < 0 ? last - 1 : -1;
    if (axis(b) < rank(b) - 2) return axis(b);
    return axis(b) == column ? last : -1;
  }

  Value computed(const Op& op, int to) {
    const Value result = op.results[0];
    const auto a = static_cast<std::size_t>(to);
    ir::TensorType type = forward_.type(result);
    if (!type.shape.empty()) type.shape[a] = count_;
    std::vector<Value> operands;
    ir::Attributes attributes = op.attributes;
    switch (op.code) {
      case Opcode::dropout:
      case Opcode::drop_path:
        return at(op.operands[0]);
      case Opcode::residual:
        return sum_of_terms(op, to);
      case Opcode::rope: {
        const Value positions = op.operands.size() > 1 ? at(op.operands[1]) : b_.reshape(own_, {1, count_});
        return b_.emit(op.code, {at(op.operands[0]), positions}, std::move(attributes));
      }
      case Opcode::slice: {
        ir::Ints limits = op.attributes.get_ints("limits");
        limits[a] = count_;
        attributes.set("limits", limits);
        operands = {at(op.operands[0])};
        break;
      }
      case Opcode::matmul:
        for (Value operand : op.operands) {
          const bool stacked = axis(operand) < 0 && to < rank(result) - 2 && rank(operand) > 2;
          operands.push_back(stacked ? chunk(operand, to) : at(operand));
        }
        break;
      case Opcode::layer_norm:
      case Opcode::rms_norm:
      case Opcode::circulant_matmul:
      case Opcode::gather:
        for (Value operand : op.operands) operands.push_back(at(operand));
        break;
      default:
        for (Value operand : op.operands) operands.push_back(chunk(operand, to));
    }
    std::optional<ir::TensorType> requested;
    if (op_info(op.code).typed) requested = type;
    return b_.emit(op.code, operands, std::move(attributes), std::move(requested));
  }

  Value sum_of_terms(const Op& op, int to) {
    Value total;
    for (std::size_t i = ir::kFirstJoinTerm; i < op.operands.size(); ++i) {
      const Value term = chunk(op.operands[i], to);
      total = total ? b_.add(total, term) : term;
    }
    return total;
  }

  /// Attention of the tokens at hand over all that have been read.
  void copy_attention(const Op& op) {
    const ir::AttentionForm form = ir::attention_form(op);
    const Value q = op.operands[0], k = op.operands[1], v = op.operands[2];
    const bool fits = form.causal && form.bias < 0 && axis(q) == 2 && axis(k) == 2 && axis(v) == 2 &&
                      shape(q)[2] == all_ && shape(k)[2] == all_;
    if (!fits) refuse(op);
    const std::string cache = fmt::format("cache.{}.", caches_++);
    const Value keys = kept(cache + "keys", forward_.type(k), at(k));
    const Value values = kept(cache + "values", forward_.type(v), at(v));
    const DType wide = forward_.type(op.results[1]).dtype;
    ir::Attributes attributes = {{"scale", op.attributes.get_double("scale")}, {"bias", true}};
    const std::vector<Value> results =
        b_.emit_all(Opcode::attention, std::vector<Value>{at(q), keys, values, visible(form.window, wide)},
                    std::move(attributes));
    for (std::size_t i = 0; i < results.size(); ++i) {
      at(op.results[i]) = results[i];
      axis(op.results[i]) = 2;
    }
  }

  /// Returns 0 [1, 1, N, T] where a token sees another, else -1e30.
  Value visible(std::int64_t window, DType dtype) {
    const Value key = b_.reshape(index(all_), {1, 1, 1, all_});
    const Value query = b_.reshape(own_, {1, 1, count_, 1});
    Value sees = b_.compare("le", key, query);
    if (window > 0) {
      const Value near =
          b_.compare("lt", b_.sub(query, key), b_.constant_like(query, static_cast<double>(window)));
      sees = b_.binary(Opcode::logical_and, sees, near);
    }
    const Shape all = {1, 1, count_, all_};
    return b_.select(sees, b_.constant(0, dtype, all), b_.constant(-1e30, dtype, all));
  }

  /// Adds the tokens at hand to a state of all keys or values. Returns its new value.
  Value kept(const std::string& name, const ir::TensorType& type, Value fresh) {
    module_.add_state(name, type, ir::StateKind::partial);
    const Value before = program_.param(name);
    const Value place = b_.sub(index(all_), b_.broadcast(b_.reshape(position_, {1}), {all_}));
    const Value is_fresh =
        b_.binary(Opcode::logical_and, b_.compare("ge", place, b_.constant_like(place, 0)),
                  b_.compare("lt", place, b_.constant_like(place, static_cast<double>(count_))));
    const Value spread = b_.emit(Opcode::gather, {fresh, place}, {{"axis", std::int64_t{2}}});
    const Value after =
        b_.select(b_.broadcast(b_.reshape(is_fresh, {1, 1, all_, 1}), type.shape), spread, before);
    program_.update(name, after);
    return after;
  }

  ir::Module& module_;
  const ir::Function forward_;  // a copy: the module's functions move
  const Face face_;
  const std::int64_t count_, all_;  // tokens at hand, tokens of forward
  ProgramBuilder program_;
  ir::Builder& b_;
  std::vector<Value> renamed_;  // by value id of forward
  std::vector<int> axis_;       // the axis of the tokens, by value id of forward; -1: none
  Value position_, own_;        // of the first token at hand; of each
  int caches_ = 0;
};

}  // namespace

void add_whole_program(ir::Module& module) {
  const Face face = face_of(module.function("forward"));
  ProgramBuilder program(module, "whole");
  ir::Builder& b = program.b;
  const Value tokens = b.argument("tokens", face.type);
  const Value position = b.argument("position", {DType::i32, {}});
  NamedValues arguments = {{"tokens", tokens}};
  if (face.documents) {
    const ir::TensorType type = module.function("forward").type(face.documents);
    arguments.emplace("documents", b.constant(0, type.dtype, type.shape));
  }
  InlinedNetwork network(program, {}, false);
  const Value logits = network.call("forward", arguments, Reads::weights).at("logits");
  b.set_location("read");
  const Value row = b.emit(Opcode::gather, {logits, b.reshape(position, {1})}, {{"axis", std::int64_t{1}}});
  b.result("logits", b.cast(b.reshape(row, {face.words}), DType::f32));
  program.finish(false);
}

std::int64_t prompt_tokens(const ir::Module& module) {
  constexpr std::int64_t kMost = 64;
  return std::min(kMost, face_of(module.function("forward")).type.shape[1]);
}

void add_read_program(ir::Module& module, std::int64_t count) {
  Reading(module, count).write();
}

}  // namespace rewire::programs
