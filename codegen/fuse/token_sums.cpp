// Finds the sums of token_sums.h.
#include "codegen/fuse/token_sums.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "codegen/fuse/attention.h"
#include "codegen/fuse/grouping.h"
#include "ir/opcodes.h"

namespace rewire::codegen {
namespace {

using ir::Op;
using ir::Opcode;
using ir::Shape;
using ir::Value;

/// Where the elements of a value are in the linear order of the tensor that is summed.
struct Placed {
  std::int64_t offset = 0;
  Shape strides;
};

/// Returns the strides of the operand of a reshape to `to`, whose strides are given. nullopt: it has none.
std::optional<Shape> strides_before(const Shape& to, const Shape& strides, const Shape& from) {
  Shape before(from.size(), 0);
  std::size_t i = 0, j = 0;
  while (i < to.size() && j < from.size()) {
    const std::size_t first = j;
    std::int64_t above = to[i], below = from[j], step = strides[i];
    std::int64_t inner = to[i] == 1 ? 0 : step;  // the stride of the innermost axis so far
    for (++i, ++j; above != below;) {
      if (above > below) {
        below *= from[j++];
        continue;
      }
      if (to[i] > 1 && inner != 0 && inner != strides[i] * to[i]) return std::nullopt;
      if (to[i] > 1) inner = strides[i];
      above *= to[i++];
    }
    for (std::size_t k = j; k-- > first;) {
      before[k] = inner;
      inner *= from[k];
    }
  }
  return before;
}

}  // namespace

/// The walk from a sum to the results of one attention_grad, through casts, views and concats.
struct Grouping::PlacedResults {
  int attention = -1;
  std::vector<std::pair<int, Placed>> results;  // by the number of the result
};

// Follows a value to results of attention_grad, past views whether they are carried out or not. Returns false if it is made of anything else.
bool Grouping::place_results(Value value, std::int64_t offset, const Shape& strides,
                             PlacedResults& found) const {
  const int at = definitions_[static_cast<std::size_t>(value.id)];
  if (at < 0) return false;
  const Op& source = op(at);
  const auto type = [&](Value of) -> const ir::TensorType& { return function().type(of); };
  switch (source.code) {
    case Opcode::cast:
      return type(value).dtype == ir::DType::f32 && type(source.operands[0]).dtype == ir::DType::bf16 &&
             place_results(source.operands[0], offset, strides, found);
    case Opcode::reshape: {
      const auto before = strides_before(type(value).shape, strides, type(source.operands[0]).shape);
      return before && place_results(source.operands[0], offset, *before, found);
    }
    case Opcode::transpose: {
      const ir::Ints& permutation = source.attributes.get_ints("permutation");
      const auto rank = static_cast<std::int64_t>(permutation.size());
      Shape before(permutation.size());
      for (std::size_t i = 0; i < permutation.size(); ++i)
        before[static_cast<std::size_t>((permutation[i] + rank) % rank)] = strides[i];
      return place_results(source.operands[0], offset, before, found);
    }
    case Opcode::concat: {
      const std::int64_t given = source.attributes.get_int("axis");
      const auto axis = static_cast<std::size_t>(given < 0 ? given + std::ssize(strides) : given);
      for (Value operand : source.operands) {
        if (!place_results(operand, offset, strides, found)) return false;
        offset += type(operand).shape[axis] * strides[axis];
      }
      return true;
    }
    case Opcode::attention_grad: {
      if (found.attention >= 0 && found.attention != at) return false;
      found.attention = at;
      const auto result = std::ranges::find(source.results, value) - source.results.begin();
      found.results.push_back({static_cast<int>(result), {offset, strides}});
      return result < 3 && type(value).dtype == ir::DType::bf16;
    }
    default:
      return false;
  }
}

std::optional<std::pair<int, TokenSums>> Grouping::token_sums(int index) const {
  const Op& sum = op(index);
  if (sum.code != Opcode::sum) return std::nullopt;
  const Shape &from = function().type(sum.operands[0]).shape, &to = function().type(sum.results[0]).shape;
  if (from.size() < 2 || from.size() != to.size() || from.back() != to.back() ||
      function().type(sum.results[0]).dtype != ir::DType::f32 || ir::element_count(from) == 0 ||
      std::any_of(to.begin(), to.end() - 1, [](std::int64_t extent) { return extent != 1; }))
    return std::nullopt;
  PlacedResults found;
  if (!place_results(sum.operands[0], 0, ir::row_major_strides(from), found)) return std::nullopt;
  TokenSums sums{index, from.back(), {}};
  std::set<int> results;
  std::int64_t elements = 0;
  for (const auto& entry : found.results) {
    const auto result = entry.first;
    const auto& placed = entry.second;
    const Shape& shape = function().type(op(found.attention).results[static_cast<std::size_t>(result)]).shape;
    const auto is_row = [&](std::size_t axis) {
      return shape[axis] == 1 || placed.strides[axis] % sums.width == 0;
    };
    const TokenSums::Columns columns{result, placed.offset % sums.width, placed.strides[1],
                                     placed.strides[3]};
    const std::int64_t last =
        columns.offset + (shape[1] - 1) * columns.head + (shape[3] - 1) * columns.channel;
    if (!is_row(0) || !is_row(2) || last >= sums.width || !results.insert(result).second) return std::nullopt;
    elements += ir::element_count(shape);
    sums.columns.push_back(columns);
  }
  if (elements != ir::element_count(from)) return std::nullopt;
  return std::pair(found.attention, std::move(sums));
}

// Gives sums over tokens to the attention_grad that can compute them. Another reader of a summed cast still
// makes the cast itself.
void Grouping::find_token_sums(const WorkGrain& grain) {
  for (int i = 0; i < static_cast<int>(function().body.size()); ++i) {
    auto found = token_sums(i);
    if (!found || !sums_tokens(function(), op(found->first), grain)) continue;
    std::vector<TokenSums>& all = token_sums_[found->first];
    const auto shares = [&](const TokenSums& other) {
      return std::ranges::any_of(other.columns, [&](const TokenSums::Columns& columns) {
        return std::ranges::find(found->second.columns, columns.result, &TokenSums::Columns::result) !=
               found->second.columns.end();
      });
    };
    if (std::ranges::any_of(all, shares)) continue;
    absorbed_.insert(i);
    const Value summed = op(i).operands[0];
    const int cast = definitions_[static_cast<std::size_t>(summed.id)];
    if (op(cast).code == Opcode::cast && direct_uses_[static_cast<std::size_t>(summed.id)] == 1 &&
        !is_result(summed))
      absorbed_.insert(cast);
    all.push_back(std::move(found->second));
  }
}

}  // namespace rewire::codegen
