// Formulas as mathematics: a tree, or the parameters of the plugin `formula`, as MathML Core, which browsers draw
// without a library.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "formula/language.h"

namespace formula {

/// Returns the expression as one element of MathML, without <math>: "(1 - s) * x / 2" as the fraction of (1 − s) x and
/// 2. All text is escaped. A list's terms have the index k: weighted(out, a) is the sum of a_k out_k over k.
std::string to_mathml(const Node& node);

/// What a parameter says, as typed and as mathematics. A parameter that is a list has one equation for each entry.
struct Equation {
  std::string key;     // "join"
  std::string text;    // "(1 - s) * x + s * f"
  std::string mathml;  // a <math> element: x′ = (1 − s) x + s f
};
/// Returns the equations of the parameters, in the order of `values`, which are texts by their names: "join", "let",
/// and so on. Parameters that are empty or no formula have none. Throws Error if a text is no formula.
///
/// x′ is the join's sum, x̂ what the branch's norm reads, W the branch's own weights. A tilde marks what earlier plugins
/// made of a value. `x ↦ E` says that E takes the place of x. If a formula reads l, x0, out or branches, the values of
/// a join have its index: x_(l+1) = x_l + f_l. Options of weights are in the text alone.
std::vector<Equation> equations(const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace formula
