// What the explorer's data say of a network (docs/guide/explore.md), as far as two networks are compared by it.
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

/// The format of the explorer's data that is read. Keys that a version added to it may be absent.
inline constexpr int kExplorerFormat = 1;

struct FunctionFacts {
  std::string name;
  std::vector<DiffLine> lines;  // arguments and results, then the ops, then what is returned
};
struct ModuleFacts {
  std::map<std::string, std::string>
      declarations;  // "param head.weight" or "attribute dim": type and attributes
  std::vector<FunctionFacts> functions;
  std::size_t ops = 0;
};

struct LaunchFacts {
  std::string kind, name, at;
  std::optional<std::size_t> code;  // of a kernel
  std::int64_t bytes = 0, flops = 0;
  std::optional<double> ms;
};
struct CodeFacts {
  std::string name, tile;
  std::string structure;  // a digest of the tile IR without names; "" in data without
  std::string assembly;   // "" in data without
};

struct NetworkFacts {
  std::vector<std::pair<std::string, std::string>> about;  // model, batch, plugins, machine
  std::map<std::string, std::string> joins;                // by place: its formulas
  std::vector<std::string> join_places;                    // in the order of the network
  ModuleFacts original, rewritten, step;
  std::vector<LaunchFacts> launches;
  std::vector<CodeFacts> codes;
  std::vector<std::pair<std::string, std::int64_t>> memory;  // bytes, by what they are of
  std::optional<std::map<std::string, std::string>> choices;
};

/// Of a stage: module_json() of runtime/explore/stages.h.
ModuleFacts module_facts(const nlohmann::ordered_json& stage);
/// UserError naming `where` and the place in it on data of another format, and on what is none.
NetworkFacts read_network_facts(const nlohmann::ordered_json& data, const std::string& where);

}  // namespace rewire::runtime
