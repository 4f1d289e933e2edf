#include "runtime/explore/joins.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "ir/residual.h"

namespace rewire::runtime {
namespace {

/// Returns the place of the op that defines the value; "" for an argument.
std::string place_of(const ir::Function& function, const std::vector<std::int32_t>& definitions,
                     ir::Value value) {
  const std::int32_t op = definitions.at(static_cast<std::size_t>(value.id));
  return op < 0 ? "" : function.body[static_cast<std::size_t>(op)].location;
}

std::vector<std::string> plugins_of(const ir::Join& join) {
  std::vector<std::string> plugins;
  const auto add = [&](const std::string& name) {
    if (!name.empty() && std::ranges::find(plugins, name) == plugins.end()) plugins.push_back(name);
  };
  for (const std::string& owner : {join.shortcut_owner, join.branch_owner, join.sum_owner}) add(owner);
  for (const ir::Join::Change& change : join.changes) add(change.plugin);
  return plugins;
}

}  // namespace

std::vector<JoinRow> join_rows(const ir::Module& original, const ir::Module& rewritten) {
  const ir::Function &forward = original.function("forward"), &after = rewritten.function("forward");
  std::map<std::string, std::vector<std::string>> plugins;
  for (const std::size_t at : ir::find_joins(after)) {
    const ir::Join join = ir::read_join(after.body[at]);
    plugins.emplace(join.describe(), plugins_of(join));
  }
  const std::vector<std::int32_t> definitions = forward.definitions();
  std::vector<JoinRow> rows;
  for (const std::size_t at : ir::find_joins(forward)) {
    const ir::Join join = ir::read_join(forward.body[at]);
    rows.push_back({.name = join.describe(),
                    .site = join.site,
                    .scope = join.scope,
                    .stage = join.stage,
                    .block = join.block,
                    .heads = join.heads,
                    .stream = forward.type(join.stream),
                    .token_axis = join.token_axis,
                    .channel_axis = join.channel_axis,
                    .input = place_of(forward, definitions, join.input),
                    .branch = place_of(forward, definitions, join.branch),
                    .last_weight = join.last_weight,
                    .plugins = plugins[join.describe()]});
  }
  return rows;
}

nlohmann::ordered_json joins_json(const std::vector<JoinRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const JoinRow& row : rows) {
    list.push_back({{"name", row.name},
                    {"site", row.site},
                    {"scope", row.scope},
                    {"stage", row.stage},
                    {"block", row.block},
                    {"heads", row.heads},
                    {"stream", ir::to_string(row.stream)},
                    {"token_axis", row.token_axis},
                    {"channel_axis", row.channel_axis},
                    {"input", row.input},
                    {"branch", row.branch},
                    {"last_weight", row.last_weight},
                    {"plugins", row.plugins}});
  }
  return {{"joins", std::move(list)}};
}

}  // namespace rewire::runtime
