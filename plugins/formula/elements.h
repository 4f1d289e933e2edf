// Formulas over the numbers of a weight, as `init` has them: every operation is applied to each element, in double.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "formula/language.h"

namespace formula {

/// One number, or one for each element of the weight.
using Elements = std::variant<double, std::vector<double>>;

/// What a formula over elements may read.
struct ElementScope {
  /// Returns the numbers of a name; nullopt if there is no such name.
  std::function<std::optional<Elements>(const std::string& name)> name;
  /// Returns numbers drawn for the call at `node`: uniform in [0, 1), or normal with mean 0 and deviation 1.
  std::function<std::vector<double>(const Source& source, const Node& node)> draw;
  std::vector<std::string> names;  // all of them, to propose one for an unknown name
};

/// Evaluates the tree. Throws Error, with a caret, if it reads an unknown name or calls a function that needs axes.
Elements evaluate_elements(const Source& source, const Node& node, const ElementScope& scope);

/// Applies an op to numbers, by the op's name: "exp", "neg". Throws std::out_of_range for any other name.
double apply_unary(const std::string& op, double x);
/// Applies an op to numbers, by the op's name: "add", "maximum", "lt". A comparison gives 1 or 0.
double apply_binary(const std::string& op, double a, double b);
/// Returns the ops that apply_unary knows and that are functions of the language.
const std::vector<std::string>& pointwise_functions();

}  // namespace formula
