// The kinds of failure. A UserError is for the user to fix: its one line says what is wrong, where, and the
// way out, and the CLI exits with 2. An InternalError is Rewire's fault: the CLI exits with 1 and asks for
// the reproducer. Libraries throw; only the CLI prints and exits.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rewire {

/// A request that cannot be met as given: an unknown name, a wrong shape, a folder that cannot be written, a
/// full disk, a loss that is not finite. Exit 2.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message) : std::runtime_error(message) {}
};

/// A request that was met with a negative answer (`verify` found a wrong gradient), or whose answer cannot
/// be delivered (a library's call failed). Exit 1.
class RuntimeFailure : public std::runtime_error {
 public:
  explicit RuntimeFailure(const std::string& message) : std::runtime_error(message) {}
};

/// A device has too little memory. Code that tries something out treats it as any failure. If it ends the
/// request, the user can fix it: exit 2.
class OutOfMemory : public RuntimeFailure {
 public:
  explicit OutOfMemory(const std::string& message) : RuntimeFailure(message) {}
};

class InternalError : public std::logic_error {
 public:
  explicit InternalError(const std::string& message) : std::logic_error(message) {}
};

template <class... Args>
[[noreturn]] void user_error(fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void internal_error(fmt::format_string<Args...> format, Args&&... args) {
  throw InternalError(fmt::format(format, std::forward<Args>(args)...));
}

/// Returns the candidate with the smallest edit distance to `name`; "" if none is close (distance > 1 +
/// size/3).
std::string nearest_match(std::string_view name, const std::vector<std::string>& candidates);

/// Returns " (did you mean 'lr'?)", or "" if nothing is close. All "unknown …" messages end with it.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

/// Makes foreign text (a plugin's, a library's) fit for a one-line message: control characters become
/// spaces, and text after 2000 bytes is cut, between two characters of UTF-8.
std::string one_line(std::string_view message);
/// Does as one_line(), but keeps the first eight lines of the message.
std::string few_lines(std::string_view message);

}  // namespace rewire
