// Philox, its streams, and the ops that draw.
#include <cmath>

#include "ir/opcodes.h"
#include "ir/philox.h"
#include "tests/ir/run_op.h"
#include "tests/support/catch.h"

using namespace rewire::ir;
using namespace rewire::testing;

namespace {

using Values = std::vector<double>;

Values draw(Opcode code, double seed, double step, const std::string& stream, std::int64_t count) {
  return values_of(code, {scalar(DType::i64, seed), scalar(DType::i64, step)}, {{"stream", stream}},
                   TensorType{DType::f32, {count}});
}

double mean(const Values& values) {
  double total = 0;
  for (double value : values) total += value;
  return total / static_cast<double>(values.size());
}

double correlation(const Values& a, const Values& b) {
  const double mean_a = mean(a);
  const double mean_b = mean(b);
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return ab / std::sqrt(aa * bb);
}

std::vector<Tensor> drop_operands(Tensor x, bool training, double step = 3) {
  return {std::move(x), scalar(DType::i64, 7), scalar(DType::i64, step), scalar(DType::i1, training ? 1 : 0)};
}

const std::string kStream = "blocks.3.mlp.dropout";

}  // namespace

TEST_CASE("Philox-4x32-10 gives the known answers of Random123") {
  CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t kOnes = 0xffffffff;
  CHECK(philox4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("Stream names hash by FNV-1a") {
  CHECK(stream_hash("") == 0xcbf29ce484222325);
  CHECK(stream_hash("a") == 0xaf63dc4c8601ec8c);
  CHECK(stream_hash("foobar") == 0x85944171f73967e8);
}

TEST_CASE("Counter and key hold block, stream, step and seed") {
  const PhiloxStream stream{0x0123456789abcdef, 42, 0xfedcba9876543210};
  const PhiloxBlock block = philox4x32_10({5, 0x76543210, 0xfedcba98, 42}, {0x89abcdef, 0x01234567});
  for (std::uint64_t lane = 0; lane < 4; ++lane) CHECK(stream.bits(20 + lane) == block[lane]);
  // Past 2^34 elements the high half of the block index moves the step word.
  const PhiloxBlock far =
      philox4x32_10({1, 0x76543210, 0xfedcba98, 42 + 3 * 2654435761U}, {0x89abcdef, 0x01234567});
  CHECK(stream.bits((((std::uint64_t{3} << 32) + 1) << 2) + 2) == far[2]);
}

TEST_CASE("uniform takes the top 24 bits, normal the Box-Muller pair") {
  const PhiloxStream stream{9, 1, stream_hash(kStream)};
  for (std::uint64_t i = 0; i < 16; ++i) {
    CHECK(stream.uniform(i) == std::floor(stream.bits(i) / 256.0) / 16777216.0);
  }
  for (std::uint64_t pair = 0; pair < 8; ++pair) {
    const double even = stream.normal(2 * pair);
    const double odd = stream.normal(2 * pair + 1);
    const double u0 = stream.uniform(2 * pair);
    const double u1 = stream.uniform(2 * pair + 1);
    CHECK(even * even + odd * odd == Approx(-2 * std::log(1 - u0)).epsilon(1e-12));
    // The angle, as a fraction of a turn.
    const double turn = std::atan2(odd, even) / (2 * std::acos(-1.0));
    CHECK(std::abs(std::remainder(turn - u1, 1.0)) < 1e-12);
  }
}

TEST_CASE("Uniform draws have the moments of the uniform distribution") {
  const Values u = draw(Opcode::random_uniform, 1, 2, kStream, 40000);
  Values squares;
  for (double value : u) {
    REQUIRE((value >= 0 && value < 1));
    squares.push_back(value * value);
  }
  // Five standard deviations of the mean of n draws: 5 sqrt(1/12 / n), 5 sqrt(4/45 / n).
  CHECK(std::abs(mean(u) - 0.5) < 5 * std::sqrt(1.0 / 12 / 40000));
  CHECK(std::abs(mean(squares) - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / 40000));
}

TEST_CASE("Normal draws have the moments of the normal distribution") {
  const Values z = draw(Opcode::random_normal, 1, 2, kStream, 40000);
  Values second;
  Values third;
  Values fourth;
  for (double value : z) {
    second.push_back(std::pow(value, 2));
    third.push_back(std::pow(value, 3));
    fourth.push_back(std::pow(value, 4));
  }
  // Variances of z, z^2, z^3, z^4: 1, 2, 15, 96.
  CHECK(std::abs(mean(z)) < 5 * std::sqrt(1.0 / 40000));
  CHECK(std::abs(mean(second) - 1) < 5 * std::sqrt(2.0 / 40000));
  CHECK(std::abs(mean(third)) < 5 * std::sqrt(15.0 / 40000));
  CHECK(std::abs(mean(fourth) - 3) < 5 * std::sqrt(96.0 / 40000));
  const Values even_odd = draw(Opcode::random_normal, 1, 3, kStream, 40000);
  CHECK(std::abs(correlation(z, even_odd)) < 5 / std::sqrt(40000.0));
}

TEST_CASE("Streams, steps and seeds draw apart; the shape does not matter") {
  const Values base = draw(Opcode::random_uniform, 1, 2, kStream, 10000);
  CHECK(std::abs(correlation(base, draw(Opcode::random_uniform, 1, 2, "other", 10000))) < 0.05);
  CHECK(std::abs(correlation(base, draw(Opcode::random_uniform, 1, 3, kStream, 10000))) < 0.05);
  CHECK(std::abs(correlation(base, draw(Opcode::random_uniform, 2, 2, kStream, 10000))) < 0.05);
  CHECK(base == draw(Opcode::random_uniform, 1, 2, kStream, 10000));
  const Values square = values_of(Opcode::random_uniform, {scalar(DType::i64, 1), scalar(DType::i64, 2)},
                                  {{"stream", kStream}}, TensorType{DType::f32, {100, 100}});
  CHECK(square == base);
}

TEST_CASE("Adding, removing or moving other draws never changes a stream") {
  const std::vector<Tensor> keys = {scalar(DType::i64, 5), scalar(DType::i64, 6)};
  const auto emit = [](Builder& b, const std::vector<Value>& x, const std::string& stream) {
    return b.emit(Opcode::random_normal, x, {{"stream", stream}}, TensorType{DType::f32, {33}});
  };
  const Values alone =
      run(keys,
          [&](Builder& b, const std::vector<Value>& x) { return std::vector<Value>{emit(b, x, "a")}; })[0]
          .data;
  const std::vector<Tensor> among = run(keys, [&](Builder& b, const std::vector<Value>& x) {
    const Value before = emit(b, x, "b");
    const Value middle = emit(b, x, "a");
    return std::vector<Value>{middle, emit(b, x, "c"), before};
  });
  CHECK(among[0].data == alone);
  CHECK(among[1].data != alone);
  CHECK(among[2].data != among[1].data);
}

TEST_CASE("dropout keeps where its stream's draw is at least p, and scales by 1 / (1 - p)") {
  const double p = 0.3;
  const Tensor x = random_f32({100, 37}, 81);
  const Values y =
      values_of(Opcode::dropout, drop_operands(x, true), {{"probability", p}, {"stream", kStream}});
  const Values u = draw(Opcode::random_uniform, 7, 3, kStream, 3700);
  double kept = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    CHECK(y[i] == Approx(u[i] < p ? 0 : x.data[i] / (1 - p)).epsilon(1e-15));
    kept += y[i] != 0 ? 1 : 0;
  }
  CHECK(std::abs(kept / 3700 - (1 - p)) < 5 * std::sqrt(p * (1 - p) / 3700));
}

TEST_CASE("drop_path keeps or drops whole samples, by the sample's index") {
  const Tensor x = random_f32({64, 5, 3}, 82);
  const Values y =
      values_of(Opcode::drop_path, drop_operands(x, true), {{"probability", 0.5}, {"stream", kStream}});
  const Values u = draw(Opcode::random_uniform, 7, 3, kStream, 64);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == (u[i / 15] < 0.5 ? 0 : 2 * x.data[i]));
}

TEST_CASE("dropout and drop_path are the identity out of training and at p = 0") {
  const Tensor x = random_f32({4, 6}, 83);
  for (Opcode code : {Opcode::dropout, Opcode::drop_path}) {
    CHECK(values_of(code, drop_operands(x, false), {{"probability", 0.5}, {"stream", kStream}}) == x.data);
    CHECK(values_of(code, drop_operands(x, true), {{"probability", 0.0}, {"stream", kStream}}) == x.data);
    CHECK(values_of(code, drop_operands(x, true), {{"probability", 0.5}, {"stream", kStream}}) !=
          values_of(code, drop_operands(x, true, 4), {{"probability", 0.5}, {"stream", kStream}}));
  }
}
