// Worker processes that compile, on the fake NVRTC: every text once whatever becomes of a worker, one clear
// line where that cannot be, and nothing left behind.
#include "codegen/cuda/nvrtc_workers.h"

#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/nvrtc_worker.h"
#include "ir/error.h"
#include "tests/fake_cuda/use.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

namespace cuda = codegen::cuda;

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator begin("/proc/self/fd");
  return std::distance(begin, std::filesystem::directory_iterator());
}

/// A test leaves as many descriptors as it found, and no child.
class NothingStays {
 public:
  NothingStays() {
    fake_cuda::use();
    cuda::nvrtc_version();
    before_ = open_descriptors();
  }
  ~NothingStays() {
    CHECK(open_descriptors() == before_);
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
    CHECK(errno == ECHILD);
  }
  NothingStays(const NothingStays&) = delete;
  NothingStays& operator=(const NothingStays&) = delete;

 private:
  std::ptrdiff_t before_ = 0;
};

std::vector<cuda::CompileJob> kernels(int count) {
  std::vector<cuda::CompileJob> jobs;
  for (int i = 0; i < count; ++i) {
    const std::string name = "kernel" + std::to_string(i);
    // Of very different lengths; the longest is more than a socket holds at once.
    const std::string comment =
        i == 0 ? std::string(1 << 20, '-') : std::string(static_cast<std::size_t>(97 * i), '-');
    jobs.push_back({name, std::string(cuda::prelude()) + "// " + comment +
                              "\nextern \"C\" __global__ void __launch_bounds__(32) " + name +
                              "(float* x) {}\n"});
  }
  return jobs;
}

struct Heard {
  std::vector<int> answers;  // to each job
  std::vector<std::string> warnings, debug;
};

Heard compile(const std::vector<cuda::CompileJob>& jobs, int processes) {
  Heard heard;
  heard.answers.resize(jobs.size());
  cuda::CompileRequest request;
  request.processes = processes;
  request.done = [&](std::size_t job, const cuda::Compiled& answer) {
    ++heard.answers[job];
    const cuda::Compiled here = cuda::try_compile(jobs[job].text, request.arch);
    CHECK(answer.accepted == here.accepted);
    CHECK(answer.code == here.code);
    CHECK(answer.log == here.log);
  };
  request.warn = [&](const std::string& line) { heard.warnings.push_back(line); };
  request.debug = [&](const std::string& line) { heard.debug.push_back(line); };
  cuda::compile_all(jobs, request);
  return heard;
}

TEST_CASE("workers answer to each text once, as this process would") {
  const NothingStays nothing;
  for (const int processes : {1, 2, 5}) {
    for (const int count : {1, 3, 17}) {
      CAPTURE(processes, count);
      std::vector<cuda::CompileJob> jobs = kernels(count);
      jobs.push_back({"wrong", "no prelude"});
      const Heard heard = compile(jobs, processes);
      CHECK(heard.answers == std::vector<int>(jobs.size(), 1));
      CHECK(heard.warnings.empty());
      CHECK(heard.debug.empty());
    }
  }
}

TEST_CASE("a text whose worker ends goes to another, with a warning that names the kernel") {
  const NothingStays nothing;
  const Variable fail("REWIRE_FAKE_CUDA_FAIL", "nvrtcCompileProgram:2:-9");
  const Heard heard = compile(kernels(6), 2);
  CHECK(heard.answers == std::vector<int>(6, 1));
  REQUIRE_FALSE(heard.warnings.empty());
  for (const std::string& line : heard.warnings) {
    CHECK_THAT(line, REWIRE_CATCH_CONTAINS("the NVRTC worker that compiled kernel 'kernel"));
    CHECK_THAT(line, REWIRE_CATCH_CONTAINS("was ended by signal 9 (Killed): fake CUDA: nvrtcCompileProgram "
                                           "brings the process down; another worker compiles it"));
  }
}

TEST_CASE("a text that brings every worker down fails in one line") {
  const NothingStays nothing;
  const Variable fail("REWIRE_FAKE_CUDA_FAIL", "nvrtcCompileProgram:1:-6");
  const std::string message = test::message_of<RuntimeFailure>([] { compile(kernels(3), 2); });
  CHECK_THAT(message, REWIRE_CATCH_CONTAINS("the NVRTC worker that compiled kernel 'kernel"));
  CHECK_THAT(message, REWIRE_CATCH_CONTAINS("was ended by signal 6 (Aborted): fake CUDA: "));
  CHECK_THAT(message, REWIRE_CATCH_CONTAINS(", as did the worker before it"));
  CHECK(message.find('\n') == std::string::npos);
}

TEST_CASE("a failure of NVRTC's in a worker is the failure of the whole") {
  const NothingStays nothing;
  const Variable fail("REWIRE_FAKE_CUDA_FAIL", "nvrtcGetCUBIN:1:7");
  CHECK_THAT(test::message_of<InternalError>([] { compile(kernels(3), 2); }),
             REWIRE_CATCH_CONTAINS("NVRTC cannot return a result"));
}

TEST_CASE("without workers this process compiles") {
  const NothingStays nothing;
  {
    const Variable program("REWIRE_NVRTC_WORKER", "/nowhere/nvrtc-worker");
    const Heard heard = compile(kernels(4), 2);
    CHECK(heard.answers == std::vector<int>(4, 1));
    CHECK(heard.warnings ==
          std::vector<std::string>{"no NVRTC worker: /nowhere/nvrtc-worker: No such file or directory"});
  }
  {
    const Variable program("REWIRE_NVRTC_WORKER", "");
    const Heard heard = compile(kernels(4), 2);
    CHECK(heard.answers == std::vector<int>(4, 1));
    CHECK(heard.warnings ==
          std::vector<std::string>{
              "no NVRTC worker: neither REWIRE_NVRTC_WORKER nor /proc/self/exe names its program"});
  }
  const Variable program("REWIRE_NVRTC_WORKER", "/bin/false");
  const Heard heard = compile(kernels(4), 3);
  CHECK(heard.answers == std::vector<int>(4, 1));
  CHECK(heard.warnings == std::vector<std::string>{"NVRTC worker /bin/false exited with 1"});
}

TEST_CASE("the workers' program stands beside this one, and nowhere where this one's place is not known") {
  const test::TemporaryFolder folder;
  std::filesystem::create_symlink("/opt/tools/bin/rewire", folder.path() / "exe");
  CHECK(cuda::nvrtc_worker_program(folder.file("exe")) == "/opt/tools/libexec/rewire/nvrtc-worker");
  CHECK(cuda::nvrtc_worker_program(folder.file("none")).empty());
  const Variable program("REWIRE_NVRTC_WORKER", "/chosen/worker");
  CHECK(cuda::nvrtc_worker_program(folder.file("none")) == "/chosen/worker");
}

TEST_CASE("an exception of the caller's ends the workers") {
  const NothingStays nothing;
  const std::vector<cuda::CompileJob> jobs = kernels(9);
  cuda::CompileRequest request;
  request.processes = 3;
  request.done = [](std::size_t, const cuda::Compiled&) { throw std::runtime_error("enough"); };
  CHECK_THROWS_WITH(cuda::compile_all(jobs, request), "enough");
}

TEST_CASE("messages are taken whole, in whichever pieces they arrive, and refused where they are none") {
  const cuda::Answer answer{{true, std::string("\0cubin", 6), "log"}, ""};
  const std::string bytes = cuda::framed(cuda::encode(answer)) + cuda::framed("");
  std::string arrived;
  int messages = 0;
  for (const char byte : bytes) {
    arrived += byte;
    while (const auto message = cuda::take_message(arrived)) {
      if (messages++ > 0) continue;
      const cuda::Answer taken = cuda::decode_answer(*message);
      CHECK(taken.compiled.accepted);
      CHECK(taken.compiled.code == answer.compiled.code);
      CHECK(taken.compiled.log == "log");
    }
  }
  CHECK(messages == 2);
  CHECK(arrived.empty());
  const std::string whole = cuda::encode(cuda::Hello{"NVRTC", ""});
  CHECK(cuda::decode_hello(whole).identity == "NVRTC");
  for (std::size_t cut = 0; cut < whole.size(); ++cut)
    CHECK_THROWS_AS(cuda::decode_hello(whole.substr(0, cut)), InternalError);
  CHECK_THROWS_AS(cuda::decode_hello(whole + "x"), InternalError);
  std::string endless(8, '\xff');
  CHECK_THROWS_AS(cuda::take_message(endless), InternalError);
}

}  // namespace
}  // namespace rewire::runtime
