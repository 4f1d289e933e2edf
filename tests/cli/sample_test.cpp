// rewire sample: images of a run of diffusion as files, the same each time; text of a run of language; and what it
// refuses.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/io/npy.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

const Words kSmallSit = {
    "--set", "model.dim=8",     "--set",  "model.depth=2",         "--set", "model.heads=2",
    "--set", "model.patch=14",  "--set",  "data.format=synthetic", "--set", "data.count=40",
    "--set", "train.batch=8",   "--set",  "train.epochs=1",        "--set", "optimizer.lr=0.01",
    "--set", "eval.pictures=0", "--quiet"};

void train_small(const std::string& run, const Words& more) {
  const Outcome outcome = rewire_command(
      Words{"train", "sit_tiny_28", "--set", "objective.name=diffusion", "--out", run, "--no-autotune"} +
      kSmallSit + more);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
}

std::vector<float> numbers_of(const std::string& npy) {
  const runtime::HostTensor tensor = runtime::read_npy(npy);
  return {tensor.as<float>().begin(), tensor.as<float>().end()};
}

TEST_CASE("Samples are a picture and numbers, the first the same however many there are") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  train_small(run, {"--set", "train.ema=0.5"});
  const auto sample = [&](const std::string& name, const Words& more) {
    const Outcome outcome =
        rewire_command(Words{"sample", run, "--steps", "3", "--output", folder.file(name + ".png"), "--npy",
                             folder.file(name + ".npy")} +
                       more);
    INFO(outcome.err);
    CHECK(outcome.code == 0);
    CHECK(std::filesystem::exists(folder.file(name + ".png")));
    return numbers_of(folder.file(name + ".npy"));
  };
  const std::vector<float> ten = sample("ten", {"--images", "10"}),
                           again = sample("again", {"--images", "10"});
  CHECK(runtime::read_npy(folder.file("ten.npy")).type().shape == ir::Shape{10, 1, 28, 28});
  CHECK(ten == again);
  CHECK(read_text(folder.file("ten.png")) == read_text(folder.file("again.png")));
  const std::vector<float> many = sample("many", {"--images", "70"});  // more than a batch
  REQUIRE(many.size() == std::size_t{70} * 784);
  for (std::size_t i = 0; i < 3 * 784; ++i) CHECK(many[i] == Approx(ten[i]).margin(1e-4));
  CHECK(sample("seed", {"--images", "10", "--seed", "1"}) != ten);
  CHECK(sample("ema", {"--images", "10", "--ema"}) != ten);
  CHECK(sample("heun", {"--images", "10", "--sampler", "heun"}) != ten);
  CHECK(sample("guided", {"--images", "10", "--guidance", "4"}) != ten);
  // Class 0 alone: the first image is that of `all`.
  const std::vector<float> of_class = sample("class", {"--images", "10", "--class", "0"});
  CHECK(std::vector<float>(of_class.begin(), of_class.begin() + 784) ==
        std::vector<float>(ten.begin(), ten.begin() + 784));
  CHECK(of_class != ten);
}

TEST_CASE("What cannot be sampled is refused in one line") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run"), other = folder.file("other"), png = folder.file("x.png");
  train_small(run, {"--set", "model.null_class=false", "--set", "objective.label_drop=0"});
  const Outcome classifier = rewire_command(Words{"train"} + kModel +
                                            Words{"--set", "data.format=synthetic", "--set", "data.count=40",
                                                  "--set", "train.batch=8", "--set", "train.epochs=1",
                                                  "--out", other, "--no-autotune", "--quiet"});
  REQUIRE(classifier.code == 0);
  const auto refusal = [&](const std::string& from, const Words& more) {
    const Outcome outcome = rewire_command(Words{"sample", from, "--output", png} + more);
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
    CHECK_FALSE(std::filesystem::exists(png));
    return outcome.err;
  };
  CHECK(refusal(run, {"--guidance", "2"}) ==
        "rewire: guidance needs a 'no class' label, which the network lacks: train it with "
        "model.null_class=true\n");
  CHECK(refusal(run, {"--steps", "0"}) ==
        "rewire: sample: --steps: 0 is out of range: it must be at least 1; see rewire sample --help\n");
  CHECK(refusal(run, {"--class", "10"}) ==
        "rewire: sample: --class 10 is not a class of the network: it takes 0 to 9, or all\n");
  CHECK(refusal(run, {"--guidance", "much"}) ==
        "rewire: sample: --guidance much is not a number from 0 to 1000\n");
  CHECK_THAT(refusal(run, {"--ema"}), REWIRE_CATCH_CONTAINS("train.ema"));
  CHECK_THAT(refusal(other, {}),
             REWIRE_CATCH_CONTAINS("is a run with objective.name=supervised, which draws no "
                                   "samples; give a run of diffusion"));
  CHECK_THAT(refusal("sit_tiny_28", {}), REWIRE_CATCH_CONTAINS("sit_tiny_28 is not a run folder"));
}

TEST_CASE("With strategies too, kept keys and values draw what the whole network draws") {
  const TemporaryFolder folder;
  const std::string text = folder.file("x.txt");
  write_text(text, std::string(4000, 'a') + "some words and other words");
  for (const std::string plugin : {"hyper", "attnres", "value_residual", "x0_lambdas:backout=true"}) {
    CAPTURE(plugin);
    const std::string run = folder.file(plugin.substr(0, 4));
    const Outcome trained = rewire_command({"train",         "gpt2_nano",
                                            "--plugin",      plugin,
                                            "--set",         "model.dim=16",
                                            "--set",         "model.heads=2",
                                            "--set",         "model.depth=2",
                                            "--set",         "model.context=16",
                                            "--set",         "data.format=text",
                                            "--set",         "data.path=" + text,
                                            "--set",         "data.windows=16",
                                            "--set",         "train.batch=8",
                                            "--set",         "train.epochs=1",
                                            "--set",         "optimizer.lr=0.05",
                                            "--out",         run,
                                            "--no-autotune", "--quiet"});
    INFO(trained.err);
    REQUIRE(trained.code == 0);
    const Words sample = {"sample",        run, "--prompt", "some", "--tokens", "12",
                          "--temperature", "2", "--json"};
    const Outcome kept = rewire_command(sample), whole = rewire_command(sample + Words{"--no-cache"});
    INFO(kept.err);
    CHECK(kept.code == 0);
    CHECK(kept.out == whole.out);
  }
}

TEST_CASE("A run of language continues a text, the same with and without kept keys") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run"), text = folder.file("x.txt");
  std::string words;
  for (int i = 0; i < 300; ++i) words += "one two three ";
  write_text(text, words);
  const Outcome trained = rewire_command({"train",         "gpt2_nano",
                                          "--set",         "model.dim=24",
                                          "--set",         "model.heads=2",
                                          "--set",         "model.depth=2",
                                          "--set",         "model.context=32",
                                          "--set",         "data.format=text",
                                          "--set",         "data.path=" + text,
                                          "--set",         "train.batch=8",
                                          "--set",         "train.epochs=12",
                                          "--set",         "optimizer.lr=0.01",
                                          "--out",         run,
                                          "--no-autotune", "--quiet"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const auto sample = [&](const Words& more) {
    const Outcome outcome = rewire_command(Words{"sample", run} + more);
    INFO(outcome.err);
    CHECK(outcome.code == 0);
    return outcome.out;
  };
  const std::string greedy = sample({"--prompt", "one two ", "--tokens", "20", "--temperature", "0"});
  CHECK(greedy == "one two three one two three \n");
  CHECK(sample({"--prompt", "one two ", "--tokens", "20", "--temperature", "0", "--no-cache"}) == greedy);
  const Words drawn = {"--tokens", "9", "--temperature", "3", "--texts", "2", "--seed", "4", "--json"};
  const nlohmann::json texts = nlohmann::json::parse(sample(drawn)).at("texts");
  REQUIRE(texts.size() == 2);
  CHECK(texts[0].at("tokens").size() == 9);
  CHECK(texts[0] != texts[1]);
  CHECK(nlohmann::json::parse(sample(drawn)).at("texts") == texts);
  CHECK(sample({"--weights", run + "/weights.safetensors", "--prompt", "one two ", "--tokens", "20",
                "--temperature", "0"}) == greedy);
  const auto refusal = [&](const Words& more) {
    const Outcome outcome = rewire_command(Words{"sample", run} + more);
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
    return outcome.err;
  };
  CHECK(refusal({"--images", "3"}) ==
        "rewire: sample: --images has no meaning for a run with objective.name=next_token: drop it\n");
  CHECK(refusal({"--top-p", "1.5"}) == "rewire: sample: --top-p 1.5 is not in (0, 1]\n");
  CHECK_THAT(refusal({"--tokenizer", "words"}), REWIRE_CATCH_CONTAINS("words"));
}

}  // namespace
}  // namespace rewire::test
