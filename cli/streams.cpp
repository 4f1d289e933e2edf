#include "cli/streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>

namespace rewire::cli {
namespace {

std::atomic<bool> line_stands{false};  // set by overwrite_line()

void write_raw(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

[[noreturn]] void fail_stdout() {
  throw std::system_error(errno, std::generic_category(), "stdout");
}

void write_printable(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail_stdout();
}

}  // namespace

void hold_standard_streams() {
  constexpr std::array<int, 3> kAccess = {O_RDONLY, O_RDONLY, O_WRONLY};
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() returns the lowest free number, which is this
    // one. Otherwise, a later file would become the stream.
    if (::open("/dev/null", kAccess[static_cast<std::size_t>(stream)]) != stream) ::_exit(2);
  }
}

void write_unbuffered(std::string_view bytes) {
  static_cast<void>(!::write(STDERR_FILENO, bytes.data(), bytes.size()));
}

void write_stderr(std::string_view text) {
  write_raw(visible_lines(text));
}

void overwrite_line(std::string_view text) {
  line_stands = !text.empty();
  write_raw("\r\x1b[K" + visible(text));
}

void clear_line() {
  if (line_stands) overwrite_line("");
}

void write_stdout(std::string_view text) {
  write_printable(visible_lines(text));
}

void write_styled(std::string_view text, const std::function<std::string(std::string_view)>& style) {
  write_printable(style(visible_lines(text)));
}

void flush_stdout() {
  if (std::fflush(stdout) != 0) fail_stdout();
}

}  // namespace rewire::cli
