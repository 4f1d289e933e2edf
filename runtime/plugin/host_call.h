// One call of a plugin's rewrite or initialise, and how the C functions of the host table reach it.
//
// Handles carry the call's number. The host looks the number up in the calling thread's current call, so a
// handle of an ended call, or one used on another thread, finds nothing and is refused without a pointer
// being followed.
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
  /// A rewrite of `module`, which is the copy to be dropped on failure.
  HostCall(const Plugin& plugin, std::uint64_t seed, ir::Module& module);
  /// An initialisation: module and state are read only; new values go to `written`, which reads see first.
  HostCall(const Plugin& plugin, std::uint64_t seed, const ir::Module& module, const TensorMap& state,
           TensorMap& written);
  ~HostCall();
  HostCall(const HostCall&) = delete;
  HostCall& operator=(const HostCall&) = delete;

  /// Calls the plugin's function. UserError, without the plugin's name, if anything failed; PluginRefusal if
  /// it was the plugin that said so.
  void run(std::int32_t (*function)(const rewire_host*, rewire_call));

  /// The current call of this thread if its number is `token`, else nullptr.
  static HostCall* find(rewire_call token);

  const Plugin& plugin() const { return plugin_; }
  std::uint64_t seed() const { return seed_; }
  const std::string* error() const { return failed_ ? &error_ : nullptr; }
  /// The first failure stays.
  void fail(std::string_view message);
  /// A failure in the plugin's own words.
  void refuse(std::string_view message);
  /// A fault of ours, which run() throws on as it is.
  void fail(std::exception_ptr internal);
  /// Text that lives as long as the call.
  const char* keep(std::string_view text) { return texts_.emplace(text).first->c_str(); }

  // Both kinds: the module as it stands, the joins that pass the filters.
  const ir::Module& module() const { return module_; }
  const ir::Function& forward() const { return module_.function("forward"); }
  std::size_t join_count() const { return joins_.size(); }
  /// Body index of the join's `residual`.
  std::size_t join_position(std::uint32_t join) const;
  /// Blocks of a scope that have a join.
  std::int64_t block_count(std::string_view scope) const;
  const BranchWeights& branch_weights() const { return branch_weights_; }
  /// The op that defines a value; nullptr for arguments.
  const ir::Op* definition(ir::Value value) { return definitions_.op(value); }
  ir::Join read_join(std::uint32_t join) const { return ir::read_join(forward().body[join_position(join)]); }
  /// The model's, or one that this call has added; nullptr if there is none.
  const ir::Parameter* find_parameter(std::string_view name) const;

  // Rewrite. UserError during initialise.
  ir::Module& writable_module();
  void write_join(std::uint32_t join, const ir::Join& facts) { write_join_at(join_position(join), facts); }
  void write_join_at(std::size_t position, const ir::Join& facts);
  /// Notes that this call sets a slot of the join; false if it has done so before.
  bool sets_first(const ir::Join& join, std::string_view slot) {
    return set_.insert(fmt::format("{} {}", join.describe(), slot)).second;
  }
  /// Whether this call has set it.
  bool has_set(const ir::Join& join, std::string_view slot) const {
    return set_.contains(fmt::format("{} {}", join.describe(), slot));
  }
  /// Emits right before the join, and behind the values that are given; the ops are located at join and
  /// plugin.
  ir::Builder builder_at(std::uint32_t join, std::initializer_list<ir::Value> behind = {});
  /// Adds a parameter whose name is free, and reads it right before the join.
  ir::Value add_parameter(std::uint32_t join, ir::Parameter parameter);
  /// Reads a parameter that there is.
  ir::Value read_parameter(std::uint32_t join, const ir::Parameter& parameter);
  rewire_value to_handle(ir::Value value) const;
  /// UserError for a value that is none or of another call.
  ir::Value to_value(rewire_value handle) const;
  /// The same as an operand of what builder_at's builder emits next, which will stand behind it.
  ir::Value to_operand(rewire_value handle);
  /// A value by its role at the join, as it stands; nothing where there is none.
  std::optional<RoleValue> find_role(std::uint32_t join, std::string_view role);
  /// Whether a result of any of these ops, given by their body indices, is the value or goes into it.
  bool depends_on(ir::Value value, const std::vector<std::size_t>& ops) {
    return pending_->depends_on(value, ops);
  }
  /// The old op at this body index reads the value from now on: it will be computed before the op.
  void make_read(std::size_t op, ir::Value value) { pending_->make_read(op, value); }
  /// Where in the plugin's source the next functions are called: told behind what goes wrong in them.
  void locate(std::string_view place) { place_ = place; }

  // Initialise. UserError during rewrite, and for a name that the module does not have.
  const ir::TensorType& weight_type(std::string_view name) const;
  ir::Tensor read_weight(std::string_view name) const;
  void write_weight(std::string_view name, const ir::Tensor& tensor);
  /// Of the weights that this call wrote, sorted.
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
  bool refused_ = false;  // what failed is that the plugin refuses
  std::string error_;
  std::string place_;  // in the plugin's source
  std::exception_ptr internal_;
};

/// The table: the same for every call.
const rewire_host& host_table();

// Its parts, by file.
void add_fact_functions(rewire_host& table);        // host_facts.cpp: parameters, messages, joins, weights
void add_rewrite_functions(rewire_host& table);     // host_rewrite.cpp: values, ops, slots
void add_initialise_functions(rewire_host& table);  // host_initialise.cpp: weights' values, draws
void add_hook_functions(rewire_host& table);  // host_hooks.cpp: what a step does beside the forward pass

/// "blocks.3.attn" -> "blocks.3.join_attn": what hangs on a join is named after it.
std::string join_prefix(const ir::Join& join);

/// Runs `body` for the current call; a failure, of C++ or an earlier one, becomes `failure`.
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

/// For functions that return a status.
template <class Body>
std::int32_t guarded_status(rewire_call token, Body body) noexcept {
  return guarded(token, std::int32_t{REWIRE_ERROR}, [&](HostCall& call) {
    body(call);
    return std::int32_t{REWIRE_OK};
  });
}

/// Text from the plugin that must be there.
inline std::string_view required(const char* text, std::string_view what) {
  if (text == nullptr) user_error("it passed no {}", what);
  return text;
}

}  // namespace rewire::runtime
