#include "programs/byte_inputs.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"

namespace rewire::programs {
namespace {

constexpr std::int64_t kByteValues = 256;

/// Returns the table without the rows of further channels if all channels have the same.
ir::Doubles distinct_rows(const std::vector<float>& values) {
  const auto first = values.begin(), second = first + kByteValues;
  for (auto row = second; row != values.end(); row += kByteValues)
    if (!std::equal(first, second, row)) return {values.begin(), values.end()};
  return {first, second};
}

}  // namespace

void take_bytes(ir::Module& module, ir::Function& function, const ByteInput& input) {
  const ir::Value image = function.argument(input.name);
  if (!image) return;
  const ir::Shape shape = function.type(image).shape;
  if (shape.size() < 3 || function.type(image).dtype != ir::DType::f32 ||
      std::ssize(input.values) != shape[shape.size() - 3] * kByteValues)
    internal_error("'{}' {} cannot be taken as bytes of {} values", input.name,
                   to_string(function.type(image)), input.values.size());
  function.types[static_cast<std::size_t>(image.id)].dtype = ir::DType::u8;
  ir::Builder b(module, function);
  b.set_position(0);
  b.set_location("bytes");
  const ir::Doubles table = distinct_rows(input.values);
  ir::Value index = b.cast(image, ir::DType::i32);
  if (std::ssize(table) > kByteValues) {
    const ir::Value channel =
        b.emit(ir::Opcode::iota, {}, {{"axis", std::int64_t{-3}}}, ir::TensorType{ir::DType::i32, shape});
    index = b.add(index, b.mul(channel, static_cast<double>(kByteValues)));
  }
  const ir::Value values = b.emit(ir::Opcode::constant, {}, {{"values", table}},
                                  ir::TensorType{ir::DType::f32, {std::ssize(table)}});
  const ir::Value floats = b.emit(ir::Opcode::gather, {values, b.reshape(index, {ir::element_count(shape)})},
                                  {{"axis", std::int64_t{0}}});
  const ir::Value made = b.reshape(floats, shape);
  function.replace_uses(image, made, b.position());
}

}  // namespace rewire::programs
