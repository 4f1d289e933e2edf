#include "runtime/train/shard_sums.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "programs/programs.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {
namespace {

/// A message of fewer numbers takes as long as one of so many.
constexpr std::int64_t kSmall = 1 << 14;

class HostSums final : public StateSums {
 public:
  HostSums(Engine& engine, const ir::Module& module, const std::vector<std::string>& states, Group& group);
  void add() override;

 private:
  void read_small();
  void write_small();

  Engine& engine_;
  Group& group_;
  std::vector<std::span<float>> large_;
  std::vector<const ir::Parameter*> small_;
  std::vector<float> numbers_;  // of the small ones, one after another
};

HostSums::HostSums(Engine& engine, const ir::Module& module, const std::vector<std::string>& states,
                   Group& group)
    : engine_(engine), group_(group) {
  for (const std::string& name : states) {
    const ir::Parameter& state = *module.find_parameter(name);
    const std::span<std::byte> memory = engine.state_memory(name);
    if (memory.empty() || state.type.elements() < kSmall) {
      small_.push_back(&state);
      numbers_.resize(numbers_.size() + static_cast<std::size_t>(state.type.elements()));
    } else {
      large_.emplace_back(reinterpret_cast<float*>(memory.data()), memory.size() / sizeof(float));
    }
  }
}

void HostSums::add() {
  std::vector<Group::Ticket> tickets;
  for (const std::span<float> numbers : large_) tickets.push_back(group_.start_sum(numbers));
  read_small();
  tickets.push_back(group_.start_sum(numbers_));
  for (const Group::Ticket ticket : tickets) group_.wait(ticket);
  write_small();
}

void HostSums::read_small() {
  auto to = numbers_.begin();
  for (const ir::Parameter* state : small_) {
    const HostTensor tensor = engine_.read_state(state->name);
    to = std::ranges::copy(tensor.as<float>(), to).out;
  }
}

void HostSums::write_small() {
  std::span<const float> from = numbers_;
  for (const ir::Parameter* state : small_) {
    HostTensor tensor(state->type);
    const std::span<float> to = tensor.as<float>();
    std::ranges::copy(from.first(to.size()), to.begin());
    from = from.subspan(to.size());
    engine_.write_state(state->name, tensor);
  }
}

}  // namespace

std::unique_ptr<StateSums> make_shard_sums(Engine& engine, const ir::Module& module,
                                           const ir::Function& accumulate, Group& group) {
  const std::vector<std::string> states = programs::shard_sums(accumulate);
  if (std::unique_ptr<StateSums> sums = engine.sums_over(group, states)) return sums;
  return std::make_unique<HostSums>(engine, module, states, group);
}

}  // namespace rewire::runtime
