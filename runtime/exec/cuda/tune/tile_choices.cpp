#include "runtime/exec/cuda/tune/tile_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "codegen/cost.h"
#include "runtime/device/log.h"
#include "runtime/exec/cuda/device_timing.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/exec/cuda/kernels.h"
#include "runtime/exec/cuda/program.h"

namespace rewire::runtime {
namespace {

using codegen::KernelLaunch;
using codegen::Program;
using codegen::cuda::DeviceTarget;
using codegen::cuda::Schedule;
using cuda::Address;

constexpr std::size_t kSchedules = 6;          // candidates of a kernel
constexpr double kShare = 0.002;               // smallest share of a program's kernel cost that is timed
constexpr double kOperationsOfAByte = 20;      // operations that a GPU computes while it moves a byte
constexpr unsigned char kWholeNumbers = 0x01;  // integers of equal bytes; true as a boolean
constexpr const char* kKernelMemory = "timing kernels";
constexpr const char* kKernelPurpose = "to time kernels";

/// Times a launch's kernels, one per schedule, on memory of its own by the device's clock.
class TileBench {
 public:
  TileBench(const Program& program, const KernelLaunch& launch, std::vector<CudaKernel> kernels,
            const cuda::Stream& stream)
      : kernels_(std::move(kernels)), stream_(stream), timer_(stream, kKernelPurpose, kernels_.size()) {
    for (CudaKernel& kernel : kernels_) kernel.grid.members = static_cast<std::int64_t>(launch.members());
    lay_out(program, launch);
    for (const auto& [buffer, place] : places_) fill(place);
    bind(launch);
  }

  /// Returns seconds per launch.
  double time(std::size_t kernel) {
    // A kernel that computes in place changes its input at each run: refill it, so that it grows little.
    for (const std::int32_t buffer : written_) fill(places_.at(buffer));
    return timer_.time(kernel, [&] {
      cuda::launch(kernels_[kernel].function, kernels_[kernel].grid, arguments_, stream_, kKernelPurpose);
    });
  }

 private:
  struct Place {
    std::int64_t offset = 0, bytes = 0;
    bool floats = false;
  };

  void lay_out(const Program& program, const KernelLaunch& launch) {
    std::int64_t bytes = 0;
    for (std::size_t member = 0; member < launch.members(); ++member) {
      const std::vector<std::int32_t>& buffers = launch.member_buffers(member);
      for (std::size_t i = 0; i < buffers.size(); ++i) {
        const ir::TensorType& type = program.buffers[static_cast<std::size_t>(buffers[i])].type;
        if (launch.kernel.arguments[i].use != codegen::tile::ArgumentUse::read) written_.insert(buffers[i]);
        if (places_.emplace(buffers[i], Place{bytes, type.bytes(), ir::is_float(type.dtype)}).second)
          bytes += device_aligned(type.bytes());
      }
    }
    memory_ = cuda::DeviceMemory(bytes, kKernelMemory);
  }

  Address address(std::int32_t buffer) const {
    return memory_.address() + static_cast<Address>(places_.at(buffer).offset);
  }

  void fill(const Place& place) const {
    stream_.fill(memory_.address() + static_cast<Address>(place.offset),
                 place.floats ? kTimedByte : kWholeNumbers, place.bytes, kKernelPurpose);
  }

  /// A table's kernel takes the address of its members' pointers.
  void bind(const KernelLaunch& launch) {
    for (std::size_t member = 0; member < launch.members(); ++member) {
      for (const std::int32_t buffer : launch.member_buffers(member)) arguments_.push_back(address(buffer));
    }
    if (!launch.is_table()) return;
    const auto bytes = static_cast<std::int64_t>(arguments_.size() * sizeof(Address));
    table_ = cuda::DeviceMemory(bytes, kKernelMemory);
    stream_.copy_in(table_.address(), arguments_.data(), bytes, kKernelPurpose);
    stream_.synchronise(kKernelPurpose);
    arguments_ = {table_.address()};
  }

  std::vector<CudaKernel> kernels_;
  const cuda::Stream& stream_;
  std::map<std::int32_t, Place> places_;  // by buffer
  std::set<std::int32_t> written_;
  cuda::DeviceMemory memory_, table_;
  std::vector<Address> arguments_;
  GraphTimer timer_;
};

/// A kernel of the programs, represented by its first launch.
struct Question {
  const Program* program = nullptr;
  const KernelLaunch* launch = nullptr;
  std::string key;
  double share = 0;  // of its program's kernel cost; the largest over all programs
};

double weight_of(const Program& program, const codegen::Launch& launch) {
  const codegen::LaunchCost cost = codegen::cost_of(program, launch);
  return std::max(static_cast<double>(cost.bytes), static_cast<double>(cost.flops) / kOperationsOfAByte);
}

/// Returns the kernels to time, those with the largest cost first.
std::vector<Question> questions_of(const std::vector<Program>& programs, const DeviceTarget& target) {
  std::vector<Question> questions;
  std::map<std::string, std::size_t> known;  // by key
  for (const Program& program : programs) {
    std::map<std::size_t, double> weights;  // by question
    double whole = 0;
    for (const codegen::Launch& launch : program.launches) {
      const auto* kernel = std::get_if<KernelLaunch>(&launch);
      if (kernel == nullptr) continue;
      const std::string key = schedule_key(*kernel, target);
      const auto [place, fresh] = known.emplace(key, questions.size());
      if (fresh) questions.push_back({&program, kernel, key, 0});
      const double weight = weight_of(program, launch);
      weights[place->second] += weight;
      whole += weight;
    }
    for (const auto& [index, weight] : weights) {
      double& share = questions[index].share;
      share = std::max(share, weight / std::max(whole, 1.0));
    }
  }
  std::ranges::stable_sort(questions, std::ranges::greater(), &Question::share);
  return questions;
}

/// The machine code of every candidate of several choices.
class Candidates {
 public:
  Candidates(const DeviceTarget& target, const CompileOptions& compiling) : kernels_(target, compiling) {}

  void add(const KernelLaunch& launch, const std::vector<std::string>& schedules) {
    for (const CudaKernels::Scheduled& one : scheduled(launch, schedules)) wanted_.push_back(one);
  }
  /// Compiles all that were added, together.
  void compile() { kernels_.load(std::exchange(wanted_, {})); }
  /// Returns the kernels in the order of the schedules.
  std::vector<CudaKernel> of(const KernelLaunch& launch, const std::vector<std::string>& schedules) {
    return kernels_.load(scheduled(launch, schedules));
  }

 private:
  static std::vector<CudaKernels::Scheduled> scheduled(const KernelLaunch& launch,
                                                       const std::vector<std::string>& schedules) {
    std::vector<CudaKernels::Scheduled> list;
    for (const std::string& text : schedules) list.push_back({&launch, codegen::cuda::parse_schedule(text)});
    return list;
  }

  CudaKernels kernels_;
  std::vector<CudaKernels::Scheduled> wanted_;
};

std::vector<std::string> texts_of(const std::vector<Schedule>& schedules) {
  std::vector<std::string> texts;
  for (const Schedule& schedule : schedules) texts.push_back(codegen::cuda::schedule_text(schedule));
  return texts;
}

/// Returns the candidates that spill no more than the cost model's schedule.
std::vector<Racer> racers_of(const Question& question, const std::vector<std::string>& schedules,
                             Candidates& candidates, const cuda::Stream& stream) {
  const std::vector<CudaKernel> kernels = candidates.of(*question.launch, schedules);
  const auto bench = std::make_shared<TileBench>(*question.program, *question.launch, kernels, stream);
  std::vector<Racer> racing;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].spill_bytes <= kernels[0].spill_bytes)
      racing.push_back({i, [bench, i] { return bench->time(i); }});
  }
  return racing;
}

}  // namespace

void choose_schedules(DevicePrograms& device, const CompileOptions& compiling, Tuner& tuner) {
  const DeviceTarget target = target_of(device.context.facts(), tuner.record());
  Candidates candidates(target, compiling);
  const std::vector<Question> questions = questions_of(device.programs, target);
  std::vector<TimedChoice> choices;
  for (const Question& question : questions) {
    const codegen::tile::Kernel& kernel = question.launch->kernel;
    const bool given = tuner.is_given(question.key);
    if (!given && question.share < kShare) continue;
    const std::vector<std::string> schedules = texts_of(codegen::cuda::schedules(kernel, target, kSchedules));
    if (!given && schedules.size() == 1) continue;
    const auto accepts = [&kernel, target](const std::string& answer) {
      const std::optional<Schedule> schedule = codegen::cuda::parse_schedule(answer);
      return schedule && codegen::cuda::fits(kernel, *schedule, target);
    };
    const auto racers = [&question, schedules, &candidates, &device] {
      return racers_of(question, schedules, candidates, device.stream);
    };
    choices.push_back({question.key, schedules, schedules, accepts, racers, 0, /*keep_untimed=*/false});
    if (tuner.must_time(choices.back())) candidates.add(*question.launch, schedules);
  }
  candidates.compile();
  const double before = tuner.seconds();
  const int untimed = tuner.out_of_time(), refused = tuner.refused();
  for (TimedChoice& choice : choices) {
    choice.budget_seconds = kTileSeconds - (tuner.seconds() - before);
    tuner.choose(choice);
  }
  if (const int again = tuner.refused() - refused; again > 0)
    write_log(LogLevel::warning, fmt::format("{} recorded schedules do not fit their kernels on {}: they are "
                                             "chosen again, and the last bits of a step may change",
                                             again, describe(device.context.facts())));
  if (const int left = tuner.out_of_time() - untimed; left > 0)
    write_log(
        LogLevel::warning,
        fmt::format("{} of {} kernels were not timed within {}: they use the cost model's schedule this time",
                    left, choices.size(), tuner.limit_text(kTileSeconds)));
}

}  // namespace rewire::runtime
