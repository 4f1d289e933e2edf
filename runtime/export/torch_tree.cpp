#include "runtime/export/torch_tree.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "ir/error.h"
#include "runtime/export/torch_translation.h"

namespace rewire::runtime {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

class Builder {
 public:
  Builder(const ExportFunction& forward, const TorchSteps& steps)
      : forward_(forward), steps_(steps.steps), layers_(steps.layers) {}

  TorchTree build() {
    add_nodes();
    for (std::size_t index = 0; index < steps_.size(); ++index) {
      const TorchStep& step = steps_[index];
      if (step.is_free) tree_.free[step.results[0].id] = index;
      for (const ir::Value value : step.results) defined_by_[value.id] = index;
      for (const ir::Value value : step.operands) used_by_[value.id].push_back(index);
    }
    add_bodies();
    order(0);
    find_values(0);
    return std::move(tree_);
  }

 private:
  int node_at(int parent, const std::string& name) {
    for (const int child : tree_.nodes[static_cast<std::size_t>(parent)].children) {
      if (tree_.nodes[static_cast<std::size_t>(child)].name == name) return child;
    }
    const std::string& above = tree_.nodes[static_cast<std::size_t>(parent)].path;
    const int made = static_cast<int>(tree_.nodes.size());
    tree_.nodes.push_back(
        {.name = name, .path = above.empty() ? name : above + "." + name, .parent = parent});
    tree_.nodes[static_cast<std::size_t>(parent)].children.push_back(made);
    return made;
  }

  void add_nodes() {
    tree_.nodes.push_back({});
    for (const ir::Parameter& parameter : forward_.module->parameters) {
      if (!parameter.is_weight()) continue;
      int at = 0;
      std::size_t begin = 0;
      for (std::size_t dot = parameter.name.find('.'); dot != std::string::npos;
           dot = parameter.name.find('.', begin)) {
        at = node_at(at, parameter.name.substr(begin, dot - begin));
        begin = dot + 1;
      }
      tree_.nodes[static_cast<std::size_t>(at)].weights.push_back(parameter.name);
    }
    for (std::size_t index = tree_.nodes.size(); index-- > 0;) {
      TorchNode& node = tree_.nodes[index];
      node.is_layer = layers_.contains(node.path);
      node.is_list = index > 0 && node.weights.empty() && !node.children.empty();
      const auto numbered = [&](int child) {
        return is_number(tree_.nodes[static_cast<std::size_t>(child)].name);
      };
      if (std::ranges::all_of(node.children, numbered)) {
        std::ranges::sort(node.children, {}, [&](int child) {
          const std::string& name = tree_.nodes[static_cast<std::size_t>(child)].name;
          return std::pair(name.size(), name);
        });
      }
      node.is_sequence = node.is_list;
      for (std::size_t place = 0; place < node.children.size(); ++place) {
        const TorchNode& child = tree_.nodes[static_cast<std::size_t>(node.children[place])];
        if (!is_number(child.name)) node.is_list = false;
        if (child.name != std::to_string(place)) node.is_sequence = false;
        node.height = std::max(node.height, child.height + 1);
      }
      node.is_sequence = node.is_sequence && node.is_list;
    }
  }

  /// Returns the deepest module with a body on the way to `path`.
  int module_of(const std::string& path) const {
    int at = 0, found = 0;
    std::size_t begin = 0;
    while (begin < path.size()) {
      const std::size_t dot = std::min(path.find('.', begin), path.size());
      const std::string name = path.substr(begin, dot - begin);
      int next = -1;
      for (const int child : tree_.nodes[static_cast<std::size_t>(at)].children) {
        if (tree_.nodes[static_cast<std::size_t>(child)].name == name) next = child;
      }
      if (next < 0) break;
      at = next;
      const TorchNode& node = tree_.nodes[static_cast<std::size_t>(at)];
      if (!node.is_layer && !node.is_list) found = at;
      begin = dot + 1;
    }
    return found;
  }

  /// Returns the body of a module's forward, and makes it and those above it.
  std::size_t forward_of(int node) {
    if (const auto known = forwards_.find(node); known != forwards_.end()) return known->second;
    int above = tree_.nodes[static_cast<std::size_t>(node)].parent;
    while (above > 0 && tree_.nodes[static_cast<std::size_t>(above)].is_list)
      above = tree_.nodes[static_cast<std::size_t>(above)].parent;
    const int parent = node == 0 ? -1 : static_cast<int>(forward_of(above));
    const std::size_t made = tree_.bodies.size();
    tree_.bodies.push_back({.owner = node, .parent = parent, .method = "forward"});
    forwards_[node] = made;
    if (parent >= 0) tree_.bodies[static_cast<std::size_t>(parent)].items.push_back({true, made});
    return made;
  }

  /// Returns the module that has all weights of these steps, below `module`; else `module`.
  int owner_of(const std::vector<std::size_t>& steps, int module) const {
    std::optional<std::string> common;
    for (const std::size_t index : steps) {
      std::vector<std::string> names = steps_[index].code.names;
      for (const ir::Value value : steps_[index].operands) {
        const auto free = tree_.free.find(value.id);
        if (free == tree_.free.end()) continue;
        const auto& of_free = steps_[free->second].code.names;
        names.insert(names.end(), of_free.begin(), of_free.end());
      }
      for (const std::string& name : names) {
        std::string above = name.substr(0, name.rfind('.') == std::string::npos ? 0 : name.rfind('.'));
        while (common && !(above + ".").starts_with(*common + ".")) {
          const std::size_t dot = common->rfind('.');
          *common = dot == std::string::npos ? "" : common->substr(0, dot);
          if (common->empty()) break;
        }
        if (!common) common = above;
      }
    }
    if (!common) return module;
    const int found = module_of(*common);
    return tree_.nodes[static_cast<std::size_t>(found)].path == *common && tree_.covers(module, *common)
               ? found
               : module;
  }

  void add_bodies() {
    forward_of(0);
    std::vector<std::size_t> of_plugin;
    const auto close = [&] {
      if (of_plugin.empty()) return;
      const TorchStep& first = steps_[of_plugin[0]];
      const int module = module_of(first.place);
      const std::size_t above = forward_of(module), made = tree_.bodies.size();
      tree_.bodies.push_back({.owner = owner_of(of_plugin, module),
                              .parent = static_cast<int>(above),
                              .method = first.plugin,
                              .plugin = first.plugin,
                              .site = first.join});
      for (const std::size_t step : of_plugin) tree_.bodies[made].items.push_back({false, step});
      tree_.bodies[above].items.push_back({true, made});
      of_plugin.clear();
    };
    for (std::size_t index = 0; index < steps_.size(); ++index) {
      const TorchStep& step = steps_[index];
      if (step.is_free) continue;
      if (!of_plugin.empty()) {
        const TorchStep& first = steps_[of_plugin[0]];
        if (std::tie(first.plugin, first.join) != std::tie(step.plugin, step.join)) close();
      }
      if (step.plugin.empty()) {
        tree_.bodies[forward_of(module_of(step.place))].items.push_back({false, index});
      } else {
        of_plugin.push_back(index);
      }
    }
    close();
  }

  void collect(const TorchItem& item, std::vector<std::size_t>& steps) const {
    if (!item.is_call) {
      steps.push_back(item.index);
      return;
    }
    for (const TorchItem& inner : tree_.bodies[item.index].items) collect(inner, steps);
  }

  std::vector<std::size_t> steps_of(const TorchItem& item) const {
    std::vector<std::size_t> steps;
    collect(item, steps);
    return steps;
  }

  /// Orders a body's items by what they need. A call that both feeds and needs another item is taken apart.
  void order(std::size_t body) {
    for (;;) {
      std::vector<TorchItem>& items = tree_.bodies[body].items;
      std::erase_if(items, [&](const TorchItem& item) { return item.is_call && steps_of(item).empty(); });
      std::map<std::size_t, std::size_t> item_of;
      std::vector<std::vector<std::size_t>> inner;
      std::vector<std::size_t> first;
      for (std::size_t index = 0; index < items.size(); ++index) {
        inner.push_back(steps_of(items[index]));
        for (const std::size_t step : inner.back()) item_of[step] = index;
        first.push_back(*std::ranges::min_element(inner.back()));
      }
      std::vector<std::set<std::size_t>> after(items.size());
      std::vector<std::size_t> open(items.size(), 0);
      for (std::size_t index = 0; index < items.size(); ++index) {
        std::set<std::size_t> before;
        for (const std::size_t step : inner[index]) {
          for (const ir::Value value : steps_[step].operands) {
            const auto by = defined_by_.find(value.id);
            if (by == defined_by_.end()) continue;
            const auto item = item_of.find(by->second);
            if (item != item_of.end() && item->second != index) before.insert(item->second);
          }
        }
        open[index] = before.size();
        for (const std::size_t earlier : before) after[earlier].insert(index);
      }
      std::set<std::pair<std::size_t, std::size_t>> ready;
      for (std::size_t index = 0; index < items.size(); ++index) {
        if (open[index] == 0) ready.insert({first[index], index});
      }
      std::vector<TorchItem> sorted;
      std::vector<bool> done(items.size(), false);
      while (!ready.empty()) {
        const std::size_t index = ready.begin()->second;
        ready.erase(ready.begin());
        sorted.push_back(items[index]);
        done[index] = true;
        for (const std::size_t later : after[index]) {
          if (--open[later] == 0) ready.insert({first[later], later});
        }
      }
      if (sorted.size() == items.size()) {
        items = std::move(sorted);
        break;
      }
      take_apart(body, done, first);
    }
    for (std::size_t index = 0; index < tree_.bodies[body].items.size(); ++index) {
      const TorchItem item = tree_.bodies[body].items[index];
      if (item.is_call) order(item.index);
    }
  }

  void take_apart(std::size_t body, const std::vector<bool>& done, const std::vector<std::size_t>& first) {
    std::vector<TorchItem>& items = tree_.bodies[body].items;
    // A plugin's part that works within its branch moves into the branch's module.
    for (std::size_t index = 0; index < items.size(); ++index) {
      if (done[index] || !items[index].is_call) continue;
      TorchBody& part = tree_.bodies[items[index].index];
      if (part.plugin.empty() || part.site.empty() || moved_.contains(items[index].index)) continue;
      const auto target = forwards_.find(module_of(part.site));
      if (target == forwards_.end() || target->second == body) continue;
      const TorchItem item = items[index];
      moved_.insert(item.index);
      part.parent = static_cast<int>(target->second);
      const int owner = tree_.bodies[target->second].owner;
      if (!tree_.covers(owner, tree_.nodes[static_cast<std::size_t>(part.owner)].path)) part.owner = owner;
      items.erase(items.begin() + static_cast<std::ptrdiff_t>(index));
      tree_.bodies[target->second].items.push_back(item);
      return;
    }
    std::optional<std::size_t> chosen;
    for (std::size_t index = 0; index < items.size(); ++index) {
      if (done[index] || !items[index].is_call) continue;
      if (!chosen || first[index] < first[*chosen]) chosen = index;
    }
    if (!chosen) internal_error("export: steps in a circle");
    const std::size_t call = items[*chosen].index;
    const std::vector<TorchItem> inner = tree_.bodies[call].items;
    tree_.bodies[call].items.clear();
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(*chosen));
    for (const TorchItem& item : inner) {
      if (item.is_call) tree_.bodies[item.index].parent = static_cast<int>(body);
      items.push_back(item);
    }
  }

  /// Returns whether an extent of the value says the batch.
  bool has_batch(ir::Value value) const {
    if (forward_.larger == nullptr) return false;
    const ir::Shape &small = forward_.function->type(value).shape,
                    &large = forward_.larger->type(value).shape;
    for (std::size_t axis = 0; axis < small.size(); ++axis) {
      if (large[axis] != small[axis] && small[axis] * forward_.larger_batch == large[axis] * forward_.batch) {
        return true;
      }
    }
    return false;
  }

  /// Finds what a body takes and gives, after the same for those that it calls.
  void find_values(std::size_t at) {
    for (const TorchItem& item : tree_.bodies[at].items) {
      if (item.is_call) find_values(item.index);
    }
    TorchBody& body = tree_.bodies[at];
    const std::vector<std::size_t> steps = steps_of({true, at});
    const std::set<std::size_t> inside(steps.begin(), steps.end());
    const auto is_inside = [&](ir::Value value) {
      const auto by = defined_by_.find(value.id);
      return by != defined_by_.end() && inside.contains(by->second);
    };
    const auto take = [&](ir::Value value) {
      if (is_inside(value) || std::ranges::find(body.inputs, value) != body.inputs.end()) return;
      if (const auto free = tree_.free.find(value.id); free != tree_.free.end()) {
        const auto& names = steps_[free->second].code.names;
        if (std::ranges::all_of(names,
                                [&](const std::string& name) { return tree_.covers(body.owner, name); }))
          return;
      }
      body.inputs.push_back(value);
    };
    for (const TorchItem& item : body.items) {
      if (item.is_call) {
        for (const ir::Value value : tree_.bodies[item.index].inputs) take(value);
      } else {
        for (const ir::Value value : steps_[item.index].operands) take(value);
      }
    }
    if (at == 0) {
      body.inputs.clear();
      for (const ir::Argument& argument : forward_.function->arguments) body.inputs.push_back(argument.value);
      return;
    }
    const bool needs_batch = std::ranges::any_of(body.items, [&](const TorchItem& item) {
      return !item.is_call && steps_[item.index].code.text.find(kBatchMark) != std::string::npos;
    });
    if (needs_batch && std::ranges::none_of(body.inputs, [&](ir::Value input) { return has_batch(input); })) {
      for (const ir::Argument& argument : forward_.function->arguments) {
        if (!has_batch(argument.value)) continue;
        body.inputs.push_back(argument.value);
        break;
      }
    }
    for (const std::size_t step : steps) {
      for (const ir::Value value : steps_[step].results) {
        const auto& uses = used_by_[value.id];
        const bool used_outside =
            std::ranges::any_of(uses, [&](std::size_t use) { return !inside.contains(use); });
        const bool is_result =
            std::ranges::any_of(results_, [&](ir::Value result) { return result == value; });
        if (used_outside || is_result) body.outputs.push_back(value);
      }
    }
    std::ranges::sort(body.outputs);
  }

 public:
  void set_results(std::vector<ir::Value> results) { results_ = std::move(results); }

 private:
  ExportFunction forward_;
  const std::vector<TorchStep>& steps_;
  const std::map<std::string, TorchLayer>& layers_;
  TorchTree tree_;
  std::map<int, std::size_t> forwards_;
  std::map<std::int32_t, std::size_t> defined_by_;
  std::map<std::int32_t, std::vector<std::size_t>> used_by_;
  std::set<std::size_t> moved_;
  std::vector<ir::Value> results_;
};

}  // namespace

bool TorchTree::covers(int node, const std::string& path) const {
  const std::string& own = nodes[static_cast<std::size_t>(node)].path;
  return own.empty() || path.starts_with(own + ".") || path == own;
}

std::string TorchTree::expression(int from, const std::string& path) const {
  const std::string& own = nodes[static_cast<std::size_t>(from)].path;
  std::string text = "self";
  int at = from;
  std::size_t begin = own.empty() ? 0 : own.size() + 1;
  while (begin < path.size()) {
    const std::size_t dot = std::min(path.find('.', begin), path.size());
    const std::string name = path.substr(begin, dot - begin);
    const TorchNode& node = nodes[static_cast<std::size_t>(at)];
    text += !node.is_list ? "." + name : node.is_sequence ? "[" + name + "]" : "[\"" + name + "\"]";
    for (const int child : node.children) {
      if (nodes[static_cast<std::size_t>(child)].name == name) at = child;
    }
    begin = dot + 1;
  }
  return text;
}

TorchTree torch_tree(const ExportFunction& forward, const TorchSteps& steps) {
  Builder builder(forward, steps);
  builder.set_results(steps.results);
  return builder.build();
}

}  // namespace rewire::runtime
