// run, grad and step against PyTorch in float64 (tests/reference): outputs within 1e-5, each gradient within
// 1e-4 (relative L2, no less than 1e-6 of the whole gradient's norm), each of 20 losses within 1e-4; of each network
// and each set of strategies on it one golden. tests/plugins holds all of them to the same bounds.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "ir/error.h"
#include "runtime/io/npy.h"
#include "runtime/io/safetensors.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

using nlohmann::json;
using runtime::HostTensor;
using runtime::TensorMap;

double distance(const HostTensor& a, const HostTensor& b) {
  std::vector<double> difference = runtime::to_double(a).data;
  const std::vector<double> other = runtime::to_double(b).data;
  REQUIRE(difference.size() == other.size());
  for (std::size_t i = 0; i < other.size(); ++i) difference[i] -= other[i];
  return norm(difference);
}

/// The first of a stack of batches.
HostTensor first(const HostTensor& stack) {
  ir::TensorType type = stack.type();
  type.shape.erase(type.shape.begin());
  HostTensor batch(type);
  std::memcpy(batch.bytes().data(), stack.bytes().data(), batch.bytes().size());
  return batch;
}

/// So many batches, of a stack taken in turn.
HostTensor in_turn(const HostTensor& stack, std::size_t steps) {
  ir::TensorType type = stack.type();
  const std::size_t batch = stack.bytes().size() / static_cast<std::size_t>(type.shape.front());
  type.shape.front() = static_cast<std::int64_t>(steps);
  HostTensor batches(type);
  for (std::size_t at = 0; at < batches.bytes().size(); at += batch)
    std::memcpy(batches.bytes().data() + at, stack.bytes().data() + at % stack.bytes().size(), batch);
  return batches;
}

/// "NAME" of the tensors called "prefix/NAME".
TensorMap below(const TensorMap& tensors, const std::string& prefix) {
  TensorMap found;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix + "/")) found.emplace(name.substr(prefix.size() + 1), tensor.clone());
  }
  return found;
}

/// Optimizer steps of the golden's runs.
std::size_t steps_of(const TensorMap& golden) {
  for (const auto& [name, tensor] : golden) {
    if (name.ends_with("/losses")) return static_cast<std::size_t>(tensor.type().elements());
  }
  return 1;
}

/// The names of a golden case's plugins. "@NAME" is a file of examples/formulas.
Words names(const json& facts) {
  Words plugins;
  for (const std::string spec : facts.at("plugins"))
    plugins.push_back(spec.starts_with('@') ? "formula" : spec.substr(0, spec.find(':')));
  return plugins;
}

/// One golden file, laid out as the commands want it.
class ParityCase {
 public:
  explicit ParityCase(const std::filesystem::path& path)
      : golden(runtime::read_safetensors(path.string())),
        facts(json::parse(golden.metadata.at("case"))),
        plugins(names(facts)) {
    model = {facts.value("family", "vit_tiny_28")};
    for (const auto& [key, value] : facts.at("model").items()) set("model." + key, value);
    for (const std::string spec : facts.at("plugins"))
      model = model + (spec.starts_with('@')
                           ? Words{"--formula", REWIRE_EXAMPLES "/formulas/" + spec.substr(1) + ".toml"}
                           : Words{"--plugin", spec});
    if (facts.contains("seed")) model = model + Words{"--set", "seed=" + facts.at("seed").dump()};
    model = model + Words{"--quiet"};
    TensorMap weights = below(golden.tensors, "weight");
    weights.merge(below(golden.tensors, "frozen"));
    runtime::write_safetensors(file("w.safetensors"), weights);
    if (const auto objective = facts.find("objective"); objective != facts.end()) {
      for (const auto& [key, value] : objective->items()) set("objective." + key, value);
    }
    for (const auto& [name, stack] : inputs()) {
      runtime::write_npy(file(name + "s.npy"), in_turn(golden.tensors.at(stack), steps_of(golden.tensors)));
      runtime::write_npy(file(name + ".npy"), first(golden.tensors.at(stack)));
    }
  }

  /// The commands' inputs, and the golden's tensors that have them.
  std::map<std::string, std::string> inputs() const {
    std::map<std::string, std::string> found;
    for (const auto& [name, stack] :
         {std::pair{"image", "images"}, std::pair{"label", "labels"}, std::pair{"noise", "noise"},
          std::pair{"time", "time"}, std::pair{"drop", "drop"}, std::pair{"tokens", "tokens"},
          std::pair{"targets", "targets"}}) {
      if (golden.tensors.contains(stack)) found.emplace(name, stack);
    }
    for (const auto& [name, tensor] : below(golden.tensors, "input")) found.emplace(name, "input/" + name);
    return found;
  }
  /// As options: one batch, or one for each step; of views, which training takes instead of the image, those alone.
  Words given(bool stacked) const {
    Words words;
    const bool has_views = !below(golden.tensors, "input").empty();
    for (const auto& [name, stack] : inputs()) {
      if (has_views && name == "image") continue;
      const std::string path = file(name + (stacked ? "s.npy" : ".npy"));
      if (name == "label") {
        words = words + Words{"--labels", path};
      } else {
        words = words + Words{"--input", name == "image" ? path : name + "=" + path};
      }
    }
    return words;
  }
  /// One batch of what forward takes: of diffusion a label and no noise, of others no label.
  Words given_forward() const {
    const bool is_diffusion = facts.contains("objective") && facts.at("objective").at("name") == "diffusion";
    const std::set<std::string> left_out =
        is_diffusion ? std::set<std::string>{"noise", "drop"} : std::set<std::string>{"label", "targets"};
    Words words;
    for (const auto& [name, stack] : inputs()) {
      if (stack.starts_with("input/")) continue;
      if (!left_out.contains(name)) words = words + Words{"--input", name + "=" + file(name + ".npy")};
    }
    return words;
  }

  /// The settings of one training run; its schedule counts steps, so that an epoch is one step.
  Words settings(const json& run) const {
    Words words;
    const auto setting = [&](const std::string& key, const json& value) {
      words =
          words + Words{"--set", key + "=" + (value.is_string() ? value.get<std::string>() : value.dump())};
    };
    const double epochs = static_cast<double>(steps_of(golden.tensors)) / run.value("steps_per_epoch", 1.0);
    setting("train.epochs", std::llround(epochs));
    const std::map<std::string, std::string> keys = {{"optimizer", "optimizer.name"},
                                                     {"schedule", "schedule.name"},
                                                     {"warmup_steps", "schedule.warmup_epochs"},
                                                     {"warmup_lr", "schedule.warmup_lr"},
                                                     {"min_lr", "schedule.min_lr"},
                                                     {"milestones", "schedule.milestones"},
                                                     {"gamma", "schedule.gamma"},
                                                     {"clip_norm", "train.clip_norm"},
                                                     {"clip", "train.clip"},
                                                     {"ema", "train.ema"},
                                                     {"ema_end", "train.ema_end"},
                                                     {"label_smoothing", "train.label_smoothing"}};
    for (const auto& [key, value] : run.items()) {
      if (key == "total_steps" || key == "steps_per_epoch") continue;
      const auto known = keys.find(key);
      setting(known != keys.end() ? known->second : "optimizer." + key, value);
    }
    return words;
  }

  std::string file(const std::string& name) const { return folder.file(name); }

  runtime::SafetensorsFile golden;
  json facts;
  Words plugins, model;

 private:
  void set(const std::string& key, const json& value) {
    model = model + Words{"--set", key + "=" + (value.is_string() ? value.get<std::string>() : value.dump())};
  }
  TemporaryFolder folder;
};

std::string succeed(const Words& words) {
  const Outcome outcome = rewire_command(words);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  return outcome.out;
}

void check_run(const ParityCase& c) {
  succeed(Words{"run"} + c.model + c.given_forward() +
          Words{"--weights", c.file("w.safetensors"), "--output", c.file("o.npy")});
  const HostTensor& expected = c.golden.tensors.at(c.facts.value("output", "logits"));
  CHECK(distance(runtime::read_npy(c.file("o.npy")), expected) <= 1e-5 * norm(expected));
}

void check_grad(const ParityCase& c) {
  const std::string out =
      succeed(Words{"grad"} + c.model + c.given(false) +
              Words{"--weights", c.file("w.safetensors"), "--output", c.file("g.safetensors"), "--json"});
  const double loss = json::parse(out).at("loss");
  CHECK(loss == Approx(runtime::to_double(c.golden.tensors.at("loss")).scalar()).epsilon(1e-5));
  const TensorMap expected = below(c.golden.tensors, "gradient");
  const TensorMap gradients = runtime::read_safetensors(c.file("g.safetensors")).tensors;
  REQUIRE(gradients.size() == expected.size());
  std::vector<double> norms;
  for (const auto& [name, gradient] : expected) norms.push_back(norm(gradient));
  const double all = norm(norms);
  for (const auto& [name, gradient] : expected) {
    CAPTURE(name);
    // A bias that a batch norm takes away again has no gradient but rounding errors.
    const double scale = norm(gradient) < 1e-12 * all ? all : std::max(norm(gradient), 1e-6 * all);
    CHECK(distance(gradients.at(name), gradient) <= 1e-4 * scale);
  }
}

// The keys' part of a bias shifts all logits of a row alike, which softmax does not see: its gradient is zero but
// for rounding, AdamW divides it by its own size, and where it goes is rounding alone. Queries and values are
// determined.
HostTensor determined(const std::string& name, const HostTensor& weight) {
  ir::Tensor tensor = runtime::to_double(weight);
  const auto size = static_cast<std::ptrdiff_t>(tensor.data.size());
  if (name.ends_with("attn.qkv.bias") || name.ends_with("attn.c_attn.bias"))
    std::fill_n(tensor.data.begin() + size / 3, size / 3, 0.0);
  if (name.ends_with("attn.kv.bias")) std::fill_n(tensor.data.begin(), size / 2, 0.0);
  return runtime::to_host(tensor);
}

void check_steps(const ParityCase& c) {
  for (const auto& [run, options] : c.facts.at("runs").items()) {
    CAPTURE(run);
    const std::vector<double> expected = runtime::to_double(c.golden.tensors.at(run + "/losses")).data;
    const std::string out =
        succeed(Words{"step"} + c.model + c.settings(options) + c.given(true) +
                Words{"--weights", c.file("w.safetensors"), "--steps", std::to_string(expected.size()),
                      "--output", c.file("w2.safetensors"), "--no-autotune"});
    const std::vector<double> losses = json::parse(out).at("losses");
    REQUIRE(losses.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      CHECK(losses[i] == Approx(expected[i]).epsilon(1e-4));
    }
    const TensorMap after = runtime::read_safetensors(c.file("w2.safetensors")).tensors;
    for (const auto& [name, weight] : below(c.golden.tensors, run + "/weight")) {
      CAPTURE(name);
      const HostTensor expected_weight = determined(name, weight);
      CHECK(distance(determined(name, after.at(name)), expected_weight) <= 1e-4 * norm(expected_weight));
    }
  }
}

/// In front of a norm the weights that mix lanes have gradients that cancel but for rounding, and AdamW
/// divides them by their own size. Their goldens are held in double precision by plugins_hyper_test, and what
/// is compiled by `plugin test`, whose bound knows of the cancellation.
bool determines_gradients(const ParityCase& c) {
  return std::ranges::find(c.plugins, "hyper") == c.plugins.end();
}

/// Of each network and each set of built strategies on it the first golden with steps, or the first.
std::vector<std::filesystem::path> sample() {
  struct Candidate {
    std::filesystem::path path;
    bool has_steps = false;
  };
  const std::filesystem::directory_iterator goldens(REWIRE_GOLDENS);
  const std::set<std::filesystem::path> paths(begin(goldens), end(goldens));
  std::map<std::set<std::string>, Candidate> chosen;
  for (const std::filesystem::path& path : paths) {
    if (path.extension() != ".safetensors") continue;
    const auto metadata = runtime::read_safetensors(path.string()).metadata;
    if (!metadata.contains("case")) continue;
    const json facts = json::parse(metadata.at("case"));
    if (!facts.contains("model") || !facts.contains("plugins")) continue;  // of no network, or of a recipe
    if (facts.contains("objective") && facts.at("objective").at("name") == "mean_squares")
      continue;  // which parity_test alone has, for networks that the command does not train
    const Words plugins = names(facts);
    // A strategy's cases need its plugin; a tree without it has nothing to hold to them.
    if (!std::ranges::all_of(plugins, is_built)) continue;
    std::set<std::string> key(plugins.begin(), plugins.end());
    key.insert("network " + facts.value("family", "vit"));
    const bool has_steps = !facts.at("runs").empty();
    const auto [at, is_new] = chosen.try_emplace(key, Candidate{path, has_steps});
    if (!is_new && has_steps && !at->second.has_steps) at->second = {path, has_steps};
  }
  std::vector<std::filesystem::path> sampled;
  for (const auto& [key, candidate] : chosen) sampled.push_back(candidate.path);
  return sampled;
}

TEST_CASE("run, grad and step agree with PyTorch in float64") {
  std::set<std::string> networks, held;
  for (const std::filesystem::path& path : sample()) {
    CAPTURE(path.filename().string());
    const ParityCase c(path);
    networks.insert(c.facts.value("family", "vit"));
    held.insert(c.plugins.begin(), c.plugins.end());
    check_run(c);
    if (!determines_gradients(c)) continue;
    check_grad(c);
    check_steps(c);
  }
  CHECK(networks == std::set<std::string>{"dino", "gpt2", "llama", "mae", "oru_vit", "pvt", "resnet",
                                          "resnetv2", "sit", "t2t_vit", "vit"});
  for (const std::string strategy :
       {"decay", "orthogonal", "augment", "skipless", "layerscale", "denseformer", "value_residual",
        "postnorm", "attnres", "hyper", "laurel", "x0_lambdas", "formula"}) {
    CAPTURE(strategy);
    CHECK(held.contains(strategy) == is_built(strategy));
  }
}

}  // namespace
}  // namespace rewire::test
