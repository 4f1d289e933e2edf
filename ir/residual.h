// A residual join, as a `residual` op holds it. Its operands are stream, branch and input, then the terms of
// its sum: the shortcut slot (only if has_shortcut), the branch slot, the paths. A fresh join has shortcut =
// stream, slot = branch and no path: x + f. Plugins read stream, branch and input, which no rewrite changes,
// and set the slots. Lowering makes the plain sum of the terms.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::ir {

/// The operand at which the terms of the sum begin, after stream, branch and input.
inline constexpr std::size_t kFirstJoinTerm = 3;

struct Join {
  Value stream;    // the original stream x (after a projection shortcut, if there is one)
  Value branch;    // the branch's output f, after drop path
  Value input;     // the branch's input: LN(x) in a pre-norm block
  Value shortcut;  // slot; invalid when cleared
  Value branch_slot;
  std::vector<Value> paths;

  std::string place;  // the block's place: "blocks.3", "stages.2.blocks.1", "decoder_blocks.3"
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
  std::string sum_owner;  // the plugin that claimed the whole sum: slots and paths

  /// A change that claims nothing. `place` is "path" for an added path, or "shortcut", "branch" or "sum" if
  /// a function of that term or sum replaced it. For a replaced value of the branch it is the value's role
  /// ("norm_input", "q", …; docs/guide/sdk.md lists them).
  struct Change {
    std::string place, plugin;
    bool operator==(const Change&) const = default;
  };
  std::vector<Change> changes;  // in order; the attribute is "path:augment,branch:scale"

  /// Returns "blocks.3.attn", for messages and names of added parameters (blocks.3.join_attn.*).
  std::string describe() const;
};

/// Reads a join. Its place is the location without the site, if that is "<somewhere>.blocks.<number>.<site>"
/// or "<word><number>.<number>.<site>". Else it is blocks.<block>, or <scope>_blocks.<block> outside the
/// encoder.
Join read_join(const Op& residual);
/// Writes slots and facts back into the op (operands and attributes). The result stays the same.
void write_join(Op& residual, const Join& join);
/// Returns the body indices of the function's joins, in order.
std::vector<std::size_t> find_joins(const Function& function);

}  // namespace rewire::ir
