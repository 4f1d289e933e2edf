// Identifiers; see names.h.
#include "codegen/cuda/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string_view>

#include "codegen/tile/walk.h"
#include "ir/ops/op_info.h"

namespace rewire::codegen::cuda {
namespace {

/// Returns the length of the longest prefix of `a` that ends with a dot and is also a prefix of `b`.
std::size_t common_dots(const std::string& a, const std::string& b) {
  std::size_t common = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) {
    if (a[i] == '.') common = i + 1;
  }
  return common;
}

/// Returns whether a name of the IR is taken: by a word of C++, of the prelude or of every kernel, or by a
/// pointwise op, since C's functions have the same names.
bool is_taken(const std::string& name) {
  static const std::set<std::string_view> words = {
      "auto",    "bool",     "break",   "case",     "char",    "class",   "const",    "continue",
      "default", "delete",   "do",      "double",   "else",    "enum",    "explicit", "extern",
      "false",   "float",    "for",     "friend",   "goto",    "if",      "inline",   "int",
      "long",    "mutable",  "new",     "operator", "private", "public",  "return",   "register",
      "short",   "signed",   "sizeof",  "static",   "struct",  "switch",  "template", "this",
      "true",    "try",      "typedef", "union",    "using",   "virtual", "void",     "while",
      "bf16",    "f16",      "load",    "store",    "normal",  "uniform", "philox",   "convert",
      "L",       "thread",   "group",   "row",      "lane",    "e",       "i",        "j",
      "k",       "part",     "active",  "shared",   "first",   "end",     "base",     "outer",
      "at",      "with",     "words",   "element",  "dot",     "clamped", "tile",     "down",
      "right",   "multiply", "packet",  "P",        "stage",   "visit",   "visits",   "visits_each",
      "fetch",   "own_row",  "half"};
  if (words.contains(name)) return true;
  const std::optional<ir::Opcode> op = ir::opcode_from_name(name);
  return op && ir::op_info(*op).op_class == ir::OpClass::pointwise;
}

std::string identifier(const std::string& text) {
  std::string name;
  for (char c : text) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  if (name.empty()) return "tensor";
  if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) name = "b" + name;
  return is_taken(name) ? name + "_" : name;
}

}  // namespace

std::vector<std::string> argument_names(const tile::Kernel& kernel) {
  std::string prefix;
  bool first = true;
  for (const tile::Argument& argument : kernel.arguments) {
    if (argument.name.find('.') == std::string::npos) continue;
    prefix = first ? argument.name.substr(0, argument.name.rfind('.') + 1)
                   : prefix.substr(0, common_dots(prefix, argument.name));
    first = false;
  }
  std::set<std::string> used;
  for (const tile::Axis& axis : kernel.axes)
    used.insert({axis.name, axis.name + "_tile", axis.name + "_in", axis.name + "_end"});
  std::vector<std::string> names;
  for (const tile::Argument& argument : kernel.arguments) {
    const bool inside = argument.name.size() > prefix.size() && argument.name.starts_with(prefix);
    const std::string base = identifier(inside ? argument.name.substr(prefix.size()) : argument.name);
    std::string name = base;
    for (int number = 2; !used.insert(name).second; ++number) name = fmt::format("{}_{}", base, number);
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> value_names(const tile::Kernel& kernel, const std::vector<std::string>& arguments) {
  std::set<std::string> used(arguments.begin(), arguments.end());
  const auto distinct = [&](std::string name) {
    while (!used.insert(name).second) name += '_';
    return name;
  };
  std::vector<std::string> names(kernel.values.size());
  visit_nodes(kernel, [&](const tile::Node& node) {
    const tile::TileValue value = tile::result_of(node);
    if (!value) return;
    const auto* load = std::get_if<tile::Load>(&node);
    const std::string word = load != nullptr
                                 ? arguments[static_cast<std::size_t>(load->access.argument)] + "_"
                                 : std::string(tile::node_word(node));
    names[static_cast<std::size_t>(value.id)] = distinct(fmt::format("{}{}", word, value.id));
  });
  for (const tile::Carried& carried : kernel.carried) {
    const std::string name = distinct(fmt::format("carried{}", carried.entry.id));
    for (tile::TileValue value : {carried.entry, carried.last})
      names[static_cast<std::size_t>(value.id)] = name;
  }
  for (std::size_t id = 0; id < names.size(); ++id) {
    if (names[id].empty()) names[id] = distinct(fmt::format("value{}", id));
  }
  return names;
}

}  // namespace rewire::codegen::cuda
