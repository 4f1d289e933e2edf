// Values of a block kernel as text; see blocks_values.h.
#include "codegen/cuda/blocks_values.h"

#include "codegen/tile/walk.h"
#include "ir/error.h"

namespace rewire::codegen::cuda {

using tile::Node;
using tile::TileValue;

Expression BlockValues::read(TileValue value) {
  if (const auto held = held_.find(value.id); held != held_.end()) return {held->second};
  const BlockValue& own = plan_.value(value);
  if (own.home == BlockHome::shared)
    return {plan_.array_of(value).narrow ? fmt::format("convert<float>({})", place(value)) : place(value)};
  if (own.home == BlockHome::immediate) return immediate(*own.node);
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

Expression BlockValues::immediate(const Node& node) const {
  if (const auto* constant = std::get_if<tile::Constant>(&node)) {
    const std::string text = literal(constant->value, text_.info(constant->result).dtype);
    return {text, text[0] == '-' ? Binding::sign : Binding::value};
  }
  const auto& index = std::get<tile::Index>(node);
  const ir::DType dtype = text_.info(index.result).dtype;
  const tile::Axis& axis = text_.axis(index.axis);
  if (axis.extent == 1) return {literal(0, dtype)};
  return cast_expression({axis.name}, ir::DType::i32, dtype);
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
  if (load.index) {
    const Expression at = cast_expression(read(load.index), text_.info(load.index).dtype, ir::DType::i64);
    index += fmt::format(" + {}clamped({}, {})",
                         load.index_stride == 1 ? "" : fmt::format("{}LL * ", load.index_stride), at.text,
                         load.index_limit);
  }
  const std::string element = fmt::format("{}[{}]", text_.argument(load.access.argument), index);
  const ir::DType dtype = text_.info(load.result).dtype;
  if (storage_type(text_.stored(load.access)) == arithmetic_type(dtype)) return {element};
  return {fmt::format("convert<{}>({})", arithmetic_type(dtype), element)};
}

Expression BlockValues::drawn(const tile::Random& random) {
  const std::string element = text_.element_index(random.element);
  return {fmt::format("{}(philox({}, {}, {:#x}ull, {}), {})", random.normal ? "normal" : "uniform",
                      read(random.seed).text, read(random.step).text, random.stream, element, element)};
}

std::string BlockValues::repeated(const tile::Store& store, const std::vector<std::int32_t>& lanes) const {
  std::string text;
  for (std::int32_t lane : lanes) {
    if (store.access.strides[static_cast<std::size_t>(lane)] == 0 && text_.axis(lane).extent > 1)
      text += fmt::format("{}{} == 0", text.empty() ? "" : " && ", text_.axis(lane).name);
  }
  return text;
}

void BlockValues::write_store(const tile::Store& store, std::string when) {
  if (store.predicate) when = conjunction({when, read(store.predicate).within(Binding::conjunction)});
  const ir::DType stored = text_.stored(store.access);
  const Expression value = read(store.value);
  const bool same = arithmetic_type(text_.info(store.value).dtype) == storage_type(stored);
  lines_.line("{}{}[{}] = {};", when.empty() ? "" : fmt::format("if ({}) ", when),
              text_.argument(store.access.argument), text_.element_index(store.access),
              same ? value.text : fmt::format("convert<{}>({})", storage_type(stored), value.text));
}

}  // namespace rewire::codegen::cuda
