// Value numbering in the order of the ops; see twins.h.
#include "codegen/fuse/twins.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace rewire::codegen {
namespace {

using ir::Op;
using ir::Value;

std::size_t mixed(std::size_t hash, std::size_t more) {
  return hash * 0x9e3779b97f4a7c15U + more;
}

template <class T>
std::size_t hash_of(const T& content) {
  if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return std::hash<T>()(content);
  } else {
    std::size_t hash = content.size();
    for (const auto& item : content) hash = mixed(hash, hash_of(item));
    return hash;
  }
}

/// Returns a hash: equal attributes have equal hashes, so unequal ones are seldom compared.
std::size_t hash_of(const ir::Attributes& attributes) {
  std::size_t hash = 0;
  for (const auto& [name, value] : attributes) {
    hash = mixed(hash, std::visit([](const auto& content) { return hash_of(content); }, value));
  }
  return hash;
}

class Numbering {
 public:
  explicit Numbering(const Grouping& grouping) : grouping_(grouping) {
    const std::size_t values = grouping.function().types.size();
    for (std::size_t id = 0; id < values; ++id) numbers_.push_back(static_cast<std::int32_t>(id));
    classes_.assign(values, -1);
  }

  std::vector<std::int32_t> run() {
    const std::vector<Op>& body = grouping_.function().body;
    for (const Op& op : body) {
      if (op.results.size() == 1) number(op);
    }
    return std::move(classes_);
  }

 private:
  /// Numbers an op's result. Results of calls keep numbers of their own. Views belong to no node; equal
  /// views share a number, so the ops that read through them compare equal.
  void number(const Op& op) {
    const Value result = op.results[0];
    const int node = grouping_.producer(result);
    const bool grouped = node >= 0 && !grouping_.nodes()[static_cast<std::size_t>(node)].opaque;
    if (node >= 0 && !grouped) return;
    std::vector<std::int32_t> operands;
    for (Value operand : op.operands) operands.push_back(numbers_[static_cast<std::size_t>(operand.id)]);
    std::vector<const Op*>& known = known_[{node, op.code, hash_of(op.attributes), std::move(operands)}];
    const auto twin = std::ranges::find_if(known, [&](const Op* other) { return same(op, *other); });
    if (twin == known.end()) {
      known.push_back(&op);
    } else {
      numbers_[static_cast<std::size_t>(result.id)] =
          numbers_[static_cast<std::size_t>((*twin)->results[0].id)];
    }
    if (grouped)
      classes_[static_cast<std::size_t>(result.id)] = numbers_[static_cast<std::size_t>(result.id)];
  }

  bool same(const Op& a, const Op& b) const {
    const ir::Function& function = grouping_.function();
    if (a.attributes != b.attributes || function.type(a.results[0]) != function.type(b.results[0]))
      return false;
    const int node = grouping_.producer(a.results[0]);
    if (node < 0) return true;
    const auto& maps = grouping_.nodes()[static_cast<std::size_t>(node)].group.maps;
    const auto x = maps.find(a.results[0].id), y = maps.find(b.results[0].id);
    return x != maps.end() && y != maps.end() && x->second == y->second;
  }

  const Grouping& grouping_;
  std::vector<std::int32_t> numbers_, classes_;  // by Value::id
  std::map<std::tuple<int, ir::Opcode, std::size_t, std::vector<std::int32_t>>, std::vector<const Op*>>
      known_;
};

}  // namespace

std::vector<std::int32_t> twin_classes(const Grouping& grouping) {
  return Numbering(grouping).run();
}

}  // namespace rewire::codegen
