#include "cli/taps.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "ir/error.h"
#include "ir/residual.h"

namespace rewire::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".npy";

/// Returns y.blocks.3.attn.npy for y.npy.
std::string file_beside(const std::string& output, const std::string& join) {
  const bool ends = output.ends_with(kEnding);
  return fmt::format("{}.{}{}", ends ? output.substr(0, output.size() - kEnding.size()) : output, join,
                     kEnding);
}

std::vector<std::string> join_names(const ir::Function& forward) {
  std::vector<std::string> names;
  for (const std::size_t at : ir::find_joins(forward))
    names.push_back(ir::read_join(forward.body[at]).describe());
  return names;
}

/// Adds the joins that the flag matches to `files`, each with the file that the flag gives, or "".
void take(const std::string& flag, const std::vector<std::string>& joins,
          std::map<std::string, std::string>& files) {
  const std::size_t equals = flag.find('=');
  const std::string pattern = flag.substr(0, equals);
  std::vector<std::string> matches;
  for (const std::string& join : joins) {
    if (::fnmatch(pattern.c_str(), join.c_str(), 0) == 0) matches.push_back(join);
  }
  if (joins.empty()) user_error("--tap {}: the network has no join", flag);
  if (matches.empty())
    user_error("--tap {}: the network has no join '{}'{}; its joins are {} to {}", flag, pattern,
               did_you_mean(pattern, joins), joins.front(), joins.back());
  if (equals != std::string::npos && matches.size() > 1)
    user_error("--tap {}: {} joins match, but a file holds one: drop ={}", flag, matches.size(),
               flag.substr(equals + 1));
  if (equals != std::string::npos && equals + 1 == flag.size())
    user_error("--tap {}: the file name is missing: write NAME=FILE.npy, or NAME alone", flag);
  for (const std::string& join : matches) {
    if (equals == std::string::npos && join.find('/') != std::string::npos)
      user_error("--tap {}: '{}' is not a file name: write NAME=FILE.npy", flag, join);
    std::string& file = files[join];
    if (equals != std::string::npos) file = flag.substr(equals + 1);
  }
}

void require_different(const std::string& output, const std::vector<Tap>& taps) {
  std::map<fs::path, std::string> owners = {{fs::absolute(output).lexically_normal(), "--output"}};
  for (const Tap& tap : taps) {
    const auto [owner, is_new] =
        owners.try_emplace(fs::absolute(tap.file).lexically_normal(), "--tap " + tap.join);
    if (!is_new)
      user_error("--tap {}: {} is also the file of {}: choose another", tap.join, tap.file, owner->second);
  }
}

}  // namespace

std::vector<Tap> find_taps(const ir::Function& forward, const std::vector<std::string>& flags,
                           const std::string& output) {
  const std::vector<std::string> joins = join_names(forward);
  std::map<std::string, std::string> files;
  for (const std::string& flag : flags) take(flag, joins, files);
  std::vector<Tap> taps;
  for (const std::string& join : joins) {
    const auto asked = files.find(join);
    if (asked == files.end()) continue;
    taps.push_back({join, asked->second.empty() ? file_beside(output, join) : asked->second});
  }
  require_different(output, taps);
  return taps;
}

void add_taps(ir::Function& forward, const std::vector<Tap>& taps) {
  for (const std::size_t at : ir::find_joins(forward)) {
    const ir::Op& op = forward.body[at];
    const std::string name = ir::read_join(op).describe();
    if (std::ranges::find(taps, name, &Tap::join) != taps.end())
      forward.results.push_back({name, op.results.front()});
  }
}

}  // namespace rewire::cli
