// Philox-4x32-10 on vectors of counters (ir/philox.h defines it). A block gives four numbers to four
// neighbouring elements. If the elements of four vectors are contiguous and start with a block, one vector
// of blocks makes all four vectors. Otherwise every lane makes the block of its own element.
#include <algorithm>
#include <array>
#include <numbers>

#include "codegen/llvm/emitter.h"

namespace rewire::codegen::cpu {

using llvm::Value;

namespace {

constexpr std::uint64_t kMultipliers[] = {0xD2511F53, 0xCD9E8D57};
constexpr std::uint32_t kWeyl[] = {0x9E3779B9, 0xBB67AE85};
constexpr std::uint32_t kHighBlockFactor = 2654435761U;
constexpr int kBlock = 4;

}  // namespace

/// Returns the low and high words of x times a constant. Vectors multiply their even and odd lanes as 64-bit
/// numbers.
std::pair<Value*, Value*> Emitter::multiply_words(Value* x, std::uint64_t factor) {
  llvm::Type* word = x->getType();
  llvm::Type* i64 = builder_.getInt64Ty();
  const auto constant = [](llvm::Type* type, std::uint64_t value) {
    return llvm::ConstantInt::get(type, value);
  };
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(word);
  if (vector == nullptr) {
    Value* product = builder_.CreateMul(builder_.CreateZExt(x, i64), constant(i64, factor));
    return {builder_.CreateTrunc(product, word),
            builder_.CreateTrunc(builder_.CreateLShr(product, 32), word)};
  }
  llvm::Type* pairs = llvm::FixedVectorType::get(i64, vector->getNumElements() / 2);
  Value* low_mask = constant(pairs, 0xffffffff);
  Value* high_mask = constant(pairs, 0xffffffff00000000);
  Value* both = builder_.CreateBitCast(x, pairs);
  Value* even = builder_.CreateMul(builder_.CreateAnd(both, low_mask), constant(pairs, factor));
  Value* odd = builder_.CreateMul(builder_.CreateLShr(both, 32), constant(pairs, factor));
  Value* low = builder_.CreateOr(builder_.CreateAnd(even, low_mask), builder_.CreateShl(odd, 32));
  Value* high = builder_.CreateOr(builder_.CreateLShr(even, 32), builder_.CreateAnd(odd, high_mask));
  return {builder_.CreateBitCast(low, word), builder_.CreateBitCast(high, word)};
}

/// Returns the four words of each of these blocks (i64, scalar or vector).
Emitter::Words Emitter::philox(const tile::Random& random, Value* blocks) {
  llvm::Type* word = blocks->getType()->getWithNewType(builder_.getInt32Ty());
  const auto constant = [&](std::uint64_t value) { return llvm::ConstantInt::get(word, value); };
  const auto in_lanes = [&](Value* scalar) { return in_vector() ? spread(scalar) : scalar; };
  const auto low = [&](Value* x) { return builder_.CreateTrunc(x, word); };
  const auto high = [&](Value* x) { return builder_.CreateTrunc(builder_.CreateLShr(x, 32), word); };
  Value* seed = in_lanes(read(random.seed, 0));
  Value* step = low(in_lanes(read(random.step, 0)));
  step = builder_.CreateAdd(step, builder_.CreateMul(high(blocks), constant(kHighBlockFactor)));
  const auto half = [&](tile::TileValue value, std::uint64_t known) -> Value* {
    return value ? low(in_lanes(read(value, 0))) : constant(known);
  };
  Words counter = {low(blocks), half(random.stream_low, random.stream & 0xffffffff),
                   half(random.stream_high, random.stream >> 32), step};
  std::array<Value*, 2> key = {low(seed), high(seed)};
  for (int round = 0; round < 10; ++round) {
    const auto [low0, high0] = multiply_words(counter[0], kMultipliers[0]);
    const auto [low1, high1] = multiply_words(counter[2], kMultipliers[1]);
    counter = {builder_.CreateXor(builder_.CreateXor(high1, counter[1]), key[0]), low1,
               builder_.CreateXor(builder_.CreateXor(high0, counter[3]), key[1]), low0};
    for (std::size_t i = 0; i < 2; ++i) key[i] = builder_.CreateAdd(key[i], constant(kWeyl[i]));
  }
  return counter;
}

/// Returns whether the elements along the vector axis are contiguous, and every row of them starts with a
/// block.
bool Emitter::starts_with_blocks(const tile::Access& element) const {
  if (!in_vector() || element.strides[static_cast<std::size_t>(environment_->axis)] != 1) return false;
  for (std::size_t axis = 0; axis < element.strides.size(); ++axis) {
    const bool along = static_cast<std::int32_t>(axis) == environment_->axis;
    if (!along && element.strides[axis] % kBlock != 0) return false;
  }
  return element.offset % kBlock == 0 && element.part_stride % kBlock == 0;
}

void Emitter::emit_random(const tile::Random& random) {
  const int count = in_vector() ? environment_->chunk.count : 1;
  if (count > 1 && count <= kBlock && starts_with_blocks(random.element)) {
    const std::vector<Words> words = contiguous_words(random);
    for (int u = 0; u < count; ++u)
      define(random.result, u, draw(random, words[static_cast<std::size_t>(u)], alternating()));
    return;
  }
  for (int u = 0; u < count; ++u) {
    Value* elements = address(random.element);
    if (in_vector()) {
      const std::int64_t stride = random.element.strides[static_cast<std::size_t>(environment_->axis)];
      elements = builder_.CreateAdd(builder_.CreateVectorSplat(static_cast<unsigned>(width_), elements),
                                    strided_offsets(stride, u));
    }
    define(random.result, u, compute_random(random, elements));
  }
}

/// Returns a mask of every second lane: the odd elements, if rows start with an even one.
Value* Emitter::alternating() {
  std::vector<llvm::Constant*> bits;
  for (int lane = 0; lane < width_; ++lane) bits.push_back(builder_.getInt1(lane % 2 == 1));
  return llvm::ConstantVector::get(bits);
}

/// Returns the words for four vectors of contiguous elements. Words 0 and 1 hold the even and the odd word
/// of each lane's pair.
std::vector<Emitter::Words> Emitter::contiguous_words(const tile::Random& random) {
  Value* first = builder_.CreateLShr(builder_.CreateAdd(address(random.element), element(0)), 2);
  Value* blocks = builder_.CreateAdd(builder_.CreateVectorSplat(static_cast<unsigned>(width_), first),
                                     lane_numbers(builder_.getInt64Ty()));
  const Words words = philox(random, blocks);
  std::vector<Words> result;
  for (int u = 0; u < kBlock; ++u) {
    // Lane l of vector u is element 4 b + l % 4 of block b = u W / 4 + l / 4, whose pair is words (0, 1) or
    // (2, 3).
    std::vector<int> lanes;
    for (int lane = 0; lane < width_; ++lane) {
      const int block = u * width_ / kBlock + lane / kBlock;
      lanes.push_back(lane % kBlock < 2 ? block : block + width_);
    }
    result.push_back({builder_.CreateShuffleVector(words[0], words[2], lanes),
                      builder_.CreateShuffleVector(words[1], words[3], lanes), nullptr, nullptr});
  }
  return result;
}

Value* Emitter::compute_random(const tile::Random& random, Value* elements) {
  const Words words = philox(random, builder_.CreateLShr(elements, 2));
  const auto bit = [&](std::uint64_t which) {
    Value* bits = builder_.CreateAnd(elements, llvm::ConstantInt::get(elements->getType(), which));
    return builder_.CreateICmpNE(bits, llvm::Constant::getNullValue(elements->getType()));
  };
  Value* second_pair = bit(2);
  return draw(random,
              {builder_.CreateSelect(second_pair, words[2], words[0]),
               builder_.CreateSelect(second_pair, words[3], words[1]), nullptr, nullptr},
              bit(1));
}

/// Returns the numbers of elements with the pair of words pair[0], pair[1]. `odd`: which of the pair an
/// element is.
Value* Emitter::draw(const tile::Random& random, const Words& pair, Value* odd) {
  llvm::Type* type = type_of(program_.info(random.result).dtype, in_vector());
  const auto constant = [&](double value) { return llvm::ConstantFP::get(type, value); };
  const auto uniform = [&](Value* word) {
    return builder_.CreateFMul(builder_.CreateUIToFP(builder_.CreateLShr(word, 8), type), constant(0x1p-24));
  };
  if (!random.normal) return uniform(builder_.CreateSelect(odd, pair[1], pair[0]));
  // Box-Muller: r cos(t) for even elements, r sin(t) for odd ones; cos(t) = sin(t + pi/2). 1 - u is exact.
  Value* log = math_.log(builder_.CreateFSub(constant(1), uniform(pair[0])));
  Value* radius = math_.sqrt(builder_.CreateFMul(log, constant(-2)));
  Value* shift = builder_.CreateSelect(odd, constant(0), constant(std::numbers::pi / 2));
  Value* angle = math_.fma(uniform(pair[1]), constant(2 * std::numbers::pi), shift);
  return builder_.CreateFMul(radius, math_.sin(angle));
}

}  // namespace rewire::codegen::cpu
