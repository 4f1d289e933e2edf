// One call of a plugin's rewrite or initialise, as the C functions of the host table find it.
//
// A handle carries its call's number. The host looks the number up in the calling thread's current call. So
// a handle of an ended call, or on another thread, is refused, and no pointer is followed.
#pragma once

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/module.h"
#include "ir/residual.h"
#include "ir/tensor.h"
#include "plugins/sdk/rewire_plugin.h"
#include "runtime/io/host_tensor.h"
#include "runtime/plugin/branch_values.h"
#include "runtime/plugin/branch_weights.h"
#include "runtime/plugin/loaded_plugin.h"
#include "runtime/plugin/pending_ops.h"

namespace rewire::runtime {

class HostCall {
 public:
  /// A rewrite of `module`, a copy that the caller drops on failure.
  HostCall(const Plugin& plugin, std::uint64_t seed, ir::Module& module);
  /// An initialisation: module and state are read only. New values go to `written`, which is read first.
  HostCall(const Plugin& plugin, std::uint64_t seed, const ir::Module& module, const TensorMap& state,
           TensorMap& written);
  ~HostCall();
  HostCall(const HostCall&) = delete;
  HostCall& operator=(const HostCall&) = delete;

  /// Calls the plugin's function. On failure throws UserError, without the plugin's name, or PluginRefusal
  /// if the plugin itself refused.
  void run(std::int32_t (*function)(const rewire_host*, rewire_call));

  /// Returns the current call of this thread if its number is `token`, else nullptr.
  static HostCall* find(rewire_call token);

  const Plugin& plugin() const { return plugin_; }
  std::uint64_t seed() const { return seed_; }
  const std::string* error() const { return failed_ ? &error_ : nullptr; }
  /// Records a failure; the first one stays.
  void fail(std::string_view message);
  /// Records a failure in the plugin's own words.
  void refuse(std::string_view message);
  /// Records a fault of Rewire, which run() throws on unchanged.
  void fail(std::exception_ptr internal);
  /// Returns a copy of the text that lives as long as the call.
  const char* keep(std::string_view text) { return texts_.emplace(text).first->c_str(); }

  // For rewrites and hooks alike: the module in its current state, and the joins that pass the filters.
  const ir::Module& module() const { return module_; }
  const ir::Function& forward() const { return module_.function("forward"); }
  std::size_t join_count() const { return joins_.size(); }
  /// Returns the body index of the join's `residual`.
  std::size_t join_position(std::uint32_t join) const;
  /// Returns the number of blocks of a scope that have a join.
  std::int64_t block_count(std::string_view scope) const;
  const BranchWeights& branch_weights() const { return branch_weights_; }
  /// Returns the op that defines a value; nullptr for arguments.
  const ir::Op* definition(ir::Value value) { return definitions_.op(value); }
  ir::Join read_join(std::uint32_t join) const { return ir::read_join(forward().body[join_position(join)]); }
  /// Returns a parameter of the model or one that this call has added; nullptr if there is none.
  const ir::Parameter* find_parameter(std::string_view name) const;

  // Rewrite. UserError during initialise.
  ir::Module& writable_module();
  void write_join(std::uint32_t join, const ir::Join& facts) { write_join_at(join_position(join), facts); }
  void write_join_at(std::size_t position, const ir::Join& facts);
  /// Notes that this call sets a slot of the join; returns false if it already has.
  bool sets_first(const ir::Join& join, std::string_view slot) {
    return set_.insert(fmt::format("{} {}", join.describe(), slot)).second;
  }
  /// Returns true if this call has set the slot.
  bool has_set(const ir::Join& join, std::string_view slot) const {
    return set_.contains(fmt::format("{} {}", join.describe(), slot));
  }
  /// Returns a builder whose ops go right before the join, after the given values, with join and plugin as
  /// location.
  ir::Builder builder_at(std::uint32_t join, std::initializer_list<ir::Value> behind = {});
  /// Adds a parameter, whose name must be free, and reads it right before the join.
  ir::Value add_parameter(std::uint32_t join, ir::Parameter parameter);
  /// Reads an existing parameter.
  ir::Value read_parameter(std::uint32_t join, const ir::Parameter& parameter);
  rewire_value to_handle(ir::Value value) const;
  /// Returns the value of a handle. Throws UserError if there is none, or it belongs to another call.
  ir::Value to_value(rewire_value handle) const;
  /// Returns it as an operand of the next ops of builder_at's builder, which will come after it.
  ir::Value to_operand(rewire_value handle);
  /// Finds a value by its role at the join, in the current state; nothing if there is none.
  std::optional<RoleValue> find_role(std::uint32_t join, std::string_view role);
  /// Returns true if a result of any of these ops, given by body index, is the value or goes into it.
  bool depends_on(ir::Value value, const std::vector<std::size_t>& ops) {
    return pending_->depends_on(value, ops);
  }
  /// Makes the old op at this body index read the value, which will be computed before the op.
  void make_read(std::size_t op, ir::Value value) { pending_->make_read(op, value); }
  /// Sets the place in the plugin's source that calls the next functions, for error messages.
  void locate(std::string_view place) { place_ = place; }

  // Initialise. UserError during rewrite, and for a name that the module does not have.
  const ir::TensorType& weight_type(std::string_view name) const;
  ir::Tensor read_weight(std::string_view name) const;
  void write_weight(std::string_view name, const ir::Tensor& tensor);
  /// Returns the names of the weights that this call wrote, sorted.
  std::vector<std::string> written_names() const { return {written_names_.begin(), written_names_.end()}; }

 private:
  void read_model();

  const Plugin& plugin_;
  std::uint64_t seed_;
  const ir::Module& module_;
  ir::Module* writable_ = nullptr;
  const TensorMap* state_ = nullptr;
  TensorMap* written_ = nullptr;
  rewire_call token_;
  std::vector<std::size_t> joins_;                                 // body indices of the `residual` ops
  std::map<std::string, std::int64_t, std::less<>> block_counts_;  // by scope
  Definitions definitions_;                                        // of the forward function
  BranchWeights branch_weights_;
  std::optional<PendingOps> pending_;                           // of a rewrite
  std::map<std::string, std::size_t, std::less<>> parameters_;  // by name: the index in the module
  std::set<std::string, std::less<>> texts_;
  std::set<std::string, std::less<>> set_;  // the slots that sets_first has seen
  std::set<std::string> written_names_;
  bool failed_ = false;
  bool refused_ = false;  // the failure is a refusal by the plugin
  std::string error_;
  std::string place_;  // in the plugin's source
  std::exception_ptr internal_;
};

/// Returns the host table, which is the same for every call.
const rewire_host& host_table();

// Fill the parts of the table, by file.
void add_fact_functions(rewire_host& table);        // host_facts.cpp: parameters, messages, joins, weights
void add_rewrite_functions(rewire_host& table);     // host_rewrite.cpp: values, ops, slots
void add_initialise_functions(rewire_host& table);  // host_initialise.cpp: weights' values, draws
void add_hook_functions(rewire_host& table);  // host_hooks.cpp: what a step does beside the forward pass

/// Returns "blocks.3.join_attn" for "blocks.3.attn": the prefix of names that belong to a join.
std::string join_prefix(const ir::Join& join);

/// Runs `body` for the current call. Returns `failure` on a C++ exception, which is recorded, or after an
/// earlier failure.
template <class Result, class Body>
Result guarded(rewire_call token, Result failure, Body body) noexcept {
  HostCall* call = HostCall::find(token);
  if (call == nullptr || call->error() != nullptr) return failure;
  try {
    return body(*call);
  } catch (const InternalError&) {
    call->fail(std::current_exception());
  } catch (const std::exception& e) {
    call->fail(e.what());
  }
  return failure;
}

/// guarded() for functions that return a status.
template <class Body>
std::int32_t guarded_status(rewire_call token, Body body) noexcept {
  return guarded(token, std::int32_t{REWIRE_ERROR}, [&](HostCall& call) {
    body(call);
    return std::int32_t{REWIRE_OK};
  });
}

/// Returns text from the plugin, which must not be null.
inline std::string_view required(const char* text, std::string_view what) {
  if (text == nullptr) user_error("it passed no {}", what);
  return text;
}

}  // namespace rewire::runtime
