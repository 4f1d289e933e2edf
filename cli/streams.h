// The standard streams: results on stdout, messages on stderr. All that Rewire writes to either goes through
// here, where the text of others is made printable (ir/printable.h), on a terminal and elsewhere alike.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ir/printable.h"

namespace rewire::cli {

/// Opens /dev/null in place of each standard stream that this process was started without, before another
/// file takes its number. Writing to such a stdout fails as it did: a result that nobody gets is an error.
void hold_standard_streams();

/// Lines on stderr, whatever becomes of them: a terminal that has gone must not end a run.
void write_stderr(std::string_view text);
/// On a terminal, in place of the line that stderr's cursor is in.
void overwrite_line(std::string_view text);
/// What overwrite_line() has left there goes, so that other text begins a line.
void clear_line();

/// These bytes on stderr as they are, by one call of the system: also in the handler of a signal, and where
/// there is no memory.
void write_unbuffered(std::string_view bytes);

/// Lines on stdout; std::system_error if they cannot be written.
void write_stdout(std::string_view text);
/// The same of text that `style` puts escape sequences of ours into, once it is printable.
void write_styled(std::string_view text, const std::function<std::string(std::string_view)>& style);
/// What stands in the buffer of stdout goes out; std::system_error if it cannot.
void flush_stdout();

/// Of text, what is shown of it as part of one line; all else as it is.
template <class Argument>
decltype(auto) shown(const Argument& argument) {
  if constexpr (std::is_convertible_v<const Argument&, std::string_view>) {
    return visible(argument);
  } else {
    return (argument);
  }
}

/// fmt::print, but for text among `arguments`, which cannot begin another line.
template <class... Arguments>
void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const auto print_shown = [&](const auto&... values) {
    write_stdout(fmt::vformat(fmt::string_view(format), fmt::make_format_args(values...)));
  };
  print_shown(shown(arguments)...);
}

}  // namespace rewire::cli
