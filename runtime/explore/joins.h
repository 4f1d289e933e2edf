// The joins of a network as rows, for `rewire dump --stage joins`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::runtime {

struct JoinRow {
  std::string name;  // "blocks.3.attn"
  std::string site;  // attn | mlp | conv
  std::string scope;
  std::int64_t stage = 0, block = 0, heads = 0;
  ir::TensorType stream;
  int token_axis = 1, channel_axis = 2;
  std::string input;   // the place of the op that computes the branch's input; "" for the network's input
  std::string branch;  // the place of the op that computes the branch's output
  std::string last_weight;           // the parameter that ends the branch; "" if none does
  std::vector<std::string> plugins;  // those that own a term, or changed one, in order
};

/// Returns the joins of `forward` in `original`, in order, with the plugins that changed them in `rewritten`. A join that
/// a plugin has replaced as a whole is not in `rewritten`; its plugins are then unknown here.
std::vector<JoinRow> join_rows(const ir::Module& original, const ir::Module& rewritten);

/// Returns {"joins": [{"name", "site", "scope", "stage", "block", "heads", "stream", "token_axis", "channel_axis",
/// "input", "branch", "last_weight", "plugins"}]}.
nlohmann::ordered_json joins_json(const std::vector<JoinRow>& rows);

}  // namespace rewire::runtime
