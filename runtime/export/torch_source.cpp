#include "runtime/export/torch_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "ir/error.h"
#include "ir/init_text.h"
#include "runtime/export/torch_bodies.h"
#include "runtime/export/torch_helpers.h"
#include "runtime/export/torch_translation.h"

namespace rewire::runtime {
namespace {

const std::set<std::string> kReserved{
    "self", "torch", "nn",   "F",      "Net",    "in",     "is",    "if",    "or",      "and",   "not",
    "for",  "def",   "del",  "from",   "class",  "lambda", "None",  "True",  "False",   "pass",  "with",
    "as",   "try",   "else", "return", "global", "import", "range", "super", "forward", "yield", "while"};

std::string identifier(std::string name) {
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') c = '_';
  }
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) name = "_" + name;
  return kReserved.contains(name) ? name + "_" : name;
}

std::string unique(std::string name, const std::set<std::string>& taken) {
  name = identifier(std::move(name));
  if (!taken.contains(name)) return name;
  for (int number = 2;; ++number) {
    std::string other = fmt::format("{}_{}", name, number);
    if (!taken.contains(other)) return other;
  }
}

std::string class_name_of(const TorchTree& tree, const TorchNode& node) {
  if (node.parent < 0) return "Net";
  std::string name = node.name;
  int above = node.parent;
  while (std::isdigit(static_cast<unsigned char>(name[0])) != 0 && above > 0) {
    name = tree.nodes[static_cast<std::size_t>(above)].name;
    if (name.size() > 1 && name.ends_with("s")) name.pop_back();
    above = tree.nodes[static_cast<std::size_t>(above)].parent;
  }
  if (name == "attn") return "Attention";
  std::string camel;
  bool upper = true;
  for (const char c : name) {
    if (c == '_') {
      upper = true;
      continue;
    }
    camel += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = false;
  }
  while (camel.size() > 1 && std::isdigit(static_cast<unsigned char>(camel.back())) != 0) camel.pop_back();
  return identifier(camel);
}

/// A module's class, before the literals in which its instances differ have become arguments.
struct Draft {
  std::vector<std::string> constructor;  // lines, with the places of literals
  std::vector<TorchLiteral> literals;    // of the constructor, then of all methods
  std::vector<TorchMethod> methods;      // their literals begin at `offsets`
  std::vector<std::size_t> offsets;
  std::string key;
};

struct Class {
  std::string name = {};
  Draft draft = {};
  std::vector<int> nodes = {};
  std::map<std::size_t, std::string> arguments = {};  // of literals that differ, by index
  std::vector<std::pair<std::string, std::size_t>> order =
      {};  // the constructor's arguments with a literal each
};

class Source {
 public:
  explicit Source(const TorchRequest& request)
      : request_(request),
        steps_(torch_steps(request.forward, names(request.strategies))),
        tree_(torch_tree(request.forward, steps_)) {
    context_ = {.forward = &request_.forward,
                .steps = &steps_,
                .tree = &tree_,
                .class_of = [this](int node) { return class_of_.contains(node) ? class_of_.at(node) : -1; },
                .method_name = [this](std::size_t body) { return method_names_.at(body); }};
  }

  std::string write() {
    int top = 0;
    for (const TorchNode& node : tree_.nodes) top = std::max(top, node.height);
    for (int height = 0; height <= top; ++height) write_level(height);
    return file();
  }

 private:
  static std::vector<std::string> names(const std::vector<TorchStrategy>& strategies) {
    std::vector<std::string> names;
    for (const TorchStrategy& strategy : strategies) names.push_back(strategy.name);
    return names;
  }

  const TorchNode& node(int index) const { return tree_.nodes[static_cast<std::size_t>(index)]; }

  void write_level(int height) {
    std::map<std::string, int> by_key;
    std::map<int, std::vector<TorchLiteral>> literals;
    const std::size_t first = classes_.size();
    for (int index = 0; index < static_cast<int>(tree_.nodes.size()); ++index) {
      if (node(index).height != height || node(index).is_layer || node(index).is_list) continue;
      Draft draft = draft_of(index);
      literals[index] = draft.literals;
      const auto [known, is_new] = by_key.emplace(class_name_of(tree_, node(index)) + "\n" + draft.key,
                                                  static_cast<int>(classes_.size()));
      if (is_new) classes_.push_back({.draft = std::move(draft)});
      classes_[static_cast<std::size_t>(known->second)].nodes.push_back(index);
      class_of_[index] = known->second;
    }
    for (std::size_t index = first; index < classes_.size(); ++index)
      choose_arguments(classes_[index], literals);
  }

  Draft draft_of(int index) {
    Draft draft;
    std::vector<std::size_t> bodies;
    for (std::size_t body = 0; body < tree_.bodies.size(); ++body) {
      if (tree_.bodies[body].owner == index && !tree_.bodies[body].items.empty()) bodies.push_back(body);
    }
    std::ranges::stable_sort(bodies, {}, [&](std::size_t body) { return tree_.bodies[body].plugin.empty(); });
    std::map<std::string, std::string> known;
    std::set<std::string> taken = kReserved;
    for (const int child : node(index).children) taken.insert(node(child).name);
    for (const std::string& weight : node(index).weights) taken.insert(weight.substr(weight.rfind('.') + 1));
    for (const std::size_t body : bodies) {
      TorchMethod method = write_method(context_, body);
      if (method.plugin.empty()) {
        method_names_[body] = "forward";
      } else {
        // Methods with the same numbers too are one.
        std::string key = method.key();
        for (const TorchLiteral& literal : method.literals) key += "," + literal.text;
        const auto same = known.find(key);
        method_names_[body] = same != known.end() ? same->second : unique(method.plugin, taken);
        if (same != known.end()) continue;
        known[key] = method_names_[body];
        taken.insert(method_names_[body]);
      }
      method.name = method_names_[body];
      draft.methods.push_back(std::move(method));
    }
    write_constructor(index, draft);
    draft.key = fmt::format("{}\n", fmt::join(draft.constructor, "\n"));
    for (const TorchMethod& method : draft.methods) {
      draft.key += method.name + "\n" + method.key() + "\n";
      draft.offsets.push_back(draft.literals.size());
      draft.literals.insert(draft.literals.end(), method.literals.begin(), method.literals.end());
    }
    return draft;
  }

  static std::string adopt(const std::string& text, const std::vector<TorchLiteral>& from, Draft& draft) {
    return replace_marks(text, [&](char, std::string_view rest) {
      draft.literals.push_back(from[static_cast<std::size_t>(std::stoi(std::string(rest)))]);
      return literal_mark(draft.literals.size() - 1);
    });
  }

  void write_constructor(int index, Draft& draft) {
    for (const std::string& name : node(index).weights) {
      const ir::Parameter& parameter = *request_.forward.module->find_parameter(name);
      const ir::Shape& extents = parameter.type.shape;
      const std::string list = fmt::format("{}", fmt::join(extents, ", "));
      const std::string shape = extents.size() == 1 ? list : "(" + list + ")";
      const std::string text = adopt(literal_mark(0), {{shape, "shape"}}, draft);
      const std::string leaf = name.substr(name.rfind('.') + 1);
      const std::string empty = fmt::format("torch.empty({})", text);
      if (parameter.kind == ir::StateKind::weight) {
        draft.constructor.push_back(fmt::format("self.{} = nn.Parameter({}{})", leaf, empty,
                                                parameter.trainable ? "" : ", requires_grad=False"));
      } else {
        draft.constructor.push_back(fmt::format("self.register_buffer(\"{}\", {})", leaf, empty));
      }
    }
    for (const int child : node(index).children) {
      draft.constructor.push_back(fmt::format("self.{} = {}", node(child).name, made(child, draft)));
    }
  }

  /// A module's construction; its literals become the draft's.
  std::string made(int index, Draft& draft) {
    const TorchNode& of = node(index);
    if (of.is_layer) {
      const TorchCode& code = steps_.layers.at(of.path).constructor;
      // A literal may be in the text twice.
      return adopt(code.text, code.literals, draft);
    }
    if (!of.is_list) return made_class(index, draft);
    std::vector<std::string> parts;
    std::vector<std::size_t> begins;
    for (const int child : of.children) {
      begins.push_back(draft.literals.size());
      parts.push_back(made(child, draft));
    }
    begins.push_back(draft.literals.size());
    if (!of.is_sequence) {
      std::vector<std::string> items;
      for (std::size_t place = 0; place < parts.size(); ++place)
        items.push_back(fmt::format("\"{}\": {}", node(of.children[place]).name, parts[place]));
      return fmt::format("nn.ModuleDict({{{}}})", fmt::join(items, ", "));
    }
    const auto bare = [](const std::string& text) {
      return replace_marks(text, [](char, std::string_view) { return std::string("#"); });
    };
    const bool alike =
        std::ranges::all_of(parts, [&](const std::string& part) { return bare(part) == bare(parts[0]); });
    if (!alike || parts.size() < 2) return fmt::format("nn.ModuleList([{}])", fmt::join(parts, ", "));
    return repeated(parts, begins, draft);
  }

  /// Elements that differ in numbers at most, as one line.
  static std::string repeated(const std::vector<std::string>& parts, const std::vector<std::size_t>& begins,
                              Draft& draft) {
    const std::size_t each = begins[1] - begins[0];
    std::vector<std::size_t> differ;
    for (std::size_t literal = 0; literal < each; ++literal) {
      for (std::size_t part = 1; part < parts.size(); ++part) {
        if (draft.literals[begins[part] + literal].text != draft.literals[begins[0] + literal].text) {
          differ.push_back(literal);
          break;
        }
      }
    }
    std::vector<std::string> rows, names;
    for (std::size_t part = 0; part < parts.size() && !differ.empty(); ++part) {
      std::vector<std::string> row;
      for (const std::size_t literal : differ) row.push_back(draft.literals[begins[part] + literal].text);
      rows.push_back(row.size() == 1 ? row[0] : fmt::format("({})", fmt::join(row, ", ")));
    }
    for (const std::size_t literal : differ) {
      const std::set<std::string> taken(names.begin(), names.end());
      names.push_back(unique(draft.literals[begins[0] + literal].hint, taken));
    }
    std::string element = replace_marks(parts[0], [&](char, std::string_view rest) {
      const auto at = static_cast<std::size_t>(std::stoi(std::string(rest)));
      const auto differs = std::ranges::find(differ, at - begins[0]);
      if (differs != differ.end()) return names[static_cast<std::size_t>(differs - differ.begin())];
      return literal_mark(at);
    });
    draft.literals.resize(begins[1]);
    for (const std::size_t literal : differ)
      draft.literals[begins[0] + literal] = {};  // it is in the table now
    const auto literal = [&](const std::string& text, const char* hint) {
      draft.literals.push_back({text, hint});
      return literal_mark(draft.literals.size() - 1);
    };
    if (differ.empty()) {
      return fmt::format("nn.ModuleList({} for _ in range({}))", element,
                         literal(std::to_string(parts.size()), "depth"));
    }
    const std::string table = literal(fmt::format("({})", fmt::join(rows, ", ")), "rows");
    return fmt::format("nn.ModuleList({} for {} in {})", element, fmt::join(names, ", "), table);
  }

  std::string made_class(int index, Draft& draft) {
    const Class& of = classes_[static_cast<std::size_t>(class_of_.at(index))];
    std::vector<std::string> arguments;
    for (const auto& [name, literal] : of.order) {
      draft.literals.push_back({values_.at(index)[literal], name});
      arguments.push_back(literal_mark(draft.literals.size() - 1));
    }
    return fmt::format("{}({})", of.name, fmt::join(arguments, ", "));
  }

  void choose_arguments(Class& of, const std::map<int, std::vector<TorchLiteral>>& literals) {
    of.name = class_name_of(tree_, node(of.nodes[0]));
    for (int number = 2; class_names_.contains(of.name); ++number)
      of.name = fmt::format("{}{}", class_name_of(tree_, node(of.nodes[0])), number);
    class_names_.insert(of.name);
    std::set<std::string> taken = kReserved;
    for (const int child : node(of.nodes[0]).children) taken.insert(node(child).name);
    for (const std::string& weight : node(of.nodes[0]).weights)
      taken.insert(weight.substr(weight.rfind('.') + 1));
    for (const TorchMethod& method : of.draft.methods) taken.insert(method.name);
    std::map<std::vector<std::string>, std::string> known;
    for (const int index : of.nodes) {
      for (const TorchLiteral& literal : literals.at(index)) values_[index].push_back(literal.text);
    }
    for (std::size_t literal = 0; literal < of.draft.literals.size(); ++literal) {
      std::vector<std::string> column;
      for (const int index : of.nodes) column.push_back(values_.at(index)[literal]);
      if (std::ranges::all_of(column, [&](const std::string& value) { return value == column[0]; })) continue;
      const auto [same, is_new] = known.emplace(column, "");
      if (is_new) {
        same->second = unique(of.draft.literals[literal].hint, taken);
        taken.insert(same->second);
        of.order.emplace_back(same->second, literal);
      }
      of.arguments[literal] = same->second;
    }
  }

  // --- the text ------------------------------------------------------------------------------------------------

  std::string literal_text(const Class& of, std::size_t literal, bool in_method) const {
    const auto argument = of.arguments.find(literal);
    if (argument == of.arguments.end()) return of.draft.literals[literal].text;
    return in_method ? "self." + argument->second : argument->second;
  }

  std::string class_text(const Class& of) const {
    const bool is_net = of.nodes[0] == 0;
    std::string text = fmt::format("class {}(nn.Module):\n", of.name);
    std::vector<std::string> arguments;
    for (const auto& [name, literal] : of.order) arguments.push_back(name);
    text += fmt::format("    def __init__(self{}{}):\n        super().__init__()\n",
                        arguments.empty() ? "" : ", ", fmt::join(arguments, ", "));
    std::set<std::string> in_methods;
    for (std::size_t index = 0; index < of.draft.methods.size(); ++index) {
      for (std::size_t literal = 0; literal < of.draft.methods[index].literals.size(); ++literal) {
        const auto argument = of.arguments.find(of.draft.offsets[index] + literal);
        if (argument != of.arguments.end()) in_methods.insert(argument->second);
      }
    }
    for (const std::string& name : in_methods) text += fmt::format("        self.{0} = {0}\n", name);
    for (const std::string& line : of.draft.constructor) {
      const std::string written = replace_marks(line, [&](char, std::string_view rest) {
        return literal_text(of, static_cast<std::size_t>(std::stoi(std::string(rest))), false);
      });
      text += "        " + written + "\n";
    }
    if (is_net) text += "        initialise(self)\n";
    for (std::size_t index = 0; index < of.draft.methods.size(); ++index) {
      text += "\n" + method_text(of, of.draft.methods[index], of.draft.offsets[index]);
    }
    return text;
  }

  std::string method_text(const Class& of, const TorchMethod& method, std::size_t offset) const {
    const std::vector<std::string> names = local_names(method);
    const auto written = [&](const std::string& text) {
      return replace_marks(text, [&](char letter, std::string_view rest) -> std::string {
        const auto at = static_cast<std::size_t>(std::stoi(std::string(rest)));
        return letter == 'v' ? names[at] : literal_text(of, offset + at, true);
      });
    };
    std::vector<std::string> arguments;
    for (const int argument : method.arguments)
      arguments.push_back(names[static_cast<std::size_t>(argument)]);
    std::string text = fmt::format("    def {}(self{}{}):\n", method.name, arguments.empty() ? "" : ", ",
                                   fmt::join(arguments, ", "));
    for (const TorchStrategy& strategy : request_.strategies) {
      if (strategy.name != method.plugin) continue;
      text += fmt::format("        \"\"\"{}\n", strategy.lines[0]);
      if (strategy.lines.size() > 1) text += "\n";
      for (std::size_t line = 1; line < strategy.lines.size(); ++line)
        text += "        " + strategy.lines[line] + "\n";
      text += "        \"\"\"\n";
    }
    if (of.nodes[0] == 0 && method.name == "forward") text += size_checks(arguments);
    for (const TorchStatement& statement : method.statements) {
      std::vector<std::string> targets;
      for (const int target : statement.targets) targets.push_back(names[static_cast<std::size_t>(target)]);
      const std::string left = fmt::format("{}", fmt::join(targets, ", "));
      if (statement.is_loop)
        text += fmt::format("        for {} in {}:\n    ", statement.element, statement.over);
      const std::string right = written(statement.text);
      if (!statement.is_loop && left == right) continue;
      text += fmt::format("        {} = {}\n", left, right);
    }
    text += fmt::format("        return {}\n", written(method.result));
    return text;
  }

  /// Other sizes than the network's would be cut, or read other positions.
  std::string size_checks(const std::vector<std::string>& names) const {
    const ExportReader reader(request_.forward);
    std::string text;
    for (std::size_t index = 0; index < names.size(); ++index) {
      const ExportShape shape = reader.extents(request_.forward.function->arguments[index].value);
      const bool is_open = !shape.empty() && shape[0].coefficient != 0;
      std::vector<std::string> sizes;
      for (std::size_t axis = is_open ? 1 : 0; axis < shape.size(); ++axis) {
        if (shape[axis].coefficient != 0) sizes.clear();
        if (shape[axis].coefficient != 0) break;
        sizes.push_back(std::to_string(shape[axis].constant));
      }
      if (sizes.empty()) continue;
      text += fmt::format("        assert {0}.shape{1} == {2}, f\"{0}: {{tuple({0}.shape)}}\"\n",
                          names[index], is_open ? "[1:]" : "", python_tuple(sizes));
    }
    return text;
  }

  /// Names locals by their hints. A name is free again after the last use of the local that has it.
  static std::vector<std::string> local_names(const TorchMethod& method) {
    std::vector<std::size_t> last(method.hints.size(), 0);
    const auto read = [&](const std::string& text, std::size_t at) {
      replace_marks(text, [&](char letter, std::string_view rest) {
        if (letter == 'v') last[static_cast<std::size_t>(std::stoi(std::string(rest)))] = at;
        return std::string();
      });
    };
    for (std::size_t at = 0; at < method.statements.size(); ++at) read(method.statements[at].text, at + 1);
    read(method.result, method.statements.size() + 1);
    std::vector<std::string> names(method.hints.size());
    std::map<std::string, std::size_t> until;  // the last use of a name's local
    const auto give = [&](int local, std::size_t at) {
      const auto index = static_cast<std::size_t>(local);
      std::string name = identifier(method.hints[index]);
      for (int number = 2; until.contains(name) && until[name] > at; ++number)
        name = fmt::format("{}_{}", identifier(method.hints[index]), number);
      names[index] = name;
      until[name] = std::max(last[index], at + 1);
    };
    for (const int argument : method.arguments) give(argument, 0);
    for (std::size_t at = 0; at < method.statements.size(); ++at) {
      const TorchStatement& statement = method.statements[at];
      for (const int target : statement.targets) {
        const auto carried = std::ranges::find(statement.carried, target, &std::pair<int, int>::second);
        if (carried == statement.carried.end()) {
          give(target, at + 1);
          continue;
        }
        const std::string& name = names[static_cast<std::size_t>(carried->first)];
        names[static_cast<std::size_t>(target)] = name;
        until[name] = last[static_cast<std::size_t>(target)];
      }
    }
    return names;
  }

  std::string file() const {
    std::string text = fmt::format("\"\"\"{}\n\"\"\"\n\n", fmt::join(request_.about, "\n"));
    const std::string inits = initialisation();
    std::string body;
    for (const auto& [name, type] : steps_.tables)
      body += torch_table(name, type, steps_.table_values.at(name));
    for (const std::string& helper : steps_.helpers) body += "\n\n" + torch_helper(helper);
    for (const Class& of : classes_) body += "\n\n" + class_text(of);
    body += "\n\n" + inits;
    std::string imports;
    if (body.find("fnmatch(") != std::string::npos) imports += "from fnmatch import fnmatch\n\n";
    imports += "import torch\n";
    if (body.find("F.") != std::string::npos) imports += "import torch.nn.functional as F\n";
    imports += "from torch import nn\n";
    return text + imports + (steps_.tables.empty() ? "" : "\n") + body;
  }

  /// The weights' first values: a table of names, in which * takes the place of numbers.
  std::string initialisation() const {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const ir::Parameter& parameter : request_.forward.module->parameters) {
      if (!parameter.is_weight()) continue;
      std::string pattern;
      for (const char c : parameter.name) {
        const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
        if (!digit || pattern.empty() || (pattern.back() != '.' && pattern.back() != '*')) {
          pattern += c;
        } else if (pattern.back() != '*') {
          pattern += '*';
        }
      }
      const std::string init = torch_init(parameter);
      const auto same = std::ranges::find(rows, std::pair{pattern, init});
      if (same != rows.end()) continue;
      // A pattern whose weights begin differently is written out.
      const bool clash = std::ranges::any_of(rows, [&](const auto& row) { return row.first == pattern; });
      rows.emplace_back(clash ? parameter.name : pattern, init);
    }
    return torch_initialise(rows);
  }

  const TorchRequest& request_;
  TorchSteps steps_;
  TorchTree tree_;
  TorchBodyContext context_;
  std::vector<Class> classes_;
  std::map<int, int> class_of_;
  std::map<std::size_t, std::string> method_names_;
  std::map<int, std::vector<std::string>> values_;
  std::set<std::string> class_names_;
};

}  // namespace

std::string torch_source(const TorchRequest& request) {
  return Source(request).write();
}

}  // namespace rewire::runtime
