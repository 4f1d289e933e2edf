// The program: takes arguments and returns an exit code. 0: success. 2: an error that the user can fix
// (UserError, OutOfMemory). 1: a negative answer (RuntimeFailure), or a fault of Rewire (InternalError).
// 128 + n: signal n stopped it, and its work is saved; for SIGPIPE, the reader of stdout is gone.
#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/finish.h"
#include "cli/memory.h"
#include "cli/stop.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "ir/text_error.h"

namespace {

using rewire::cli::kBadRequest;
using rewire::cli::kFailure;
using rewire::cli::kStopped;

/// Prints a message that may have several lines.
void complain_lines(std::string_view message) {
  rewire::cli::write_stderr(fmt::format("rewire: {}\n", message));
}

/// Removes the middle of a long message: the cause is at its end.
std::string shortened(const std::string& message) {
  constexpr std::size_t kMost = 1900, kEnd = 400;
  if (message.size() <= kMost) return message;
  std::size_t end = message.size() - kEnd;
  while (end < message.size() && (message[end] & 0xc0) == 0x80) ++end;  // not in the middle of a character
  return fmt::format("{} … {}", rewire::cut(message, kMost - kEnd), std::string_view(message).substr(end));
}

void complain(std::string_view message) {
  complain_lines(shortened(rewire::visible(message)));
}

/// Returns the exit code. Prints nothing if the reader is gone (`rewire dump … | head`), like other tools.
int stdout_failure(int error) {
  if (error == EPIPE) return kStopped + SIGPIPE;
  complain(fmt::format("cannot write to stdout: {}", std::strerror(error)));
  return kBadRequest;
}

int internal_failure(std::string_view message) {
  complain_lines(fmt::format("internal error: {}", message));
  complain(
      "this is a bug in Rewire: please report it with this command line and the output of "
      "`rewire dump MODEL --stage ir` for the same MODEL, --set and --plugin");
  return kFailure;
}

int answer(int argc, char** argv) {
  try {
    rewire::cli::parse_and_run(rewire::cli::commands(), std::vector<std::string>(argv + 1, argv + argc));
    rewire::cli::flush_stdout();
    return 0;
  } catch (const rewire::ir::TextError& error) {
    complain_lines(error.what());
    return kBadRequest;
  } catch (const rewire::UserError& error) {
    complain(error.what());
    return kBadRequest;
  } catch (const rewire::cli::Stopped& stopped) {
    complain(stopped.what());
    return kStopped + stopped.signal();
  } catch (const rewire::OutOfMemory& error) {
    complain(error.what());
    return kBadRequest;
  } catch (const rewire::RuntimeFailure& error) {
    complain(error.what());
    return kFailure;
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return stdout_failure(error.code().value());
    complain(error.what());
    return kFailure;
  } catch (const std::bad_alloc&) {
    complain(rewire::cli::exhausted_memory());
    return kBadRequest;
  } catch (const std::exception& error) {
    return internal_failure(error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  rewire::cli::hold_standard_streams();
  const rewire::cli::FinishGuard guard;
  rewire::cli::share_one_heap_if_limited();
  // With these signals ignored, a limit on file sizes or a reader that is gone makes the write fail instead.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return answer(argc, argv);
  } catch (const std::bad_alloc&) {  // making the message ran out of memory
    std::fputs("rewire: out of memory\n", stderr);
    return kBadRequest;
  }
}
