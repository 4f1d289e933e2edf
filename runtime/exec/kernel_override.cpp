#include "runtime/exec/kernel_override.h"

#include <algorithm>

#include "ir/error.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kMostSourceBytes = 1 << 24;

/// Returns the text as a C string literal.
std::string c_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

/// Returns true for a line of a kernel's head comment that gives its axes and
/// parts, or its blocks and threads.
bool tells_launch(std::string_view line) {
  const auto begins = [&](std::string_view words) { return line.starts_with(words); };
  return begins("// outer (") || begins("// rows (") || begins("// lanes (") || begins("// reads ");
}

bool has_line(std::string_view text, std::string_view wanted) {
  for (std::string_view left = text; !left.empty();) {
    const std::string_view line = first_line(left);
    if (line == wanted) return true;
    left.remove_prefix(std::min(line.size() + 1, left.size()));
  }
  return false;
}

/// Returns the first member of the table whose head comment lists `kernel` (codegen/cuda); ""
/// if the text has no such table.
std::string_view table_with(std::string_view text, std::string_view kernel) {
  const std::size_t head = text.find("\n// a table of ");
  if (head == std::string_view::npos) return {};
  std::string_view left = text.substr(head + 1), first;
  for (left.remove_prefix(std::min(first_line(left).size() + 1, left.size())); left.starts_with("//   ");) {
    const std::string_view line = first_line(left);
    for (std::string_view names = line.substr(5); !names.empty();) {
      const std::string_view name = names.substr(0, names.find(','));
      if (first.empty()) first = name;
      if (name == kernel) return first;
      names.remove_prefix(std::min(name.size() + 2, names.size()));
    }
    left.remove_prefix(std::min(line.size() + 1, left.size()));
  }
  return {};
}

[[noreturn]] void refuse_member(std::string_view member, std::string_view table) {
  user_error(
      "--override-kernel {}: it is a member of a table of launches; name the table by its first member, {}",
      member, table);
}

}  // namespace

KernelOverride read_kernel_override(const std::string& kernel, const FilePlace& place) {
  const std::string& file = place.path();
  const std::vector<std::byte> bytes = read_file(place, kMostSourceBytes);
  KernelOverride given{kernel, file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  if (given.text.find(" " + kernel + "(") == std::string::npos) {
    const std::string_view table = table_with(given.text, kernel);
    if (!table.empty() && table != kernel) refuse_member(kernel, table);
    user_error(
        "--override-kernel {}: {} has no kernel of this name; rewire dump MODEL --stage cuda --kernel {} "
        "writes one",
        kernel, file, kernel);
  }
  return given;
}

std::vector<KernelOverride> read_kernel_overrides(std::span<const std::string> options) {
  std::vector<KernelOverride> overrides;
  for (const std::string& option : options) {
    const std::size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == option.size())
      user_error("--override-kernel {}: it takes NAME=FILE, a kernel and its file of CUDA C++", option);
    const std::string kernel = option.substr(0, equals);
    if (std::ranges::find(overrides, kernel, &KernelOverride::kernel) != overrides.end())
      user_error("--override-kernel {}: the kernel already has a file", option);
    overrides.push_back(read_kernel_override(kernel, FilePlace::of_user(option.substr(equals + 1))));
  }
  return overrides;
}

const codegen::KernelLaunch& overridden_launch(const KernelOverride& given,
                                               std::span<const codegen::KernelLaunch* const> launches) {
  std::vector<std::string> names;
  for (const codegen::KernelLaunch* launch : launches) {
    if (launch->kernel.name == given.kernel) return *launch;
    names.push_back(launch->kernel.name);
  }
  for (const codegen::KernelLaunch* launch : launches) {
    for (std::size_t member = 1; member < launch->members(); ++member) {
      if (launch->member_name(member) == given.kernel) refuse_member(given.kernel, launch->kernel.name);
    }
  }
  user_error(
      "--override-kernel {}: there is no such kernel{}; rewire dump MODEL --stage cuda prints them all",
      given.kernel, did_you_mean(given.kernel, names));
}

void require_same_launch(const KernelOverride& given, std::string_view emitted) {
  for (std::string_view left = emitted; left.starts_with("//");) {
    const std::string_view line = first_line(left);
    if (tells_launch(line) && !has_line(given.text, line))
      user_error(
          "--override-kernel {}: {} is not for this launch: its head lacks the line '{}'; rewire dump "
          "--stage cuda with this batch, --arch and --multiprocessors writes a matching file",
          given.kernel, given.file, line);
    left.remove_prefix(std::min(line.size() + 1, left.size()));
  }
}

std::string override_text(const KernelOverride& given) {
  return fmt::format("#line 1 {}\n{}\n", c_string(given.file), given.text);
}

void refuse_override(const KernelOverride& given, std::string_view log) {
  std::string_view line = first_line(log);
  for (std::string_view left = log; !left.empty();) {
    const std::string_view next = first_line(left);
    if (next.find("error") != std::string_view::npos) {
      line = next;
      break;
    }
    left.remove_prefix(std::min(next.size() + 1, left.size()));
  }
  user_error("--override-kernel {}: {}", given.kernel, line);
}

}  // namespace rewire::runtime
