// Mathematics as text and as MathML at once. What needs parentheses differs: a fraction of MathML needs none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

/// How tightly a piece of mathematics holds together: what stands in one that holds more tightly is put in parentheses.
enum Binding : int { kSum, kQuotient, kMatrixProduct, kProduct, kPower, kAtom };

struct Written {
  std::string text;
  Binding binding = kAtom;

  std::string within(Binding outer) const { return binding < outer ? "(" + text + ")" : text; }
};

struct Expression {
  Written text, math;
};

/// Text as the content of an element; an element.
std::string escaped(std::string_view text);
std::string element(std::string_view tag, std::string_view content);
std::string operator_element(std::string_view sign);

/// "alpha_0" as α with the index 0.
Expression symbol_expression(const std::string& name);
/// 0.5; 1e-06, in MathML a power of ten.
Expression number_expression(double value);

/// `a` in parentheses where it holds together less tightly than `outer`, as MathML.
std::string math_in(const Expression& a, Binding outer);
/// Two operands with a sign between them, of `binding`; the right one in parentheses up to `right`.
Expression infix(const Expression& a, std::string_view sign, std::string_view math_sign, const Expression& b,
                 Binding binding, Binding right);
Expression fraction(const Expression& a, const Expression& b);
Expression square(const Expression& a);
Expression root(const Expression& a);
/// function(a, b).
Expression called(const std::string& function, const std::vector<Expression>& arguments);
/// ‖a‖, or with `b` ⟨a, b⟩.
Expression between(std::string_view open, const Expression& a, const Expression* b, std::string_view close);
/// a[index].
Expression indexed(const Expression& a, const std::string& index);

}  // namespace rewire::runtime
