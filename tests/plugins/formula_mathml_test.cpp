// Formulas as MathML: how each part is written, where brackets are, and what the parameters of a strategy say.
#include "formula/mathml.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

namespace formula {
namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

/// MathML in a form to read: a row is {…}, a name, number or sign ends with a space, and an invisible times is *.
std::string readable(std::string text) {
  replace_all(text, "<mo lspace=\"0\" rspace=\"0.17em\">&#x2062;</mo>", "* ");
  replace_all(text, "<mo stretchy=\"false\">", "");
  replace_all(text, "<mrow>", "{");
  replace_all(text, "</mrow>", "}");
  for (const char* leaf : {"mi", "mn", "mo", "mtext"}) {
    replace_all(text, std::string("<") + leaf + ">", "");
    replace_all(text, std::string("</") + leaf + ">", " ");
  }
  replace_all(text, "\u00a0", "~");
  return text;
}

std::string math(const std::string& text) {
  return readable(to_mathml(parse({"join", text})));
}

using Values = std::vector<std::pair<std::string, std::string>>;

/// "key: text: MathML" of each equation, without <math>.
std::vector<std::string> lines(const Values& values) {
  std::vector<std::string> result;
  for (const Equation& equation : equations(values)) {
    std::string all = readable(equation.mathml);
    replace_all(all, "<math display=\"block\">", "");
    replace_all(all, "</math>", "");
    result.push_back(equation.key + ": " + equation.text + ": " + all);
  }
  return result;
}

/// The names of elements that are not closed in order, or that are not of MathML Core; "" if there is none.
std::string fault(const std::string& text) {
  const std::vector<std::string> known = {"mrow",  "mi",     "mn",   "mo",   "mtext",  "mfrac",
                                          "msqrt", "msub",   "msup", "math", "munder", "msubsup",
                                          "mover", "mtable", "mtr",  "mtd"};
  std::vector<std::string> open;
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos; ++at) {
    const bool closes = text[at + 1] == '/';
    const std::size_t begin = at + (closes ? 2 : 1);
    const std::string name = text.substr(begin, text.find_first_of(" >", begin) - begin);
    if (std::ranges::find(known, name) == known.end()) return name;
    if (!closes)
      open.push_back(name);
    else if (open.empty() || open.back() != name)
      return name;
    else
      open.pop_back();
  }
  return open.empty() ? "" : open.back();
}

TEST_CASE("a sum of products is written without signs of multiplication") {
  CHECK(math("(1 - s) * x + s * f") == "{{{( {1 − s }) }* x }+ {s * f }}");
  CHECK(math("x - (f - h)") == "{x − {( {f − h }) }}");
  CHECK(math("-x * f + h") == "{{{− x }* f }+ h }");
  CHECK(math("x + -f") == "{x + {( {− f }) }}");
}

TEST_CASE("a dot is between a factor and a number, and where a bracket would look like a call") {
  CHECK(math("x * 2") == "{x · 2 }");
  CHECK(math("2 * x") == "{2 * x }");
  CHECK(math("s * (x + f)") == "{s · {( {x + f }) }}");
  CHECK(math("2 * (x + f)") == "{2 * {( {x + f }) }}");
}

TEST_CASE("a division is a fraction, which needs no brackets") {
  CHECK(math("(x + 1) / (f + 1)") == "<mfrac>{x + 1 }{f + 1 }</mfrac>");
  CHECK(math("a * b / c / d * e") == "{<mfrac>{a * b }{c * d }</mfrac>* e }");
  CHECK(math("1 / L * x") == "{<mfrac>1 L </mfrac>* x }");
  CHECK(math("(a / b)^2") == "<msup>{( <mfrac>a b </mfrac>) }2 </msup>");
  CHECK(math("a / (b / c)") == "<mfrac>a <mfrac>b c </mfrac></mfrac>");
}

TEST_CASE("powers and roots") {
  CHECK(math("x^2") == "<msup>x 2 </msup>");
  CHECK(math("(x + f)^-a") == "<msup>{( {x + f }) }{− a }</msup>");
  CHECK(math("w1^2") == "<msubsup>w 1 2 </msubsup>");
  CHECK(math("norm(x)^2") == "<msup>{‖ x ‖ }2 </msup>");
  CHECK(math("sqrt(x + 1)") == "<msqrt>{x + 1 }</msqrt>");
  CHECK(math("rsqrt(x)") == "<mfrac>1 <msqrt>x </msqrt></mfrac>");
}

TEST_CASE("numbers have their digits or a power of ten") {
  CHECK(math("0.5") == "0.5 ");
  CHECK(math("1e-6") == "<msup>10 {− 6 }</msup>");
  CHECK(math("2.5e20 * x") == "{{2.5 · <msup>10 20 </msup>}* x }");
}

TEST_CASE("names are letters, words and indices") {
  CHECK(math("gamma") == "γ ");
  CHECK(math("alpha_0") == "<msub>α 0 </msub>");
  CHECK(math("x0") == "<msub>x 0 </msub>");
  CHECK(math("norm_weight") == "<msub>norm weight </msub>");
  CHECK(math("out[l - 1]") == "<msub>out {l − 1 }</msub>");
  CHECK(math("a_1[0]") == "<msub>a {1 , 0 }</msub>");
  CHECK(math("_a") == "_a ");
  CHECK(math("a_") == "a_ ");
}

TEST_CASE("functions have their signs") {
  CHECK(math("sigmoid(h)") == "{σ {( h ) }}");
  CHECK(math("dot(x, f)") == "{⟨ x , f ⟩ }");
  CHECK(math("dot(x, f, sample)") == "<msub>{⟨ x , f ⟩ }sample </msub>");
  CHECK(math("mean(f)") == "{<msub>mean channels </msub>{( f ) }}");
  CHECK(math("mean(f, tokens)") == "{<msub>mean tokens </msub>{( f ) }}");
  CHECK(math("maximum(a, 0)") == "{max {( a , 0 ) }}");
  CHECK(math("abs(x) * floor(f)") == "{{| x | }* {⌊ f ⌋ }}");
  CHECK(math("uniform(sample, block)") == "{<msub>U sample, block </msub>( 0 , 1 ) }");
  CHECK(math("matmul(a * h, w)") == "{{( {a * h }) }* w }");
  CHECK(math("unknown(x, 1)") == "{unknown {( x , 1 ) }}");
  CHECK(math("sqrt()") == "{sqrt {( ) }}");  // the plugin refuses it
}

TEST_CASE("a big sum is a term or the last factor") {
  CHECK(math("sum(x * f) + f") == "{{<munder>∑ channels </munder>{x * f }}+ f }");
  CHECK(math("sum(x + f)") == "{<munder>∑ channels </munder>{( {x + f }) }}");
  CHECK(math("2 * sum(x)") == "{2 * {<munder>∑ channels </munder>x }}");
  CHECK(math("sum(x) * f") == "{{( {<munder>∑ channels </munder>x }) }* f }");
  CHECK(math("weighted(out, a)") == "{<munder>∑ k </munder>{<msub>a k </msub>* <msub>out k </msub>}}");
  CHECK(math("weighted(out, softmax(a))") ==
        "{<munder>∑ k </munder>{<msub>{softmax {( a ) }}k </msub>* <msub>out k </msub>}}");
}

TEST_CASE("choices are cases, one line each") {
  CHECK(math("l <= 1 ? x : training ? f : h") ==
        "{{ <mtable><mtr><mtd>x </mtd><mtd>if~ {l ≤ 1 }</mtd></mtr><mtr><mtd>f </mtd><mtd>if~ training "
        "</mtd></mtr>"
        "<mtr><mtd>h </mtd><mtd>otherwise </mtd></mtr></mtable>}");
  CHECK(math("x + (l == 1 ? 1 : 0)").starts_with("{x + {( {{ <mtable>"));
}

TEST_CASE("text that a tree holds is escaped") {
  Node node{.kind = Node::Kind::name, .text = "<script>&\"x"};
  CHECK(to_mathml(node) == "<mi>&lt;script&gt;&amp;&quot;x</mi>");
  CHECK(math("x < f") == "{x &lt; f }");
  CHECK(math("x > f") == "{x &gt; f }");
}

TEST_CASE("parameters are equations, in their order") {
  CHECK(lines({{"join", " (1 - s) * x + s * f "},
               {"let", "s = sigmoid(h + c); t = 1 - s"},
               {"weights", "w[d, 16] = 0, lr_scale = 0.1\nc[channels] = -2; a = normal(0.02)"},
               {"report", "gate = mean(s)"},
               {"init", "last = 0; proj = 0.5 * it"},
               {"after", "c = minimum(c, 1)"},
               {"at", "all"},
               {"branch", ""}}) ==
        std::vector<std::string>{
            "join: (1 - s) * x + s * f: {<msup>x ′ </msup>= {{{( {1 − s }) }* x }+ {s * f }}}",
            "let: s = sigmoid(h + c): {s = {σ {( {h + c }) }}}", "let: t = 1 - s: {t = {1 − s }}",
            "weights: w[d, 16] = 0, lr_scale = 0.1: {w ∈ <msup>ℝ {d × 16 }</msup>,~initially~ w = 0 }",
            "weights: c[channels] = -2: {c ∈ <msup>ℝ {d }</msup>,~initially~ c = {− 2 }}",
            "weights: a = normal(0.02): {a ∈ ℝ ,~initially~ a ∼ {N ( 0 , <msup>0.02 2 </msup>) }}",
            "report: gate = mean(s): {gate = {<msub>mean channels </msub>{( s ) }}}",
            "init: last = 0: {<msub>W last </msub>= 0 }",
            "init: proj = 0.5 * it: {<msub>W proj </msub>↦ {0.5 * <msub>W proj </msub>}}",
            "after: c = minimum(c, 1): {c ↦ {min {( c , 1 ) }}}"});
}

TEST_CASE("a part of a join is replaced, and it is what earlier plugins made") {
  CHECK(lines({{"shortcut", "0.5 * x"},
               {"change_branch", "g * it"},
               {"change_sum", "rms_norm(it)"},
               {"input", "x"}}) ==
        std::vector<std::string>{
            "shortcut: 0.5 * x: {x ↦ {0.5 * x }}",
            "change_branch: g * it: {<mover accent=\"true\">f ~ </mover>↦ {g * <mover accent=\"true\">f ~ "
            "</mover>}}",
            "change_sum: rms_norm(it): {<msup>x ′ </msup>↦ {RMSNorm {( <msup>x ′ </msup>) }}}",
            "input: x: {h ↦ x }"});
}

TEST_CASE("values have the join's index where a formula reads it, or the outputs before") {
  CHECK(lines({{"join", "x / (l + 1) + f"}, {"let", "a = norm(x)"}}) ==
        std::vector<std::string>{"join: x / (l + 1) + f: {<msub>x {l + 1 }</msub>= {<mfrac><msub>x l "
                                 "</msub>{l + 1 }</mfrac>+ <msub>f l </msub>}}",
                                 "let: a = norm(x): {a = {‖ <msub>x l </msub>‖ }}"});
  CHECK(lines({{"exit", "out[0]"}}) ==
        std::vector<std::string>{"exit: out[0]: {<msub>x L </msub>= <msub>out 0 </msub>}"});
  CHECK(lines({{"weights", "a[out] = k == K ? 1 : 0"}}).at(0).ends_with("</mtable>},~ k = 0 , … , K }"));
}

TEST_CASE("a text that is no formula is an error, and keys of no formula are left out") {
  CHECK_THROWS_AS(equations({{"join", "x +"}}), Error);
  CHECK(equations({{"sites", "attn +"}, {"join", " \n"}}).empty());
}

TEST_CASE("each part of the language is sound MathML Core") {
  const Values all = {
      {"norm_input", "weighted(branches, softmax(dot(branches, query) * scale))"},
      {"sum", "training ? x + f * (uniform(sample) < 0.5 ? 2 : 0) : progress > 0.25 ? x : x + drop(0.1) * f"},
      {"exit", "weighted(out, a) + out[0] / B - layer_norm(it, v, v)"},
      {"let",
       "scale = rsqrt(mean(branches * branches) + 1e-6); e = -exp(-x0)^2 != 1 ? log(x) : "
       "silu(gelu(relu(h)))"},
      {"weights",
       "query[d] = 0, per block; v[channels] = trunc_normal(0.02, 0.04); a[out] = 1 / (K + 1); u[4, 4] = "
       "xavier(); "
       "b = uniform(-1, 1)"},
      {"report", "r = max(abs(stop_gradient(f)), tokens)"},
      {"init", "proj = it * uniform() + normal()"},
      {"after", "v = v / norm(v)"}};
  for (const Equation& equation : equations(all)) {
    CAPTURE(equation.text, equation.mathml);
    CHECK(fault(equation.mathml).empty());
  }
}

}  // namespace
}  // namespace formula
