#include "runtime/network/weights_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string_view>
#include <vector>

#include "ir/error.h"
#include "models/model.h"
#include "runtime/device/log.h"
#include "runtime/network/weights_hint.h"

namespace rewire::runtime {
namespace {

constexpr std::array<std::string_view, 6> kWrapperWords = {"module.",   "_orig_mod.", "model.",
                                                           "backbone.", "student.",   "teacher."};

using Names = std::set<std::string, std::less<>>;

/// Adds all chains of wrapper words that a name begins with, the shortest first.
void add_chains(std::string_view name, Names& chains) {
  std::size_t length = 0;
  while (true) {
    const std::string_view rest = name.substr(length);
    const auto* word =
        std::ranges::find_if(kWrapperWords, [&](std::string_view w) { return rest.starts_with(w); });
    if (word == kWrapperWords.end()) return;
    length += word->size();
    chains.emplace(name.substr(0, length));
  }
}

/// How a file's names are read: `prefix` is removed, then `added` is put before them.
struct Reading {
  std::string prefix, added;
  std::size_t found = 0;  // how many of the module's weights it finds
};

class NameReader {
 public:
  NameReader(const ir::Module& module, const ir::Module& network)
      : network_(network), model_(zoo_model_of(network)) {
    for (const ir::Parameter& parameter : module.parameters) {
      if (parameter.is_weight()) names_.insert(parameter.name);
    }
  }

  /// Returns the module's name of the tensor; the tensor's own name if the reading does not apply to it.
  std::string read(const std::string& name, const Reading& reading) const {
    if (!name.starts_with(reading.prefix)) return name;
    std::string rest = name.substr(reading.prefix.size());
    if (model_ != nullptr && model_->family->name_here != nullptr)
      rest = model_->family->name_here(rest, network_.attributes);
    std::string whole = reading.added + rest;
    return names_.contains(whole) || reading.added.empty() ? whole : rest;
  }

  /// Returns all readings, the one that changes no name first.
  std::vector<Reading> readings(const TensorMap& tensors) const {
    Names prefixes = {""}, added = {""};
    for (const auto& [name, tensor] : tensors) add_chains(name, prefixes);
    for (const std::string& name : names_) add_chains(name, added);
    std::vector<Reading> all;
    for (const std::string& prefix : prefixes) {
      for (const std::string& word : added) {
        if (word.empty() || !prefix.ends_with(word)) all.push_back({prefix, word, 0});
      }
    }
    for (Reading& reading : all) {
      Names found;
      for (const auto& [name, tensor] : tensors) {
        if (std::string read_as = read(name, reading); names_.contains(read_as))
          found.insert(std::move(read_as));
      }
      reading.found = found.size();
    }
    return all;
  }

 private:
  const ir::Module& network_;
  const models::Model* model_;
  Names names_;
};

void log_reading(const Reading& reading, const std::string& path) {
  if (!reading.prefix.empty()) {
    write_log(LogLevel::info,
              fmt::format("{}: the prefix '{}' is removed from its names", path, reading.prefix));
  }
  if (!reading.added.empty()) {
    write_log(LogLevel::info, fmt::format("{}: the prefix '{}' is added to its names", path, reading.added));
  }
}

}  // namespace

void read_names(const ir::Module& module, const ir::Module& network, TensorMap& tensors,
                const std::string& path) {
  const NameReader reader(module, network);
  const std::vector<Reading> all = reader.readings(tensors);
  const std::size_t most = std::ranges::max_element(all, {}, &Reading::found)->found;
  const auto best = std::ranges::find(all, most, &Reading::found);
  if (best != all.begin()) {
    std::vector<std::string> others;
    for (const Reading& reading : all) {
      if (reading.found == most) others.push_back(reading.prefix);
    }
    others.erase(std::unique(others.begin(), others.end()), others.end());
    if (others.size() > 1) {
      user_error("{}: it has the network's weights under {}; choose one, such as train.weights_prefix={}",
                 path, fmt::join(others, " and "), others.back());
    }
  }
  log_reading(*best, path);
  TensorMap named;
  std::vector<std::string> renamed;
  for (auto& [name, tensor] : tensors) {
    std::string read_as = reader.read(name, *best);
    // If another tensor has the name, this one keeps its own, and is refused as one that the module lacks.
    if (read_as != name && (tensors.contains(read_as) || named.contains(read_as))) read_as = name;
    const std::string rest = name.substr(name.starts_with(best->prefix) ? best->prefix.size() : 0);
    if (read_as != name && read_as != rest && read_as != best->added + rest)
      renamed.push_back(fmt::format("'{}' is '{}'", name, read_as));
    named.emplace(std::move(read_as), std::move(tensor));
  }
  if (!renamed.empty()) {
    write_log(LogLevel::info,
              fmt::format("{}: {} of its names come from another implementation of this network: {}", path,
                          renamed.size(), renamed.front()));
  }
  tensors = std::move(named);
}

}  // namespace rewire::runtime
