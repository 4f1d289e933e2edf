// Groups of 1, 2, 4 and 8 ranks on this machine: the same bits for any number, and one end for all.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "runtime/group/group.h"
#include "runtime/group/shared_cores.h"
#include "tests/runtime_group/launcher.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

Ended ranks(int count, const std::string& arguments, bool fails = false) {
  return run_line(fmt::format("{} -n {} {} {} {}", kLauncher, count, REWIRE_GROUP_RANKS, arguments,
                              fails ? "2>&1" : "2>/dev/null"));
}

TEST_CASE("A sum of eight shards has the same bits on 1, 2, 4 and 8 ranks") {
  if (!has_mpirun()) return;
  const Ended one = ranks(1, "sums");
  CHECK(one.code == 0);
  CHECK(one.text.size() == 17);
  for (const int count : {2, 4, 8}) {
    CAPTURE(count);
    const Ended several = ranks(count, "sums");
    CHECK(several.code == 0);
    CHECK(several.text == one.text);
  }
}

TEST_CASE("Bytes are broadcast and gathered in the order of ranks") {
  if (!has_mpirun()) return;
  for (const int count : {1, 2, 4}) CHECK(ranks(count, "others").text == fmt::format("{} ranks\n", count));
}

/// A rank on `host` that may run on the cores [first, end), of which a quota leaves `usable`; 0: all.
runtime::RankCores cores(char host, int first, int end, int usable = 0) {
  runtime::RankCores made;
  made.host[0] = host;
  for (int core = first; core < end; ++core)
    made.bound[static_cast<std::size_t>(core / 64)] |= std::uint64_t{1} << (core % 64);
  made.usable = usable == 0 ? end - first : usable;
  return made;
}

TEST_CASE("Ranks divide the cores that they share with others of their host, and a quota") {
  using runtime::core_share;
  using Ranks = std::vector<runtime::RankCores>;
  CHECK(core_share(Ranks{cores('a', 0, 12)}, 0) == 12);
  CHECK(core_share(Ranks(8, cores('a', 0, 64)), 5) == 8);
  CHECK(core_share(Ranks(3, cores('a', 60, 69)), 2) == 3);
  CHECK(core_share(Ranks(4, cores('a', 0, 2)), 3) == 1);
  const Ranks bound = {cores('a', 0, 4), cores('a', 4, 8), cores('b', 0, 4), cores('b', 4, 8)};
  for (int rank = 0; rank < 4; ++rank) CHECK(core_share(bound, rank) == 4);
  const Ranks hosts = {cores('a', 0, 16), cores('b', 0, 16), cores('b', 0, 16), cores('b', 0, 16)};
  CHECK(core_share(hosts, 0) == 16);
  CHECK(core_share(hosts, 2) == 5);
  const Ranks overlapping = {cores('a', 0, 4), cores('a', 2, 6)};
  CHECK(core_share(overlapping, 0) == 3);
  CHECK(core_share(Ranks(2, cores('a', 0, 64, 8)), 1) == 4);
}

TEST_CASE("A rank that fails, stops or dies ends all ranks, with a line that names it") {
  if (!has_mpirun()) return;
  const std::pair<const char*, const char*> ends[] = {
      {"abort 1", "rewire: rank 1 of 4 on "},
      {"leave 2", "rewire: rank 2 of 4 on "},
      {"stop 3", "rank 3 on "},
      {"die 1", "rank 1 "},  // mpirun's own line
      {"late 2", ": not all ranks have started after 3 s: "},
      {"last 1", ": not all ranks have left MPI after 2 s: "},
  };
  for (const auto& [mode, line] : ends) {
    CAPTURE(mode);
    const Ended ended = ranks(4, mode, true);
    CHECK(ended.code != 0);
    CHECK(ended.seconds < 30);
    CHECK_THAT(ended.text, REWIRE_CATCH_CONTAINS(line));
  }
  CHECK_THAT(ranks(2, "abort 0", true).text, REWIRE_CATCH_CONTAINS(": its data cannot be read\n"));
  CHECK_THAT(ranks(2, "stop 1", true).text,
             REWIRE_CATCH_CONTAINS(" has said nothing for 2 s: it was killed or stopped"));
}

TEST_CASE("A rank that computes for longer than a silence may last ends nothing") {
  if (!has_mpirun()) return;
  const Ended ended = ranks(2, "slow 1");
  CAPTURE(ended.text);
  CHECK(ended.code == 0);
  CHECK(ended.seconds > 4);
}

TEST_CASE("A number of ranks that is no power of two, or another MPI's launcher, is refused in one line") {
  if (has_mpirun())
    CHECK_THAT(ranks(3, "others", true).text,
               REWIRE_CATCH_CONTAINS(": 3 processes: their number must be a power of two\n"));
  struct Launcher {
    const char *name, *mark, *size;
  };
  for (const auto& [name, mark, size] :
       {Launcher{"MPICH's launcher", "PMI_RANK", "PMI_SIZE"},
        Launcher{"torchrun", "TORCHELASTIC_RUN_ID", "WORLD_SIZE"},
        Launcher{"srun without PMIx", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"}}) {
    ::setenv(mark, "0", 1);
    ::setenv(size, "4", 1);
    CHECK_THROWS_WITH(runtime::make_group(),
                      fmt::format("this process is one of 4 that {} has started; start them by "
                                  "Open MPI's mpirun or by srun --mpi=pmix",
                                  name));
    ::setenv(size, "1", 1);
    CHECK(runtime::make_group()->size() == 1);
    ::unsetenv(mark);
    ::unsetenv(size);
  }
  const std::unique_ptr<runtime::Group> alone = runtime::make_group();
  CHECK(alone->size() == 1);
  CHECK(alone->rank() == 0);
}

}  // namespace
}  // namespace rewire::test
