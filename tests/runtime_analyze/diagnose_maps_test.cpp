// Streams of maps whose streams and branches are known.
#include <cmath>
#include <map>

#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/verify.h"
#include "programs/diagnose.h"
#include "runtime/exec/make_engine.h"
#include "runtime/measure/diagnose.h"
#include "runtime/network/weights.h"
#include "tests/support/catch.h"
#include "tests/support/host_noise.h"

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
ir::Module one_join(bool channels_last) {
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
  const Value y = b.emit(ir::Opcode::residual, {image, f, image, half, square},
                         {{"block", std::int64_t{0}},
                          {"site", std::string("conv")},
                          {"shortcut_owner", std::string("test")},
                          {"branch_owner", std::string("test")},
                          {"join_index", std::int64_t{0}},
                          {"join_count", std::int64_t{1}},
                          {"token_axis", std::int64_t{channels_last ? 1 : 2}},
                          {"channel_axis", std::int64_t{channels_last ? 3 : 1}}});
  const Value mean =
      b.reshape(b.mean(y, channels_last ? ir::Ints{1, 2} : ir::Ints{2, 3}), {kBatch, kChannels});
  const Value head = b.param(module.add_parameter(parameter("head.weight", {2, kChannels})).name);
  const Value bias = b.param(module.add_parameter(parameter("head.bias", {2})).name);
  b.result("logits", b.linear(mean, head, bias));
  module.functions.push_back(std::move(forward));
  return module;
}

void add_program(ir::Module& module) {
  programs::add_diagnose_program(module, {ir::Selection{"supervised"}, {"streams", "rank"}});
}

std::map<std::string, double> measure(const ir::Module& module, runtime::Engine& engine,
                                      const std::vector<runtime::HostTensor>& batches) {
  runtime::DiagnoseMeans means(module.function("diagnose"));
  for (const runtime::HostTensor& batch : batches) {
    runtime::TensorMap arguments;
    arguments.emplace("image", batch.clone());
    arguments.emplace("label", runtime::HostTensor({DType::i64, {kBatch}}));
    means.add(engine.run("diagnose", arguments));
  }
  std::map<std::string, double> values;
  for (const auto& [name, value] : means.values()) values.emplace(name, value);
  return values;
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
      add_program(module);
      ir::verify(module);
      runtime::TensorMap weights;
      for (const ir::Parameter& p : module.parameters)
        weights.emplace(p.name, testing::noise(p.type.shape, 7, p.name.c_str()));
      const auto engine = runtime::make_engine(engine_name, module);
      runtime::start_state(*engine, module, weights, 0);

      const ir::Tensor gain = runtime::to_double(weights.at("gain")),
                       shift = runtime::to_double(weights.at("shift"));
      struct {
        double stream = 0, branch = 0, parallel = 0, cosine = 0;
      } expected;
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
      const std::map<std::string, double> measured = measure(module, *engine, batches);
      const auto of_join = [&](const char* name) {
        return measured.at(std::string("blocks.0.conv.") + name);
      };
      CHECK(of_join("stream") == Approx(expected.stream).epsilon(1e-5));
      CHECK(of_join("branch") == Approx(expected.branch).epsilon(1e-5));
      CHECK(of_join("parallel") == Approx(expected.parallel).epsilon(1e-5));
      CHECK(of_join("perpendicular") == Approx(expected.branch - expected.parallel).epsilon(1e-5));
      CHECK(of_join("cosine") == Approx(expected.cosine).epsilon(1e-5));
      // The classifier reads the mean over the positions of the block's exit.
      const double rank = runtime::effective_rank(features, 2 * kBatch, kChannels);
      CHECK(measured.at("features.effective_rank") == Approx(rank).epsilon(1e-5));
      if (!channels_last) CHECK(measured.at("blocks.0.effective_rank") == Approx(rank).epsilon(1e-5));
    }
  }
}

TEST_CASE("A stream or a branch of zeros has no direction: its cosine is 0") {
  ir::Module module = one_join(true);
  add_program(module);
  const auto engine = runtime::make_engine("jit", module);
  runtime::TensorMap weights;
  for (const ir::Parameter& p : module.parameters)
    weights.emplace(p.name,
                    runtime::to_host(ir::Tensor(p.type, std::vector<double>(p.type.elements(), 0.0))));
  runtime::start_state(*engine, module, weights, 0);
  std::vector<runtime::HostTensor> zeros;
  zeros.push_back(runtime::to_host(ir::Tensor({DType::f32, {kBatch, kRows, kColumns, kChannels}})));
  const std::map<std::string, double> measured = measure(module, *engine, zeros);
  for (const char* name : {"blocks.0.conv.cosine", "blocks.0.conv.parallel", "features.effective_rank"})
    CHECK(measured.at(name) == 0);
}

}  // namespace
}  // namespace rewire::test
