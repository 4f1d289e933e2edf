// What a join computes, as a formula: read off the IR, so that the formula of any plugin can be shown. Ops on whole tensors
// are written as mathematics on a token's vector: reshape, broadcast and cast are left out, the sum of a product over the
// channels is an inner product. A value that is used more than once, and is more than a symbol, has a line of its own.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::runtime {

struct Formula {
  std::string name;    // of what it defines: "y", "a"
  std::string text;    // "y = x + f"
  std::string mathml;  // a <math> element
};

struct FormulaSymbol {
  std::string name, meaning;  // "x", "the stream"
};

struct JoinFormulas {
  std::string at;  // the place of the join: "blocks.0.attn"
  std::int64_t block = 0;
  std::string site;
  bool rewritten = false;         // its terms are others, or later ops read what a plugin computes there
  Formula plain;                  // before the plugins
  std::vector<Formula> formulas;  // y, what it is made of, what later ops read; at most kMostFormulas
  std::vector<FormulaSymbol> symbols;
};

inline constexpr std::size_t kMostFormulas = 24;

/// Of all joins of `forward`, in order. `rewritten`: the module behind the plugins of these names. Where a plugin replaced
/// the join itself, what it computed in its place is shown.
std::vector<JoinFormulas> join_formulas(const ir::Module& original, const ir::Module& rewritten,
                                        const std::vector<std::string>& plugins);

}  // namespace rewire::runtime
