#include "runtime/plugin/isolated.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <string_view>
#include <system_error>

#include "codegen/files/replacing_file.h"
#include "ir/error.h"
#include "runtime/device/sanitized.h"

namespace rewire::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMostMessageBytes = 1 << 24;  // of one message
constexpr std::chrono::milliseconds kPause{2};

/// The kind of a message: from the work, at its end, or for an exception that it threw.
enum class Kind : char { message = 'm', done = 'd', user = 'u', failure = 'f', internal = 'i' };

void append_size(std::string& out, std::size_t size) {
  const auto number = static_cast<std::uint32_t>(size);
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

/// Returns a frame: its size, its kind, then size and bytes of each text.
std::string pack(Kind kind, const Fields& fields) {
  std::string body(1, static_cast<char>(kind));
  for (const std::string& field : fields) {
    append_size(body, field.size());
    body += field;
  }
  std::string frame;
  append_size(frame, body.size());
  return frame + body;
}

/// Takes a size and that many bytes from the front; nullopt if there are fewer.
std::optional<std::string_view> take_sized(std::string_view& text) {
  std::uint32_t size = 0;
  if (text.size() < sizeof(size)) return std::nullopt;
  std::memcpy(&size, text.data(), sizeof(size));
  if (text.size() - sizeof(size) < size) return std::nullopt;
  const std::string_view taken = text.substr(sizeof(size), size);
  text.remove_prefix(sizeof(size) + size);
  return taken;
}

/// Sets the soft limit, which sends a signal, to `value`, and the hard limit, which
/// ends the child, to `more` above.
void limit(decltype(RLIMIT_CPU) resource, std::uint64_t value, std::uint64_t more = 0) {
  rlimit now{};
  if (::getrlimit(resource, &now) != 0) return;
  now.rlim_max = std::min<rlim_t>(now.rlim_max, value + more);
  now.rlim_cur = std::min<rlim_t>(now.rlim_max, value);
  ::setrlimit(resource, &now);
}

[[maybe_unused]] std::uint64_t address_space() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0;
  file >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void set_limits(const IsolationLimits& limits) {
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, static_cast<std::uint64_t>(limits.processor_seconds), 1);
#ifndef REWIRE_SANITIZED  // a sanitizer's shadow memory takes terabytes of it
  limit(RLIMIT_AS, address_space() + static_cast<std::uint64_t>(limits.more_memory_bytes));
#endif
}

/// Gives the child streams of its own: no input, and only the parent writes to stdout.
void set_streams(bool prints) {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  if (!prints) ::dup2(nothing, STDERR_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
}

/// A signal ends the child even if the parent has a handler for it.
void set_signals() {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGINT, SIGTERM, SIGHUP, SIGXCPU})
    ::signal(signal, SIG_DFL);
}

[[noreturn]] void be_child(const IsolationLimits& limits, int out, pid_t parent,
                           const std::function<void(const Send&)>& work) {
  ::setpgid(0, 0);  // its children and its signals to its group are not the parent's
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  set_signals();
  set_limits(limits);
  set_streams(limits.prints);
  const auto send = [out](Kind kind, const Fields& fields) {
    // If this fails, the parent has ended, and this process ends with it.
    static_cast<void>(codegen::write_all(out, pack(kind, fields)));
  };
  try {
    work([&](const Fields& fields) { send(Kind::message, fields); });
    send(Kind::done, {});
  } catch (const UserError& error) {
    send(Kind::user, {error.what()});
  } catch (const RuntimeFailure& error) {
    send(Kind::failure, {error.what()});
  } catch (const std::bad_alloc&) {
    send(Kind::user, {"out of memory"});
  } catch (const std::exception& error) {
    send(Kind::internal, {error.what()});
  }
  ::_exit(0);
}

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{} s", static_cast<double>(time.count()) / 1000);
}

std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

/// The parent's end: reads until the work is done, the child has ended, or it is silent for too long.
class Child {
 public:
  Child(pid_t id, int in, const IsolationLimits& limits) : id_(id), in_(in), limits_(limits) {}
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  std::optional<std::string> follow(const std::function<void(const Fields&)>& take) {
    deadline_ = Clock::now() + limits_.silence;
    while (read_some()) {
      while (const std::optional<Kind> kind = next_message(take)) {
        if (*kind == Kind::done) return std::nullopt;
      }
    }
    return how_it_ended();
  }

 private:
  /// Returns false at the end of the pipe, when the time is over, and after too many bytes.
  bool read_some() {
    std::array<char, 4096> buffer;
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
      if (left.count() <= 0) return false;
      pollfd watched{in_, POLLIN, 0};
      const int ready =
          ::poll(&watched, 1, static_cast<int>(std::min<std::int64_t>(left.count() + 1, 1 << 30)));
      if (ready <= 0) continue;
      const ssize_t size = ::read(in_, buffer.data(), buffer.size());
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return false;
      text_.append(buffer.data(), static_cast<std::size_t>(size));
      return text_.size() <= 2 * std::size_t{kMostMessageBytes};
    }
  }

  /// Takes one whole message from what was read. Throws the exception that the work threw.
  std::optional<Kind> next_message(const std::function<void(const Fields&)>& take) {
    std::string_view rest = text_;
    const std::optional<std::string_view> frame = take_sized(rest);
    if (!frame || frame->empty()) return std::nullopt;
    const auto kind = static_cast<Kind>(frame->front());
    Fields fields;
    std::string_view body = frame->substr(1);
    while (const std::optional<std::string_view> field = take_sized(body)) fields.emplace_back(*field);
    text_.erase(0, text_.size() - rest.size());
    deadline_ = Clock::now() + limits_.silence;
    const std::string what = fields.empty() ? "" : fields.front();
    if (kind == Kind::user) throw UserError(what);
    if (kind == Kind::failure) throw RuntimeFailure(what);
    if (kind == Kind::internal) throw InternalError(what);
    if (kind == Kind::message) take(fields);
    return kind;
  }

  std::string how_it_ended() {
    int status = 0;
    pid_t ended = 0;
    while ((ended = ::waitpid(id_, &status, WNOHANG)) == 0 && Clock::now() < deadline_)
      ::poll(nullptr, 0, kPause.count());
    if (ended != id_) return fmt::format("it had not returned after {}", seconds_text(limits_.silence));
    const pid_t group = id_;
    id_ = -1;
    ::kill(-group, SIGKILL);  // processes that it started
    if (WIFEXITED(status)) return fmt::format("it ended the process with code {}", WEXITSTATUS(status));
    const int signal = WTERMSIG(status);
    if (signal == SIGXCPU)
      return fmt::format("it took more than {} s of processor time", limits_.processor_seconds);
    return fmt::format("it {} ({})", signal == SIGKILL ? "was killed" : "crashed", signal_text(signal));
  }

  void end() {
    ::close(in_);
    if (id_ < 0) return;
    ::kill(-id_, SIGKILL);
    ::kill(id_, SIGKILL);  // in case it had no group of its own yet
    while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  pid_t id_;
  int in_;
  const IsolationLimits& limits_;
  std::string text_;
  Clock::time_point deadline_;
};

[[noreturn]] void refuse_child(int error) {
  user_error("cannot start a child process to run it in: {}; see ulimit -u and -v",
             std::generic_category().message(error));
}

}  // namespace

IsolationLimits loading_limits() {
  constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
  return {std::chrono::seconds(10), 10, 2 * kGibibyte, false};
}

std::optional<std::string> run_isolated(const IsolationLimits& limits,
                                        const std::function<void(const Send&)>& work,
                                        const std::function<void(const Fields&)>& take) {
  std::array<int, 2> ends{};
  const pid_t parent = ::getpid();
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) refuse_child(errno);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    be_child(limits, ends[1], parent, work);
  }
  const int error = errno;
  ::close(ends[1]);
  if (child < 0) {
    ::close(ends[0]);
    refuse_child(error);
  }
  return Child(child, ends[0], limits).follow(take);
}

}  // namespace rewire::runtime
