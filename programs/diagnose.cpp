#include "programs/diagnose.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/residual.h"
#include "ir/side_results.h"
#include "programs/diagnostic.h"
#include "programs/programs.h"
#include "programs/sums.h"

namespace rewire::programs {

using ir::Builder;
using ir::Value;

Value quotient(Builder& b, Value dividend, Value divisor) {
  const Value zero = b.constant_like(divisor, 0);
  const Value is_zero = b.compare("eq", divisor, zero);
  return b.select(is_zero, zero, b.div(dividend, b.select(is_zero, b.constant_like(divisor, 1), divisor)));
}

Observation::Observation(ir::Module& module, ir::Function& function)
    : module_(module), b_(module, function), blocks_(find_blocks(function)) {
  observed_.swap(function.results);
  b_.set_location("diagnose");
}

void Observation::add(const std::string& name, Value value) {
  std::string unique = name;
  for (int number = 2; !names_.insert(unique).second; ++number) unique = fmt::format("{}#{}", name, number);
  b_.result(unique, value);
}

void Observation::add_mean(const std::string& name, Value values) {
  add(name, mean_all(b_, values));
}

void Observation::add_rows(const std::string& name, Value rows) {
  const std::int64_t batch = b_.shape(rows).at(0);
  add(name, b_.reshape(rows, {batch, b_.type(rows).elements() / batch}));
}

std::vector<ir::Argument> Observation::results_of(const std::string& prefix) const {
  std::vector<ir::Argument> found;
  for (const ir::Argument& result : observed_) {
    if (result.name.starts_with(prefix)) found.push_back(result);
  }
  return found;
}

namespace {

bool has_tokens(const Builder& b, const Block& block) {
  const ir::Join& join = block.joins.front();
  return b.type(block.exit).rank() == 3 && join.batch_axis == 0 && join.token_axis == 1;
}

/// Returns the tokens of the image, without class token and registers.
Value of_image(Builder& b, Value exit, const Prefix& prefix) {
  const std::int64_t tokens = b.shape(exit)[1];
  const bool is_cut = prefix.tokens > 0 && prefix.tokens < tokens;
  return is_cut ? b.slice(exit, 1, prefix.tokens, tokens) : exit;
}

void add_reports(Observation& seen) {
  const std::string forward(kForwardPrefix);
  for (const ir::Argument& report : seen.results_of(forward + std::string(ir::kReportPrefix))) {
    const ir::TensorType& type = seen.build().type(report.value);
    if (type.rank() == 0 && ir::is_float(type.dtype))
      seen.add(report.name.substr(forward.size()), seen.wide(report.value));
  }
}

}  // namespace

Value Observation::sample_rows(const Block& block) {
  const ir::Join& join = block.joins.front();
  const Value exit = wide(block.exit);
  if (has_tokens(b_, block)) {
    const Prefix prefix = find_prefix(module_, b_.function(), block.exit);
    return prefix.class_token ? b_.slice(exit, 1, 0, 1) : b_.mean(of_image(b_, exit, prefix), {1});
  }
  if (join.batch_axis != 0) return {};
  ir::Ints positions;
  for (int axis = 1; axis < static_cast<int>(b_.type(exit).rank()); ++axis) {
    if (axis != join.channel_axis) positions.push_back(axis);
  }
  return positions.empty() ? exit : b_.mean(exit, positions);
}

Value Observation::image_tokens(const Block& block) {
  if (!has_tokens(b_, block)) return {};
  const Prefix prefix = find_prefix(module_, b_.function(), block.exit);
  if (b_.shape(block.exit)[1] - prefix.tokens < 2) return {};
  return of_image(b_, wide(block.exit), prefix);
}

std::string default_diagnostics() {
  return fmt::format("{}", fmt::join(ir::row_names(diagnostics()), "+"));
}

std::vector<std::string> parse_diagnostics(std::string_view text, std::string_view key) {
  std::vector<std::string> known = ir::row_names(diagnostics());
  known.emplace_back(kConditioning);
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    std::string name(text.substr(begin, end - begin));
    if (std::ranges::find(known, name) == known.end()) {
      user_error("{}: unknown diagnostic '{}'{}; choose from {}", key, one_line(name),
                 did_you_mean(name, known), fmt::join(known, ", "));
    }
    if (std::ranges::find(names, name) != names.end()) user_error("{}: '{}' appears twice", key, name);
    names.push_back(std::move(name));
    begin = end + 1;
  }
  return names;
}

void add_diagnose_program(ir::Module& module, const DiagnoseOptions& options) {
  if (ir::find_joins(module.function("forward")).empty())
    user_error("the network has no residual joins, and so no stream to measure");
  ir::Module observed = module;
  add_observed_program(observed, options.objective, "diagnose");
  ir::Function function = std::move(observed.function("diagnose"));
  Observation seen(module, function);
  const auto asked = [&](auto of) {
    for (const DiagnosticRow* row : diagnostics()) {
      if (std::ranges::find(options.what, row->name) != options.what.end()) of(*row);
    }
  };
  for (const Block& block : seen.blocks()) {
    asked([&](const DiagnosticRow& row) {
      if (row.of_block != nullptr) row.of_block(seen, block);
    });
  }
  asked([&](const DiagnosticRow& row) {
    if (row.of_network != nullptr) row.of_network(seen);
  });
  add_reports(seen);
  module.functions.push_back(std::move(function));
}

}  // namespace rewire::programs
