// Trees become terms of rewire_formula.hpp, which says what they mean at a join.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <rewire_formula.hpp>
#include <string>
#include <vector>

#include "formula/formulas.h"

namespace formula {

namespace terms = rewire::formula;
using terms::Term;

class Builder {
 public:
  /// The formulas must outlive the builder and its terms.
  explicit Builder(const Formulas& formulas);
  void define(const std::string& name, const Term& term) { known_.insert_or_assign(name, term); }

  /// Returns the term of a tree.
  Term build(const Source& source, const Node& node);
  Term build(const Part& part) { return build(part.source, part.node); }
  /// Returns what a term's errors name as their place.
  const void* origin(const Source& source, std::size_t at);

  /// Throws Error with the message and place of an error of a term that this builder made.
  [[noreturn]] static void fail_at(const terms::TermError& error);

 private:
  struct Origin {
    const Source& source;
    std::size_t at;
  };
  Term built(const Source& source, const Node& node);
  Term name(const Source& source, const Node& node);
  Term call(const Source& source, const Node& node);
  std::vector<Term> arguments(const Source& source, const Node& node);

  const Formulas& formulas_;
  std::map<std::string, Term> known_;  // by name: of the join, of let, of weights
  std::deque<Origin> origins_;
};

}  // namespace formula
