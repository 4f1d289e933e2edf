#include "runtime/exec/cuda/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/nvrtc_workers.h"
#include "ir/error.h"
#include "runtime/device/log.h"
#include "runtime/device/process.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kProcessBytes = 384 << 20;       // of a process: NVRTC's code and a large kernel
constexpr double kSilentSeconds = 3, kSaySeconds = 10;  // before the first message, and between two

/// Logs the progress of a compilation that takes long.
class Waiting {
 public:
  Waiting(std::size_t kernels, int processes) : kernels_(kernels), processes_(processes) {}

  void one_is_ready() {
    ++ready_;
    const double now = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    if (now < next_ || ready_ == kernels_) return;
    next_ = now + kSaySeconds;
    write_log(
        LogLevel::info,
        fmt::format("{} of {} kernels compiled in {:.0f} s by {} process{}; they are kept for the next start",
                    ready_, kernels_, now, processes_, processes_ == 1 ? "" : "es"));
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double next_ = kSilentSeconds;
  std::size_t kernels_, ready_ = 0;
  int processes_;
};

std::string extents(const codegen::tile::Kernel& kernel, codegen::tile::AxisUse use) {
  std::string text;
  for (const codegen::tile::Axis& axis : kernel.axes) {
    if (axis.use == use) text += fmt::format("{}{}", text.empty() ? "" : "x", axis.extent);
  }
  return text;
}

/// Returns a key that launches with the same code share.
std::string load_key(const CudaKernels::Scheduled& scheduled) {
  std::string key = codegen::cuda::text_key(*scheduled.launch);
  if (scheduled.schedule) key += '\n' + codegen::cuda::schedule_text(*scheduled.schedule);
  return key;
}

}  // namespace

std::string schedule_key(const codegen::KernelLaunch& launch, const codegen::cuda::DeviceTarget& target) {
  using codegen::tile::AxisUse;
  std::string key = fmt::format("{} sm_{}", kTileChoice, target.arch);
  for (const auto& [use, word] : {std::pair{AxisUse::outer, "outer"}, std::pair{AxisUse::row, "rows"},
                                  std::pair{AxisUse::lane, "lanes"}}) {
    const std::string text = extents(launch.kernel, use);
    if (!text.empty()) key += fmt::format(" {} {}", word, text);
  }
  if (launch.kernel.partitions > 1) key += fmt::format(" parts {}", launch.kernel.partitions);
  if (launch.is_table()) key += fmt::format(" members {}", launch.members());
  return key + ' ' + codegen::hash_text(codegen::cuda::text_key(launch));
}

CudaKernels::CudaKernels(const codegen::cuda::DeviceTarget& target, const CompileOptions& compiling,
                         ChoiceRecord choices)
    : target_(target),
      processes_(compiling.processes),
      identity_(fmt::format("{}, prelude {}\n", codegen::cuda::cubin_identity(target.arch),
                            codegen::hash_text(codegen::cuda::prelude()))),
      choices_(std::move(choices)) {
  if (!compiling.cache_directory.empty()) cache_.emplace(compiling.cache_directory);
}

std::optional<codegen::cuda::Schedule> CudaKernels::recorded(const codegen::KernelLaunch& launch,
                                                             const std::string& key) const {
  const MadeChoice* choice = choices_.find(key);
  if (choice == nullptr) return std::nullopt;
  std::optional<codegen::cuda::Schedule> schedule = codegen::cuda::parse_schedule(choice->taken);
  if (schedule && codegen::cuda::fits(launch.kernel, *schedule, target_)) return schedule;
  write_log(
      LogLevel::warning,
      fmt::format("'{}', chosen for '{}', does not fit kernel '{}' here: the cost model's schedule is used",
                  choice->taken, choice->key, launch.kernel.name));
  return std::nullopt;
}

CudaKernels::Scheduled CudaKernels::chosen(const codegen::KernelLaunch& launch) {
  if (replaced_.contains(codegen::cuda::text_key(launch))) return {&launch, std::nullopt};
  const std::string key = schedule_key(launch, target_);
  const auto known = chosen_.find(key);
  if (known != chosen_.end()) return {&launch, known->second};
  return {&launch, chosen_.emplace(key, recorded(launch, key)).first->second};
}

std::vector<CudaKernel> CudaKernels::load(std::span<const codegen::KernelLaunch* const> launches) {
  std::vector<Scheduled> scheduled;
  for (const codegen::KernelLaunch* launch : launches) scheduled.push_back(chosen(*launch));
  return load(scheduled);
}

std::vector<CudaKernel> CudaKernels::load(std::span<const Scheduled> launches) {
  std::vector<Fresh> fresh = fresh_of(launches);
  load_all(fresh);
  std::vector<CudaKernel> ready;
  for (const Scheduled& launch : launches) ready.push_back(loaded_.at(load_key(launch)).kernel);
  statistics_.kernels += static_cast<int>(launches.size());
  statistics_.unique = static_cast<int>(loaded_.size());
  return ready;
}

void CudaKernels::replace(std::span<const KernelOverride> overrides,
                          std::span<const codegen::KernelLaunch* const> launches) {
  std::vector<Fresh> fresh;
  for (const KernelOverride& given : overrides) {
    const codegen::KernelLaunch& launch = overridden_launch(given, launches);
    Fresh kernel{
        codegen::cuda::text_key(launch), codegen::cuda::emit(launch, given.kernel, target_), {}, 0, &given};
    const auto twin = std::ranges::find(fresh, kernel.key, &Fresh::key);
    if (twin != fresh.end())
      user_error("--override-kernel {}: it has the same code as '{}', which already has a file", given.kernel,
                 twin->given->kernel);
    require_same_launch(given, kernel.source.text);
    kernel.source.text = override_text(given);
    replaced_.insert(kernel.key);
    fresh.push_back(std::move(kernel));
    write_log(LogLevel::info, fmt::format("kernel '{}' comes from {}", given.kernel, given.file));
  }
  load_all(fresh);
}

void CudaKernels::load_all(std::vector<Fresh>& fresh) {
  take_cached(fresh);
  compile(fresh);
  for (const Fresh& kernel : fresh) loaded_.emplace(kernel.key, load(kernel));
}

std::vector<CudaKernels::Fresh> CudaKernels::fresh_of(std::span<const Scheduled> launches) const {
  std::vector<Fresh> fresh;
  std::set<std::string> seen;
  for (const Scheduled& scheduled : launches) {
    std::string key = load_key(scheduled);
    if (loaded_.contains(key) || !seen.insert(key).second) continue;
    const auto& [launch, schedule] = scheduled;
    fresh.push_back(
        {std::move(key),
         codegen::cuda::emit(*launch, launch->kernel.name, target_, schedule ? &*schedule : nullptr),
         {},
         0,
         nullptr});
  }
  return fresh;
}

void CudaKernels::take_cached(std::vector<Fresh>& fresh) {
  if (!cache_) return;
  for (Fresh& kernel : fresh) {
    const std::string key = identity_ + kernel.source.text;
    std::string why;
    if (auto found = cache_->load(key, &why)) {
      ++statistics_.cache_hits;
      kernel.cubin = std::move(found->object);
      kernel.spill_bytes = found->scratch_bytes;
    } else {
      write_log(LogLevel::debug, fmt::format("kernel '{}' is compiled: {} in the cache ({})",
                                             kernel.source.symbol, why, cache_->path(key)));
    }
  }
}

void CudaKernels::compile(std::vector<Fresh>& fresh) const {
  std::vector<Fresh*> wanted;
  std::vector<codegen::cuda::CompileJob> jobs;
  for (Fresh& kernel : fresh) {
    if (!kernel.cubin.empty()) continue;
    wanted.push_back(&kernel);
    jobs.push_back({kernel.source.symbol, std::string(codegen::cuda::prelude()) + kernel.source.text});
  }
  const int processes = std::min(processes_, static_cast<int>(jobs.size()));
  Waiting waiting(jobs.size(), processes);
  codegen::cuda::CompileRequest request;
  request.arch = target_.arch;
  request.processes = processes;
  request.debug = [](const std::string& line) { write_log(LogLevel::debug, line); };
  request.warn = [](const std::string& line) { write_log(LogLevel::warning, line); };
  // Stores each kernel as soon as it is compiled. A process that is stopped need not compile it again.
  request.done = [&](std::size_t job, codegen::cuda::Compiled answer) {
    Fresh& kernel = *wanted[job];
    if (!answer.accepted && kernel.given != nullptr) refuse_override(*kernel.given, answer.log);
    if (!answer.accepted)
      internal_error("NVRTC refuses the emitted kernel '{}':\n{}", kernel.source.symbol, answer.log);
    kernel.cubin = std::move(answer.code);
    for (const auto& resources : codegen::cuda::resources_of(answer.log))
      kernel.spill_bytes += resources.spill_bytes;
    if (cache_)
      cache_->store(identity_ + kernel.source.text, {kernel.cubin, kernel.spill_bytes}, kernel.source.text,
                    "cu");
    waiting.one_is_ready();
  };
  if (!jobs.empty()) codegen::cuda::compile_all(jobs, request);
}

CudaKernels::Loaded CudaKernels::load(const Fresh& fresh) const {
  const codegen::cuda::LaunchShape& launch = fresh.source.launch;
  cuda::Module module(fresh.cubin, fmt::format("of '{}'", fresh.source.symbol));
  void* const function = module.function(fresh.source.symbol, launch.shared_bytes);
  return {std::move(module),
          {fresh.source.symbol,
           function,
           {launch.blocks, launch.threads, launch.shared_bytes},
           fresh.spill_bytes}};
}

KernelText CudaKernels::text(const codegen::KernelLaunch& launch) {
  const Scheduled scheduled = chosen(launch);
  const codegen::cuda::Schedule* schedule = scheduled.schedule ? &*scheduled.schedule : nullptr;
  return {load_key(scheduled), codegen::cuda::emit(launch, launch.kernel.name, target_, schedule).text};
}

KernelUse CudaKernels::use(const codegen::KernelLaunch& launch) {
  const CudaKernel& kernel = loaded_.at(load_key(chosen(launch))).kernel;
  return {cuda::registers_of(kernel.function, kernel.name), kernel.spill_bytes, kernel.grid.shared_bytes};
}

int compile_processes() {
  const std::int64_t room = available_memory_bytes().value_or(kProcessBytes) / kProcessBytes;
  return static_cast<int>(std::clamp<std::int64_t>(room, 1, usable_cores()));
}

}  // namespace rewire::runtime
