// The state of one call, and the token that makes its handles invalid when the call ends.
#include "runtime/plugin/host_call.h"

#include <atomic>

#include "ir/opcodes.h"
#include "runtime/plugin/at_work.h"

namespace rewire::runtime {
namespace {

thread_local HostCall* current = nullptr;

/// Returns a token whose low word is never 0. Value handles carry that word, so a zeroed handle is invalid.
rewire_call next_token() {
  static std::atomic<rewire_call> counter{0};
  rewire_call token = ++counter;
  if (static_cast<std::uint32_t>(token) == 0) token = ++counter;
  return token;
}

}  // namespace

HostCall::HostCall(const Plugin& plugin, std::uint64_t seed, ir::Module& module)
    : plugin_(plugin),
      seed_(seed),
      module_(module),
      writable_(&module),
      token_(next_token()),
      definitions_(forward()),
      branch_weights_(module, forward()) {
  read_model();
  pending_.emplace(module.function("forward"), definitions_);
}

HostCall::HostCall(const Plugin& plugin, std::uint64_t seed, const ir::Module& module, const TensorMap& state,
                   TensorMap& written)
    : plugin_(plugin),
      seed_(seed),
      module_(module),
      state_(&state),
      written_(&written),
      token_(next_token()),
      definitions_(forward()),
      branch_weights_(module, forward()) {
  read_model();
}

void HostCall::read_model() {
  joins_ = plugin_.filters().select(forward());
  for (const ir::Parameter& parameter : module_.parameters)
    parameters_.emplace(parameter.name, parameters_.size());
  std::set<std::pair<std::string, std::int64_t>> blocks;
  for (const std::size_t at : ir::find_joins(forward())) {
    const ir::Join join = ir::read_join(forward().body[at]);
    if (blocks.emplace(join.scope, join.block).second) ++block_counts_[join.scope];
  }
}

std::int64_t HostCall::block_count(std::string_view scope) const {
  const auto found = block_counts_.find(scope);
  return found == block_counts_.end() ? 0 : found->second;
}

HostCall::~HostCall() {
  if (current == this) current = nullptr;
}

HostCall* HostCall::find(rewire_call token) {
  return current != nullptr && current->token_ == token ? current : nullptr;
}

void HostCall::run(std::int32_t (*function)(const rewire_host*, rewire_call)) {
  if (current != nullptr) internal_error("a plugin was called inside another plugin's call");
  current = this;
  const PluginAtWork at_work(plugin_.name());
  std::int32_t status = REWIRE_ERROR;
  try {
    status = function(&host_table(), token_);
  } catch (const std::exception& e) {
    fail(fmt::format("it threw: {}", e.what()));
  } catch (...) {
    fail("it threw something other than a std::exception");
  }
  current = nullptr;
  if (status != REWIRE_OK) fail(fmt::format("it returned status {} and no message", status));
  if (status == REWIRE_FAULT) refused_ = false;
  if (internal_) std::rethrow_exception(internal_);
  if (refused_) throw PluginRefusal(error_);
  if (failed_) throw UserError(error_);
  if (pending_) pending_->place();
}

void HostCall::fail(std::string_view message) {
  if (failed_) return;
  failed_ = true;
  error_ = one_line(message);
  if (!place_.empty()) error_ += fmt::format(" ({})", one_line(place_));
}

void HostCall::refuse(std::string_view message) {
  if (failed_) return;
  fail(message);
  error_ = few_lines(message);
  refused_ = true;
}

void HostCall::fail(std::exception_ptr internal) {
  fail("internal error");
  internal_ = std::move(internal);
}

std::size_t HostCall::join_position(std::uint32_t join) const {
  if (join >= joins_.size()) user_error("it asked for join {} of {}", join, joins_.size());
  return joins_[join];
}

const ir::Parameter* HostCall::find_parameter(std::string_view name) const {
  const auto found = parameters_.find(name);
  return found == parameters_.end() ? nullptr : &module_.parameters[found->second];
}

ir::Module& HostCall::writable_module() {
  if (writable_ == nullptr) user_error("initialise must not change the module");
  return *writable_;
}

void HostCall::write_join_at(std::size_t position, const ir::Join& facts) {
  ir::write_join(writable_module().function("forward").body[position], facts);
}

ir::Builder HostCall::builder_at(std::uint32_t join, std::initializer_list<ir::Value> behind) {
  ir::Module& module = writable_module();
  ir::Builder builder(module, module.function("forward"));
  pending_->begin(join_position(join));
  for (const ir::Value value : behind) pending_->stand_behind(value);
  builder.set_location(fmt::format("{}.{}", read_join(join).describe(), plugin_.name()));
  return builder;
}

ir::Value HostCall::add_parameter(std::uint32_t join, ir::Parameter parameter) {
  std::vector<ir::Parameter>& all = writable_module().parameters;
  parameters_.emplace(parameter.name, all.size());
  all.push_back(std::move(parameter));
  return read_parameter(join, all.back());
}

/// Makes the op by hand: the builder would search all parameters for this one.
ir::Value HostCall::read_parameter(std::uint32_t join, const ir::Parameter& parameter) {
  ir::Builder builder = builder_at(join);
  ir::Op op;
  op.code = ir::Opcode::param;
  op.attributes = {{"name", parameter.name}};
  op.location = builder.location();
  op.results = {builder.function().new_value(parameter.type)};
  const ir::Value value = op.results.front();
  builder.function().body.push_back(std::move(op));
  return value;
}

rewire_value HostCall::to_handle(ir::Value value) const {
  if (!value || writable_ == nullptr) return {0, 0};
  return {static_cast<std::uint32_t>(value.id), static_cast<std::uint32_t>(token_)};
}

ir::Value HostCall::to_value(rewire_value handle) const {
  if (handle.call == 0) user_error("it used an empty value");
  if (handle.call != static_cast<std::uint32_t>(token_) || handle.index >= forward().types.size()) {
    user_error("it used a value of another call: values are valid until rewrite returns");
  }
  return {static_cast<std::int32_t>(handle.index)};
}

ir::Value HostCall::to_operand(rewire_value handle) {
  writable_module();
  const ir::Value value = to_value(handle);
  pending_->stand_behind(value);
  return value;
}

std::optional<RoleValue> HostCall::find_role(std::uint32_t join, std::string_view role) {
  writable_module();
  return runtime::find_role(forward(), definitions_, join_position(join), role, pending_->old_ops());
}

const ir::TensorType& HostCall::weight_type(std::string_view name) const {
  if (state_ == nullptr) user_error("weights have no values in rewrite: use them in initialise");
  const ir::Parameter* parameter = find_parameter(name);
  if (parameter == nullptr) user_error("the model has no weight '{}'", name);
  return parameter->type;
}

ir::Tensor HostCall::read_weight(std::string_view name) const {
  const auto fresh = written_->find(name);
  if (fresh != written_->end()) return to_double(fresh->second);
  const auto found = state_->find(name);
  if (found == state_->end()) internal_error("parameter '{}' has no value to initialise", name);
  return to_double(found->second);
}

void HostCall::write_weight(std::string_view name, const ir::Tensor& tensor) {
  written_->insert_or_assign(std::string(name), to_host(tensor));
  written_names_.emplace(name);
}

const rewire_host& host_table() {
  static const rewire_host table = [] {
    rewire_host t{};
    t.size = sizeof(t);
    t.abi = REWIRE_ABI_VERSION;
    add_fact_functions(t);
    add_rewrite_functions(t);
    add_initialise_functions(t);
    add_hook_functions(t);
    return t;
  }();
  return table;
}

}  // namespace rewire::runtime
