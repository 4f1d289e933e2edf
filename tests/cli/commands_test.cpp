// The commands on good input: what they print and what they write.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/io/npy.h"
#include "runtime/io/safetensors.h"
#include "tests/cli/fixture.h"
#include "tests/cli/started.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test {
namespace {

using nlohmann::json;

const std::vector<std::string> kCommands = {"train",        "sweep",
                                            "eval",         "sample",
                                            "init",         "run",
                                            "grad",         "step",
                                            "export",       "verify",
                                            "trace",        "report",
                                            "diff",         "analyze",
                                            "features",     "probe",
                                            "tokencut",     "dump",
                                            "explore",      "repro",
                                            "bench",        "models",
                                            "models info",  "plugins",
                                            "plugins info", "plugin new",
                                            "plugin test",  "data info",
                                            "data preview", "data try",
                                            "data pack",    "data bench",
                                            "sources",      "sources info",
                                            "transforms",   "transforms info",
                                            "objectives",   "objectives info",
                                            "optimizers",   "optimizers info",
                                            "schedules",    "schedules info",
                                            "doctor",       "help",
                                            "docs",         "completion",
                                            "man",          "detect eval"};

Words words_of(const std::string& command) {
  const std::size_t space = command.find(' ');
  if (space == std::string::npos) return {command};
  return {command.substr(0, space), command.substr(space + 1)};
}

TEST_CASE("Help names every command, and every command explains itself") {
  const Outcome help = rewire_command({"--help"});
  CHECK(help.code == 0);
  CHECK(help.err.empty());
  CHECK(rewire_command({}).out == help.out);
  for (const std::string& command : kCommands) {
    CAPTURE(command);
    CHECK_THAT(help.out, REWIRE_CATCH_CONTAINS("\n  " + command + " "));
    const Outcome own = rewire_command(words_of(command) + Words{"--help"});
    CHECK(own.code == 0);
    CHECK_THAT(own.out, REWIRE_CATCH_CONTAINS("rewire " + command) && REWIRE_CATCH_CONTAINS("--quiet") &&
                            REWIRE_CATCH_CONTAINS("--log-level"));
  }
  // And it names no other.
  const std::size_t list = help.out.find("\nCommands:\n") + 10;
  const std::string rows = help.out.substr(list, help.out.find("\n\n", list) - list);
  CHECK(static_cast<std::size_t>(std::count(rows.begin(), rows.end(), '\n')) == kCommands.size());
  // Of a command that has further ones, these too.
  const Outcome family = rewire_command({"plugin", "--help"});
  CHECK(family.code == 0);
  CHECK_THAT(family.out, REWIRE_CATCH_CONTAINS("--plugin-path") && REWIRE_CATCH_CONTAINS("\n  plugin new ") &&
                             REWIRE_CATCH_CONTAINS("\n  plugin test ") &&
                             REWIRE_CATCH_CONTAINS("\n  plugins info ") &&
                             !REWIRE_CATCH_CONTAINS("  doctor "));
  const Outcome version = rewire_command({"--version"});
  CHECK(version.code == 0);
  CHECK(version.out == "rewire " REWIRE_TEST_VERSION "\n");
}

TEST_CASE("What recipes choose from is listed, and says its keys") {
  for (const std::string kind : {"sources", "transforms", "objectives", "optimizers", "schedules"}) {
    CAPTURE(kind);
    const json list = json::parse(rewire_command({kind, "--json"}).out);
    REQUIRE_FALSE(list.empty());
    for (const json& row : list) {
      const std::string name = row.at("name");
      CHECK_THAT(rewire_command({kind}).out, REWIRE_CATCH_CONTAINS(name));
      const json object = json::parse(rewire_command({kind, "info", name, "--json"}).out);
      for (const json& parameter : object.at("parameters")) CHECK_FALSE(parameter.at("doc").empty());
    }
  }
  // Their names, in the order of the list.
  const auto names = [](const std::string& kind) {
    std::string all;
    for (const json& row : json::parse(rewire_command({kind, "--json"}).out))
      all += (all.empty() ? "" : "|") + row.at("name").get<std::string>();
    return all;
  };
  const auto check_unknown = [&](const std::string& kind, const std::string& what,
                                 const std::string& nearest) {
    const Outcome outcome = rewire_command({kind, "info", what.substr(what.find('=') + 1)});
    CHECK(outcome.code == 2);
    CHECK(outcome.err == "rewire: " + what + " is unknown: it takes one of " + names(kind) +
                             " (did you mean '" + nearest + "'?)\n");
  };
  check_unknown("optimizers", "optimizer.name=sdg", "sgd");
  check_unknown("sources", "data.format=idy", "idx");
  check_unknown("transforms", "transform=normalise", "normalize");
}

TEST_CASE("Inputs by name are those of --input and --labels") {
  const Workplace work;
  const Words weights = {"--weights", work.file("w.safetensors"), "--output"};
  const auto grad = [&](const Words& inputs, const std::string& output) {
    return rewire_command(Words{"grad"} + kModel + weights + Words{work.file(output)} + inputs);
  };
  const std::string x = work.file("x.npy"), y = work.file("y.npy");
  CHECK(grad({"--input", x, "--labels", y}, "a").code == 0);
  CHECK(grad({"--input", "label=" + y, "--input", "image=" + x}, "b").code == 0);
  CHECK(read_text(work.file("a")) == read_text(work.file("b")));
  CHECK(grad({"--input", x}, "c").err ==
        "rewire: there is no file for 'label': give --input label=FILE or --labels FILE\n");
  CHECK(grad({"--labels", y}, "c").err == "rewire: there is no file for 'image': give --input image=FILE\n");
  CHECK(grad({"--input", x, "--input", "image=" + x}, "c").err ==
        "rewire: --input image=" + x + ": 'image' already has a file\n");
  CHECK(grad({"--input", x, "--input", "lable=" + y}, "c").err ==
        "rewire: --input lable=" + y +
            ": there is no input 'lable' (did you mean 'label'?); the inputs are image, label\n");
  CHECK(rewire_command(Words{"run"} + kModel + weights + Words{work.file("o.npy"), "--input", "image=" + x})
            .code == 0);
}

TEST_CASE("init writes the weights that the seed chooses") {
  const Workplace work;
  CHECK(work.init(kModel, "again.safetensors").code == 0);
  CHECK(read_text(work.file("again.safetensors")) == read_text(work.file("w.safetensors")));
  CHECK(work.init(kModel + Words{"--set", "seed=1"}, "other.safetensors").code == 0);
  CHECK(read_text(work.file("other.safetensors")) != read_text(work.file("w.safetensors")));

  const runtime::SafetensorsFile file = runtime::read_safetensors(work.file("w.safetensors"));
  CHECK(file.tensors.at("blocks.0.attn.qkv.weight").type() == ir::TensorType{ir::DType::f32, {24, 8}});
  CHECK(file.tensors.at("head.weight").type() == ir::TensorType{ir::DType::f32, {10, 8}});
  CHECK_FALSE(file.tensors.contains("train.step"));
}

TEST_CASE("run takes the batch from the input and writes one row of logits an image") {
  const Workplace work;
  const Outcome outcome = work.run(kModel);
  CHECK(outcome.code == 0);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.empty());
  CHECK(runtime::read_npy(work.file("out.npy")).type() == ir::TensorType{ir::DType::f32, {kBatch, 10}});

  // An image's logits do not depend on the batch that it is in.
  runtime::HostTensor first({ir::DType::f32, {1, 1, 28, 28}});
  const runtime::HostTensor images = runtime::read_npy(work.file("x.npy"));
  std::copy_n(images.as<float>().begin(), first.as<float>().size(), first.as<float>().begin());
  runtime::write_npy(work.file("first.npy"), first);
  CHECK(work.run(kModel, "first.npy", "first_out.npy").code == 0);
  const std::vector<float> all = floats_of(work.file("out.npy"));
  const std::vector<float> one = floats_of(work.file("first_out.npy"));
  REQUIRE(one.size() == 10);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(one[i] == Approx(all[i]).epsilon(1e-5));
}

TEST_CASE("A recipe, a zoo name with --set and a dumped module are the same network") {
  const Workplace work;
  REQUIRE(work.run(kModel).code == 0);
  write_text(
      work.file("small.toml"),
      "[model]\nname = \"vit_tiny_28\"\ndim = 8\ndepth = 1\nheads = 2\npatch = 14\n[train]\nbatch = 3\n");
  REQUIRE(work.run({work.file("small.toml")}, "x.npy", "recipe.npy").code == 0);
  CHECK(read_text(work.file("recipe.npy")) == read_text(work.file("out.npy")));

  const Outcome dump = rewire_command({"dump", work.file("small.toml"), "--stage", "ir"});
  REQUIRE(dump.code == 0);
  write_text(work.file("small.rir"), dump.out);
  REQUIRE(work.run({work.file("small.rir")}, "x.npy", "module.npy").code == 0);
  CHECK(read_text(work.file("module.npy")) == read_text(work.file("out.npy")));
  CHECK(rewire_command({"dump", work.file("small.rir")}).out == dump.out);
}

TEST_CASE("grad writes one gradient a weight and prints the loss") {
  const Workplace work;
  const Outcome outcome = work.grad(kModel, {"--json"});
  REQUIRE(outcome.code == 0);
  const double loss = json::parse(outcome.out).at("loss");
  CHECK(loss == Approx(std::log(10.0)).margin(0.5));  // ten classes, and a network that knows nothing
  const runtime::SafetensorsFile weights = runtime::read_safetensors(work.file("w.safetensors"));
  const runtime::SafetensorsFile gradients = runtime::read_safetensors(work.file("g.safetensors"));
  REQUIRE(gradients.tensors.size() == weights.tensors.size());
  for (const auto& [name, gradient] : gradients.tensors) {
    CAPTURE(name);
    CHECK(gradient.type() == weights.tensors.at(name).type());
    CHECK(norm(gradient) > 0);
  }
  CHECK_THAT(work.grad(kModel).out, REWIRE_CATCH_CONTAINS("loss 2."));
}

TEST_CASE("step prints the losses, the first of them grad's, and writes weights that moved") {
  const Workplace work;
  const Outcome outcome = work.step(kModel, {"--input", work.file("xs.npy")});
  REQUIRE(outcome.code == 0);
  const std::vector<double> losses = json::parse(outcome.out).at("losses");
  REQUIRE(losses.size() == 2);
  CHECK(losses[0] == json::parse(work.grad(kModel, {"--json"}).out).at("loss"));
  const runtime::SafetensorsFile before = runtime::read_safetensors(work.file("w.safetensors"));
  const runtime::SafetensorsFile after = runtime::read_safetensors(work.file("w2.safetensors"));
  REQUIRE(after.tensors.size() == before.tensors.size());
  // AdamW moves each entry by about lr a step; two steps of 1e-3.
  const auto& moved = after.tensors.at("head.weight").as<float>();
  const auto& start = before.tensors.at("head.weight").as<float>();
  for (std::size_t i = 0; i < moved.size(); ++i) {
    CHECK(moved[i] != start[i]);
    CHECK(std::abs(moved[i] - start[i]) < 2.1e-3F);
  }
  // What step wrote, run reads.
  CHECK(work.run(kModel, "x.npy", "out.npy", "w2.safetensors").code == 0);

  // One batch, every step; the recipe's optimizer.
  const Outcome same =
      work.step(kModel, {"--input", work.file("x.npy"), "--labels", work.file("y.npy"), "--steps", "5",
                         "--set", "optimizer.name=sgd", "--set", "optimizer.lr=0.1"});
  CHECK(same.code == 2);  // --labels twice
  const Outcome five =
      rewire_command(Words{"step"} + kModel +
                     Words{"--weights", work.file("w.safetensors"), "--labels", work.file("y.npy"), "--input",
                           work.file("x.npy"), "--steps", "5", "--output", work.file("w5.safetensors"),
                           "--set", "optimizer.lr=0.01"});
  REQUIRE(five.code == 0);
  const std::vector<double> falling = json::parse(five.out).at("losses");
  REQUIRE(falling.size() == 5);
  CHECK(falling[4] < falling[0]);
}

TEST_CASE("step writes the moving averages of the weights where they are kept") {
  const Workplace work;
  const auto step = [&](const std::string& steps, const Words& more) {
    return rewire_command(Words{"step"} + kModel +
                          Words{"--weights", work.file("w.safetensors"), "--labels", work.file("y.npy"),
                                "--input", work.file("x.npy"), "--steps", steps, "--output",
                                work.file("s" + steps + ".safetensors"), "--ema-output",
                                work.file("e" + steps + ".safetensors")} +
                          more);
  };
  CHECK(step("1", {}).err == "rewire: step: --ema-output " + work.file("e1.safetensors") +
                                 ": no averages are kept; --set train.ema=0.9999 keeps them\n");
  const auto head = [&](const std::string& name) {
    return runtime::read_safetensors(work.file(name)).tensors.at("head.weight").clone();
  };
  for (const char* steps : {"1", "2"}) REQUIRE(step(steps, {"--set", "train.ema=0.75"}).code == 0);
  CHECK(read_text(work.file("e1.safetensors")) == read_text(work.file("s1.safetensors")));  // e = w at first
  const runtime::HostTensor first = head("s1.safetensors"), second = head("s2.safetensors"),
                            average = head("e2.safetensors");
  for (std::size_t i = 0; i < first.as<float>().size(); ++i) {
    const float w = first.as<float>()[i];
    CHECK(average.as<float>()[i] == Approx(w + 0.25F * (second.as<float>()[i] - w)).margin(1e-7));
  }
}

TEST_CASE("A plugin rewrites the network, its weights are loaded by name, and --plugin none takes it out") {
  const Workplace work;
  const Words plugin = {"--plugin", plugin_file("gain") + ":factor=3"};
  const Outcome original = rewire_command(Words{"dump"} + kModel + Words{"--stage", "ir"} + plugin);
  const Outcome rewritten = rewire_command(Words{"dump"} + kModel + Words{"--stage", "rewritten"} + plugin);
  REQUIRE(original.code == 0);
  REQUIRE(rewritten.code == 0);
  CHECK(original.out == rewire_command(Words{"dump"} + kModel).out);
  CHECK(original.out != rewritten.out);
  CHECK_THAT(rewritten.out, REWIRE_CATCH_CONTAINS("blocks.0.attn.gain"));

  REQUIRE(work.init(kModel + plugin, "wg.safetensors").code == 0);
  REQUIRE(work.run(kModel).code == 0);
  REQUIRE(work.run(kModel + plugin, "x.npy", "gain.npy", "wg.safetensors").code == 0);
  CHECK(read_text(work.file("gain.npy")) != read_text(work.file("out.npy")));

  write_text(work.file("gain.toml"),
             "[model]\nname = \"vit_tiny_28\"\ndim = 8\ndepth = 1\nheads = 2\npatch = 14\n"
             "[[plugin]]\nname = \"" +
                 plugin_file("gain") + "\"\nfactor = 3\n");
  REQUIRE(work.run({work.file("gain.toml")}, "x.npy", "recipe.npy", "wg.safetensors").code == 0);
  CHECK(read_text(work.file("recipe.npy")) == read_text(work.file("gain.npy")));
  REQUIRE(work.run({work.file("gain.toml"), "--plugin", "none"}, "x.npy", "none.npy").code == 0);
  CHECK(read_text(work.file("none.npy")) == read_text(work.file("out.npy")));
}

TEST_CASE("dump shows the step's kernels at each stage, and one by name") {
  const Words dump = Words{"dump"} + kModel + Words{"--set", "train.batch=3", "--quiet", "--stage"};
  const Outcome fused = rewire_command(dump + Words{"fused"});
  REQUIRE(fused.code == 0);
  CHECK(fused.out.starts_with("program step\n"));
  const std::size_t at = fused.out.find("  kernel blocks_0_norm2_");
  REQUIRE(at != std::string::npos);
  const std::string name = fused.out.substr(at + 9, fused.out.find(' ', at + 9) - at - 9);
  const Outcome tile = rewire_command(dump + Words{"tile", "--kernel", name});
  CHECK(tile.code == 0);
  CHECK(tile.out.find("kernel " + name) != std::string::npos);
  CHECK(rewire_command(dump + Words{"llvm", "--kernel", name}).out.find("define ") != std::string::npos);
  CHECK(rewire_command(dump + Words{"asm", "--kernel", name}).out.find(".globl") != std::string::npos);
  const Outcome product = rewire_command(dump + Words{"llvm", "--kernel", "product"});
  CHECK(product.out.find("define void @product_packed_1(") != std::string::npos);
  CHECK(product.out.find("define void @product_direct_6(") != std::string::npos);
  CHECK(rewire_command(dump + Words{"asm", "--kernel", "product"}).out.find("product_packed_1:") !=
        std::string::npos);
  CHECK(rewire_command(dump + Words{"tile", "--kernel", "product"}).code == 2);
  const Outcome plan = rewire_command(dump + Words{"plan"});
  CHECK(plan.out.starts_with("arena of step: "));
  CHECK_FALSE(rewire_command(dump + Words{"plan", "--arch", "sm_90"}).out == plan.out);
  // The second member of a table has no text of its own.
  const std::size_t table = fused.out.find("\n  table of ");
  REQUIRE(table != std::string::npos);
  const std::size_t second = fused.out.find("\n    kernel ", fused.out.find("\n    kernel ", table) + 1) + 12;
  const std::string member = fused.out.substr(second, fused.out.find(' ', second) - second);
  CHECK(rewire_command(dump + Words{"tile", "--kernel", member}).code == 0);
  CHECK_THAT(rewire_command(dump + Words{"cuda", "--kernel", member}).out,
             REWIRE_CATCH_CONTAINS("// a table of ") && REWIRE_CATCH_CONTAINS(member));
  for (const char* stage : {"tile", "fused"}) {
    const Outcome unknown = rewire_command(dump + Words{stage, "--kernel", name + "x"});
    CHECK(unknown.code == 2);
    CHECK(unknown.err == "rewire: the step has no kernel '" + name + "x' (did you mean '" + name +
                             "'?); --stage fused lists them\n");
  }
  // Of the fused step one kernel: the same lines as in all of it, the ops that became it and its buffers.
  for (const std::string& one : {name, member}) {
    CAPTURE(one);
    const Outcome group = rewire_command(dump + Words{"fused", "--kernel", one});
    CHECK(group.code == 0);
    const std::size_t begin = group.out.find("  kernel " + one + " (");
    REQUIRE(begin != std::string::npos);
    CHECK_THAT(fused.out, REWIRE_CATCH_CONTAINS(group.out.substr(begin)));
    CHECK(group.out.find("  kernel ", begin + 1) == std::string::npos);
    CHECK_THAT(group.out, Catch::Matchers::StartsWith("  buffer ") && REWIRE_CATCH_CONTAINS("    //   "));
  }
  for (const char* stage : {"ir", "rewritten", "step", "plan"}) {
    const Outcome refused = rewire_command(dump + Words{stage, "--kernel", name});
    CHECK(refused.code == 2);
    CHECK(refused.err ==
          "rewire: dump: --kernel works only with --stage fused, tile, llvm, asm, cuda or ptx, not with " +
              std::string(stage) + "\n");
  }
}

TEST_CASE("dump shows the training step after all passes, and on request each pass") {
  const Workplace work;
  const Words step = Words{"dump"} + kModel + Words{"--stage", "step", "--set", "train.batch=3"};
  const Outcome outcome = rewire_command(step);
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.out, REWIRE_CATCH_CONTAINS("func @step(%image: f32[3,1,28,28], %label: i64[3])") &&
                              REWIRE_CATCH_CONTAINS("update "));
  CHECK_THAT(outcome.out, !REWIRE_CATCH_CONTAINS("layer_norm") && !REWIRE_CATCH_CONTAINS("residual") &&
                              !REWIRE_CATCH_CONTAINS("func @forward"));
  const Outcome traced = rewire_command(step + Words{"--print-after-all", "--time-passes"});
  CHECK(traced.out == outcome.out);
  CHECK_THAT(traced.err,
             REWIRE_CATCH_CONTAINS("// after decompose\nmodule @") && REWIRE_CATCH_CONTAINS(" ms\n"));
}

/// What `rewire bench --pipe` answers to these lines.
std::vector<json> piped(const std::vector<std::string>& lines, const Workplace& work) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  const std::string file = work.file("lines");
  write_text(file, text);
  StartedCommand command({"bench", "--pipe", "--quiet"}, [&] {
    const int input = ::open(file.c_str(), O_RDONLY);
    ::dup2(input, STDIN_FILENO);
  });
  const Outcome outcome = command.wait();
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  std::vector<json> answers;
  std::istringstream out(outcome.out);
  for (std::string line; std::getline(out, line);) answers.push_back(json::parse(line));
  return answers;
}

TEST_CASE("bench --pipe answers a line with a line, and compiles a network once until it is told to forget") {
  const Workplace work;
  const auto line = [](const Words& more) { return json(kModel + Words{"--batch", "3"} + more).dump(); };
  const std::string plain = line({"--steps", "1"}), other = line({"--steps", "1", "--mode", "infer"});
  const std::vector<json> answers =
      piped({plain, other, line({"--steps", "3", "--profile"}), "[]", plain}, work);
  REQUIRE(answers.size() == 5);
  const auto compiled = [&](std::size_t i) { return answers[i].at("compile_s").get<double>(); };
  CHECK(compiled(0) == compiled(2));  // the same engine says so to the last digit
  CHECK(answers[2].at("profile").size() > 10);
  CHECK_FALSE(answers[0].contains("profile"));
  CHECK(answers[1].at("kernels") < answers[0].at("kernels"));
  CHECK(answers[3].empty());
  CHECK(compiled(4) != compiled(0));
  CHECK(answers[4].at("step_ms") > 0);
}

TEST_CASE("bench --pipe says what is wrong with a line, and goes on") {
  const Workplace work;
  const std::vector<json> answers = piped(
      {"vit_tiny_28", "[1]", R"(["--steps", "2"])", R"(["vit_tiny_29"])", R"(["vit_tiny_28", "--pipe"])",
       R"(["vit_tiny_28", "--help"])", R"(["vit_tiny_28", "--stpes", "2"])",
       json(kModel + Words{"--steps", "1", "--batch", "2"}).dump()},
      work);
  REQUIRE(answers.size() == 8);
  const std::string no_words =
      "bench --pipe: a line must be a JSON array of strings, the arguments of one bench";
  CHECK(answers[0].at("error") == no_words);
  CHECK(answers[1].at("error") == no_words);
  CHECK(answers[2].at("error") == "bench: MODEL is required; see rewire bench --help");
  CHECK_THAT(answers[3].at("error").get<std::string>(), REWIRE_CATCH_CONTAINS("did you mean 'vit_tiny_28'?"));
  CHECK(answers[4].at("error") == "bench --pipe: a line cannot have --pipe");
  CHECK(answers[5].at("error") == "bench: --help is not possible here");
  CHECK_THAT(answers[6].at("error").get<std::string>(), REWIRE_CATCH_CONTAINS("unknown option --stpes"));
  CHECK(answers[7].at("step_ms") > 0);
  CHECK_THAT(
      rewire_command({"bench", "--quiet"}).err,
      REWIRE_CATCH_CONTAINS("bench: MODEL is required (or --pipe, or --ranks); see rewire bench --help"));
  CHECK_THAT(rewire_command({"bench", "vit_tiny_28", "--pipe"}).err,
             REWIRE_CATCH_CONTAINS("bench --pipe: MODEL belongs in the lines: drop it"));
}

TEST_CASE("bench prints speed, memory and compile time, and on request each kernel and call") {
  const Workplace work;
  const Words bench =
      Words{"bench"} + kModel + Words{"--quiet", "--batch", "3", "--steps", "4", "--threads", "2"};
  const Outcome trained = rewire_command(bench + Words{"--profile", "--json"});
  REQUIRE(trained.code == 0);
  const json result = json::parse(trained.out);
  CHECK(result.at("step_ms") >= result.at("fastest_step_ms"));
  CHECK(result.at("images_per_s").get<double>() ==
        Approx(3000 / result.at("step_ms").get<double>()).epsilon(1e-9));
  CHECK(result.at("peak_mb") > result.at("arena_mb"));
  CHECK(result.at("kernels") >= result.at("unique_kernels"));
  // The head's product, 3 images by 10 classes from width 8, is one call, and its cost is known.
  const auto is_head = [](const json& row) { return row.at("name") == "gemm 3x10x8 NT + bias"; };
  const json& profile = result.at("profile");
  const auto head = std::find_if(profile.begin(), profile.end(), is_head);
  REQUIRE(head != profile.end());
  CHECK(head->at("launches") == 1);
  CHECK(head->at("flops") == 2 * 3 * 10 * 8);
  CHECK(head->at("bytes") == 4 * (3 * 8 + 10 * 8 + 10 + 3 * 10));

  const Outcome kernels = rewire_command(bench + Words{"--kernels", "--json"});
  REQUIRE(kernels.code == 0);
  CHECK(json::parse(kernels.out).at("profile").size() == profile.size());
  for (const char* ceiling : {"copy_gb_s", "gemm_gflop_s"})
    CHECK(json::parse(kernels.out).at("ceilings").at(ceiling).get<double>() > 0);
  CHECK_FALSE(json::parse(kernels.out).at("profile").at(0).contains("registers"));

  const Outcome inferred = rewire_command(bench + Words{"--mode", "infer"});
  CHECK(inferred.code == 0);
  CHECK_THAT(inferred.out, REWIRE_CATCH_CONTAINS("images/s") && REWIRE_CATCH_CONTAINS("median of 4") &&
                               !REWIRE_CATCH_CONTAINS("gemm"));
  const Outcome micro = rewire_command(bench + Words{"--json", "--set", "train.accumulate=2"});
  REQUIRE(micro.code == 0);
  CHECK(json::parse(micro.out).at("images_per_s").get<double>() ==
        Approx(6000 / json::parse(micro.out).at("step_ms").get<double>()).epsilon(1e-9));

  const Outcome dump = rewire_command(Words{"dump"} + kModel + Words{"--stage", "ir"});
  write_text(work.file("small.rir"), dump.out);
  CHECK(rewire_command({"bench", work.file("small.rir"), "--steps", "1", "--quiet"}).code == 0);
}

TEST_CASE(
    "verify holds the gradients of a rewritten model to differences, and what is compiled to the evaluator") {
  const Outcome outcome = rewire_command(Words{"verify"} + kModel +
                                         Words{"--json", "--plugin", plugin_file("gain") + ":factor=0.5"});
  REQUIRE(outcome.code == 0);
  const json report = json::parse(outcome.out);
  CHECK(report.at("passed") == true);
  CHECK(report.at("gradients").size() >= 8);  // a row a role
  for (const json& row : report.at("gradients")) CHECK(row.at("error") < 1e-6);
  CHECK(report.at("compiled").size() == report.at("gradients").size() + 2);
  CHECK(report.at("compiled").at(0).at("what") == "logits");
  CHECK(report.at("compiled").at(1).at("what") == "loss");
  for (const json& row : report.at("compiled")) CHECK(row.at("error") < row.at("tolerance"));
  const std::string text = rewire_command(Words{"verify"} + kModel).out;
  CHECK_THAT(text, REWIRE_CATCH_CONTAINS("\nqkv ") && REWIRE_CATCH_CONTAINS("\nlogits "));
}

TEST_CASE("analyze --init sets sets of plugins side by side, as a table and as JSON") {
  const std::string cut = plugin_file("gain") + ":slot=cleared,factor=0,sites=";
  const Words asked = Words{"analyze",   "--init",    "--quiet",
                            "--plugin",  "none",      "--against",
                            cut + "mlp", "--against", cut + "mlp " + cut + "attn"} +
                      kModel;
  const json report = json::parse(rewire_command(asked + Words{"--json", "--batch", "2"}).out);
  const json& variants = report.at("variants");
  REQUIRE(variants.size() == 3);
  CHECK(variants.at(0).at("plugins") == "none");
  for (const json& variant : variants) {
    const json& block = variant.at("blocks").at(0);
    CHECK(block.at("name") == "blocks.0");
    for (const char* name : {"attention", "value_output", "attn", "mlp", "block"})
      CHECK(block.at(name).at("max") == variant.at("all").at(name).at("max"));
    CHECK(block.at("attention").at("max") >= block.at("attention").at("mean"));
  }
  // K alone is further from the identity than I + K, and a norm without a shortcut loses directions.
  const auto number = [&](std::size_t variant, const char* name) {
    return variants.at(variant).at("all").at(name).at("max").get<double>();
  };
  CHECK(number(1, "attn") == number(0, "attn"));
  CHECK(number(1, "mlp") > number(0, "mlp"));
  CHECK(number(0, "block") > 1);
  CHECK(variants.at(2).at("all").at("block").at("max") == "infinite");
  const Outcome table = rewire_command(asked + Words{"--largest-jacobian", "39"});
  CHECK(table.code == 0);
  CHECK_THAT(
      table.out,
      REWIRE_CATCH_CONTAINS("\nblock      plugins ") && REWIRE_CATCH_CONTAINS("\nall, mean  none ") &&
          REWIRE_CATCH_CONTAINS(
              "\nJacobians are left out: it is 40 x 40 in blocks.0; at most 39 rows (--largest-jacobian)\n"));
  const Outcome vague = rewire_command(Words{"analyze"} + kModel);
  CHECK(vague.code == 2);
  CHECK(
      vague.err ==
      "rewire: analyze: say what to measure: a run folder for its streams, or --init for the conditioning of "
      "the freshly initialised network\n");
  CHECK(rewire_command(Words{"analyze", "--init", "--against", " "} + kModel).err ==
        "rewire: --against ' ' names no plugin: write none for no plugin\n");
}

TEST_CASE("analyze RUN measures the streams of its weights on its test images, as a table and as JSON") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  REQUIRE(rewire_command(Words{"train"} + kModel +
                         Words{"--set", "data.format=synthetic", "--set", "data.count=32", "--set",
                               "train.batch=8", "--set", "train.epochs=1", "--set", "eval.batch=16", "--out",
                               run, "--quiet"})
              .code == 0);
  const Outcome object = rewire_command({"analyze", run, "--json", "--quiet"});
  REQUIRE(object.code == 0);
  const json report = json::parse(object.out);
  CHECK(report.at("images") > 0);
  CHECK(report.at("joins").at(0).at("name") == "blocks.0.attn");
  for (const json& join : report.at("joins")) {
    const double cosine = join.at("cosine"), branch = join.at("branch"), parallel = join.at("parallel");
    CHECK(std::abs(cosine) <= 1);
    CHECK(parallel <= branch);
    CHECK(parallel + join.at("orthogonal").get<double>() == Approx(branch));
    CHECK(join.at("stream") > 0);
  }
  const double features = report.at("features"), rank = report.at("effective_rank");
  CHECK(rank > 0);
  CHECK(rank <= std::log(features));
  const json& block = report.at("blocks").at(0);
  CHECK(block.at("name") == "blocks.0");
  for (const char* name : {"effective_rank", "diversity", "similarity", "attention_entropy", "gradient_norm"})
    CHECK(block.at(name) > 0);
  CHECK(report.at("gradient_norm") >= block.at("gradient_norm"));
  CHECK(report.at("gamma") == 8);
  CHECK(report.at("parameters").empty());
  // The images of one batch, which is a whole one.
  const json less = json::parse(rewire_command({"analyze", run, "--json", "--quiet", "--images", "1"}).out);
  CHECK(less.at("images") <= report.at("images"));
  CHECK(less.at("images") == 1);
  const Outcome table = rewire_command({"analyze", run, "--checkpoint", "last"});
  CHECK_THAT(table.out, REWIRE_CATCH_CONTAINS("\njoin ") && REWIRE_CATCH_CONTAINS("\nblocks.0.mlp ") &&
                            REWIRE_CATCH_CONTAINS(" numbers per image, effective rank ") &&
                            REWIRE_CATCH_CONTAINS("\nblock ") && !REWIRE_CATCH_CONTAINS("condition"));
  const json conditioned =
      json::parse(rewire_command({"analyze", run, "--json", "--quiet", "--conditioning"}).out);
  CHECK(conditioned.at("blocks").at(0).at("condition") > 1);
  CHECK(conditioned.at("joins").at(1).at("condition") > 1);
  CHECK(conditioned.at("joins").at(0).at("cosine") == report.at("joins").at(0).at("cosine"));
  const auto refusal = [&](const Words& more) {
    const Outcome outcome = rewire_command(Words{"analyze"} + more);
    CHECK(outcome.code == 2);
    return outcome.err;
  };
  CHECK(refusal({run, "--against", "none"}) ==
        "rewire: analyze: --against works only with --init, and " + run + " is a run folder\n");
  CHECK(refusal(Words{"--init", "--ema"} + kModel) ==
        "rewire: analyze: --ema works only with a run folder: drop it or --init\n");
  CHECK(refusal(Words{"--init", "--conditioning"} + kModel) ==
        "rewire: analyze: --conditioning works only with a run folder: drop it or --init\n");
  CHECK_THAT(refusal({folder.path().string()}), REWIRE_CATCH_CONTAINS("has no recipe.toml: it is not a run"));
}

TEST_CASE("plugin and plugins are one word, and so are gpu and cuda") {
  const std::string list = rewire_command({"plugins", "--json"}).out;
  CHECK(rewire_command({"plugin", "--json"}).out == list);
  const std::string gain = plugin_file("gain");
  const Outcome info = rewire_command({"plugin", "info", gain});
  CHECK(info.code == 0);
  CHECK(info.out == rewire_command({"plugins", "info", gain}).out);
  CHECK(rewire_command({"plugins", "new", "My"}).err == rewire_command({"plugin", "new", "My"}).err);
  CHECK(rewire_command({"plugins", "test", "gain.so"}).err ==
        rewire_command({"plugin", "test", "gain.so"}).err);
  for (const char* device : {"gpu", "cuda"}) {
    CHECK(rewire_command({"eval", "run", "--engine", "evaluator", "--device", device}).err ==
          "rewire: --engine evaluator runs on the CPU: drop it or --device cuda\n");
  }
  CHECK_THAT(rewire_command({"eval", "run", "--device", "gup"}).err,
             REWIRE_CATCH_CONTAINS("'gup' is none of cpu, cuda"));
}

TEST_CASE("Which library a plugin was loaded from is said at the level debug alone") {
  const Words dump = Words{"dump"} + kModel + Words{"--stage", "rewritten", "--plugin", plugin_file("gain")};
  CHECK(rewire_command(dump).err.empty());
  CHECK(rewire_command({"plugins", "info", plugin_file("gain")}).err.empty());
  CHECK(rewire_command({"plugins"}).err.empty());
  const std::string debug = rewire_command(dump + Words{"--log-level", "debug"}).err;
  CHECK_THAT(debug, REWIRE_CATCH_CONTAINS("rewire: debug: plugin gain 1.2.3 from ") &&
                        REWIRE_CATCH_CONTAINS("/gain.so, sha256 "));
}

TEST_CASE("models, plugins and doctor print text and JSON") {
  const json models = json::parse(rewire_command({"models", "--json"}).out);
  CHECK(models.at(0).at("name") == "vit_tiny_28");
  CHECK(models.at(0).at("parameters") == 5353738);  // timm's count for this model
  // 12 blocks of 50 tokens of width 192, 49 patches of 16 pixels, the head.
  const double multiply_adds = 12 * (12. * 192 * 192 * 50 + 2. * 50 * 50 * 192) + 49. * 16 * 192 + 192. * 10;
  CHECK(models.at(0).at("gmacs").get<double>() == Approx(multiply_adds * 1e-9).epsilon(1e-12));
  std::string list_of_models = rewire_command({"models"}).out;
  list_of_models.erase(std::unique(list_of_models.begin(), list_of_models.end(),
                                   [](char a, char b) { return a == ' ' && b == ' '; }),
                       list_of_models.end());
  for (const char* row : {"vit_b16_224 224x224x3 86567656 17.564 vit dim=768",
                          "deit_tiny 224x224x3 5717416 1.2", "deit_small 224x224x3 22050664 4.5",
                          "oru_vit_s 32x32x3 10685962 0.7", "resnet18_depth 224x224x3 15904330 2.7"})
    CHECK_THAT(list_of_models, REWIRE_CATCH_CONTAINS(row));
  const json deit = json::parse(rewire_command({"models", "info", "deit_base", "--json"}).out);
  CHECK(deit.at("weights") == 86567656);
  CHECK(deit.at("gmacs").get<double>() == Approx(17.6).epsilon(0).margin(0.05));
  CHECK_THAT(rewire_command({"models", "info", "oru_vit_s"}).out,
             REWIRE_CATCH_CONTAINS("\n10685962 parameters, 0.711 GMACs for an input of 32x32x3\n"));
  // vit_s_cifar has six blocks: it is left out, and said to be. No model has a hundred: that is refused.
  const Outcome some =
      rewire_command({"models", "--plugin", plugin_file("gain") + ":layers=7", "--log-level", "info"});
  CHECK(some.code == 0);
  CHECK_THAT(some.out, REWIRE_CATCH_CONTAINS("vit_tiny_28 ") && !REWIRE_CATCH_CONTAINS("vit_s_cifar"));
  CHECK_THAT(some.err,
             REWIRE_CATCH_CONTAINS("vit_s_cifar is left out: plugin 'gain': layers=7: the last block is 5"));
  const Outcome refused = rewire_command({"models", "--plugin", plugin_file("gain") + ":layers=100"});
  CHECK(refused.code == 2);
  CHECK(refused.out.empty());

  const json info = json::parse(rewire_command({"plugins", "info", plugin_file("gain"), "--json"}).out);
  CHECK(info.at("name") == "gain");
  CHECK(info.at("sha256").get<std::string>().size() == 64);
  CHECK_THAT(rewire_command({"plugins", "info", plugin_file("gain")}).out,
             REWIRE_CATCH_CONTAINS("factor") && REWIRE_CATCH_CONTAINS("layers"));
  const Outcome list =
      rewire_command({"plugins", "--json", "--plugin-path", REWIRE_FIXTURES, "--log-level", "off"});
  REQUIRE(list.code == 0);
  CHECK_THAT(list.out, REWIRE_CATCH_CONTAINS("\"gain\""));

  const json doctor = json::parse(rewire_command({"doctor", "--json"}).out);
  CHECK(doctor.at("processor").at("cores") >= 1);
  CHECK(doctor.at("built_with").at("LLVM").get<std::string>().starts_with("19."));
  CHECK_THAT(rewire_command({"doctor"}).out,
             REWIRE_CATCH_CONTAINS("processor") && REWIRE_CATCH_CONTAINS("CUDA"));
}

}  // namespace
}  // namespace rewire::test
