// Philox-4x32-10 on vectors of counters (ir/philox.h defines it): every lane makes the block of its own
// element.
#include <array>
#include <numbers>

#include "codegen/llvm/emitter.h"

namespace rewire::codegen::cpu {

using llvm::Value;

namespace {

constexpr std::uint64_t kMultipliers[] = {0xD2511F53, 0xCD9E8D57};
constexpr std::uint32_t kWeyl[] = {0x9E3779B9, 0xBB67AE85};
constexpr std::uint32_t kHighBlockFactor = 2654435761U;

}  // namespace

/// The i64 element index of every lane.
Value* Emitter::random_elements(const tile::Random& random, int u) {
  Value* base = address(random.element);
  if (!in_vector()) return base;
  const std::int64_t stride = random.element.strides[static_cast<std::size_t>(environment_->axis)];
  return builder_.CreateAdd(builder_.CreateVectorSplat(static_cast<unsigned>(width_), base),
                            strided_offsets(stride, u));
}

/// The four words of each element's block.
std::array<Value*, 4> Emitter::philox(const tile::Random& random, Value* elements) {
  llvm::Type* wide = elements->getType();
  llvm::Type* word = wide->getWithNewType(builder_.getInt32Ty());
  const auto constant = [&](llvm::Type* type, std::uint64_t value) {
    return llvm::ConstantInt::get(type, value);
  };
  const auto in_lanes = [&](Value* scalar) { return in_vector() ? spread(scalar) : scalar; };
  const auto low = [&](Value* x) { return builder_.CreateTrunc(x, word); };
  const auto high = [&](Value* x) { return builder_.CreateTrunc(builder_.CreateLShr(x, 32), word); };
  Value* block = builder_.CreateLShr(elements, 2);
  Value* seed = in_lanes(read(random.seed, 0));
  Value* step = low(in_lanes(read(random.step, 0)));
  step = builder_.CreateAdd(step, builder_.CreateMul(high(block), constant(word, kHighBlockFactor)));
  std::array<Value*, 4> counter = {low(block), constant(word, random.stream & 0xffffffff),
                                   constant(word, random.stream >> 32), step};
  std::array<Value*, 2> key = {low(seed), high(seed)};
  for (int round = 0; round < 10; ++round) {
    Value* product0 =
        builder_.CreateMul(builder_.CreateZExt(counter[0], wide), constant(wide, kMultipliers[0]));
    Value* product1 =
        builder_.CreateMul(builder_.CreateZExt(counter[2], wide), constant(wide, kMultipliers[1]));
    counter = {builder_.CreateXor(builder_.CreateXor(high(product1), counter[1]), key[0]), low(product1),
               builder_.CreateXor(builder_.CreateXor(high(product0), counter[3]), key[1]), low(product0)};
    for (std::size_t i = 0; i < 2; ++i) key[i] = builder_.CreateAdd(key[i], constant(word, kWeyl[i]));
  }
  return counter;
}

Value* Emitter::compute_random(const tile::Random& random, int u) {
  Value* elements = random_elements(random, u);
  const std::array<Value*, 4> words = philox(random, elements);
  const auto bit = [&](std::uint64_t which) {
    Value* bits = builder_.CreateAnd(elements, llvm::ConstantInt::get(elements->getType(), which));
    return builder_.CreateICmpNE(bits, llvm::Constant::getNullValue(elements->getType()));
  };
  llvm::Type* type = type_of(program_.info(random.result).dtype, in_vector());
  const auto uniform = [&](Value* word) {
    return builder_.CreateFMul(builder_.CreateUIToFP(builder_.CreateLShr(word, 8), type),
                               llvm::ConstantFP::get(type, 0x1p-24));
  };
  Value* odd = bit(1);
  Value* second_pair = bit(2);
  Value* even_word = builder_.CreateSelect(second_pair, words[2], words[0]);
  Value* odd_word = builder_.CreateSelect(second_pair, words[3], words[1]);
  if (!random.normal) return uniform(builder_.CreateSelect(odd, odd_word, even_word));
  // Box-Muller: r cos(t) for even elements, r sin(t) for odd ones; cos(t) = sin(t + pi/2). 1 - u is exact.
  const auto constant = [&](double value) { return llvm::ConstantFP::get(type, value); };
  Value* log = math_.log(builder_.CreateFSub(constant(1), uniform(even_word)));
  Value* radius = math_.sqrt(builder_.CreateFMul(log, constant(-2)));
  Value* shift = builder_.CreateSelect(odd, constant(0), constant(std::numbers::pi / 2));
  Value* angle = math_.fma(uniform(odd_word), constant(2 * std::numbers::pi), shift);
  return builder_.CreateFMul(radius, math_.sin(angle));
}

}  // namespace rewire::codegen::cpu
