#include "runtime/train/shard_sums.h"

#include <algorithm>
#include <span>

#include "programs/programs.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kPartNumbers = std::size_t{1} << 20;

}  // namespace

ShardSums::ShardSums(Engine& engine, const ir::Module& module, Group& group)
    : engine_(engine), module_(module), group_(group) {
  for (const std::string& name : programs::shard_sums(module)) {
    if (parts_.empty() || parts_.back().numbers.size() >= kPartNumbers) parts_.emplace_back();
    Part& part = parts_.back();
    part.states.push_back(name);
    part.numbers.resize(part.numbers.size() +
                        static_cast<std::size_t>(module.find_parameter(name)->type.elements()));
  }
}

void ShardSums::add() {
  std::vector<Group::Ticket> tickets;
  for (Part& part : parts_) {
    auto to = part.numbers.begin();
    for (const std::string& name : part.states) {
      const HostTensor state = engine_.read_state(name);
      to = std::ranges::copy(state.as<float>(), to).out;
    }
    tickets.push_back(group_.start_sum(part.numbers));
  }
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    group_.wait(tickets[i]);
    write(parts_[i]);
  }
}

void ShardSums::write(const Part& part) {
  std::span<const float> from = part.numbers;
  for (const std::string& name : part.states) {
    HostTensor state(module_.find_parameter(name)->type);
    const std::span<float> to = state.as<float>();
    std::ranges::copy(from.first(to.size()), to.begin());
    from = from.subspan(to.size());
    engine_.write_state(name, state);
  }
}

}  // namespace rewire::runtime
