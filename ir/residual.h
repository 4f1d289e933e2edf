// A residual join as a `residual` op holds it. Operands: stream, branch, input, then the terms of its sum in
// this order: the shortcut slot (only if has_shortcut), the branch slot, the paths. A fresh join has shortcut
// = stream, slot = branch and no path: x + f. Plugins read stream, branch and input (which no rewrite
// changes) and set the slots; lowering is the plain sum of the terms.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::ir {

/// The operand where the terms of the sum begin, after stream, branch and input.
inline constexpr std::size_t kFirstJoinTerm = 3;

struct Join {
  Value stream;    // the original stream x (after a projection shortcut, where there is one)
  Value branch;    // the branch's output f, after drop path
  Value input;     // what the branch read: LN(x) in a pre-norm block
  Value shortcut;  // slot; invalid when cleared
  Value branch_slot;
  std::vector<Value> paths;

  std::string place;  // of its block: "blocks.3", "stages.2.blocks.1", "decoder_blocks.3"
  std::int64_t block = 0;
  std::string site;  // attn | mlp | conv
  std::string scope = "encoder";
  std::int64_t stage = 0;
  std::int64_t join_index = 0;  // over all joins of the scope, never renumbered by filters
  std::int64_t join_count = 1;
  int batch_axis = 0, token_axis = 1, channel_axis = 2;
  std::int64_t heads = 0;
  std::string last_weight;     // the parameter that ends the branch: blocks.3.attn.proj.weight
  std::string shortcut_owner;  // the plugin that claimed the slot; "" if unclaimed
  std::string branch_owner;
  std::string sum_owner;  // the plugin that claimed all of it: slots and paths

  /// What was done to it and claims nothing, in order: a path was added ("path"), or what stood in a slot or
  /// all of the sum was taken on by a function of it ("shortcut", "branch", "sum"), or a value that the
  /// branch reads was replaced, by its role ("norm_input", "q", …: write-a-plugin.md has them).
  struct Change {
    std::string place, plugin;
    bool operator==(const Change&) const = default;
  };
  std::vector<Change> changes;  // the attribute: "path:augment,branch:scale"

  /// "blocks.3.attn", for messages and names of added parameters (blocks.3.join_attn.*).
  std::string describe() const;
};

/// Where the location is "<somewhere>.blocks.<number>.<site>" or "<word><number>.<number>.<site>", its place is that
/// without the site; else it is blocks.<block>, in another scope than the encoder <scope>_blocks.<block>.
Join read_join(const Op& residual);
/// Writes slots and facts back into the op (operands and attributes); the result is untouched.
void write_join(Op& residual, const Join& join);
/// Body indices of the function's joins, in order.
std::vector<std::size_t> find_joins(const Function& function);

}  // namespace rewire::ir
