// The streams of networks whose streams and branches are known, and effective ranks that are.
#include "runtime/analyze/streams.h"

#include <bit>
#include <cmath>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/verify.h"
#include "runtime/exec/make_engine.h"
#include "runtime/train/weights.h"
#include "tests/support/catch.h"
#include "tests/support/host_noise.h"
#include "tests/support/message_of.h"

namespace rewire::test {
namespace {

using ir::DType;
using ir::Value;

constexpr std::int64_t kBatch = 3, kChannels = 5, kRows = 2, kColumns = 4;

ir::Parameter parameter(const char* name, ir::Shape shape) {
  ir::Parameter made;
  made.name = name;
  made.type = {DType::f32, std::move(shape)};
  return made;
}

/// image -> y = x / 2 + f^2 with x = image and f = image gain + shift, then a classifier of two logits on the mean over
/// positions. What stands in the slots of the join is not what is measured.
ir::Module one_join(bool channels_last, bool joins = true) {
  ir::Module module;
  module.name = "one_join";
  ir::Function forward;
  forward.name = "forward";
  ir::Builder b(module, forward);
  const ir::Shape maps = channels_last ? ir::Shape{kBatch, kRows, kColumns, kChannels}
                                       : ir::Shape{kBatch, kChannels, kRows, kColumns};
  const ir::Shape channels = channels_last ? ir::Shape{kChannels} : ir::Shape{kChannels, 1, 1};
  const Value image = b.argument("image", {DType::f32, maps});
  const Value gain = b.param(module.add_parameter(parameter("gain", channels)).name);
  const Value shift = b.param(module.add_parameter(parameter("shift", channels)).name);
  const Value f = b.add(b.mul(image, gain), shift);
  const Value half = b.mul(image, 0.5), square = b.mul(f, f);
  const Value y = joins ? b.emit(ir::Opcode::residual, {image, f, image, half, square},
                                 {{"block", std::int64_t{0}},
                                  {"site", std::string("conv")},
                                  {"shortcut_owner", std::string("test")},
                                  {"branch_owner", std::string("test")},
                                  {"join_index", std::int64_t{0}},
                                  {"join_count", std::int64_t{1}},
                                  {"token_axis", std::int64_t{channels_last ? 1 : 2}},
                                  {"channel_axis", std::int64_t{channels_last ? 3 : 1}}})
                        : b.add(half, square);
  const Value mean =
      b.reshape(b.mean(y, channels_last ? ir::Ints{1, 2} : ir::Ints{2, 3}), {kBatch, kChannels});
  const Value head = b.param(module.add_parameter(parameter("head.weight", {2, kChannels})).name);
  const Value bias = b.param(module.add_parameter(parameter("head.bias", {2})).name);
  b.result("logits", b.linear(mean, head, bias));
  module.functions.push_back(std::move(forward));
  return module;
}

/// Element c of position p of image i.
double at(const ir::Tensor& maps, bool channels_last, std::int64_t i, std::int64_t p, std::int64_t c) {
  constexpr std::int64_t kPositions = kRows * kColumns;
  return maps.data[static_cast<std::size_t>(channels_last ? (i * kPositions + p) * kChannels + c
                                                          : (i * kChannels + c) * kPositions + p)];
}

TEST_CASE(
    "Streams are those before a join, whatever stands in its slots, over images, positions and batches") {
  for (const bool channels_last : {false, true}) {
    for (const std::string& engine_name : runtime::engine_names()) {
      CAPTURE(channels_last, engine_name);
      ir::Module module = one_join(channels_last);
      runtime::add_streams_program(module);
      ir::verify(module);
      runtime::TensorMap weights;
      for (const ir::Parameter& p : module.parameters)
        weights.emplace(p.name, testing::noise(p.type.shape, 7, p.name.c_str()));
      const auto engine = runtime::make_engine(engine_name, module);
      runtime::start_state(*engine, module, weights, 0);

      const ir::Tensor gain = runtime::to_double(weights.at("gain")),
                       shift = runtime::to_double(weights.at("shift"));
      runtime::JoinStream expected;
      std::vector<double> features;
      std::vector<runtime::HostTensor> batches;
      for (const char* name : {"first", "second"}) {
        batches.push_back(testing::noise(
            module.function("forward").type(module.function("forward").arguments[0].value).shape, 7, name));
        const ir::Tensor maps = runtime::to_double(batches.back());
        for (std::int64_t i = 0; i < kBatch; ++i) {
          std::vector<double> pooled(kChannels);
          for (std::int64_t p = 0; p < kRows * kColumns; ++p) {
            double xx = 0, ff = 0, xf = 0;
            for (std::int64_t c = 0; c < kChannels; ++c) {
              const auto channel = static_cast<std::size_t>(c);
              const double x = at(maps, channels_last, i, p, c),
                           f = x * gain.data[channel] + shift.data[channel];
              xx += x * x, ff += f * f, xf += x * f;
              pooled[channel] += (x / 2 + f * f) / (kRows * kColumns);
            }
            constexpr double kAll = 2.0 * kBatch * kRows * kColumns;
            expected.stream += xx / kAll, expected.branch += ff / kAll;
            expected.parallel += xf * xf / xx / kAll, expected.cosine += xf / std::sqrt(xx * ff) / kAll;
          }
          features.insert(features.end(), pooled.begin(), pooled.end());
        }
      }
      std::size_t next = 0;
      const runtime::StreamStatistics measured =
          runtime::measure_streams(module, *engine, [&](runtime::TensorMap& arguments) {
            if (next == batches.size()) return false;
            arguments.emplace("image", batches[next++].clone());
            return true;
          });
      REQUIRE(measured.joins.size() == 1);
      const runtime::JoinStream& join = measured.joins[0];
      CHECK(join.join == "blocks.0.conv");
      CHECK(join.stream == Approx(expected.stream).epsilon(1e-5));
      CHECK(join.branch == Approx(expected.branch).epsilon(1e-5));
      CHECK(join.parallel == Approx(expected.parallel).epsilon(1e-5));
      CHECK(join.perpendicular() == Approx(expected.branch - expected.parallel).epsilon(1e-5));
      CHECK(join.cosine == Approx(expected.cosine).epsilon(1e-5));
      CHECK(measured.images == 2 * kBatch);
      CHECK(measured.features == kChannels);
      CHECK(measured.effective_rank ==
            Approx(runtime::effective_rank(features, 2 * kBatch, kChannels)).epsilon(1e-5));
    }
  }
}

TEST_CASE("A stream or a branch of zeros has no direction: its cosine is 0") {
  ir::Module module = one_join(true);
  runtime::add_streams_program(module);
  const auto engine = runtime::make_engine("jit", module);
  runtime::TensorMap weights;
  for (const ir::Parameter& p : module.parameters)
    weights.emplace(p.name,
                    runtime::to_host(ir::Tensor(p.type, std::vector<double>(p.type.elements(), 0.0))));
  runtime::start_state(*engine, module, weights, 0);
  int left = 1;
  const runtime::StreamStatistics measured =
      runtime::measure_streams(module, *engine, [&](runtime::TensorMap& arguments) {
        arguments.emplace("image",
                          runtime::to_host(ir::Tensor({DType::f32, {kBatch, kRows, kColumns, kChannels}})));
        return left-- > 0;
      });
  CHECK(measured.joins[0].cosine == 0);
  CHECK(measured.joins[0].parallel == 0);
  CHECK(measured.effective_rank == 0);
}

TEST_CASE("A network without joins has no stream") {
  ir::Module module = one_join(true, false);
  CHECK(message_of<UserError>([&] { runtime::add_streams_program(module); }) ==
        "the network has no residual joins, so that it has no stream to measure");
}

TEST_CASE("The effective rank of samples that differ equally in k directions is ln k") {
  // Rows of a Hadamard matrix but the first: each has mean 0.
  constexpr std::size_t kExtent = 8;
  for (const std::size_t k : {1U, 2U, 7U}) {
    std::vector<double> features;
    for (std::size_t row = 1; row <= k; ++row) {
      // A row's own mean changes nothing.
      for (std::size_t column = 0; column < kExtent; ++column)
        features.push_back((std::popcount(row & column) % 2 == 0 ? 3.0 : -3.0) + static_cast<double>(row));
    }
    CHECK(runtime::effective_rank(features, k, kExtent) ==
          Approx(std::log(static_cast<double>(k))).margin(1e-12));
  }
  // Eigenvalues 4 and 1: p = .8 and .2.
  const std::vector<double> two = {2, -2, 0, 0, 0, 0, 1, -1};
  CHECK(runtime::effective_rank(two, 2, 4) == Approx(-.8 * std::log(.8) - .2 * std::log(.2)));
  CHECK(runtime::effective_rank(std::vector<double>(12, 5.0), 3, 4) == 0);
}

}  // namespace
}  // namespace rewire::test
