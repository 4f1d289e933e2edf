// Values of a row kernel as text; see rows_values.h.
#include "codegen/cuda/rows_values.h"

#include "codegen/tile/walk.h"
#include "ir/error.h"

namespace rewire::codegen::cuda {
namespace {

using tile::AxisUse;
using tile::Node;
using tile::TileValue;

}  // namespace

RowValues::RowValues(const RowsPlan& plan, const KernelText& text, Lines& lines)
    : plan_(plan), text_(text), lines_(lines), texts_(text.kernel().values.size()) {}

const Node* RowValues::definition(TileValue value) const {
  const tile::Kernel& kernel = text_.kernel();
  for (const auto* section : {&kernel.prologue, &kernel.body, &kernel.epilogue}) {
    for (const Node& node : *section) {
      if (tile::result_of(node) == value) return &node;
    }
  }
  return nullptr;
}

Expression RowValues::read(TileValue value) {
  if (is_array(value)) return {text_.name(value) + "[e]"};
  Expression& known = texts_[static_cast<std::size_t>(value.id)];
  if (!known.text.empty()) return known;
  const Node* node = definition(value);
  if (node != nullptr &&
      (std::holds_alternative<tile::Constant>(*node) || std::holds_alternative<tile::Index>(*node)))
    return text_.immediate(*node);
  if (!plan_.home(value).again)
    internal_error("tile kernel {}: %{} is read where it is not available", text_.kernel().name, value.id);
  known = {text_.name(value)};
  again_.push_back(value);
  const std::string text = pointwise(std::get<tile::Pointwise>(*node)).text;
  lines_.line("const {} {} = {};", text_.type(value), text_.name(value), text);
  return known;
}

Expression RowValues::pointwise(const tile::Pointwise& node) {
  std::vector<Expression> operands;
  std::vector<ir::DType> dtypes;
  for (TileValue operand : node.operands) {
    operands.push_back(read(operand));
    dtypes.push_back(text_.info(operand).dtype);
  }
  return pointwise_expression(node, operands, dtypes, text_.info(node.result).dtype);
}

void RowValues::define(TileValue value, const Expression& text) {
  Expression& known = texts_[static_cast<std::size_t>(value.id)];
  if (is_array(value)) {
    lines_.line("{}[e] = {};", text_.name(value), text.text);
  } else if (plan_.home(value).inlined && text.text.size() <= kLongestInline) {
    known = text;
  } else {
    lines_.line("const {} {} = {};", text_.type(value), text_.name(value), text.text);
    known = {text_.name(value)};
  }
}

void RowValues::know(TileValue value, const std::string& name) {
  texts_[static_cast<std::size_t>(value.id)] = {name};
}

Expression RowValues::loaded(const tile::Load& load) {
  std::string index = text_.element_index(load.access);
  if (load.index) index = index == "0" ? gathered(load) : index + " + " + gathered(load);
  return text_.loaded(load, index);
}

Expression RowValues::drawn(const tile::Random& random, const std::string& element) {
  const std::string key = KernelText::draw_key(random, [&](tile::TileValue value) { return read(value); });
  return KernelText::drawn(random, key, element);
}

std::string RowValues::gathered(const tile::Load& load) {
  return text_.gathered(load, read(load.index));
}

void RowValues::open_elements() {
  lines_.directive("#pragma unroll");
  lines_.open("for (int e = 0; e < L::kElements; ++e)");
}

void RowValues::close_elements() {
  lines_.close();
  for (TileValue value : again_) texts_[static_cast<std::size_t>(value.id)] = {};
  again_.clear();
}

void RowValues::declare_lanes() {
  std::string name;
  int axes = 0;
  for (std::int32_t axis : plan_.lane_axes) {
    if (text_.axis(axis).extent == 1) continue;
    ++axes;
    name = text_.axis(axis).name;
  }
  if (axes == 0) return;
  lines_.line("const int {} = L::lane(e, thread);", axes == 1 ? name : "lane");
  if (axes > 1) text_.declare_indices(lines_, AxisUse::lane, "lane");
}

}  // namespace rewire::codegen::cuda
