// The kinds of failure. A UserError is what its reader can mend: it says what, where and the way out, in one
// line, and the CLI exits 2. An InternalError is our fault: the CLI exits 1 and asks for the reproducer.
// Libraries throw; only the CLI prints and exits.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rewire {

/// The request cannot be met as it stands: an unknown name, a wrong shape, a folder that cannot be written, a
/// full disk, a loss that is not finite. Exit 2.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message) : std::runtime_error(message) {}
};

/// The request was met and the answer is no (`verify` found a wrong gradient), or it cannot be delivered
/// (a library's call failed). Exit 1.
class RuntimeFailure : public std::runtime_error {
 public:
  explicit RuntimeFailure(const std::string& message) : std::runtime_error(message) {}
};

/// A device has too little memory. Whoever only tries something out takes it as any failure; where it ends
/// the request, its reader can mend it: exit 2.
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

/// The candidate with the smallest edit distance to `name`, or "" if none is close (distance > 1 + size/3).
std::string nearest_match(std::string_view name, const std::vector<std::string>& candidates);

/// " (did you mean 'lr'?)", or "" when nothing is close: appended to "unknown …" messages everywhere.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

/// Text of others (a plugin's, a library's) fit for a one-line message: control characters as spaces, cut
/// after 2000 bytes, between two characters of UTF-8.
std::string one_line(std::string_view message);

}  // namespace rewire
