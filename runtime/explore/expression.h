// Writes mathematics as text and as MathML at once. Parentheses differ: a fraction in MathML needs none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

/// The binding strength of an expression; parts that bind less are put in parentheses.
enum Binding : int { kSum, kQuotient, kMatrixProduct, kProduct, kPower, kAtom };

struct Written {
  std::string text;
  Binding binding = kAtom;

  std::string within(Binding outer) const { return binding < outer ? "(" + text + ")" : text; }
};

struct Expression {
  Written text, math;
};

/// Escapes text as an element's content; the other two return an element.
std::string escaped(std::string_view text);
std::string element(std::string_view tag, std::string_view content);
std::string operator_element(std::string_view sign);

/// Returns a symbol: "alpha_0" as α with the index 0.
Expression symbol_expression(const std::string& name);
/// Returns a number: 0.5, or 1e-06, which is a power of ten in MathML.
Expression number_expression(double value);

/// Returns `a` as MathML, in parentheses if it binds less than `outer`.
std::string math_in(const Expression& a, Binding outer);
/// Joins operands by a sign of strength `binding`; the right one is in parentheses if it binds less than
/// `right`.
Expression infix(const Expression& a, std::string_view sign, std::string_view math_sign, const Expression& b,
                 Binding binding, Binding right);
Expression fraction(const Expression& a, const Expression& b);
Expression square(const Expression& a);
Expression root(const Expression& a);
/// Returns function(a, b).
Expression called(const std::string& function, const std::vector<Expression>& arguments);
/// Returns ‖a‖, or with `b` ⟨a, b⟩.
Expression between(std::string_view open, const Expression& a, const Expression* b, std::string_view close);
/// Returns a[index].
Expression indexed(const Expression& a, const std::string& index);

}  // namespace rewire::runtime
