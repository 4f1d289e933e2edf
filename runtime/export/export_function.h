// A network's forward as exporters read it: at two batches, whose difference says which extents are the batch's,
// and from the last op back, so that only what is needed is written.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::runtime {

/// A function at two batches; without a second one its batch is fixed.
struct ExportFunction {
  const ir::Module* module = nullptr;
  const ir::Function *function = nullptr, *larger = nullptr;
  std::int64_t batch = 1, larger_batch = 1;
};

/// An extent, coefficient times the batch plus constant.
struct ExportExtent {
  std::int64_t coefficient = 0, constant = 0;
  bool operator==(const ExportExtent&) const = default;
};
using ExportShape = std::vector<ExportExtent>;

/// Replaces the composites that have no form of their own in a format by smaller ops.
void take_apart(ir::Module& module, const std::function<bool(const ir::Op&)>& has_form);
/// Returns whether PyTorch has a function or a layer for the op.
bool has_torch_form(const ir::Op& op);

class ExportReader {
 public:
  explicit ExportReader(const ExportFunction& forward);

  const ir::TensorType& type(ir::Value value) const { return forward_.function->type(value); }
  ExportShape extents(ir::Value value) const;
  const ir::Op* definition(ir::Value value) const;
  const ir::Op* definition(ir::Value value, ir::Opcode code) const;
  /// Returns the op of the larger batch.
  const ir::Op& larger(const ir::Op& op) const;
  /// Refuses an op whose attributes differ between the batches, and returns false.
  bool has_fixed_attributes(const ir::Op& op);
  std::size_t uses(ir::Value value) const { return uses_[static_cast<std::size_t>(value.id)]; }
  bool has_parameter(const std::string& name) const {
    return forward_.module->find_parameter(name) != nullptr;
  }
  /// Returns the name of the parameter that the value reads, or "".
  std::string parameter(ir::Value value) const;
  /// Returns the number that the value has everywhere, if a `constant` of one number defines it.
  std::optional<double> number(ir::Value value) const;
  /// Returns the value without what broadcasting does unasked: broadcasts and leading extents of 1.
  ir::Value peeled(ir::Value value) const;
  /// An operand of a pointwise op; a number if it has one value everywhere.
  struct Operand {
    ir::Value value;
    std::optional<double> number;
  };
  /// Returns peeled operands whose tensors still have the result's shape together; one of them is a tensor.
  std::vector<Operand> pointwise_operands(const ir::Op& op) const;

  /// `from` has the value of `to`.
  void add_alias(ir::Value from, ir::Value to);
  ir::Value resolved(ir::Value value) const;
  void need(ir::Value value);
  bool is_needed(ir::Value value) const { return needed_.contains(value.id); }
  bool is_needed(const ir::Op& op) const;
  void refuse(const ir::Op& op, const std::string& why);
  /// Throws UserError that lists all that was refused: "export: this network has no form in PyTorch: …".
  void check_refused(const std::string& format) const;

 protected:
  ExportFunction forward_;

 private:
  std::vector<std::int32_t> definitions_;
  std::vector<std::size_t> uses_;
  std::set<std::int32_t> needed_;
  std::map<std::int32_t, ir::Value> aliases_;
  std::vector<std::string> refused_;
};

}  // namespace rewire::runtime
