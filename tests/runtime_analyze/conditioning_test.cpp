// Condition numbers of matrices that are known: attention maps of two tokens, blocks that are linear.
#include "runtime/measure/conditioning.h"

#include <cmath>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "models/model.h"
#include "runtime/exec/make_engine.h"
#include "runtime/linalg/lapack.h"
#include "runtime/measure/block_program.h"
#include "runtime/network/weights.h"
#include "runtime/verify/perturbed_state.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::test {
namespace {

using Doubles = std::vector<double>;
using ir::DType;
using ir::Value;

constexpr std::int64_t kTokens = 3, kWidth = 4;

/// One block whose only join is x' = x + x W^T, with the weight W [4, 4].
ir::Module linear_block(std::int64_t batch, bool reads_past_its_stream = false) {
  ir::Module module;
  module.name = "linear_block";
  ir::Function forward;
  forward.name = "forward";
  ir::Builder b(module, forward);
  const Value image = b.argument("image", {DType::f32, {batch, kTokens, kWidth}});
  const Value x = b.mul(image, 2.0);
  ir::Parameter weight;
  weight.name = "w";
  weight.type = {DType::f32, {kWidth, kWidth}};
  weight.role = "fc1";
  const Value w = b.param(module.add_parameter(weight).name);
  const Value branch = b.linear(reads_past_its_stream ? b.add(x, image) : x, w);
  const Value joined = b.emit(ir::Opcode::residual, {x, branch, x, x, branch},
                              {{"block", std::int64_t{0}},
                               {"site", std::string("mlp")},
                               {"join_index", std::int64_t{0}},
                               {"join_count", std::int64_t{1}}});
  b.result("logits", joined);
  module.functions.push_back(std::move(forward));
  return module;
}

runtime::TensorMap weights_with(const Doubles& w) {
  runtime::TensorMap weights;
  weights.emplace("w", runtime::to_host(ir::Tensor({DType::f32, {kWidth, kWidth}}, w)));
  return weights;
}

runtime::HostTensor images_of(const ir::Module& module) {
  const ir::Function& forward = module.function("forward");
  return runtime::to_host(runtime::random_argument(module, forward, forward.arguments.at(0), 5));
}

TEST_CASE("The Jacobian of a linear block is its matrix, on both engines and for any batch") {
  const Doubles w = {0.5, -1, 2, 0, 0.25, 3, -0.5, 1, 0, 0.125, -2, 1.5, 1, 1, 0, -0.75};
  for (const std::int64_t batch : {std::int64_t{1}, std::int64_t{5}, std::int64_t{12}}) {
    for (const std::string& engine_name : runtime::engine_names()) {
      CAPTURE(batch, engine_name);
      ir::Module module = linear_block(batch);
      const std::vector<runtime::Block> blocks = runtime::find_blocks(module.function("forward"));
      CHECK(blocks.size() == 1);
      CHECK(blocks[0].name == "blocks.0");
      CHECK(runtime::add_jacobian_program(module, runtime::block_section(blocks[0], 0)));
      const auto engine = runtime::make_engine(engine_name, module);
      runtime::start_state(*engine, module, weights_with(w), 0);
      const std::size_t sample = kTokens * kWidth, rows = std::min<std::size_t>(12, batch);
      ir::Tensor cotangent({DType::f32, {batch, kTokens, kWidth}});
      for (std::size_t r = 0; r < rows; ++r) cotangent.data[r * sample + r] = 1;
      runtime::TensorMap arguments;
      arguments.emplace("at", images_of(module));
      arguments.emplace("cotangent", runtime::to_host(cotangent));
      const ir::Tensor row = runtime::to_double(engine->run("block.0", arguments).at("row"));
      // d x'[t, o] / d x[t, i] = delta_oi + W[o, i], and nothing between tokens.
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < sample; ++c) {
          const std::size_t out = r % kWidth, in = c % kWidth;
          const double wanted = r / kWidth == c / kWidth ? (out == in ? 1 : 0) + w[out * kWidth + in] : 0;
          CHECK(row.data[r * sample + c] == Approx(wanted).epsilon(0).margin(1e-6));
        }
      }
    }
  }
}

TEST_CASE("A linear block has the condition number of its matrix, whatever the batch") {
  // I + W = a rotation in each of two planes times diag(1, 2, 4, 8).
  const double c = std::cos(0.3), s = std::sin(0.3);
  const Doubles w = {c - 1, -2 * s, 0,         0,      s, 2 * c - 1, 0,     0,
                     0,     0,      4 * c - 1, -8 * s, 0, 0,         4 * s, 8 * c - 1};
  for (const std::int64_t batch : {std::int64_t{1}, std::int64_t{5}, std::int64_t{16}}) {
    const ir::Module module = linear_block(batch);
    const runtime::Conditioning result =
        runtime::measure_conditioning(module, weights_with(w), images_of(module), {"jit", 0, 12});
    CHECK(result.no_jacobian.empty());
    CHECK(result.blocks.size() == 1);
    CHECK(result.blocks[0].jacobian.value() == Approx(8).epsilon(1e-5));
    // Its branch reads the stream itself, so that the join alone is the same.
    CHECK(result.blocks[0].joins.at(0).site == "mlp");
    CHECK(result.blocks[0].joins[0].jacobian.value() == Approx(8).epsilon(1e-5));
    CHECK(result.blocks[0].attention.empty());
    CHECK_FALSE(result.blocks[0].value_output.has_value());
  }
}

TEST_CASE("A Jacobian that is too large, or not of the stream alone, is left out with a reason") {
  const ir::Module module = linear_block(2);
  const runtime::Conditioning large = runtime::measure_conditioning(module, weights_with(Doubles(16, 1.0)),
                                                                    images_of(module), {"jit", 0, 11});
  CHECK_FALSE(large.blocks[0].jacobian.has_value());
  CHECK(large.no_jacobian == "it is 12 x 12 in blocks.0");
  const ir::Module past = linear_block(2, true);
  const runtime::Conditioning other =
      runtime::measure_conditioning(past, weights_with(Doubles(16, 1.0)), images_of(past), {"jit", 0, 12});
  CHECK(other.no_jacobian == "blocks.0 reads the network's input past its stream");
  ir::Module plain = linear_block(2);
  plain.function("forward").body.pop_back();
  plain.function("forward").results[0].value = plain.function("forward").body.back().results[0];
  CHECK(message_of<UserError>([&] {
          runtime::measure_conditioning(plain, weights_with(Doubles(16, 1.0)), images_of(plain),
                                        {"jit", 0, 12});
        }) == "the network has no residual joins, and so no blocks to analyze");
}

TEST_CASE("A condition number is the largest over the smallest singular value") {
  CHECK(runtime::condition_number(Doubles{8, 4, 0.5}, 1e-16) == 16);
  CHECK(runtime::condition_number(Doubles{3}, 1e-16) == 1);
  CHECK(runtime::condition_number({}, 1e-16) == 1);
  CHECK(std::isinf(runtime::condition_number(Doubles{1, 0}, 1e-16)));
  CHECK(std::isinf(runtime::condition_number(Doubles{1, 1e-7}, 1e-7)));
  CHECK(runtime::condition_number(Doubles{1, 1e-7}, 1e-9) == Approx(1e7));
  CHECK(std::isinf(runtime::condition_number(Doubles(3, 0.0), 1e-16)));
}

TEST_CASE("The attention of two tokens is as well conditioned as they attend to themselves") {
  // Orthogonal tokens of length r: logits r^2 I, softmax p on the diagonal, eigenvalues 1 and 2 p - 1.
  for (const double squared : {0.5, 2.0, 6.0}) {
    const double r = std::sqrt(squared / 0.5), p = 1 / (1 + std::exp(-squared));
    const Doubles tokens = {r, 0, 0, 0, r, 0, 0, 0, r, r, 0, 0};  // two maps of two tokens [2, 3]
    const Doubles conditions = runtime::attention_conditions(tokens, tokens, 2, 2, 3, 0.5);
    CHECK(conditions.size() == 2);
    for (const double condition : conditions) CHECK(condition == Approx(1 / (2 * p - 1)).epsilon(1e-9));
  }
  // Tokens that nothing tells apart: every row is uniform, and the map has rank one.
  const Doubles zeros(15 * 4, 0.0);
  CHECK(std::isinf(runtime::attention_conditions(zeros, zeros, 1, 15, 4, 1).front()));
}

TEST_CASE("A ViT's blocks have a map a head and image, and W_V W_O from its weights") {
  ir::Selection options{"vit"};
  options.set("dim", 18).set("heads", 3).set("depth", 2).set("image", 12).set("patch", 4);
  const ir::Module module = models::build(options, 4);
  const runtime::TensorMap weights = runtime::fresh_weights(module, {}, 7);
  const runtime::Conditioning result =
      runtime::measure_conditioning(module, weights, images_of(module), {"jit", 7, 200});
  CHECK(result.blocks.size() == 2);
  CHECK(result.no_jacobian.empty());
  for (std::size_t block = 0; block < 2; ++block) {
    CHECK(result.blocks[block].attention.size() == 3 * 4);
    for (const double condition : result.blocks[block].attention) CHECK(condition >= 1);
    const std::string prefix = "blocks." + std::to_string(block) + ".attn.";
    const Doubles qkv = runtime::to_double(weights.at(prefix + "qkv.weight")).data;
    const Doubles proj = runtime::to_double(weights.at(prefix + "proj.weight")).data;
    // Row vectors: x W_V W_O, with W_V [i, m] = qkv[2 d + m, i] and W_O [m, o] = proj[o, m].
    Doubles product(18 * 18), values(18);
    for (std::size_t i = 0; i < 18; ++i) {
      for (std::size_t o = 0; o < 18; ++o) {
        for (std::size_t m = 0; m < 18; ++m) product[i * 18 + o] += qkv[(36 + m) * 18 + i] * proj[o * 18 + m];
      }
    }
    runtime::singular_values({1, 18, 18}, product, values);
    CHECK(result.blocks[block].value_output.value() == Approx(values.front() / values.back()).epsilon(1e-8));
  }
  // In f32 as in double precision.
  runtime::ConditioningOptions exact{"evaluator", 7, 200};
  const runtime::Conditioning evaluated =
      runtime::measure_conditioning(module, weights, images_of(module), exact);
  for (std::size_t block = 0; block < 2; ++block) {
    CHECK(result.blocks[block].jacobian.value() > 1);
    CHECK(result.blocks[block].jacobian.value() ==
          Approx(evaluated.blocks[block].jacobian.value()).epsilon(1e-4));
    REQUIRE(result.blocks[block].joins.size() == 2);
    for (std::size_t join = 0; join < 2; ++join) {
      CHECK(result.blocks[block].joins[join].jacobian.value() ==
            Approx(evaluated.blocks[block].joins[join].jacobian.value()).epsilon(1e-4));
    }
  }
}

}  // namespace
}  // namespace rewire::test
