// Translates one op after the other, from the last one back, so that only what is needed gets a step.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/export/torch_steps.h"

namespace rewire::runtime {

/// Marks of a step's open places.
std::string operand_mark(std::size_t index, int binding);
std::string literal_mark(std::size_t index);
std::string name_mark(std::size_t index);
inline const std::string kBatchMark = {kMark, 'b', kEnd}, kReferenceMark = {kMark, 'r', kEnd};

/// A number as Python writes it.
std::string python_number(double value);
std::string python_float(double value);
/// "(2,)", "(2, 3)".
std::string python_tuple(const std::vector<std::string>& items);

/// Builds one step: each call adds an open place and returns its mark.
class TorchWriter {
 public:
  explicit TorchWriter(const ir::Op& op);
  std::string operand(ir::Value value, int binding = kConditional);
  std::string literal(std::string text, std::string hint);
  std::string literal(std::int64_t value, std::string hint) { return literal(std::to_string(value), hint); }
  std::string name(std::string path);
  TorchStep step;
};

class TorchTranslation : public ExportReader {
 public:
  TorchTranslation(const ExportFunction& forward, const std::vector<std::string>& plugins);
  TorchSteps take();

  // What the translations of single ops ask and say.
  std::string size(TorchWriter& writer, const ExportExtent& extent, bool may_infer = false) const;
  std::string sizes(TorchWriter& writer, const ExportShape& shape, bool may_infer) const;

  /// Finishes a step for the op.
  void add(const ir::Op& op, TorchWriter writer, int binding, std::vector<std::string> hints = {});
  /// Finishes a step that calls the layer of this path, which has exactly these weights. `before` and `after` are calls on its
  /// input and result. Returns false if that is impossible.
  bool add_layer(const ir::Op& op, const std::string& path, const std::vector<std::string>& weights,
                 const TorchCode& constructor, ir::Value input, const std::string& after = "",
                 const std::string& before = "");
  /// Names a value, unless it has a better name.
  void suggest(ir::Value value, const std::string& name) { suggested_.emplace(value.id, name); }
  void helper(const std::string& name);
  std::string table(const ir::Op& constant);
  /// Returns the place of the module that has the join: blocks.0 for a join at blocks.0.attn.
  static std::string block_of(const ir::Op& join);
  /// Returns whether a result is a layer's running statistics. Throws UserError if another value is written.
  bool is_update(const ir::Argument& result);

 private:
  void join_cuts();
  void drop_repeated();
  void place(TorchStep& step, const std::string& location) const;

  std::vector<std::string> plugins_;
  std::map<std::string, std::string> joins_;  // the block of each join, by the join's place
  std::map<std::int32_t, std::string> suggested_;
  TorchSteps out_;
};

/// Translates an op, whose result is needed.
void translate(TorchTranslation& translation, const ir::Op& op);

}  // namespace rewire::runtime
