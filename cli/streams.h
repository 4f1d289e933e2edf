// The standard streams: results on stdout, messages on stderr. All output of Rewire goes through here.
// Foreign text is made printable (ir/printable.h), on a terminal and elsewhere.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ir/printable.h"

namespace rewire::cli {

/// Opens /dev/null in place of each standard stream that the process was started without, before another
/// file gets its number. Writing to such a stdout still fails: a result that nobody receives is an error.
void hold_standard_streams();

/// Writes lines to stderr and ignores failures: a closed terminal must not end a run.
void write_stderr(std::string_view text);
/// Replaces the line of stderr's cursor, on a terminal.
void overwrite_line(std::string_view text);
/// Clears the line of overwrite_line(), so that other text begins a line.
void clear_line();

/// Writes these bytes to stderr unchanged, by one system call. It works in a signal handler and without free
/// memory.
void write_unbuffered(std::string_view bytes);

/// Writes lines to stdout. Throws std::system_error on failure.
void write_stdout(std::string_view text);
/// Writes text to stdout. `style` adds our escape sequences after the text is made printable.
void write_styled(std::string_view text, const std::function<std::string(std::string_view)>& style);
/// Flushes stdout's buffer. Throws std::system_error on failure.
void flush_stdout();

/// Returns the printable form of text, for use within one line; returns other arguments unchanged.
template <class Argument>
decltype(auto) shown(const Argument& argument) {
  if constexpr (std::is_convertible_v<const Argument&, std::string_view>) {
    return visible(argument);
  } else {
    return (argument);
  }
}

/// Prints as fmt::print does, but text among `arguments` cannot begin a new line.
template <class... Arguments>
void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const auto print_shown = [&](const auto&... values) {
    write_stdout(fmt::vformat(fmt::string_view(format), fmt::make_format_args(values...)));
  };
  print_shown(shown(arguments)...);
}

}  // namespace rewire::cli
