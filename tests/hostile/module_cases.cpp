// A module's text (.rir).
#include <algorithm>

#include "tests/hostile/cases.h"
#include "tests/hostile/families.h"
#include "tests/hostile/good.h"

namespace rewire::test {
namespace {

const std::string kFile = "m.rir";

/// A module of one op on %x: f32[2,3].
std::string module_of(const std::string& op) {
  return "module @m {\n  func @forward(%x: f32[2,3]) -> (y: f32[2,3]) {\n    %0 = " + op +
         "\n    return y = %0\n  }\n}\n";
}

/// One parameter with an initialisation, given back.
std::string module_with(const std::string& init) {
  return "module @m {\n  param @w : f32[4] {init = \"" + init +
         "\"}\n  func @forward(%x: f32[1,4]) -> (y: f32[4]) {\n    %0 = param {name = \"w\"} : f32[4]\n"
         "    return y = %0\n  }\n}\n";
}

}  // namespace

void add_module_cases(std::vector<Case>& cases) {
  Table table(cases, "module", {"dump", "@/m.rir", "--stage", "ir", "--quiet"},
              {copy(good().file(kFile), kFile)});
  table.row("sound", {}, fine());
  table.row("of one op", {put(kFile, module_of("neg %x : f32[2,3]"))}, fine());
  Expectation no = refused("@/m.rir");
  no.lines = 3;  // the line of the fault, and a caret under it
  add_odd_files(table, kFile, Origin::command_line, no);
  add_lost_links(table, kFile, no);

  const std::string sound = good().bytes(kFile);
  // Cut at the end of lines: each is a module without its end.
  const auto lines = static_cast<std::size_t>(std::ranges::count(sound, '\n'));
  std::size_t at = 0, number = 0;
  for (std::size_t end = sound.find('\n'); end != std::string::npos && number + 2 < lines;
       at = end + 1, end = sound.find('\n', at), ++number) {
    if (number % 12 == 0) table.row("cut after line " + std::to_string(number), {cut(kFile, at)}, no);
  }
  for (int i = 1; i < 16; ++i) {
    const std::size_t middle = sound.find(" = ", sound.size() * static_cast<std::size_t>(i) / 17);
    table.row("a zero at byte " + std::to_string(middle), {zero(kFile, middle, 1)}, no);
  }
  const auto refuse = [&](const std::string& what, std::string text) {
    table.row(what, {put(kFile, std::move(text))}, no);
  };
  for (const char* op : {"nge %x : f32[2,3]",
                         "neg %y : f32[2,3]",
                         "neg : f32[2,3]",
                         "neg %x, %x : f32[2,3]",
                         "neg %0 : f32[2,3]",
                         "neg %x : f32[2,4]",
                         "neg %x : f33[2,3]",
                         "neg %x : f32[2,-3]",
                         "neg %x : f32[2,3",
                         "neg %x : f32",
                         "neg %x : f32[9223372036854775807,3]",
                         "neg %x : f32[9223372036854775808,3]",
                         "neg %x : f32[,]",
                         "neg %x {a = 1} : f32[2,3]",
                         "neg %99999999999999999999 : f32[2,3]",
                         "neg %x f32[2,3]",
                         "reshape %x : f32[7]",
                         "reshape %x : f32[4294967296,4294967296]",
                         "broadcast %x : f32[2,4]",
                         "broadcast %x : f32[4611686018427387904,2,3]",
                         "transpose %x {permutation = [0, 0]} : f32[2,2]",
                         "transpose %x {permutation = [0, 9223372036854775807]} : f32[2,3]",
                         "slice %x {limits = [2, 9], starts = [0, 0]} : f32[2,9]",
                         "slice %x {limits = [2, 3], starts = [-1, 0]} : f32[3,3]",
                         "slice %x {limits = [2, 3], starts = [0, 4]} : f32[2,-1]",
                         "pad %x {high = [9223372036854775807, 0], low = [0, 0]} : f32[2,3]",
                         "pad %x {high = [0, 0], low = [-9223372036854775807, 0]} : f32[2,3]",
                         "iota {axis = 5} : f32[2,3]",
                         "constant {value = nan} : f32[2,3]x",
                         "constant {value = } : f32[2,3]",
                         "param {name = \"none\"} : f32[2,3]",
                         "param {name = 1} : f32[2,3]",
                         "param {name = \"open} : f32[2,3]",
                         "matmul %x, %x : f32[2,3]",
                         "dropout %x {p = 2.0} : f32[2,3]",
                         "reduce_sum %x {axes = [2]} : f32[2,3]",
                         "reduce_sum %x {axes = [0, 0]} : f32[1,3]",
                         "concat %x {axis = 9} : f32[2,3]",
                         "layer_norm %x {eps = -1.0} : f32[2,3]",
                         "\x1b[2Jneg %x : f32[2,3]",
                         "neg %x : f32[2,3] \xff",
                         "neg %x : f32[2,3] \xe2\x80\xae"})
    refuse(std::string("the op ") + op, module_of(op));
  for (const char* init : {"normal(nan)", "normal(inf)", "normal(-1)", "normal()", "normal(1, 2, 3)",
                           "normal(1e999)", "uniform(2, 1)", "uniform(nan, 1)", "trunc_normal(0.02)",
                           "trunc_normal(nan, 2.0)", "trunc_normal(0.02, -2.0)", "constant(nan)", "nothing",
                           "", "normal(1", "normal(1))", "zeros(1)", "\\u001b[2J"})
    refuse(std::string("the initialisation ") + init, module_with(init));
  refuse("empty", "");
  refuse("a zero", std::string(1, '\0'));
  refuse("no UTF-8", "\xff\xfe\xfa");
  refuse("no functions", "module @m {\n}\n");
  refuse("no module", "func @forward() {}\n");
  refuse("two modules", "module @a {\n}\nmodule @b {\n}\n");
  refuse("text behind it", module_of("neg %x : f32[2,3]") + "more");
  refuse("a function twice",
         "module @m {\n  func @forward() -> () {\n    return\n  }\n  func @forward() -> () {\n"
         "    return\n  }\n}\n");
  refuse("a function without arguments", "module @m {\n  func @forward() -> () {\n    return\n  }\n}\n");
  refuse("an argument twice",
         "module @m {\n  func @forward(%x: f32[1], %x: f32[1]) -> (y: f32[1]) {\n"
         "    return y = %x\n  }\n}\n");
  refuse("a parameter twice", "module @m {\n  param @w : f32[4]\n  param @w : f32[4]\n}\n");
  refuse("a parameter of 2^62 elements", "module @m {\n  param @w : f32[4611686018427387904]\n}\n");
  refuse("a name of a megabyte", "module @" + std::string(1 << 20, 'm') + " {\n");
  refuse("braces, 200,000 deep", std::string(200'000, '{'));
  refuse("lists, 200,000 deep", module_of("pad %x {high = " + std::string(200'000, '[') + "} : f32[2,3]"));
  refuse("an attribute of 200,000 numbers", module_of("pad %x {high = [" + [] {
           std::string list;
           for (int i = 0; i < 200'000; ++i) list += "1, ";
           return list;
         }() + "1], low = [0, 0]} : f32[2,3]"));
  refuse("a type of 200,000 axes", module_of("neg %x : f32[" + [] {
           std::string list;
           for (int i = 0; i < 200'000; ++i) list += "1,";
           return list;
         }() + "1]"));
}

}  // namespace rewire::test
