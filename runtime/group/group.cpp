#include "runtime/group/group.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "ir/error.h"
#include "runtime/group/agreement.h"
#include "runtime/group/mpi_group.h"
#include "runtime/group/mpi_library.h"

namespace rewire::runtime {
namespace {

/// A process by itself: its numbers are the sums.
class SelfGroup : public Group {
 public:
  SelfGroup() : Group(0, 1) {}
  Ticket start_sum(std::span<float>) override { return 0; }
  void wait(Ticket) override {}
  void broadcast(std::span<std::byte>, int) override {}
  void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    if (all.size() != own.size())
      internal_error("a gather of {} bytes of 1 rank into {}", own.size(), all.size());
    std::ranges::copy(own, all.begin());
  }
  void barrier() override {}
  void finish() override {}
  [[noreturn]] void abort(const std::string& reason, int) override { throw RuntimeFailure(reason); }
};

/// Returns a number of the environment; `otherwise` without one.
int number_in(const char* variable, std::int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? static_cast<int>(otherwise) : std::atoi(text);
}

std::chrono::seconds seconds_in(const char* variable, std::chrono::seconds otherwise) {
  const std::chrono::seconds seconds(number_in(variable, otherwise.count()));
  if (seconds.count() < 1) user_error("{} is a number of seconds, at least 1", variable);
  return seconds;
}

bool has(const char* variable) {
  return std::getenv(variable) != nullptr;
}

/// Throws UserError if another launcher than Open MPI's, or srun without PMIx, has started several processes: each would take
/// itself for the only one.
void require_no_other_launcher() {
  const auto refuse = [](const char* variable, const char* launcher) {
    const int processes = number_in(variable, 1);
    if (processes > 1)
      user_error(
          "this process is one of {} that {} has started; start them by Open MPI's mpirun or by srun "
          "--mpi=pmix",
          processes, launcher);
  };
  if (has("TORCHELASTIC_RUN_ID")) refuse("WORLD_SIZE", "torchrun");
  if (has("PMIX_RANK") || has("OMPI_COMM_WORLD_SIZE")) return;
  refuse("PMI_SIZE", "MPICH's launcher");
  if (has("SLURM_STEP_ID")) refuse("SLURM_STEP_NUM_TASKS", "srun without PMIx");
}

}  // namespace

std::chrono::seconds longest_exchange() {
  return seconds_in("REWIRE_NCCL_TIMEOUT", std::chrono::seconds(120));
}

std::unique_ptr<Group> make_group() {
  require_no_other_launcher();
  const std::chrono::seconds longest_silence = seconds_in("REWIRE_MPI_TIMEOUT", kLongestSilence);
  if (const int size = number_in("OMPI_COMM_WORLD_SIZE", 1); size > 1)
    return make_mpi_group({.rank = number_in("OMPI_COMM_WORLD_RANK", 0), .size = size}, longest_silence);
  const int of_srun = number_in(has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", 1);
  if (has("PMIX_RANK") && of_srun > 1)
    return make_mpi_group({.rank = number_in("PMIX_RANK", 0), .size = of_srun}, longest_silence);
  return std::make_unique<SelfGroup>();
}

Group& alone() {
  static SelfGroup group;
  return group;
}

std::string mpi_version() {
  try {
    std::array<char, 8192> version{};  // more than MPI_MAX_LIBRARY_VERSION_STRING of any version
    int length = 0;
    mpi_library().get_library_version(version.data(), &length);
    std::string_view text(version.data());
    text = text.substr(0, text.find(','));
    if (text.starts_with("Open MPI v")) return "Open MPI " + std::string(text.substr(10));
    return std::string(text);
  } catch (const UserError& error) {
    return error.what();
  }
}

}  // namespace rewire::runtime
