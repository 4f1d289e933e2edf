#include "runtime/sweep/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "ir/error.h"

namespace rewire::runtime {

struct Child::Pipe {
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      user_error("cannot start a run: {}", std::generic_category().message(errno));
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  /// Reads what it holds now, and closes it at its end.
  void take(std::string& text) {
    std::array<char, 4096> buffer;
    const ssize_t size = ::read(ends[0], buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) return;
    if (size <= 0) return close_end(0);
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
  void close_end(std::size_t i) {
    if (ends[i] >= 0) ::close(ends[i]);
    ends[i] = -1;
  }
  std::array<int, 2> ends{-1, -1};
};

namespace {

constexpr std::string_view kOurs = "rewire: ";
constexpr int kPollMilliseconds = 100;

/// What a process is started with.
struct Start {
  std::vector<std::string> arguments, environment;
  cpu_set_t cores;
  sigset_t mask;
  bool has_cores = false;
};

/// Variables by which launchers tell a process of others. A run of a sweep is alone, also if the sweep is one of several.
constexpr std::string_view kOfLaunchers[] = {"OMPI_COMM_WORLD_", "PMIX_",         "PMI_",
                                             "SLURM_STEP_",      "TORCHELASTIC_", "WORLD_SIZE="};

/// Signals that stop a run.
constexpr int kStops[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

Start start_of(const std::vector<std::string>& arguments, const ProcessPlace& place) {
  constexpr std::string_view kVisible = "CUDA_VISIBLE_DEVICES=";
  Start start{
      .arguments = {"rewire"}, .environment = {}, .cores = {}, .mask = {}, .has_cores = !place.cores.empty()};
  start.arguments.insert(start.arguments.end(), arguments.begin(), arguments.end());
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const auto is = [&](std::string_view beginning) {
      return std::string_view(*variable).starts_with(beginning);
    };
    if (std::ranges::any_of(kOfLaunchers, is)) continue;
    const bool replaced = !place.device.empty() && std::string_view(*variable).starts_with(kVisible);
    if (!replaced) start.environment.emplace_back(*variable);
  }
  if (!place.device.empty()) start.environment.push_back(std::string(kVisible) + place.device);
  CPU_ZERO(&start.cores);
  for (const int core : place.cores) CPU_SET(core, &start.cores);
  return start;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

/// In the child, between fork and exec: nothing here may allocate.
[[noreturn]] void become(char* const* arguments, char* const* environment, const Start& start, int out,
                         int err, pid_t parent) {
  // Before the new program, this one's handlers would only note a signal.
  for (const int stop : kStops) {
    struct sigaction action{};
    if (::sigaction(stop, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) ::signal(stop, SIG_DFL);
  }
  ::sigprocmask(SIG_SETMASK, &start.mask, nullptr);
  ::setpgid(0, 0);  // so that the terminal's signals do not reach it
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);
  if (start.has_cores) ::sched_setaffinity(0, sizeof(start.cores), &start.cores);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::execve("/proc/self/exe", arguments, environment);
  ::_exit(127);
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string last_complaint(std::string_view text) {
  std::string found;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.starts_with(kOurs)) found = line.substr(kOurs.size());
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return found;
}

}  // namespace

Child::Child(const std::vector<std::string>& arguments, const ProcessPlace& place,
             std::function<void(std::string_view)> on_text)
    : on_text_(std::move(on_text)), out_(std::make_unique<Pipe>()), err_(std::make_unique<Pipe>()) {
  Start start = start_of(arguments, place);
  const std::vector<char*> words = pointers(start.arguments), variables = pointers(start.environment);
  const pid_t parent = ::getpid();
  sigset_t stops;
  sigemptyset(&stops);
  for (const int stop : kStops) sigaddset(&stops, stop);
  ::sigprocmask(SIG_BLOCK, &stops, &start.mask);
  process_ = ::fork();
  if (process_ != 0) ::sigprocmask(SIG_SETMASK, &start.mask, nullptr);
  if (process_ < 0) user_error("cannot start a run: {}", std::generic_category().message(errno));
  if (process_ == 0) become(words.data(), variables.data(), start, out_->ends[1], err_->ends[1], parent);
  out_->close_end(1);
  err_->close_end(1);
}

Child::~Child() {
  if (process_ < 0) return;
  pass_on(SIGTERM);
  out_.reset();
  err_.reset();
  wait_for(process_);
}

void Child::pass_on(int signal) {
  if (process_ <= 0 || was_signalled_) return;  // to kill(), -1 means every process there is
  ::kill(process_, signal);
  was_signalled_ = true;
}

void Child::read(std::span<const std::unique_ptr<Child>> children) {
  std::vector<pollfd> watched;
  for (const auto& child : children) {
    watched.push_back({child->out_->ends[0], POLLIN, 0});
    watched.push_back({child->err_->ends[0], POLLIN, 0});
  }
  if (::poll(watched.data(), watched.size(), kPollMilliseconds) <= 0) return;
  for (std::size_t i = 0; i < children.size(); ++i) {
    Child& child = *children[i];
    if (watched[2 * i].revents != 0) child.out_->take(child.out_text_);
    if (watched[2 * i + 1].revents != 0) child.take_errors();
  }
}

void Child::take_errors() {
  err_->take(err_text_);
  // Passes on whole lines only: no split characters, and no other output within a line.
  const std::size_t whole = err_->ends[0] < 0 ? err_text_.size() : err_text_.rfind('\n') + 1;
  if (whole > passed_on_) on_text_(std::string_view(err_text_).substr(passed_on_, whole - passed_on_));
  passed_on_ = std::max(passed_on_, whole);
}

bool Child::is_silent() const {
  return out_->ends[0] < 0 && err_->ends[0] < 0;
}

ChildOutcome Child::outcome() {
  const int code = wait_for(std::exchange(process_, -1));
  return {.code = code, .out = std::move(out_text_), .complaint = last_complaint(err_text_)};
}

}  // namespace rewire::runtime
