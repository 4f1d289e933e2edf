#include "runtime/trace/tensors.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"

namespace rewire::runtime {
namespace {

bool is_param(const TracedTensor& tensor) {
  return tensor.op == "param";
}

bool is_short(const TracedTensor& tensor) {
  return tensor.name != tensor.full || is_param(tensor);
}

bool matches_name(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool matches_tensor(const std::string& pattern, const TracedTensor& tensor) {
  if (pattern.find(':') == std::string::npos) return is_short(tensor) && matches_name(pattern, tensor.name);
  return !is_param(tensor) && matches_name(pattern, tensor.full);
}

std::vector<std::string> short_names(const std::vector<TracedTensor>& tensors) {
  std::vector<std::string> names;
  for (const TracedTensor& tensor : tensors) {
    if (is_short(tensor)) names.push_back(tensor.name);
  }
  return names;
}

}  // namespace

std::vector<TracedTensor> traceable_tensors(const ir::Function& forward) {
  std::vector<TracedTensor> tensors;
  std::map<std::string, std::size_t> last_of_place;
  std::map<std::pair<std::string, ir::Opcode>, int> counts;
  std::set<std::string> weights;
  for (const ir::Op& op : forward.body) {
    if (op.code == ir::Opcode::constant) continue;
    const std::string code(ir::opcode_name(op.code));
    for (const ir::Value value : op.results) {
      if (!ir::is_float(forward.type(value).dtype)) continue;
      if (op.code == ir::Opcode::param) {
        const std::string& name = op.attributes.get_string("name");
        if (weights.insert(name).second) tensors.push_back({name, name, code, value});
        continue;
      }
      const int number = ++counts[{op.location, op.code}];
      const std::string full =
          fmt::format("{}:{}{}", op.location, code, number == 1 ? "" : fmt::format(".{}", number));
      // A place names its last op's first result only. Other results are secondary, such as a
      // batch norm's statistics.
      if (!op.location.empty() && value == op.results.front()) last_of_place[op.location] = tensors.size();
      tensors.push_back({full, full, code, value});
    }
  }
  // A place may have the name of a weight; then the weight keeps it.
  for (const auto& [place, index] : last_of_place) {
    if (!weights.contains(place)) tensors[index].name = place;
  }
  return tensors;
}

std::vector<TracedTensor> select_tensors(const std::vector<TracedTensor>& all,
                                         const std::vector<std::string>& patterns) {
  std::vector<TracedTensor> found;
  if (patterns.empty()) {
    std::ranges::copy_if(all, std::back_inserter(found),
                         [](const TracedTensor& tensor) { return is_short(tensor) && !is_param(tensor); });
    return found;
  }
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(all, [&](const TracedTensor& tensor) { return matches_tensor(pattern, tensor); }))
      continue;
    const std::vector<std::string> names = short_names(all);
    if (names.empty()) user_error("--tensors {}: the network computes no named tensor", pattern);
    user_error(
        "--tensors {}: no such tensor{}; there are {} to {}, and with :OP a place's intermediate results",
        pattern, did_you_mean(pattern, names), names.front(), names.back());
  }
  std::ranges::copy_if(all, std::back_inserter(found), [&](const TracedTensor& tensor) {
    return std::ranges::any_of(patterns,
                               [&](const std::string& pattern) { return matches_tensor(pattern, tensor); });
  });
  return found;
}

std::vector<TracedTensor> tensors_between(const std::vector<TracedTensor>& all, const std::string& after,
                                          const std::string& last) {
  const auto end = std::ranges::find(all, last, &TracedTensor::name);
  const auto begin = std::find_if(all.begin(), end, [&](const TracedTensor& t) { return t.name == after; });
  std::vector<TracedTensor> found;
  for (auto tensor = begin == end ? all.begin() : begin + 1; tensor != all.end() && tensor <= end; ++tensor) {
    if (!is_param(*tensor)) found.push_back(*tensor);
  }
  return found;
}

}  // namespace rewire::runtime
