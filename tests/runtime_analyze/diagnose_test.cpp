// The diagnostics of networks against loops over the values that they are of, in double precision, and of values
// that are known.
#include "programs/diagnose.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/verify.h"
#include "models/model.h"
#include "programs/diagnose_blocks.h"
#include "programs/programs.h"
#include "runtime/exec/make_engine.h"
#include "runtime/measure/diagnose.h"
#include "runtime/network/weights.h"
#include "runtime/verify/perturbed_state.h"
#include "tests/support/catch.h"
#include "tests/support/host_noise.h"
#include "tests/support/message_of.h"

namespace rewire::test {
namespace {

using Doubles = std::vector<double>;
using Named = std::map<std::string, double>;
using ir::DType;
using ir::Tensor;
using ir::Value;

std::vector<std::string> all_diagnostics() {
  return programs::parse_diagnostics(programs::default_diagnostics(), "what");
}

Named named(const runtime::MetricValues& values) {
  Named map;
  for (const auto& [name, value] : values) CHECK(map.emplace(name, value).second);
  return map;
}

/// A batch of what the program takes: normal images, uniform noise, labels 0, 1, 0, ….
runtime::TensorMap batch_for(const ir::Function& program, const char* name) {
  runtime::TensorMap batch;
  for (const ir::Argument& argument : program.arguments) {
    const ir::TensorType& type = program.type(argument.value);
    runtime::HostTensor tensor = testing::noise(type.shape, 7, name);
    if (type.dtype == DType::i64) {
      tensor = runtime::HostTensor(type);
      for (std::size_t i = 0; i < tensor.as<std::int64_t>().size(); ++i)
        tensor.as<std::int64_t>()[i] = static_cast<std::int64_t>(i % 2);
    }
    batch.emplace(argument.name, std::move(tensor));
  }
  return batch;
}

/// What `diagnose` tells of one batch.
Named diagnose(ir::Module module, const runtime::TensorMap& weights, const std::string& engine_name,
               const std::string& objective = "supervised",
               const std::vector<std::string>& what = all_diagnostics()) {
  programs::add_diagnose_program(module, {ir::Selection{objective}, what});
  ir::verify(module);
  const auto engine = runtime::make_engine(engine_name, module);
  runtime::start_state(*engine, module, weights, 3);
  const ir::Function& program = module.function("diagnose");
  runtime::DiagnoseMeans means(program);
  means.add(engine->run("diagnose", batch_for(program, "batch")));
  return named(means.values());
}

runtime::TensorMap perturbed(const ir::Module& module) {
  runtime::TensorMap weights;
  for (const auto& [name, tensor] : runtime::perturbed_state(module, {}, 5)) {
    if (module.find_parameter(name)->is_weight()) weights.emplace(name, runtime::to_host(tensor));
  }
  return weights;
}

ir::Module build(ir::Selection model, std::int64_t batch) {
  return models::build(model, batch);
}

ir::Selection small_vit() {
  ir::Selection model{"vit"};
  return model.set("dim", 18).set("heads", 3).set("depth", 2).set("image", 12).set("patch", 4);
}

/// Values of forward by the evaluator, on the same batch as diagnose().
class Probe {
 public:
  Probe(const ir::Module& module, const runtime::TensorMap& weights) : module_(module) {
    state_.tensors = {};
    for (const auto& [name, tensor] : weights) state_.tensors.emplace(name, runtime::to_double(tensor));
    for (const auto& [name, tensor] : runtime::fresh_state(module, weights, 3))
      state_.tensors.emplace(name, runtime::to_double(tensor));
  }

  Tensor operator()(Value value) {
    ir::Function function = module_.function("forward");
    function.results = {{"value", value}};
    std::vector<Tensor> arguments;
    const runtime::TensorMap batch = batch_for(function, "batch");
    for (const ir::Argument& argument : function.arguments)
      arguments.push_back(runtime::to_double(batch.at(argument.name)));
    return ir::evaluate(module_, function, arguments, state_).at(0);
  }

 private:
  const ir::Module& module_;
  ir::EvalState state_;
};

/// Element (i, t, c) of [batch, tokens, width].
double at(const Tensor& x, std::int64_t i, std::int64_t t, std::int64_t c) {
  return x.data[static_cast<std::size_t>((i * x.type.shape[1] + t) * x.type.shape[2] + c)];
}

double composite_norm(const Tensor& z, std::int64_t i, std::int64_t first, const Doubles& taken) {
  double columns = 0, rows = 0;
  const std::int64_t tokens = z.type.shape[1], width = z.type.shape[2];
  const auto size = [&](std::int64_t t, std::int64_t c) {
    return std::abs(at(z, i, t, c) - taken[static_cast<std::size_t>(c)]);
  };
  for (std::int64_t c = 0; c < width; ++c) {
    double sum = 0;
    for (std::int64_t t = first; t < tokens; ++t) sum += size(t, c);
    columns = std::max(columns, sum);
  }
  for (std::int64_t t = first; t < tokens; ++t) {
    double sum = 0;
    for (std::int64_t c = 0; c < width; ++c) sum += size(t, c);
    rows = std::max(rows, sum);
  }
  return std::sqrt(columns * rows);
}

struct Tokens {
  double diversity = 0, relative = 0, similarity = 0;
};

Tokens measure_tokens(const Tensor& z, std::int64_t first) {
  const std::int64_t batch = z.type.shape[0], tokens = z.type.shape[1], width = z.type.shape[2];
  const auto n = static_cast<double>(tokens - first), samples = static_cast<double>(batch);
  Tokens mean;
  for (std::int64_t i = 0; i < batch; ++i) {
    Doubles centre(static_cast<std::size_t>(width)), nothing(centre);
    for (std::int64_t t = first; t < tokens; ++t) {
      for (std::int64_t c = 0; c < width; ++c) centre[static_cast<std::size_t>(c)] += at(z, i, t, c) / n;
    }
    const double distance = composite_norm(z, i, first, centre);
    mean.diversity += distance / samples;
    mean.relative += distance / composite_norm(z, i, first, nothing) / samples;
    const auto dot = [&](std::int64_t s, std::int64_t t) {
      double sum = 0;
      for (std::int64_t c = 0; c < width; ++c) sum += at(z, i, s, c) * at(z, i, t, c);
      return sum;
    };
    for (std::int64_t s = first; s < tokens; ++s) {
      for (std::int64_t t = first; t < tokens; ++t) {
        if (s != t) mean.similarity += dot(s, t) / std::sqrt(dot(s, s) * dot(t, t)) / (n * (n - 1)) / samples;
      }
    }
  }
  return mean;
}

/// Mean over all rows of softmax(scale q k^T), [batch, heads, tokens, width].
double mean_entropy(const Tensor& q, const Tensor& k, double scale) {
  const ir::Shape &of_q = q.type.shape, &of_k = k.type.shape;
  const auto maps = static_cast<std::size_t>(of_q[0] * of_q[1]), rows = static_cast<std::size_t>(of_q[2]),
             columns = static_cast<std::size_t>(of_k[2]), width = static_cast<std::size_t>(of_q[3]);
  double entropy = 0;
  for (std::size_t m = 0; m < maps; ++m) {
    for (std::size_t i = 0; i < rows; ++i) {
      Doubles row(columns);
      for (std::size_t j = 0; j < columns; ++j) {
        for (std::size_t c = 0; c < width; ++c)
          row[j] += scale * q.data[(m * rows + i) * width + c] * k.data[(m * columns + j) * width + c];
      }
      double total = 0;
      for (double& x : row) total += x = std::exp(x);
      for (const double x : row) entropy -= x / total * std::log(x / total);
    }
  }
  return entropy / static_cast<double>(maps * rows);
}

/// Of the rows [batch, width] that stand at token 0, or of the mean from token `first` on.
double rank_of(const Tensor& z, bool class_token, std::int64_t first) {
  const std::int64_t batch = z.type.shape[0], tokens = z.type.shape[1], width = z.type.shape[2];
  Doubles rows(static_cast<std::size_t>(batch * width));
  for (std::int64_t i = 0; i < batch; ++i) {
    for (std::int64_t c = 0; c < width; ++c) {
      double& x = rows[static_cast<std::size_t>(i * width + c)];
      for (std::int64_t t = first; t < tokens; ++t) x += at(z, i, t, c) / static_cast<double>(tokens - first);
      if (class_token) x = at(z, i, 0, c);
    }
  }
  return runtime::effective_rank(rows, static_cast<std::size_t>(batch), static_cast<std::size_t>(width));
}

void check_close(const Named& got, const std::string& name, double wanted) {
  CAPTURE(name);
  REQUIRE(got.contains(name));
  CHECK(got.at(name) == Approx(wanted).epsilon(1e-5).margin(1e-6));
}

TEST_CASE("Diagnostics of a ViT are those of its streams, exits and attention, on both engines") {
  struct Case {
    ir::Selection model;
    bool class_token;
    std::int64_t prefix;
  };
  const Case cases[] = {{small_vit(), true, 1},
                        {small_vit().set("reg_tokens", 2), true, 3},
                        {small_vit().set("pool", "avg"), false, 0},
                        {small_vit().set("pool", "avg").set("reg_tokens", 1), false, 1}};
  for (const Case& each : cases) {
    const ir::Module module = build(each.model, 5);
    const runtime::TensorMap weights = perturbed(module);
    Probe probe(module, weights);
    const ir::Function& forward = module.function("forward");
    for (const std::string& engine_name : runtime::engine_names()) {
      CAPTURE(engine_name, each.prefix);
      const Named got = diagnose(module, weights, engine_name);
      for (const programs::Block& block : programs::find_blocks(forward)) {
        const Tensor exit = probe(block.exit);
        const Tokens tokens = measure_tokens(exit, each.prefix);
        check_close(got, block.name + ".diversity", tokens.diversity);
        check_close(got, block.name + ".relative_diversity", tokens.relative);
        check_close(got, block.name + ".similarity", tokens.similarity);
        check_close(got, block.name + ".effective_rank", rank_of(exit, each.class_token, each.prefix));
        const ir::Op& attention = forward.body[programs::attention_ops(forward, block).at(0)];
        check_close(got, block.name + ".attention_entropy",
                    mean_entropy(probe(attention.operands[0]), probe(attention.operands[1]),
                                 attention.attributes.get_double("scale")));
        for (const ir::Join& join : block.joins) {
          const Tensor x = probe(join.stream), f = probe(join.branch);
          double xx = 0, ff = 0, parallel = 0, cosine = 0;
          const std::size_t width = 18, positions = x.data.size() / width;
          for (std::size_t p = 0; p < positions; ++p) {
            double sxx = 0, sff = 0, sxf = 0;
            for (std::size_t c = p * width; c < (p + 1) * width; ++c) {
              sxx += x.data[c] * x.data[c], sff += f.data[c] * f.data[c], sxf += x.data[c] * f.data[c];
            }
            const auto share = static_cast<double>(positions);
            xx += sxx / share, ff += sff / share, parallel += sxf * sxf / sxx / share;
            cosine += sxf / std::sqrt(sxx * sff) / share;
          }
          check_close(got, join.describe() + ".stream", xx);
          check_close(got, join.describe() + ".branch", ff);
          check_close(got, join.describe() + ".parallel", parallel);
          check_close(got, join.describe() + ".perpendicular", ff - parallel);
          check_close(got, join.describe() + ".cosine", cosine);
        }
      }
      CHECK(got.at("features.effective_rank") > 0);
    }
  }
}

TEST_CASE("Norms of gradients are those of the program grad, block by block and of all") {
  for (const char* name : {"vit", "mae"}) {
    ir::Selection model = small_vit();
    model.name = name;
    const std::string objective = model.name == "mae" ? "mae" : "supervised";
    if (objective == "mae") model.set("dim", 24).set("decoder_depth", 1).set("decoder_dim", 12);
    ir::Module module = build(model, 3);
    const runtime::TensorMap weights = perturbed(module);
    const Named got = diagnose(module, weights, "jit", objective);
    programs::TrainOptions options;
    options.objective.name = objective;
    programs::add_grad_program(module, options);
    const auto engine = runtime::make_engine("evaluator", module);
    runtime::start_state(*engine, module, weights, 3);
    const runtime::TensorMap gradients = engine->run("grad", batch_for(module.function("grad"), "batch"));
    Named wanted;
    for (const auto& [weight, tensor] : gradients) {
      if (weight == "loss") continue;
      double squares = 0;
      for (const double g : runtime::to_double(tensor).data) squares += g * g;
      wanted["gradient_norm"] += squares;
      for (const char* place : {"blocks.0", "blocks.1", "decoder_blocks.0"}) {
        if (weight.starts_with(std::string(place) + "."))
          wanted[std::string(place) + ".gradient_norm"] += squares;
      }
    }
    CHECK(wanted.size() == (objective == "mae" ? 4U : 3U));
    for (const auto& [norm, squares] : wanted) check_close(got, norm, std::sqrt(squares));
  }
}

/// Tokens [batch, tokens, width] that are the image itself behind a block whose branch is 0 x, and attention of
/// queries that are all 0.
ir::Module given_tokens(const ir::Shape& shape) {
  ir::Module module;
  module.name = "given_tokens";
  ir::Function forward;
  forward.name = "forward";
  ir::Builder b(module, forward);
  const Value image = b.argument("image", {DType::f32, shape});
  const Value stream = b.mul(image, 1.0);
  const Value heads = b.reshape(stream, {shape[0], 1, shape[1], shape[2]});
  const Value attended = b.emit(ir::Opcode::attention, {b.mul(heads, 0.0), heads, heads}, {{"scale", 1.0}});
  const Value branch = b.mul(b.reshape(attended, shape), 0.0);
  const Value joined = b.emit(ir::Opcode::residual, {stream, branch, stream, stream, branch},
                              {{"block", std::int64_t{0}},
                               {"site", std::string("attn")},
                               {"join_index", std::int64_t{0}},
                               {"join_count", std::int64_t{1}}});
  ir::Parameter head;
  head.name = "head.weight";
  head.type = {DType::f32, {2, shape[2]}};
  const Value weight = b.param(module.add_parameter(head).name);
  b.result("logits", b.linear(b.reshape(b.mean(joined, {1}), {shape[0], shape[2]}), weight));
  module.functions.push_back(std::move(forward));
  return module;
}

/// Of given_tokens(), with the exit as the join's value.
Named diagnose_tokens(const ir::Shape& shape, const Doubles& tokens) {
  ir::Module module = given_tokens(shape);
  programs::add_diagnose_program(module, {ir::Selection{"supervised"}, all_diagnostics()});
  ir::verify(module);
  const auto engine = runtime::make_engine("jit", module);
  runtime::TensorMap weights;
  weights.emplace("head.weight", testing::noise({2, shape[2]}, 1));
  runtime::start_state(*engine, module, weights, 0);
  runtime::TensorMap batch = batch_for(module.function("diagnose"), "any");
  batch.erase("image");
  batch.emplace("image", runtime::to_host(Tensor({DType::f32, shape}, tokens)));
  runtime::DiagnoseMeans means(module.function("diagnose"));
  means.add(engine->run("diagnose", batch));
  return named(means.values());
}

TEST_CASE("Tokens that are alike have no diversity, those at right angles no similarity, and zeros neither") {
  constexpr std::int64_t kPlaces = 7, kFeatures = 9;
  Doubles alike, apart(kPlaces * kFeatures), zeros(kPlaces * kFeatures);
  for (std::int64_t t = 0; t < kPlaces; ++t) {
    for (std::int64_t c = 0; c < kFeatures; ++c) alike.push_back(static_cast<double>(c) - 3.5);
    apart[static_cast<std::size_t>(t * kFeatures + t)] = t % 2 == 0 ? 2 : -3;
  }
  const ir::Shape shape = {1, kPlaces, kFeatures};
  Named got = diagnose_tokens(shape, alike);
  CHECK(got.at("blocks.0.similarity") == Approx(1));
  CHECK(got.at("blocks.0.diversity") == Approx(0).margin(1e-5));
  CHECK(got.at("blocks.0.relative_diversity") == Approx(0).margin(1e-6));
  CHECK(got.at("blocks.0.attn.cosine") == 0);  // f is 0
  got = diagnose_tokens(shape, apart);
  CHECK(got.at("blocks.0.similarity") == Approx(0).margin(1e-7));
  // Queries of zeros attend to all tokens alike.
  CHECK(got.at("blocks.0.attention_entropy") == Approx(std::log(7.0)).epsilon(1e-6));
  got = diagnose_tokens(shape, zeros);
  for (const auto& [name, value] : got) {
    CAPTURE(name);
    CHECK(std::isfinite(value));
  }
  for (const char* name : {"similarity", "diversity", "relative_diversity", "effective_rank", "attn.stream"})
    CHECK(got.at(std::string("blocks.0.") + name) == 0);
}

TEST_CASE("The effective rank of a block's exit is that of its samples, over all batches") {
  // Mean tokens: rows 1 … 7 of a Hadamard matrix, each equally long and without a mean; ln 7 of all, ln k of k.
  constexpr std::int64_t kFeatures = 8;
  const auto rank = [&](std::int64_t samples, const auto& number) {
    Doubles tokens;
    for (std::int64_t i = 0; i < samples; ++i) {
      for (std::int64_t t = 0; t < 3; ++t) {
        for (std::int64_t c = 0; c < kFeatures; ++c)
          tokens.push_back(number(i, c) + static_cast<double>(t - 1));
      }
    }
    return diagnose_tokens({samples, 3, kFeatures}, tokens).at("blocks.0.effective_rank");
  };
  const auto hadamard = [](std::int64_t i, std::int64_t c) {
    return std::popcount(static_cast<unsigned>((i + 1) & c)) % 2 == 0 ? 3.0 : -3.0;
  };
  for (const std::int64_t samples : {2, 5, 7})
    CHECK(rank(samples, hadamard) == Approx(std::log(static_cast<double>(samples))).epsilon(1e-6));
  CHECK(rank(5, [](std::int64_t i, std::int64_t c) { return static_cast<double>((i - 2) * (c * c - 7)); }) ==
        Approx(0).margin(1e-9));
  CHECK(rank(5, [](std::int64_t i, std::int64_t) { return 0.1 * static_cast<double>(i); }) == 0);
}

TEST_CASE("The effective rank of samples that differ equally in k directions is ln k") {
  // Rows of a Hadamard matrix but the first: each has mean 0.
  constexpr std::size_t kExtent = 8;
  for (const std::size_t k : {1U, 2U, 7U}) {
    Doubles features;
    for (std::size_t row = 1; row <= k; ++row) {
      // A row's own mean changes nothing.
      for (std::size_t column = 0; column < kExtent; ++column)
        features.push_back((std::popcount(row & column) % 2 == 0 ? 3.0 : -3.0) + static_cast<double>(row));
    }
    CHECK(runtime::effective_rank(features, k, kExtent) ==
          Approx(std::log(static_cast<double>(k))).margin(1e-12));
  }
  // Eigenvalues 4 and 1: p = .8 and .2.
  const Doubles two = {2, -2, 0, 0, 0, 0, 1, -1};
  CHECK(runtime::effective_rank(two, 2, 4) == Approx(-.8 * std::log(.8) - .2 * std::log(.2)));
  CHECK(runtime::effective_rank(Doubles(12, 5.0), 3, 4) == 0);
  Doubles rows;  // constant rows whose means are not exact
  for (std::size_t i = 0; i < 7 * 11; ++i) rows.push_back(std::numbers::pi * static_cast<double>(1 + i / 11));
  CHECK(runtime::effective_rank(rows, 7, 11) == 0);
  CHECK(std::isnan(runtime::effective_rank(Doubles{1, 2, NAN, 3}, 2, 2)));
}

TEST_CASE("Means are over batches, and ranks over the samples of all of them") {
  ir::Module module = given_tokens({2, 3, 4});
  programs::add_diagnose_program(module, {ir::Selection{"supervised"}, {"streams", "rank"}});
  const ir::Function& program = module.function("diagnose");
  CHECK(program.results.size() == 5 + 1 + 1);
  runtime::DiagnoseMeans means(program);
  for (const double number : {1.0, 4.0}) {
    runtime::TensorMap results;
    for (const ir::Argument& result : program.results) {
      Tensor tensor(program.type(result.value));
      for (std::size_t i = 0; i < tensor.data.size(); ++i)
        tensor.data[i] = tensor.data.size() == 1 ? number : (i % 4 < 2 ? 1 : -1) * (i < 4 ? number : 0);
      results.emplace(result.name, runtime::to_host(tensor));
    }
    means.add(results);
  }
  const Named got = named(means.values());
  CHECK(got.at("blocks.0.attn.stream") == 2.5);
  CHECK(got.at("blocks.0.effective_rank") == Approx(0).margin(1e-12));
}

TEST_CASE(
    "Every number of a ViT, a network of maps, a pyramid and an autoencoder is finite, on odd batches too") {
  struct Case {
    ir::Selection model;
    const char* objective;
    std::vector<std::string> has, lacks;
  };
  ir::Selection resnet{"resnetv2"};
  resnet.set("depths", ir::Doubles{1, 2}).set("width", 6).set("image", 12);
  ir::Selection autoencoder{"mae"};
  autoencoder.set("dim", 24).set("heads", 3).set("depth", 2).set("image", 20).set("patch", 4);
  autoencoder.set("decoder_dim", 12).set("decoder_heads", 3).set("decoder_depth", 1);
  ir::Selection unet = autoencoder;
  unet.set("skips", "unet");
  const std::vector<std::string> of_mae = {"blocks.1.attention_entropy", "decoder_blocks.0.similarity",
                                           "decoder_blocks.0.mlp.cosine", "decoder_blocks.0.gradient_norm"};
  const Case cases[] = {
      {small_vit().set("drop_path", 0.3).set("dropout", 0.2), "supervised", {"gradient_norm"}, {}},
      {resnet,
       "supervised",
       {"stages.1.blocks.1.conv.cosine", "stages.0.blocks.0.effective_rank",
        "stages.1.blocks.0.gradient_norm", "features.effective_rank"},
       {"stages.0.blocks.0.diversity", "stages.0.blocks.0.attention_entropy"}},
      {ir::Selection{"pvt"}, "supervised", {"features.effective_rank"}, {}},
      {autoencoder, "mae", of_mae, {"features.effective_rank"}},
      {unet, "mae", of_mae, {}}};
  for (const Case& each : cases) {
    for (const std::int64_t batch : {1, 7}) {
      CAPTURE(each.model.name, batch);
      const ir::Module module = build(each.model, batch);
      const Named got = diagnose(module, runtime::fresh_weights(module, {}, 3), "jit", each.objective);
      for (const auto& [name, value] : got) {
        CAPTURE(name);
        CHECK(std::isfinite(value));
      }
      for (const std::string& name : each.has) CHECK(got.count(name) == 1);
      for (const std::string& name : each.lacks) CHECK(got.count(name) == 0);
    }
  }
}

TEST_CASE("Tokens of the image begin behind class token and registers, wherever a block stands") {
  const auto prefixes = [](const ir::Selection& model) {
    const ir::Module module = build(model, 2);
    const ir::Function& forward = module.function("forward");
    std::vector<std::pair<bool, std::int64_t>> found;
    for (const programs::Block& block : programs::find_blocks(forward)) {
      const programs::Prefix prefix = programs::find_prefix(module, forward, block.exit);
      found.emplace_back(prefix.class_token, prefix.tokens);
    }
    return found;
  };
  using Found = std::vector<std::pair<bool, std::int64_t>>;
  CHECK(prefixes(small_vit()) == Found(2, {true, 1}));
  CHECK(prefixes(small_vit().set("no_embed_class", true).set("reg_tokens", 3)) == Found(2, {true, 4}));
  CHECK(prefixes(small_vit().set("pre_norm", true)) == Found(2, {true, 1}));
  CHECK(prefixes(small_vit().set("pool", "avg").set("reg_tokens", 2)) == Found(2, {false, 2}));
  ir::Selection mae{"mae"};
  mae.set("depth", 2).set("decoder_depth", 2);
  for (const char* skips : {"none", "unet", "unet_paper"}) {
    CAPTURE(skips);
    CHECK(prefixes(mae.set("skips", skips)) == Found(4, {true, 1}));
  }
  const Found pyramid = prefixes(ir::Selection{"pvt"});
  CHECK(pyramid.front() == std::pair<bool, std::int64_t>{false, 0});
  CHECK(pyramid.back() == std::pair<bool, std::int64_t>{true, 1});
}

TEST_CASE("Width over depth is the encoder's, of stages of several widths their sum over the squared depth") {
  const auto gamma = [](const ir::Selection& model) {
    return programs::width_over_depth(build(model, 1).function("forward"));
  };
  CHECK(gamma(ir::Selection{"vit_tiny_28"}) == Approx(192.0 / 12));
  CHECK(gamma(ir::Selection{"resnetv2_18"}) == Approx(30));
  CHECK(gamma(ir::Selection{"resnetv2_34"}) == Approx(14.75));
  CHECK(gamma(ir::Selection{"resnetv2_50"}) == Approx(59).epsilon(0.01));
  CHECK(gamma(ir::Selection{"mae_vit_tiny_28"}) == Approx(192.0 / 12));
}

TEST_CASE("What is asked for alone is computed, and a network without joins is refused") {
  const ir::Module module = build(small_vit(), 3);
  const Named got = diagnose(module, runtime::fresh_weights(module, {}, 3), "jit", "supervised", {"entropy"});
  CHECK(got.size() == 2);
  CHECK(got.contains("blocks.1.attention_entropy"));
  ir::Selection resnet{"resnetv2"};
  resnet.set("depths", ir::Doubles{1}).set("width", 4).set("image", 8);
  ir::Module maps = build(resnet, 2);
  programs::add_diagnose_program(maps, {ir::Selection{"supervised"}, {"entropy", "diversity"}});
  CHECK(maps.function("diagnose").results.empty());
  ir::Module plain = given_tokens({2, 3, 4});
  ir::Function& forward = plain.function("forward");
  const auto join = std::ranges::find(forward.body, ir::Opcode::residual, &ir::Op::code);
  const Value sum = join->results[0], stream = join->operands[0];
  forward.body.erase(join);
  forward.replace_uses(sum, stream);
  CHECK(message_of<UserError>([&] {
          programs::add_diagnose_program(plain, {ir::Selection{"supervised"}, {"streams"}});
        }) == "the network has no residual joins, and so no stream to measure");
}

TEST_CASE("A list of diagnostics is words of the list, each once") {
  CHECK(programs::parse_diagnostics("rank+conditioning", "k") ==
        std::vector<std::string>{"rank", "conditioning"});
  const auto refusal = [](const char* text) {
    return message_of<UserError>([&] { programs::parse_diagnostics(text, "diagnose.what"); });
  };
  CHECK(refusal("streams+ranks") ==
        "diagnose.what: unknown diagnostic 'ranks' (did you mean 'rank'?); choose from streams, rank, "
        "diversity, similarity, entropy, gradients, parameters, conditioning");
  CHECK(refusal("rank+rank") == "diagnose.what: 'rank' appears twice");
  CHECK_THAT(refusal(""), REWIRE_CATCH_CONTAINS("unknown diagnostic ''"));
}

TEST_CASE("Conditioning over a run is that of each of its states, by the programs that were compiled once") {
  const ir::Module module = build(small_vit(), 4);
  runtime::ConditioningMeter meter(module, {.largest_jacobian = 200});
  const ir::Function& forward = module.function("forward");
  const runtime::TensorMap batch = batch_for(forward, "batch");
  for (const std::uint64_t seed : {3, 4, 3}) {
    const runtime::TensorMap weights = runtime::fresh_weights(module, {}, seed);
    const Named got = named(runtime::conditioning_values(meter.measure(weights, batch)));
    const Named once = named(runtime::conditioning_values(
        runtime::measure_conditioning(module, weights, batch.at("image"), {.largest_jacobian = 200})));
    CHECK(got == once);
    CHECK(got.at("blocks.0.condition") > 1);
    CHECK(got.at("blocks.1.mlp.condition") > 1);
    CHECK(got.at("blocks.1.attention_condition_max") >= got.at("blocks.1.attention_condition"));
    CHECK(got.contains("blocks.0.value_output_condition"));
  }
}

}  // namespace
}  // namespace rewire::test
