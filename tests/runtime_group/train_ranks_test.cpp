// `mpirun -n N rewire train`: the same files for any N, ranks that get SIGKILL, SIGSTOP or SIGUSR1 at random moments,
// and bad requests. FAULT_SEED in the environment repeats a run; HOSTILE_ALL=1 takes 40 moments, otherwise 3.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>
#include <regex>
#include <sstream>
#include <utility>
#include <vector>

#include "codegen/files/digest.h"
#include "runtime/io/files.h"
#include "runtime/run/run_folder.h"
#include "tests/fake_cuda/use.h"
#include "tests/runtime_group/launcher.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

const std::string kSettings =
    " --no-autotune --plain --set model.dim=12 --set model.depth=2 --set model.heads=2 --set model.patch=7 "
    "--set "
    "model.dropout=0.1 --set data.format=synthetic --set data.count=1000 --set data.threads=1 --set "
    "train.threads=1 "
    "--set train.batch=16 --set train.shards=4 --set train.epochs=3 --set train.checkpoint_every=0.2 --set "
    "train.log_every=10 --set transforms.crop_padding=2";

std::string launch(int ranks) {
  return ranks == 1 ? "timeout 120" : fmt::format("{} -n {}", kLauncher, ranks);
}

std::string begin(const std::string& run, const std::string& settings = kSettings) {
  return fmt::format(" {} train vit_tiny_28{} --out {}", REWIRE_BINARY, settings, run);
}

std::string resume(const std::string& run) {
  return fmt::format(" {} train --no-autotune --plain --resume {}", REWIRE_BINARY, run);
}

std::string weights(const std::string& run) {
  return codegen::digest_hex(runtime::read_file(run + "/weights.safetensors"));
}

/// The lines that rewire itself wrote.
std::string lines_of_rewire(const std::string& text) {
  std::istringstream lines(text);
  std::string all;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("rewire: ")) all += line + "\n";
  }
  return all;
}

TEST_CASE("Processes train to the bits of one, and rank 0 alone speaks") {
  if (!has_mpirun()) return;
  const TemporaryFolder folder;
  const Ended one = run_line(launch(1) + begin(folder.file("1")) + " 2>&1");
  CAPTURE(one.text);
  REQUIRE(one.code == 0);
  for (const int ranks : {2, 4}) {
    CAPTURE(ranks);
    const Ended several = run_line(launch(ranks) + begin(folder.file(std::to_string(ranks))) + " 2>&1");
    CHECK(several.code == 0);
    CHECK(std::ranges::count(several.text, '\n') == std::ranges::count(one.text, '\n'));
    CHECK(weights(folder.file(std::to_string(ranks))) == weights(folder.file("1")));
  }
}

TEST_CASE(
    "SIGKILL, SIGSTOP or SIGUSR1 at one rank at a random moment ends all ranks, and the run can be resumed") {
  if (!has_mpirun()) return;
  const char* given = std::getenv("FAULT_SEED");
  const char* all = std::getenv("HOSTILE_ALL");
  const unsigned seed = given == nullptr ? std::random_device{}() : static_cast<unsigned>(std::stoul(given));
  std::mt19937 random(seed);
  CAPTURE(seed);
  const TemporaryFolder folder;
  const std::string whole = folder.file("whole");
  const double seconds = run_line(launch(4) + begin(whole) + " 2>&1").seconds;
  const std::vector<std::string> signals = {"KILL", "STOP", "USR1"};
  for (std::size_t moment = 0; moment < (all == nullptr ? 3 : 40); ++moment) {
    const std::string& signal = signals[moment % signals.size()];
    const int ranks = random() % 2 == 0 ? 2 : 4, then = 1 << random() % 3,
              hit = 1 + static_cast<int>(random() % 2) * (ranks - 1);
    const double after = std::uniform_real_distribution<>(0.2, seconds)(random);
    const std::string run = folder.file("run");
    CAPTURE(moment, signal, ranks, then, hit, after);
    // The shell waits for `timeout`, whose child is the launcher, whose children are the ranks. What the launcher has
    // forked, but is not rewire yet, gets no signal: the launcher would wait for it for ever. So it would for a rank that
    // is stopped when the run is done and the others have left MPI: that one goes on after 25 s.
    const Ended ended = run_line(fmt::format(
        "( export {}; exec {} -n {} {} 2>&1 ) & p=$!; sleep {:.3f}; m=$(cat /proc/$p/task/$p/children "
        "2>/dev/null); m=${{m% }}; r=$(cut -d ' ' -f {} /proc/$m/task/$m/children 2>/dev/null); "
        "if [ \"$(cat /proc/$r/comm 2>/dev/null)\" = rewire ]; then kill -{} $r; fi; ( sleep 25; grep -q "
        "'complete after' {}/log.txt && kill -CONT $r ) >/dev/null 2>&1 & c=$!; wait $p; kill $c; "
        "kill -KILL $r 2>/dev/null",
        kNoSingleCopy, kMpirun, ranks, begin(run), after, hit, signal, run));
    CAPTURE(ended.text);
    CHECK(ended.seconds < after + 30);
    const bool has_begun = std::filesystem::exists(run + "/recipe.toml");
    const Ended again = run_line(launch(then) + (has_begun ? resume(run) : begin(run)) + " 2>&1");
    CAPTURE(again.text);
    CHECK(again.code == 0);
    CHECK(weights(run) == weights(whole));
    std::filesystem::remove_all(run);
  }
}

/// The environment of a machine with so many GPUs, as words of the shell.
std::string gpus(int count) {
  std::string words = fmt::format("REWIRE_FAKE_CUDA_DEVICES={} ", count);
  for (const auto& [name, value] : fake_cuda::environment()) words += fmt::format("{}={} ", name, value);
  return words;
}

TEST_CASE("Ranks with a GPU each train to the bits of one process, with NCCL and without it") {
  if (!has_mpirun()) return;
  const TemporaryFolder folder;
  const std::string settings =
      " --no-autotune --plain --set model.dim=8 --set model.depth=1 --set model.heads=2 --set "
      "model.patch=14 --set model.dropout=0.1 --set data.format=synthetic --set data.count=48 --set "
      "train.batch=8 "
      "--set train.shards=4 --set train.epochs=2 --set train.clip_norm=0.1 --set transforms.crop_padding=2 "
      "--device cuda";
  const auto train = [&](const std::string& name, const std::string& environment, int ranks,
                         const std::string& more = "") {
    const Ended ended = run_line("export " + environment + "; " + launch(ranks) +
                                 begin(folder.file(name), settings + more) + " 2>&1");
    CAPTURE(name, ended.text);
    CHECK(ended.code == 0);
    return ended.text;
  };
  train("one", gpus(1), 1);
  for (const int ranks : {2, 4}) {
    const std::string name = std::to_string(ranks);
    CHECK(train(name, gpus(ranks), ranks).find("travel through the hosts") == std::string::npos);
    CHECK(weights(folder.file(name)) == weights(folder.file("one")));
    train(name + "-zero", gpus(ranks), ranks, " --set train.zero=1");
    CHECK(weights(folder.file(name + "-zero")) == weights(folder.file("one")));
  }
  CHECK_THAT(train("without", gpus(2) + "REWIRE_NCCL=/missing", 2),
             REWIRE_CATCH_CONTAINS("gradients travel through the hosts, which is slow: rank 0 has no NCCL"));
  CHECK(weights(folder.file("without")) == weights(folder.file("one")));

  // SLURM can let each task see its own GPU alone.
  const std::string run = begin(folder.file("own"), settings);
  const Ended own = run_line("export " + gpus(3) + "; " + launch(1) +
                             " mpirun --allow-run-as-root --oversubscribe -n 1 -x CUDA_VISIBLE_DEVICES=2" +
                             run + " : -n 1 -x CUDA_VISIBLE_DEVICES=0" + run + " 2>&1");
  CAPTURE(own.text);
  CHECK(own.code == 0);
  CHECK(weights(folder.file("own")) == weights(folder.file("one")));

  // The first rank's fifth exchange never ends. MPI still works: a line says so, and all ranks end.
  for (const auto& [how, words] :
       {std::pair("lost", "rank 0 of 2 on .*: an exchange between GPUs has not ended after 2 s"),
        std::pair("error",
                  "rank 0 of 2 on .*: an exchange between GPUs failed: NCCL: an error of the fake")}) {
    const std::string lost = begin(folder.file(how), settings);
    const auto begun = std::chrono::steady_clock::now();
    const Ended ended = run_line(
        fmt::format("export {} REWIRE_NCCL_TIMEOUT=2; {} mpirun --allow-run-as-root --oversubscribe -n 1 -x "
                    "REWIRE_FAKE_NCCL={}:5{} : -n 1{} 2>&1",
                    gpus(2), launch(1), how, lost, lost));
    CAPTURE(how, ended.text);
    CHECK(ended.code != 0);
    CHECK(std::regex_search(ended.text, std::regex(words)));
    CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(30));
  }

  const Ended named = run_line("export " + gpus(2) + "; " + launch(2) +
                               begin(folder.file("named"), settings + ":1") + " 2>&1");
  CHECK(named.code == 2 << 8);
  CHECK_THAT(named.text,
             REWIRE_CATCH_CONTAINS("--device cuda:1: each of several processes takes a GPU of its own"));
  CHECK_FALSE(std::filesystem::exists(folder.file("named")));

  const Ended few =
      run_line("export " + gpus(2) + "; " + launch(4) + begin(folder.file("few"), settings) + " 2>&1");
  CHECK(few.code == 2 << 8);
  CHECK_THAT(few.text, REWIRE_CATCH_CONTAINS(", which has 2 GPUs for them: each rank needs one\n"));
}

TEST_CASE("ZeRO shares out the optimizer's states, and changes neither the results nor the checkpoints") {
  if (!has_mpirun()) return;
  const TemporaryFolder folder;
  const auto trained = [&](const std::string& name, const std::string& more, int ranks) {
    const Ended ended = run_line(launch(ranks) + begin(folder.file(name), kSettings + more) + " 2>&1");
    CAPTURE(name, ended.text);
    CHECK(ended.code == 0);
    return folder.file(name);
  };
  const auto state = [](const std::string& run) {
    const std::string last = runtime::RunFolder::open(run).checkpoints().back();
    return codegen::digest_hex(runtime::read_file(last + "/state.safetensors"));
  };
  for (const std::string optimizer : {"adamw", "soap", "muon", "lamb"}) {
    const std::string more =
        fmt::format(" --set optimizer.name={} --set train.ema=0.9 --set train.clip_norm=0.5", optimizer);
    const std::string one = trained(optimizer + "1", more, 1);
    for (const int ranks : {2, 4}) {
      CAPTURE(optimizer, ranks);
      const std::string shared =
          trained(optimizer + "z" + std::to_string(ranks), more + " --set train.zero=1", ranks);
      CHECK(weights(shared) == weights(one));
      CHECK(state(shared) == state(one));
    }
  }
}

TEST_CASE("A bad request of several ranks is one line and exit code 2") {
  if (!has_mpirun()) return;
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  const auto refused = [&](const std::string& line) {
    const Ended ended = run_line(line + " 2>&1");
    CHECK(ended.code == 2 << 8);
    CHECK_FALSE(std::filesystem::exists(run));
    const std::string own = lines_of_rewire(ended.text);
    return own.substr(own.find(": ", own.find(" on ")) + 2);  // without the rank and the host
  };
  CHECK(refused(launch(4) + begin(run, " --set train.shards=2")) ==
        "train.shards=2 cannot be shared out to 4 processes: start 2 or fewer, or --set train.shards=4\n");
  CHECK(refused(launch(3) + begin(run)) == "3 processes: their number must be a power of two\n");
  CHECK(refused(launch(2) + begin(run, " --set train.bach=2")) ==
        "--set train.bach=2: unknown key train.bach (did you mean 'batch'?)\n");
  CHECK(refused(launch(1) + " mpirun --allow-run-as-root --oversubscribe -n 1" +
                begin(run, kSettings + " --set seed=1") + " : -n 1" +
                begin(run, kSettings + " --set seed=2")) ==
        "rank 1 has another recipe than rank 0: start all ranks by the same command, from the same files\n");
}

}  // namespace
}  // namespace rewire::test
