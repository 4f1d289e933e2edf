// Inputs come from Philox streams, one per argument. Wall time comes from the steady clock.
#include "runtime/exec/benchmark.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "ir/philox.h"

namespace rewire::runtime {

TensorMap random_inputs(const ir::Function& function,
                        const std::function<std::int64_t(std::string_view)>& categories) {
  TensorMap inputs;
  for (const ir::Argument& argument : function.arguments) {
    ir::Tensor tensor(function.type(argument.value));
    const std::int64_t fewest = tensor.type.dtype == ir::DType::u8 ? 256 : 1;
    const std::int64_t known = categories(argument.name);
    const auto limit = static_cast<double>(known > 0 ? known : fewest);
    const ir::PhiloxStream stream{0, 0, ir::stream_hash(argument.name)};
    for (std::size_t i = 0; i < tensor.data.size(); ++i) {
      const double uniform = stream.uniform(i);
      tensor.data[i] = ir::is_float(tensor.type.dtype) ? 2 * uniform - 1 : std::floor(uniform * limit);
    }
    inputs.emplace(argument.name, to_host(tensor));
  }
  return inputs;
}

std::vector<double> round_seconds(Engine& engine, const std::vector<TimedProgram>& programs,
                                  std::int64_t warm_up, std::int64_t rounds, Feed feed) {
  std::vector<double> seconds;
  std::vector<Engine::Ticket> before;  // of the last round: read while the device computes this one
  const auto wait = [&] {
    for (const Engine::Ticket ticket : before) engine.results(ticket);
    before.clear();
  };
  for (std::int64_t round = 0; round < warm_up + rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<Engine::Ticket> tickets;
    for (const TimedProgram& program : programs) {
      for (std::int64_t i = 0; i < program.times; ++i)
        tickets.push_back(feed == Feed::resident ? engine.submit_again(program.function, program.inputs)
                                                 : engine.submit(program.function, program.inputs));
    }
    wait();
    before = std::move(tickets);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (round >= warm_up) seconds.push_back(taken.count());
  }
  wait();
  return seconds;
}

RoundTimes times_of(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const std::size_t count = seconds.size();
  return {(seconds[(count - 1) / 2] + seconds[count / 2]) / 2, seconds.front()};
}

RoundTimes time_rounds(Engine& engine, const std::vector<TimedProgram>& programs, std::int64_t warm_up,
                       std::int64_t rounds, Feed feed) {
  return times_of(round_seconds(engine, programs, warm_up, rounds, feed));
}

}  // namespace rewire::runtime
