#include "runtime/diff/module_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "runtime/diff/network_facts.h"
#include "runtime/explore/stages.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kLinesAround = 2;

std::string declarations_diff(const ModuleFacts& before, const ModuleFacts& after) {
  std::set<std::string> names;
  for (const auto& [name, text] : before.declarations) names.insert(name);
  for (const auto& [name, text] : after.declarations) names.insert(name);
  std::string out;
  for (const std::string& name : names) {
    const auto a = before.declarations.find(name), b = after.declarations.find(name);
    const bool in_a = a != before.declarations.end(), in_b = b != after.declarations.end();
    if (in_a && in_b && a->second == b->second) continue;
    if (in_a) out += fmt::format("- {} : {}\n", name, a->second);
    if (in_b) out += fmt::format("+ {} : {}\n", name, b->second);
  }
  return out.empty() ? out : "@@ declarations @@\n" + out;
}

const std::vector<DiffLine>& lines_of(const ModuleFacts& module, const std::string& function) {
  static const std::vector<DiffLine> none;
  for (const FunctionFacts& one : module.functions) {
    if (one.name == function) return one.lines;
  }
  return none;
}

}  // namespace

std::string module_diff(const ir::Module& before, const ir::Module& after) {
  const ModuleFacts a = module_facts(module_json(before)), b = module_facts(module_json(after));
  std::set<std::string> functions;
  for (const ModuleFacts* module : {&a, &b}) {
    for (const FunctionFacts& function : module->functions) functions.insert(function.name);
  }
  std::string out = declarations_diff(a, b);
  for (const std::string& name : functions) {
    for (const Hunk& hunk : hunks_of(align_lines(lines_of(a, name), lines_of(b, name)), kLinesAround)) {
      out += fmt::format("@@ {}, {} @@\n", name, hunk.at.empty() ? "without a place" : hunk.at);
      for (const EditLine& line : hunk.lines) out += fmt::format("{} {}\n", line.sign, line.text);
    }
  }
  return out;
}

}  // namespace rewire::runtime
