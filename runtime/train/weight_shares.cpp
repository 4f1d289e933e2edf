#include "runtime/train/weight_shares.h"

#include <algorithm>

#include "programs/programs.h"

namespace rewire::runtime {
namespace {

/// A message of fewer bytes takes as long as one of so many.
constexpr std::int64_t kSmallBytes = 1 << 16;

}  // namespace

WeightShares::WeightShares(Engine& engine, const RunPlan& plan, Group& group)
    : engine_(engine), plan_(plan), group_(group) {
  for (const ir::Parameter& state : plan.programs.module.parameters) {
    if (!plan.shares->sent.contains(state.name)) continue;
    const int owner = plan.shares->owners.find(programs::weight_of(state))->second;
    const std::span<std::byte> memory = engine.state_memory(state.name);
    if (memory.empty() || state.type.bytes() < kSmallBytes)
      small_[owner].push_back(&state);
    else
      large_.push_back({owner, memory});
  }
}

void WeightShares::send() {
  // Waits for the runs so far on every rank: a device's exchange may wait for that of a rank whose host waits here.
  engine_.read_state("train.finite");
  for (const Large& state : large_) group_.broadcast(state.memory, state.owner);
  for (const auto& [owner, states] : small_) send_small(owner);
}

void WeightShares::send_small(int owner) {
  const bool is_own = owner == group_.rank();
  bytes_.clear();
  for (const ir::Parameter* state : small_.at(owner)) {
    if (is_own)
      std::ranges::copy(engine_.read_state(state->name).bytes(), std::back_inserter(bytes_));
    else
      bytes_.resize(bytes_.size() + static_cast<std::size_t>(state->type.bytes()));
  }
  group_.broadcast(bytes_, owner);
  if (is_own) return;
  std::span<const std::byte> from = bytes_;
  for (const ir::Parameter* state : small_.at(owner)) {
    HostTensor tensor(state->type);
    std::ranges::copy(from.first(tensor.bytes().size()), tensor.bytes().begin());
    from = from.subspan(tensor.bytes().size());
    engine_.write_state(state->name, tensor);
  }
}

TensorMap WeightShares::collect() {
  TensorMap states;
  for (const ir::Parameter& state : plan_.programs.module.parameters) {
    const auto owner = plan_.shares->owners.find(programs::weight_of(state));
    if (owner == plan_.shares->owners.end() || owner->second == 0 || plan_.shares->sent.contains(state.name))
      continue;
    HostTensor tensor =
        owner->second == group_.rank() ? engine_.read_state(state.name) : HostTensor(state.type);
    group_.broadcast(tensor.bytes(), owner->second);
    if (group_.rank() == 0) states.emplace(state.name, std::move(tensor));
  }
  return states;
}

void write_own_states(Engine& engine, const RunPlan& plan, const TensorMap& states) {
  for (const auto& [name, tensor] : states)
    if (!plan.shares || !plan.shares->others.is_absent(name)) engine.write_state(name, tensor);
}

std::map<std::string, int, std::less<>> owners_of_weights(const ir::Module& module, int ranks) {
  std::map<std::string, std::int64_t, std::less<>> bytes;  // of the states that a weight's owner has
  for (const ir::Parameter& state : module.parameters) {
    if (state.kind == ir::StateKind::moment) {
      if (const std::string_view weight = programs::weight_of(state); !weight.empty())
        bytes[std::string(weight)] += state.type.bytes();
    }
  }
  std::vector<std::pair<std::int64_t, std::string>> weights;
  for (const auto& [weight, size] : bytes) weights.emplace_back(-size, weight);
  std::ranges::sort(weights);
  std::vector<std::int64_t> loads(static_cast<std::size_t>(ranks));
  std::map<std::string, int, std::less<>> owners;
  for (const auto& [size, weight] : weights) {
    const auto least = std::ranges::min_element(loads);
    owners.emplace(weight, static_cast<int>(least - loads.begin()));
    *least -= size;
  }
  return owners;
}

}  // namespace rewire::runtime
