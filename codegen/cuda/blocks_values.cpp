// Values of a block kernel as text; see blocks_values.h.
#include "codegen/cuda/blocks_values.h"

#include "codegen/tile/walk.h"
#include "ir/error.h"

namespace rewire::codegen::cuda {

using tile::AxisUse;
using tile::Node;
using tile::TileValue;

std::int64_t walkers_of(const BlockPlan& plan, const tile::Kernel& kernel) {
  if (axes_of(kernel, AxisUse::row).empty()) return 1;
  return plan.by_partition ? kernel.partitions : kernel.row_count();
}

void declare_places(const BlockPlan& plan, const KernelText& text, Lines& lines, const std::string& block) {
  const tile::Kernel& kernel = text.kernel();
  const auto declare = [&](AxisUse use, const std::string& index, std::int64_t count) {
    if (count == 1) return;
    std::string name;
    int axes = 0;
    for (std::int32_t axis : axes_of(kernel, use)) {
      if (text.axis(axis).extent == 1) continue;
      ++axes;
      name = text.axis(axis).name;
    }
    if (axes != 1) name = use == AxisUse::outer ? "outer" : "row";
    lines.line("const int {} = {};", name, index);
    text.declare_indices(lines, use, name);
  };
  const std::int64_t walkers = walkers_of(plan, kernel);
  const std::int64_t outer = extent_of(kernel, axes_of(kernel, AxisUse::outer));
  declare(AxisUse::outer, walkers == 1 ? block : fmt::format("{} / {}", block, walkers), outer);
  const std::string walker = outer == 1 ? block : fmt::format("{} % {}", block, walkers);
  if (!plan.by_partition) {
    declare(AxisUse::row, walker, kernel.row_count());
  } else if (kernel.partitions > 1) {
    lines.line("const int part = {};", walker);
  }
}

Expression BlockValues::read(TileValue value) {
  if (const auto held = held_.find(value.id); held != held_.end()) return {held->second};
  const BlockValue& own = plan_.value(value);
  if (own.home == BlockHome::shared && plan_.array_of(value).row_tiles > 0) {
    const SharedArray& array = plan_.array_of(value);
    return {fmt::format("sum_down<{}, {}>(&{})", array.row_tiles, array.pitch, place(value))};
  }
  if (own.home == BlockHome::shared)
    return {plan_.array_of(value).narrow ? fmt::format("convert<float>({})", place(value)) : place(value)};
  if (own.home == BlockHome::immediate) return text_.immediate(*own.node);
  if (own.home == BlockHome::again && scope_.insert(value.id).second) {
    const std::string text = computed(*own.node).text;
    lines_.line("const {} {} = {};", text_.type(value), text_.name(value), text);
  }
  return {text_.name(value)};
}

std::string BlockValues::place(TileValue value) const {
  const SharedArray& array = plan_.array_of(value);
  Terms terms;
  std::int64_t stride = 1;
  for (std::size_t i = array.lanes.size(); i-- > 0;) {
    const tile::Axis& axis = text_.axis(array.lanes[i]);
    if (axis.extent > 1) terms.products.insert(terms.products.begin(), {stride, axis.name});
    stride *= i + 1 == array.lanes.size() ? array.pitch : axis.extent;
  }
  return fmt::format("{}[{}]", text_.name(value), terms.text(false));
}

void BlockValues::put(TileValue value, const std::string& text) {
  lines_.line("{} = {};", place(value),
              plan_.array_of(value).narrow ? fmt::format("convert<bf16>({})", text) : text);
}

Expression BlockValues::computed(const Node& node) {
  if (const auto* load = std::get_if<tile::Load>(&node)) return loaded(*load);
  if (const auto* random = std::get_if<tile::Random>(&node)) return drawn(*random);
  const auto* op = std::get_if<tile::Pointwise>(&node);
  if (op == nullptr)
    internal_error("tile kernel {}: a {} has no CUDA code here", text_.kernel().name, tile::node_word(node));
  std::vector<Expression> operands;
  std::vector<ir::DType> dtypes;
  for (TileValue operand : op->operands) {
    operands.push_back(read(operand));
    dtypes.push_back(text_.info(operand).dtype);
  }
  return pointwise_expression(*op, operands, dtypes, text_.info(op->result).dtype);
}

Expression BlockValues::loaded(const tile::Load& load) {
  std::string index = text_.element_index(load.access);
  if (load.index) index += " + " + text_.gathered(load, read(load.index));
  return text_.loaded(load, index);
}

Expression BlockValues::drawn(const tile::Random& random) {
  const std::string key = KernelText::draw_key(random, [&](tile::TileValue value) { return read(value); });
  return KernelText::drawn(random, key, text_.element_index(random.element));
}

void BlockValues::write_store(const tile::Store& store, std::string when) {
  if (store.predicate) when = conjunction({when, read(store.predicate).within(Binding::conjunction)});
  const Expression value = read(store.value);
  lines_.line("{}", text_.stored(store, value, when));
}

}  // namespace rewire::codegen::cuda
