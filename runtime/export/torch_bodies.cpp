#include "runtime/export/torch_bodies.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "ir/error.h"
#include "ir/residual.h"
#include "runtime/export/torch_translation.h"

namespace rewire::runtime {
namespace {

/// A line that would be longer is split into two.
constexpr std::size_t kWidth = 84;

struct Expression {
  std::string text;
  int binding = kPrimary;
};

std::string local_mark(int local) {
  return kMark + fmt::format("v{}", local) + kEnd;
}

/// The length as it will be printed, with a guess for names and numbers.
std::size_t printed_size(const std::string& text) {
  return replace_marks(text, [](char, std::string_view) { return std::string("xx"); }).size();
}

class Writer {
 public:
  Writer(const TorchBodyContext& context, std::size_t body)
      : context_(context), body_(context.tree->bodies[body]), index_(body) {
    for (const std::size_t at : ir::find_joins(*context.forward->function)) {
      const ir::Join join = ir::read_join(context.forward->function->body[at]);
      roles_.emplace(join.stream.id, "x");
      roles_.emplace(join.branch.id, "f");
      roles_.emplace(context.forward->function->body[at].results[0].id, "x");
    }
  }

  TorchMethod write() {
    method_.name = body_.method;
    method_.plugin = body_.plugin;
    count_uses();
    for (std::size_t place = 0; place < body_.inputs.size(); ++place) {
      const ir::Value value = body_.inputs[place];
      std::string hint = place == 0 ? "x" : "y";
      if (const auto role = roles_.find(value.id); role != roles_.end()) hint = role->second;
      if (index_ == 0) hint = context_.forward->function->arguments[place].name;
      method_.arguments.push_back(local(value, hint));
    }
    for (const TorchItem& item : body_.items) item.is_call ? write_call(item.index) : write_step(item.index);
    std::vector<std::string> results;
    const std::vector<ir::Value> outputs = index_ == 0 ? context_.steps->results : body_.outputs;
    for (const ir::Value value : outputs) results.push_back(text_of(value, kConditional));
    method_.result = fmt::format("{}", fmt::join(results, ", "));
    find_loops();
    return std::move(method_);
  }

 private:
  int local(ir::Value value, const std::string& hint) {
    const int made = static_cast<int>(method_.hints.size());
    method_.hints.push_back(hint);
    locals_[value.id] = made;
    return made;
  }

  void count_uses() {
    const auto use = [&](ir::Value value) { ++uses_[value.id]; };
    for (const TorchItem& item : body_.items) {
      if (item.is_call) {
        std::ranges::for_each(context_.tree->bodies[item.index].inputs, use);
      } else {
        std::ranges::for_each(context_.steps->steps[item.index].operands, use);
      }
    }
    std::ranges::for_each(index_ == 0 ? context_.steps->results : body_.outputs, use);
  }

  /// Writes a step's own literals and names into the body's.
  std::string adopt(const TorchCode& code) {
    return replace_marks(code.text, [&](char letter, std::string_view rest) -> std::string {
      if (letter == 'h') {
        method_.literals.push_back(code.literals[static_cast<std::size_t>(std::stoi(std::string(rest)))]);
        return literal_mark(method_.literals.size() - 1);
      }
      if (letter == 'n')
        return context_.tree->expression(body_.owner,
                                         code.names[static_cast<std::size_t>(std::stoi(std::string(rest)))]);
      if (letter == 'b') return batch();
      if (letter == 'r') return reference();
      return kMark + (letter + std::string(rest)) + kEnd;
    });
  }

  std::string batch() {
    const ExportFunction& forward = *context_.forward;
    if (forward.larger == nullptr) internal_error("export: a fixed batch has an open extent");
    for (const ir::Value value : body_.inputs) {
      const ir::Shape &small = forward.function->type(value).shape,
                      &large = forward.larger->type(value).shape;
      for (std::size_t axis = 0; axis < small.size(); ++axis) {
        const std::int64_t times = (large[axis] - small[axis]) / (forward.larger_batch - forward.batch);
        if (times == 0 || small[axis] != times * forward.batch) continue;
        const std::string size = fmt::format("{}.shape[{}]", local_mark(locals_.at(value.id)), axis);
        return times == 1 ? size : fmt::format("({} // {})", size, times);
      }
    }
    user_error("export: {} needs the batch, and nothing that it takes has it", body_.method);
  }

  std::string reference() {
    for (const ir::Value value : body_.inputs) {
      if (ir::is_float(context_.forward->function->type(value).dtype))
        return local_mark(locals_.at(value.id));
    }
    const TorchNode& owner = context_.tree->nodes[static_cast<std::size_t>(body_.owner)];
    for (const ir::Parameter& parameter : context_.forward->module->parameters) {
      if (parameter.is_weight() && ir::is_float(parameter.type.dtype) &&
          context_.tree->covers(body_.owner, parameter.name)) {
        return context_.tree->expression(body_.owner, parameter.name);
      }
    }
    user_error("export: {} of '{}' has no floating tensor", body_.method, owner.path);
  }

  /// Returns the value's text where the context binds by `binding`.
  std::string text_of(ir::Value value, int binding) {
    if (const auto known = locals_.find(value.id); known != locals_.end()) return local_mark(known->second);
    Expression expression;
    if (const auto pending = pending_.find(value.id); pending != pending_.end()) {
      expression = pending->second;
    } else if (const auto free = context_.tree->free.find(value.id); free != context_.tree->free.end()) {
      const TorchStep& step = context_.steps->steps[free->second];
      expression = {adopt(step.code), step.binding};
    } else {
      internal_error("export: a value is used before it is computed");
    }
    return expression.binding < binding ? "(" + expression.text + ")" : expression.text;
  }

  /// Gives the value a local of its own, if it has none.
  void settle(ir::Value value) {
    const auto pending = pending_.find(value.id);
    if (pending == pending_.end()) return;
    const Expression expression = pending->second;
    const std::string hint = hints_.at(value.id);
    pending_.erase(value.id);
    method_.statements.push_back({.targets = {local(value, hint)}, .text = expression.text});
  }

  std::string hint_of(ir::Value value, const std::string& otherwise) const {
    const auto role = roles_.find(value.id);
    return role == roles_.end() ? otherwise : role->second;
  }

  void finish(const std::vector<ir::Value>& results, const std::vector<std::string>& hints,
              const std::string& text, int binding, bool may_wait) {
    if (results.size() == 1 && may_wait && uses_[results[0].id] == 1) {
      pending_[results[0].id] = {text, binding};
      hints_[results[0].id] = hint_of(results[0], hints[0]);
      return;
    }
    TorchStatement statement{.text = text};
    for (std::size_t place = 0; place < results.size(); ++place) {
      statement.targets.push_back(local(results[place], hint_of(results[place], hints[place])));
    }
    method_.statements.push_back(std::move(statement));
  }

  void write_step(std::size_t index) {
    const TorchStep& step = context_.steps->steps[index];
    const auto put_together = [&] {
      return replace_marks(step.code.text, [&](char letter, std::string_view rest) -> std::string {
        if (letter != 'v') return kMark + (letter + std::string(rest)) + kEnd;
        const std::size_t colon = rest.find(':');
        const ir::Value operand =
            step.operands[static_cast<std::size_t>(std::stoi(std::string(rest.substr(0, colon))))];
        const auto pending = pending_.find(operand.id);
        if (pending == pending_.end()) return "xx";
        return pending->second.text;
      });
    };
    if (printed_size(put_together()) > kWidth) {
      // The longest operand first.
      std::vector<ir::Value> waiting;
      for (const ir::Value operand : step.operands) {
        if (pending_.contains(operand.id)) waiting.push_back(operand);
      }
      std::ranges::stable_sort(waiting, std::greater{},
                               [&](ir::Value value) { return printed_size(pending_.at(value.id).text); });
      for (const ir::Value operand : waiting) {
        if (printed_size(put_together()) <= kWidth) break;
        settle(operand);
      }
    }
    TorchCode code = step.code;
    const std::string own = adopt(code);
    const std::string text = replace_marks(own, [&](char letter, std::string_view rest) -> std::string {
      const std::size_t colon = rest.find(':');
      if (letter != 'v' || colon == std::string_view::npos)
        return kMark + (letter + std::string(rest)) + kEnd;
      const ir::Value operand =
          step.operands[static_cast<std::size_t>(std::stoi(std::string(rest.substr(0, colon))))];
      return text_of(operand, std::stoi(std::string(rest.substr(colon + 1))));
    });
    finish(step.results, step.hints, text, step.binding, true);
  }

  void write_call(std::size_t called) {
    const TorchBody& body = context_.tree->bodies[called];
    const std::string& path = context_.tree->nodes[static_cast<std::size_t>(body.owner)].path;
    const std::string owner = context_.tree->expression(body_.owner, path);
    const bool is_element = owner.ends_with("]");
    const std::string name = context_.method_name(called);
    std::string text = owner + (name == "forward" ? "" : "." + name) + "(";
    std::vector<std::string> arguments;
    std::size_t width = text.size();
    for (const ir::Value value : body.inputs) {
      const auto pending = pending_.find(value.id);
      if (pending != pending_.end()) {
        width += printed_size(pending->second.text);
        if (is_element || width > kWidth) settle(value);
      }
      arguments.push_back(text_of(value, kConditional));
    }
    text += fmt::format("{})", fmt::join(arguments, ", "));
    const std::string hint = body.plugin.empty() ? "y" : body.plugin;
    std::vector<std::string> hints(body.outputs.size(), hint);
    if (!hints.empty() && body.plugin.empty()) hints[0] = is_element ? "x" : path.substr(path.rfind('.') + 1);
    const std::size_t before = method_.statements.size();
    finish(body.outputs, hints, text, kPrimary, !is_element);
    if (is_element && method_.statements.size() > before &&
        context_.tree
            ->nodes[static_cast<std::size_t>(
                context_.tree->nodes[static_cast<std::size_t>(body.owner)].parent)]
            .is_sequence) {
      Element element{.place = std::stoi(owner.substr(owner.rfind('[') + 1)),
                      .list = owner.substr(0, owner.rfind('[')),
                      .method = name,
                      .class_of = context_.class_of(body.owner)};
      for (const ir::Value value : body.inputs) {
        const auto known = locals_.find(value.id);
        element.arguments.push_back(known == locals_.end() ? -1 : known->second);
      }
      elements_[before] = std::move(element);
    }
  }

  struct Element {
    int place = 0;
    std::string list = {}, method = {};
    int class_of = -1;
    std::vector<int> arguments = {};  // locals; -1: an expression
  };

  int reads_after(int local_number, std::size_t statement) const {
    int reads = 0;
    const auto count = [&](const std::string& text) {
      replace_marks(text, [&](char letter, std::string_view rest) {
        if (letter == 'v' && std::stoi(std::string(rest)) == local_number) ++reads;
        return std::string();
      });
    };
    for (std::size_t index = statement; index < method_.statements.size(); ++index)
      count(method_.statements[index].text);
    count(method_.result);
    return reads;
  }

  /// Turns calls of one list's elements, each on the last one's results, into loops.
  void find_loops() {
    std::vector<TorchStatement> statements;
    for (std::size_t at = 0; at < method_.statements.size();) {
      const auto first = elements_.find(at);
      std::size_t end = at + 1;
      if (first != elements_.end()) {
        while (end < method_.statements.size() && follows(end - 1, end)) ++end;
      }
      if (end - at < 2 || !add_loop(at, end, statements)) {
        statements.push_back(method_.statements[at]);
        end = at + 1;
      }
      at = end;
    }
    method_.statements = std::move(statements);
  }

  bool follows(std::size_t one, std::size_t next) const {
    const auto a = elements_.find(one), b = elements_.find(next);
    if (a == elements_.end() || b == elements_.end()) return false;
    const Element &before = a->second, &after = b->second;
    if (before.list != after.list || before.method != after.method || before.class_of != after.class_of ||
        before.place + 1 != after.place || before.arguments.size() != after.arguments.size()) {
      return false;
    }
    const std::vector<int>& results = method_.statements[one].targets;
    if (results.size() != method_.statements[next].targets.size()) return false;
    std::set<std::size_t> carried;
    for (std::size_t place = 0; place < after.arguments.size(); ++place) {
      const int argument = after.arguments[place];
      if (argument < 0) return false;
      const auto result = std::ranges::find(results, argument);
      if (result != results.end()) {
        carried.insert(static_cast<std::size_t>(result - results.begin()));
      } else if (argument != before.arguments[place]) {
        return false;
      }
    }
    for (std::size_t place = 0; place < results.size(); ++place) {
      const int all = reads_after(results[place], next);
      const auto here = static_cast<int>(std::ranges::count(after.arguments, results[place]));
      if (all != here) return false;  // somebody else reads it too
    }
    return carried.size() == results.size();
  }

  bool add_loop(std::size_t begin, std::size_t end, std::vector<TorchStatement>& statements) {
    // The way in which arguments are carried must be the same at each turn.
    const auto pattern = [&](std::size_t at) {
      std::vector<int> places;
      const std::vector<int>& results = method_.statements[at - 1].targets;
      for (const int argument : elements_.at(at).arguments) {
        const auto result = std::ranges::find(results, argument);
        places.push_back(result == results.end() ? -1 : static_cast<int>(result - results.begin()));
      }
      return places;
    };
    const std::vector<int> how = pattern(begin + 1);
    for (std::size_t at = begin + 2; at < end; ++at) {
      if (pattern(at) != how) return false;
    }
    const Element& first = elements_.at(begin);
    if (std::ranges::find(first.arguments, -1) != first.arguments.end()) return false;
    TorchStatement loop{.targets = method_.statements[end - 1].targets, .is_loop = true};
    std::vector<std::string> arguments;
    for (std::size_t place = 0; place < how.size(); ++place) {
      int argument = first.arguments[place];
      if (how[place] >= 0) {
        const int after = loop.targets[static_cast<std::size_t>(how[place])];
        // What is still needed after the loop keeps its name, so the loop begins with a copy.
        const int inside = static_cast<int>(std::ranges::count(first.arguments, argument));
        if (reads_after(argument, begin) > inside) {
          const int copy = static_cast<int>(method_.hints.size());
          method_.hints.push_back(method_.hints[static_cast<std::size_t>(argument)]);
          statements.push_back({.targets = {copy}, .text = local_mark(argument)});
          argument = copy;
        }
        loop.carried.push_back({argument, after});
      }
      arguments.push_back(local_mark(argument));
    }
    const auto last = static_cast<std::size_t>(first.place) + (end - begin);
    loop.over = first.list;
    list_range(loop, first, last);
    loop.element = element_name(first.list);
    loop.text = fmt::format("{}{}({})", loop.element, first.method == "forward" ? "" : "." + first.method,
                            fmt::join(arguments, ", "));
    statements.push_back(std::move(loop));
    return true;
  }

  /// A loop over some of the elements says which.
  void list_range(TorchStatement& loop, const Element& first, std::size_t last) const {
    std::size_t count = 0;
    for (const TorchNode& node : context_.tree->nodes) {
      if (node.is_sequence && context_.tree->covers(body_.owner, node.path) &&
          context_.tree->expression(body_.owner, node.path) == first.list) {
        count = node.children.size();
      }
    }
    const bool from_start = first.place == 0, to_end = last == count;
    if (from_start && to_end) return;
    loop.over += fmt::format("[{}:{}]", from_start ? "" : std::to_string(first.place),
                             to_end ? "" : std::to_string(last));
  }

  static std::string element_name(const std::string& list) {
    std::string name = list.substr(list.rfind('.') + 1);
    if (name.ends_with("]")) return "module";
    if (name.size() > 1 && name.ends_with("s")) name.pop_back();
    return name;
  }

  const TorchBodyContext& context_;
  const TorchBody& body_;
  std::size_t index_;
  TorchMethod method_;
  std::map<std::int32_t, int> locals_;
  std::map<std::int32_t, Expression> pending_;
  std::map<std::int32_t, std::string> hints_, roles_;
  std::map<std::int32_t, int> uses_;
  std::map<std::size_t, Element> elements_;
};

}  // namespace

std::string TorchMethod::key() const {
  std::string key = fmt::format("{}|{}|{}\n", plugin, fmt::join(arguments, ","), fmt::join(hints, ","));
  for (const TorchStatement& statement : statements) {
    key += fmt::format("{} = {} {} {}\n", fmt::join(statement.targets, ","), statement.over,
                       statement.element, statement.text);
  }
  return key + result;
}

TorchMethod write_method(const TorchBodyContext& context, std::size_t body) {
  return Writer(context, body).write();
}

}  // namespace rewire::runtime
