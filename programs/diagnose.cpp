#include "programs/diagnose.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <utility>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/side_results.h"
#include "programs/diagnose_blocks.h"
#include "programs/programs.h"
#include "programs/sums.h"

namespace rewire::programs {
namespace {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

constexpr std::array<std::string_view, 8> kDiagnostics = {
    "streams", "rank", "diversity", "similarity", "entropy", "gradients", "parameters", kConditioning};

/// a / b, 0 where b is 0.
Value quotient(Builder& b, Value dividend, Value divisor) {
  const Value zero = b.constant_like(divisor, 0);
  const Value is_zero = b.compare("eq", divisor, zero);
  return b.select(is_zero, zero, b.div(dividend, b.select(is_zero, b.constant_like(divisor, 1), divisor)));
}

Value root(Builder& b, Value x) {
  return b.unary(Opcode::sqrt, x);
}

Value square(Builder& b, Value x) {
  return b.mul(x, x);
}

/// sqrt(|M|_1 |M|_inf) of each sample's matrix [tokens, width]: [batch, 1, 1].
Value composite_norm(Builder& b, Value matrices) {
  const Value sizes = b.unary(Opcode::abs, matrices);
  const Value column = b.max(b.sum(sizes, {1}), {2}), row = b.max(b.sum(sizes, {2}), {1});
  return root(b, b.mul(column, row));
}

/// The entropy of softmax(scale q k^T) by rows, as ln Z - sum of e s / Z with s the logits less their largest and
/// e = exp s: no probability of 0 has a logarithm.
Value row_entropy(Builder& b, Value query, Value key, double scale) {
  const Value logits =
      b.mul(b.matmul(b.cast(query, DType::f32), b.cast(key, DType::f32), false, true), scale);
  const Value shifted = b.sub(logits, b.max(logits, {3}));
  const Value sizes = b.unary(Opcode::exp, shifted), total = b.sum(sizes, {3});
  return b.sub(b.unary(Opcode::log, total), b.div(b.sum(b.mul(sizes, shifted), {3}), total));
}

/// What the product reads whose value, but for a bias, is `logits`; logits themselves where there is none.
Value features_of(const ir::Function& function, Value logits) {
  const std::vector<std::int32_t> definitions = function.definitions();
  for (Value at = logits;;) {
    const std::int32_t definition = definitions[static_cast<std::size_t>(at.id)];
    if (definition < 0) return logits;
    const ir::Op& op = function.body[static_cast<std::size_t>(definition)];
    if (op.code == Opcode::matmul) return op.operands[0];
    if (op.code != Opcode::add && op.code != Opcode::reshape && op.code != Opcode::cast) return logits;
    at = op.operands[0];
  }
}

/// Adds what is asked for to a program that has the network, its loss and gradients.
class Observer {
 public:
  Observer(ir::Module& module, ir::Function& function, const std::vector<std::string>& what)
      : module_(module), what_(what), b_(module, function), blocks_(find_blocks(function)) {
    observed_.swap(function.results);
    b_.set_location("diagnose");
  }

  void observe() {
    for (const Block& block : blocks_) {
      if (asks("streams")) {
        for (const ir::Join& join : block.joins) add_streams(join);
      }
      add_exit(block);
      if (asks("entropy")) add_entropy(block);
      if (asks("gradients")) add_gradient(block.name + ".gradient_norm", block.name + ".");
    }
    if (asks("rank")) add_features();
    if (asks("gradients")) add_gradient("gradient_norm", "");
    if (asks("parameters")) add_parameters();
    add_reports();
  }

 private:
  bool asks(std::string_view name) const { return std::ranges::find(what_, name) != what_.end(); }

  /// Names that joins share get a number.
  void add(const std::string& name, Value value) {
    std::string unique = name;
    for (int number = 2; !names_.insert(unique).second; ++number) unique = fmt::format("{}#{}", name, number);
    b_.result(unique, value);
  }
  void add_mean(const std::string& name, Value values) { add(name, mean_all(b_, values)); }

  Value wide(Value x) { return b_.cast(x, DType::f32); }

  void add_streams(const ir::Join& join) {
    const Value x = wide(join.stream), f = wide(join.branch);
    const auto product = [&](Value y, Value z) { return b_.sum(b_.mul(y, z), {join.channel_axis}); };
    const Value xx = product(x, x), ff = product(f, f), xf = product(x, f);
    const Value rest = b_.sub(f, b_.mul(quotient(b_, xf, xx), x));
    const std::string name = join.describe();
    add_mean(name + ".stream", xx);
    add_mean(name + ".branch", ff);
    add_mean(name + ".parallel", quotient(b_, square(b_, xf), xx));
    add_mean(name + ".perpendicular", product(rest, rest));
    add_mean(name + ".cosine", quotient(b_, xf, b_.mul(root(b_, xx), root(b_, ff))));
  }

  /// What stands at the block's exit.
  void add_exit(const Block& block) {
    const ir::Join& join = block.joins.front();
    const Value exit = wide(block.exit);
    const bool has_tokens = b_.type(exit).rank() == 3 && join.batch_axis == 0 && join.token_axis == 1;
    if (!has_tokens) {
      if (asks("rank")) add_pooled(block, exit);
      return;
    }
    const Prefix prefix = find_prefix(module_, b_.function(), block.exit);
    const std::int64_t tokens = b_.shape(exit)[1];
    const bool is_cut = prefix.tokens > 0 && prefix.tokens < tokens;
    const Value of_image = is_cut ? b_.slice(exit, 1, prefix.tokens, tokens) : exit;
    if (asks("rank"))
      add_rows(block.name, prefix.class_token ? b_.slice(exit, 1, 0, 1) : b_.mean(of_image, {1}));
    if (tokens - prefix.tokens < 2) return;
    if (asks("diversity")) add_diversity(block.name, of_image);
    if (asks("similarity")) add_similarity(block.name, of_image);
  }

  /// [batch, …] with one row a sample.
  void add_rows(const std::string& place, Value rows) {
    const std::int64_t batch = b_.shape(rows).at(0);
    add(fmt::format("{}.{}", place, kEffectiveRank),
        b_.reshape(rows, {batch, b_.type(rows).elements() / batch}));
  }

  void add_pooled(const Block& block, Value exit) {
    const ir::Join& join = block.joins.front();
    if (join.batch_axis != 0) return;
    ir::Ints positions;
    for (int axis = 1; axis < static_cast<int>(b_.type(exit).rank()); ++axis) {
      if (axis != join.channel_axis) positions.push_back(axis);
    }
    add_rows(block.name, positions.empty() ? exit : b_.mean(exit, positions));
  }

  void add_diversity(const std::string& place, Value tokens) {
    const Value distance = composite_norm(b_, b_.sub(tokens, b_.mean(tokens, {1})));
    add_mean(place + ".diversity", distance);
    add_mean(place + ".relative_diversity", quotient(b_, distance, composite_norm(b_, tokens)));
  }

  /// Of unit vectors u: (|sum u|^2 - sum |u|^2) / (n (n - 1)).
  void add_similarity(const std::string& place, Value tokens) {
    const auto count = static_cast<double>(b_.shape(tokens)[1]);
    const Value unit =
        quotient(b_, tokens, b_.broadcast(root(b_, b_.sum(square(b_, tokens), {2})), b_.shape(tokens)));
    const Value of_sum = b_.sum(square(b_, b_.sum(unit, {1})), {2});
    const Value own = b_.sum(b_.sum(square(b_, unit), {2}), {1});
    add_mean(place + ".similarity", b_.div(b_.sub(of_sum, own), count * (count - 1)));
  }

  void add_entropy(const Block& block) {
    Value sum;
    double maps = 0;
    for (const std::size_t at : attention_ops(b_.function(), block)) {
      const ir::Op op = b_.function().body[at];
      const Value entropy =
          mean_all(b_, row_entropy(b_, op.operands[0], op.operands[1], op.attributes.get_double("scale")));
      sum = sum ? b_.add(sum, entropy) : entropy;
      ++maps;
    }
    if (sum) add(block.name + ".attention_entropy", b_.div(sum, maps));
  }

  /// Of the weights whose names begin so.
  void add_gradient(const std::string& name, const std::string& place) {
    Value total;
    for (const ir::Argument& gradient : results_of(std::string(kGradientPrefix) + place)) {
      const Value squares = sum_all(b_, square(b_, wide(gradient.value)));
      total = total ? b_.add(total, squares) : squares;
    }
    if (total) add(name, root(b_, total));
  }

  void add_features() {
    for (const ir::Argument& logits : results_of(std::string(kForwardPrefix) + "logits")) {
      const Value features = features_of(b_.function(), logits.value);
      if (b_.type(features).rank() == 2) add_rows("features", wide(features));
    }
    for (const ir::Argument& features : results_of(std::string(kForwardPrefix) + "features")) {
      if (b_.type(features.value).rank() == 2) add_rows("features", wide(features.value));
    }
  }

  void add_parameters() {
    for (const std::string& name : trained_parameters(module_)) {
      const ir::Parameter& parameter = *module_.find_parameter(name);
      if (parameter.role == "join" && parameter.type.elements() == 1)
        add(name, b_.reshape(wide(b_.param(name)), {}));
    }
  }

  void add_reports() {
    const std::string forward(kForwardPrefix);
    for (const ir::Argument& report : results_of(forward + std::string(ir::kReportPrefix))) {
      if (b_.type(report.value).rank() == 0 && ir::is_float(b_.type(report.value).dtype))
        add(report.name.substr(forward.size()), wide(report.value));
    }
  }

  /// Of the program that is observed, those whose names begin so.
  std::vector<ir::Argument> results_of(const std::string& prefix) const {
    std::vector<ir::Argument> found;
    for (const ir::Argument& result : observed_) {
      if (result.name.starts_with(prefix)) found.push_back(result);
    }
    return found;
  }

  ir::Module& module_;
  const std::vector<std::string>& what_;
  Builder b_;
  const std::vector<Block> blocks_;
  std::vector<ir::Argument> observed_;
  std::set<std::string> names_;
};

}  // namespace

std::string default_diagnostics() {
  return fmt::format("{}", fmt::join(std::span(kDiagnostics).first(kDiagnostics.size() - 1), "+"));
}

std::vector<std::string> parse_diagnostics(std::string_view text, std::string_view key) {
  const std::vector<std::string> known(kDiagnostics.begin(), kDiagnostics.end());
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    std::string name(text.substr(begin, end - begin));
    if (std::ranges::find(known, name) == known.end()) {
      user_error("{}: there is no diagnostic '{}'{}; there are {}", key, one_line(name),
                 did_you_mean(name, known), fmt::join(known, ", "));
    }
    if (std::ranges::find(names, name) != names.end()) user_error("{}: '{}' stands twice", key, name);
    names.push_back(std::move(name));
    begin = end + 1;
  }
  return names;
}

void add_diagnose_program(ir::Module& module, const DiagnoseOptions& options) {
  if (ir::find_joins(module.function("forward")).empty())
    user_error("the network has no residual joins, so that it has no stream to measure");
  ir::Module observed = module;
  add_observed_program(observed, options.objective, "diagnose");
  ir::Function function = std::move(observed.function("diagnose"));
  Observer(module, function, options.what).observe();
  module.functions.push_back(std::move(function));
}

}  // namespace rewire::programs
