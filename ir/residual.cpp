// Reads and writes the `residual` op as a Join; ir/residual.h gives the layout of its operands.
#include "ir/residual.h"

#include <algorithm>
#include <array>

#include "ir/error.h"
#include "ir/opcodes.h"

namespace rewire::ir {
namespace {

constexpr std::array<std::string_view, 13> kChangedPlaces = {
    "path", "shortcut", "branch",    "sum",    "norm_input", "input", "q",
    "k",    "v",        "attention", "hidden", "entry",      "exit"};

std::string to_text(const std::vector<Join::Change>& changes) {
  std::string text;
  for (const Join::Change& change : changes)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", change.place, change.plugin);
  return text;
}

std::vector<Join::Change> changes_from_text(std::string_view text) {
  std::vector<Join::Change> changes;
  while (!text.empty()) {
    const std::string_view change = text.substr(0, text.find(','));
    const std::size_t colon = change.find(':');
    const std::string_view place = change.substr(0, colon);
    if (colon == std::string_view::npos || colon + 1 >= change.size() ||
        std::ranges::find(kChangedPlaces, place) == kChangedPlaces.end()) {
      user_error("changes: '{}' is not PLACE:PLUGIN, where PLACE is one of {}", change,
                 fmt::join(kChangedPlaces, ", "));
    }
    changes.push_back({std::string(change.substr(0, colon)), std::string(change.substr(colon + 1))});
    text.remove_prefix(std::min(change.size() + 1, text.size()));
  }
  return changes;
}

/// Returns whether the text ends in a stage that numbers its own blocks: "block2.".
bool ends_in_numbered_stage(std::string_view text) {
  return text.size() > 1 && text.back() == '.' && text[text.size() - 2] >= '0' &&
         text[text.size() - 2] <= '9';
}

/// Returns the join's place. Only a join within another module, or in a numbered stage, is named by its
/// location. All others are named "blocks.N", so that the weights of recorded runs keep their names.
std::string place_of(std::string_view location, const Join& join) {
  const std::string suffix = "." + join.site;
  if (location.ends_with(suffix)) {
    location.remove_suffix(suffix.size());
    const std::size_t number = location.find_last_not_of("0123456789") + 1;
    const std::string_view before = location.substr(0, number);
    const bool is_numbered = number < location.size();
    if (is_numbered && (before.ends_with(".blocks.") || ends_in_numbered_stage(before)))
      return std::string(location);
  }
  return fmt::format("{}blocks.{}", join.scope == "encoder" ? "" : join.scope + "_", join.block);
}

}  // namespace

std::string Join::describe() const {
  return fmt::format("{}.{}", place, site);
}

Join read_join(const Op& residual) {
  if (residual.code != Opcode::residual) {
    internal_error("read_join on '{}', which is not a residual", opcode_name(residual.code));
  }
  const Attributes& attributes = residual.attributes;
  Join join;
  std::size_t next = 0;
  join.stream = residual.operands.at(next++);
  join.branch = residual.operands.at(next++);
  join.input = residual.operands.at(next++);
  if (attributes.get_bool("has_shortcut")) join.shortcut = residual.operands.at(next++);
  join.branch_slot = residual.operands.at(next++);
  join.paths.assign(residual.operands.begin() + static_cast<std::ptrdiff_t>(next), residual.operands.end());

  join.block = attributes.get_int("block");
  join.site = attributes.get_string("site");
  join.scope = attributes.get_string("scope");
  join.place = place_of(residual.location, join);
  join.stage = attributes.get_int("stage");
  join.join_index = attributes.get_int("join_index");
  join.join_count = attributes.get_int("join_count");
  join.batch_axis = static_cast<int>(attributes.get_int("batch_axis"));
  join.token_axis = static_cast<int>(attributes.get_int("token_axis"));
  join.channel_axis = static_cast<int>(attributes.get_int("channel_axis"));
  join.heads = attributes.get_int("heads");
  join.last_weight = attributes.get_string("last_weight");
  join.shortcut_owner = attributes.get_string("shortcut_owner");
  join.branch_owner = attributes.get_string("branch_owner");
  join.sum_owner = attributes.get_string("sum_owner");
  join.changes = changes_from_text(attributes.get_string("changes"));
  return join;
}

void write_join(Op& residual, const Join& join) {
  residual.operands = {join.stream, join.branch, join.input};
  if (join.shortcut) residual.operands.push_back(join.shortcut);
  residual.operands.push_back(join.branch_slot);
  residual.operands.insert(residual.operands.end(), join.paths.begin(), join.paths.end());

  Attributes& attributes = residual.attributes;
  attributes.set("has_shortcut", static_cast<bool>(join.shortcut));
  attributes.set("block", join.block);
  attributes.set("site", join.site);
  attributes.set("scope", join.scope);
  attributes.set("stage", join.stage);
  attributes.set("join_index", join.join_index);
  attributes.set("join_count", join.join_count);
  attributes.set("batch_axis", std::int64_t{join.batch_axis});
  attributes.set("token_axis", std::int64_t{join.token_axis});
  attributes.set("channel_axis", std::int64_t{join.channel_axis});
  attributes.set("heads", join.heads);
  attributes.set("last_weight", join.last_weight);
  attributes.set("shortcut_owner", join.shortcut_owner);
  attributes.set("branch_owner", join.branch_owner);
  attributes.set("sum_owner", join.sum_owner);
  attributes.set("changes", to_text(join.changes));
}

std::vector<std::size_t> find_joins(const Function& function) {
  std::vector<std::size_t> joins;
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    if (function.body[i].code == Opcode::residual) joins.push_back(i);
  }
  return joins;
}

}  // namespace rewire::ir
