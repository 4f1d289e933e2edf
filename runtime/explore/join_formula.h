// The formula that a join computes, read off the IR, so that any plugin's formula can be shown. Ops on whole
// tensors are written as mathematics on a token's vector: reshape, broadcast and cast are left out, and the
// sum of a product over the channels is an inner product. A value that is more than a symbol and used more
// than once has its own line.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::runtime {

struct Formula {
  std::string name;    // the symbol that it defines: "y", "a"
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
  bool rewritten = false;         // its terms have changed, or later ops read a plugin's values there
  Formula plain;                  // before the plugins
  std::vector<Formula> formulas;  // y, its parts, and what later ops read; at most kMostFormulas
  std::vector<FormulaSymbol> symbols;
};

inline constexpr std::size_t kMostFormulas = 24;

/// Returns the formulas of all joins of `forward`, in order. `rewritten` is the module after the plugins of
/// these names. If a plugin replaced the join itself, its replacement is shown.
std::vector<JoinFormulas> join_formulas(const ir::Module& original, const ir::Module& rewritten,
                                        const std::vector<std::string>& plugins);

}  // namespace rewire::runtime
