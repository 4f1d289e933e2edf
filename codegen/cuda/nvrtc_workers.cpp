#include "codegen/cuda/nvrtc_workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/cuda/nvrtc_worker.h"
#include "codegen/files/descriptor.h"
#include "ir/error.h"

namespace rewire::codegen::cuda {
namespace {

constexpr const char* kProgramVariable = "REWIRE_NVRTC_WORKER";
constexpr const char* kLibraryVariable = "REWIRE_NVRTC";
constexpr int kTries = 2;  // for a text whose worker ended
constexpr std::size_t kPiece = 1 << 16;
constexpr std::size_t kMostLastWords = 4096;

/// Moves a descriptor above the numbers that a child's standard streams get.
void raise_above_standard_streams(Descriptor& descriptor) {
  if (descriptor && descriptor.get() <= STDERR_FILENO)
    descriptor = Descriptor(::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

/// Settings for starting a worker: its streams, no blocked signal, the default action of every signal, and a
/// process group of its own. So Ctrl-C reaches only the parent, which decides.
class SpawnSetup {
 public:
  SpawnSetup(int socket, int words) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, socket, STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, words, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, words, STDERR_FILENO);
    ::posix_spawnattr_init(&attributes_);
    sigset_t set;
    sigemptyset(&set);
    ::posix_spawnattr_setsigmask(&attributes_, &set);
    sigfillset(&set);
    ::posix_spawnattr_setsigdefault(&attributes_, &set);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnSetup() {
    ::posix_spawnattr_destroy(&attributes_);
    ::posix_spawn_file_actions_destroy(&actions_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  /// Returns 0 or an errno.
  int spawn(pid_t& child, const std::string& program, const std::string& argument,
            std::vector<std::string> environment) const {
    std::vector<char*> variables;
    for (std::string& variable : environment) variables.push_back(variable.data());
    variables.push_back(nullptr);
    std::string name = program, first = argument;
    char* const arguments[] = {name.data(), first.data(), nullptr};
    return ::posix_spawn(&child, program.c_str(), &actions_, &attributes_, arguments, variables.data());
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

/// Returns this process's environment, with the path of the NVRTC that this process has opened.
std::vector<std::string> worker_environment() {
  const std::string library = std::string(kLibraryVariable) + "=";
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with(library)) environment.emplace_back(*variable);
  }
  environment.push_back(library + nvrtc_path());
  return environment;
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was ended by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("exited with {}", WEXITSTATUS(status));
}

class Worker {
 public:
  /// If the worker cannot be started, started() is false and problem() has the reason.
  Worker(const std::string& program, int arch) {
    int pair[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
      problem_ = std::strerror(errno);
      return;
    }
    socket_ = Descriptor(pair[0]);
    Descriptor theirs(pair[1]);
    words_ = Descriptor(::memfd_create("nvrtc-worker", MFD_CLOEXEC));
    raise_above_standard_streams(theirs);
    raise_above_standard_streams(words_);
    if (!theirs || !words_) {
      problem_ = std::strerror(errno);
      return;
    }
    const int error = SpawnSetup(theirs.get(), words_.get())
                          .spawn(child_, program, std::to_string(arch), worker_environment());
    if (error != 0) {
      child_ = -1;
      problem_ = std::strerror(error);
    }
  }
  ~Worker() {
    if (child_ <= 0) return;
    if (job) ::kill(child_, SIGKILL);  // otherwise it would finish its text first
    socket_.close();
    wait();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  bool started() const { return child_ > 0; }
  const std::string& problem() const { return problem_; }
  int socket() const { return socket_.get(); }

  /// Sends a text to the worker. Returns false if the worker has ended.
  bool give(std::size_t number, std::string_view text) {
    job = number;
    return send_message(socket_.get(), text);
  }

  /// Receives what has arrived. Returns false if the worker has ended.
  bool receive() {
    char piece[kPiece];
    for (;;) {
      const ssize_t count = ::recv(socket_.get(), piece, sizeof(piece), MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
      if (count == 0) return false;
      arrived_.append(piece, static_cast<std::size_t>(count));
    }
  }
  std::optional<std::string> next_message() { return take_message(arrived_); }

  /// Returns how the worker ended, and the last line that it wrote.
  std::string last_words() {
    const int status = wait();
    const std::string line = last_line();
    return line.empty() ? describe_end(status) : fmt::format("{}: {}", describe_end(status), line);
  }

  std::optional<std::size_t> job;  // the text that it compiles
  bool greeted = false;            // its Hello message has arrived

 private:
  int wait() {
    int status = 0;
    while (child_ > 0 && ::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = -1;
    return status;
  }

  std::string last_line() const {
    const off_t size = ::lseek(words_.get(), 0, SEEK_END);
    if (size <= 0) return {};
    const off_t first = std::max<off_t>(0, size - static_cast<off_t>(kMostLastWords));
    std::string text(static_cast<std::size_t>(size - first), '\0');
    const ssize_t read = ::pread(words_.get(), text.data(), text.size(), first);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(read, 0)));
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    const std::size_t before = text.rfind('\n');
    return before == std::string::npos ? text : text.substr(before + 1);
  }

  Descriptor socket_, words_;
  pid_t child_ = -1;
  std::string problem_, arrived_;
};

/// The waiting texts, and the workers that compile them.
class Workers {
 public:
  Workers(std::span<const CompileJob> jobs, const CompileRequest& request)
      : jobs_(jobs),
        request_(request),
        program_(nvrtc_worker_program()),
        identity_(cubin_identity(request.arch)),
        tries_(jobs.size()) {
    std::vector<std::size_t> order(jobs.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t job) { return jobs[job].text.size(); });
    waiting_.assign(order.begin(), order.end());
  }

  /// Runs until no text waits, or no further worker can be started. Returns the texts that still wait.
  std::deque<std::size_t> run() {
    const auto most = static_cast<std::size_t>(request_.processes);
    while (workers_.size() < most && !waiting_.empty() && start()) {
    }
    while (!workers_.empty()) {
      std::vector<pollfd> sockets;
      for (const auto& worker : workers_) sockets.push_back({worker->socket(), POLLIN, 0});
      if (::poll(sockets.data(), sockets.size(), -1) < 0) {
        if (errno == EINTR) continue;
        throw RuntimeFailure(fmt::format("cannot wait for NVRTC workers: {}", std::strerror(errno)));
      }
      for (std::size_t i = sockets.size(); i-- > 0;) {
        if (sockets[i].revents != 0 && !attend(*workers_[i]))
          workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    return std::move(waiting_);
  }

 private:
  /// Starts one more worker with its first text. Returns false if it cannot be started.
  bool start() {
    if (program_.empty()) {
      do_without(fmt::format("neither {} nor /proc/self/exe names its program", kProgramVariable));
      return false;
    }
    auto worker = std::make_unique<Worker>(program_, request_.arch);
    if (!worker->started()) {
      do_without(fmt::format("{}: {}", program_, worker->problem()));
      return false;
    }
    give_next(*worker);
    workers_.push_back(std::move(worker));
    return true;
  }

  void do_without(const std::string& why) const {
    const std::string line = "no NVRTC worker: " + why;
    std::getenv(kProgramVariable) == nullptr ? request_.debug(line) : request_.warn(line);
  }

  void give_next(Worker& worker) {
    const std::size_t job = waiting_.front();
    waiting_.pop_front();
    // If the worker has ended, its socket reports that to run(), as at any other time.
    static_cast<void>(worker.give(job, jobs_[job].text));
  }

  /// Handles what a worker has sent. Returns false if the worker is no longer needed or has ended.
  bool attend(Worker& worker) {
    const bool lives = worker.receive();
    while (const std::optional<std::string> message = worker.next_message()) {
      if (!worker.greeted) {
        if (!greet(worker, decode_hello(*message))) return false;
        continue;
      }
      if (!worker.job) internal_error("an NVRTC worker answered without a request");
      const std::size_t job = *worker.job;
      worker.job.reset();
      Answer answer = decode_answer(*message);
      if (!answer.failure.empty()) throw InternalError(answer.failure);
      request_.done(job, std::move(answer.compiled));
      if (waiting_.empty()) return false;
      give_next(worker);
    }
    return lives || mourn(worker);
  }

  bool greet(Worker& worker, const Hello& hello) {
    worker.greeted = true;
    if (hello.problem.empty() && hello.identity == identity_) return true;
    give_up(worker,
            fmt::format("is not used: {}", hello.problem.empty()
                                               ? fmt::format("it has {}, not {}", hello.identity, identity_)
                                               : hello.problem));
    return false;
  }

  /// Puts the text of an unusable worker back into the queue, and warns once: other workers would fail
  /// alike.
  void give_up(Worker& worker, const std::string& why) {
    if (!std::exchange(gave_up_, true)) request_.warn(fmt::format("NVRTC worker {} {}", program_, why));
    waiting_.push_front(*worker.job);
    worker.job.reset();
  }

  /// Gives the text of a worker that has ended to another worker. Returns false.
  bool mourn(Worker& worker) {
    if (!worker.job) return false;
    const std::string words = worker.last_words();
    if (!worker.greeted) {
      give_up(worker, words);
      return false;
    }
    const std::size_t job = *worker.job;
    worker.job.reset();
    const std::string line =
        fmt::format("the NVRTC worker that compiled kernel '{}' {}", jobs_[job].name, words);
    if (++tries_[job] == kTries) throw RuntimeFailure(fmt::format("{}, as did the worker before it", line));
    request_.warn(line + "; another worker compiles it");
    waiting_.push_front(job);
    start();
    return false;
  }

  std::span<const CompileJob> jobs_;
  const CompileRequest& request_;
  std::string program_, identity_;
  std::vector<int> tries_;
  bool gave_up_ = false;
  std::deque<std::size_t> waiting_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace

std::string nvrtc_worker_program(const std::string& self) {
  if (const char* chosen = std::getenv(kProgramVariable); chosen != nullptr) return chosen;
  std::error_code error;
  const std::filesystem::path file = std::filesystem::read_symlink(self, error);
  if (error) return {};
  return (file.parent_path().parent_path() / "libexec" / "rewire" / "nvrtc-worker").string();
}

void compile_all(std::span<const CompileJob> jobs, const CompileRequest& request) {
  std::deque<std::size_t> left(jobs.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  CompileRequest bounded = request;
  bounded.processes = static_cast<int>(std::min(jobs.size(), static_cast<std::size_t>(request.processes)));
  if (bounded.processes > 1) {
    left = Workers(jobs, bounded).run();
    if (!left.empty()) request.debug(fmt::format("{} kernels are compiled in this process", left.size()));
  }
  for (const std::size_t job : left) request.done(job, try_compile(jobs[job].text, request.arch));
}

}  // namespace rewire::codegen::cuda
