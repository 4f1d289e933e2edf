// The body of a method as statements. Values that are used once are written where they are used, as long as the
// line stays short.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/export/torch_tree.h"

namespace rewire::runtime {

/// A line of a body. Its text has the open places v (a local, by number) and h (a literal of the body).
struct TorchStatement {
  std::vector<int> targets = {};  // locals that it assigns
  std::string text = {};
  bool is_loop = false;  // for `over`: its text is the call in the loop, with v as the element
  std::string over = {}, element = {};
  std::vector<std::pair<int, int>> carried = {};  // of a loop: the local before and the one after
};

struct TorchMethod {
  std::string name, plugin;
  std::vector<int> arguments;  // locals
  std::vector<TorchStatement> statements;
  std::string result;              // the text of `return`
  std::vector<std::string> hints;  // of the locals
  std::vector<TorchLiteral> literals;

  /// Equal for methods that differ in their literals alone.
  std::string key() const;
};

struct TorchBodyContext {
  const ExportFunction* forward = nullptr;
  const TorchSteps* steps = nullptr;
  const TorchTree* tree = nullptr;
  std::function<int(int)> class_of;                     // the class of a node that has been written before
  std::function<std::string(std::size_t)> method_name;  // of a body that has been written before
};

TorchMethod write_method(const TorchBodyContext& context, std::size_t body);

}  // namespace rewire::runtime
