// The part of the explorer's data (docs/guide/explore.md) by which two networks are compared.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/diff/align.h"

namespace rewire::runtime {

/// The format of the explorer's data that is read. Keys that were added to this format may be absent.
inline constexpr int kExplorerFormat = 1;

struct FunctionFacts {
  std::string name;
  std::vector<DiffLine> lines;  // arguments and results, then the ops, then the returned values
};
struct ModuleFacts {
  std::map<std::string, std::string>
      declarations;  // "param head.weight" or "attribute dim": type and attributes
  std::vector<FunctionFacts> functions;
  std::size_t ops = 0;
};

struct LaunchFacts {
  std::string kind, name, at;
  std::optional<std::size_t> code;  // index in `codes`, of a kernel
  std::int64_t bytes = 0, flops = 0;
  std::optional<double> ms;
};
struct CodeFacts {
  std::string name, tile;
  std::string structure;  // a digest of the tile IR without names; "" if the data has none
  std::string assembly;   // "" if the data has none
};

struct NetworkFacts {
  std::vector<std::pair<std::string, std::string>> about;  // model, batch, plugins, machine
  std::map<std::string, std::string> joins;                // the formulas of a join, by its place
  std::vector<std::string> join_places;                    // in the network's order
  ModuleFacts original, rewritten, step;
  std::vector<LaunchFacts> launches;
  std::vector<CodeFacts> codes;
  std::vector<std::pair<std::string, std::int64_t>> memory;  // bytes by kind
  std::optional<std::map<std::string, std::string>> choices;
};

/// Reads the facts of a stage: module_json() of runtime/explore/stages.h.
ModuleFacts module_facts(const nlohmann::ordered_json& stage);
/// Reads the explorer's data. Throws UserError naming `where` and the place in it if the data is not in this
/// format.
NetworkFacts read_network_facts(const nlohmann::ordered_json& data, const std::string& where);

}  // namespace rewire::runtime
