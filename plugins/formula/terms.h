// What an expression means at a join: numbers fold in double precision, tensors become ops, and a list has one
// term for each output that came before.
//
// Every tensor broadcasts against the stream, whatever its rank: [N, T, D] of tokens or [N, C, H, W] of maps. Sums
// accumulate in f32 at least. Operands of two float types meet in the wider one.
#pragma once

#include <functional>
#include <optional>
#include <rewire_plugin.hpp>
#include <string>
#include <variant>
#include <vector>

#include "formula/language.h"

namespace formula {

struct Term {
  using List = std::vector<Term>;
  std::variant<double, rewire::plugin::Value, List> value = 0.0;
  bool per_channel =
      false;  // a tensor of one axis, one number per channel, which lies along the channels where it meets others

  const double* number() const { return std::get_if<double>(&value); }
  const rewire::plugin::Value* tensor() const { return std::get_if<rewire::plugin::Value>(&value); }
  const List* list() const { return std::get_if<List>(&value); }
};

/// Over which axes a reduction goes, and for which of them a random number is drawn anew.
enum class Domain { channels, tokens, sample };
inline const std::vector<std::string> kDomains = {"channels", "tokens", "sample"};

class Evaluator {
 public:
  /// What an expression may read at the join: the term of a name, or nothing if there is no such name.
  struct Scope {
    std::function<std::optional<Term>(const Source&, const Node&)> name;
    /// Uniform numbers in [0, 1) of this shape for the call at `node`. It may need several: `which` counts from 0.
    /// With `per_block`, the joins of a block share them.
    std::function<rewire::plugin::Value(const Source&, const Node&, const rewire::plugin::Ints& shape,
                                        bool per_block, int which)>
        uniform;
    /// All names, for the nearest of an unknown one.
    std::vector<std::string> names;
  };
  Evaluator(const rewire::plugin::Join& join, const Scope& scope) : join_(join), scope_(scope) {}

  Term evaluate(const Source& source, const Node& node) const;

  /// The term as a value of the stream's type. Throws Error if it is a list or does not fit.
  rewire::plugin::Value as_stream(const Source& source, const Node& node, const Term& term) const;
  /// The term as a scalar of f32: a tensor's mean.
  rewire::plugin::Value as_scalar(const Source& source, const Node& node, const Term& term) const;

 private:
  using Value = rewire::plugin::Value;
  Term call(const Source& source, const Node& node) const;
  Term chain(const Source& source, const Node& node) const;
  Term choose(const Source& source, const Node& node) const;
  Term reduce(const Source& source, const Node& node) const;
  Term random(const Source& source, const Node& node) const;
  Term weighted(const Source& source, const Node& node, const Term& terms, const Term& weights) const;
  Term softmax_of_list(const Term::List& logits) const;
  Term matmul(const Source& source, const Node& node, const Term& a, const Term& b) const;
  Value rms_norm(const Value& x, double epsilon) const;
  Value layer_norm(const Value& x, const std::vector<Value>& weight_and_bias, double epsilon) const;
  Term norm(const Source& source, const Node& node) const;
  Term branch_norm(const Source& source, const Node& node) const;
  Value draw(const Source& source, const Node& node, const rewire::plugin::Ints& shape, bool per_block,
             int which) const;
  /// The term's tensor with the axes of the stream's channels, if it has one number per channel.
  Value laid(const Term& term) const;
  Term spread(const Term& term, const Term::List& list) const;
  /// The places of a binary operation and its operands, for messages.
  struct Operands {
    const Source& source;
    const Node &whole, &left, &right;
  };
  /// Applies a binary operation by its op's name to numbers, tensors or lists of one length.
  Term binary(const Operands& at, const std::string& op, const Term& a, const Term& b) const;
  Term folded(const Source& source, const Node& node, double number) const;
  Term widened(const Term& term) const;
  Value with_axes(const Source& source, const Node& node, const Term& term) const;
  void refuse_rest(const Source& source, const Node& node, std::size_t first, std::size_t end,
                   const std::vector<std::string>& words) const;
  Term unary(const Source& source, const Node& node, const std::string& op, const Term& a) const;
  Value tensor(const Source& source, const Node& node, const Term& term) const;
  double number(const Source& source, const Node& node, const char* what) const;
  rewire::plugin::Ints axes(Domain domain) const;

  const rewire::plugin::Join& join_;
  const Scope& scope_;
};

/// The names of the functions of the language.
const std::vector<std::string>& functions();

}  // namespace formula
