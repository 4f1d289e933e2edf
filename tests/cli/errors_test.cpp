// Bad input: one clear line, exit code 2, nothing half-written.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <limits>

#include "runtime/io/npy.h"
#include "runtime/io/safetensors.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

TEST_CASE("Unknown commands, options and arguments are refused with the nearest match") {
  check_refusal(rewire_command({"rnu"}),
                "unknown command 'rnu' (did you mean 'run'?); rewire --help lists the commands");
  check_refusal(
      rewire_command({"--json", "models"}),
      "'--json' comes before the command: write rewire COMMAND --json (rewire --help lists the commands)");
  check_refusal(
      rewire_command({"plugin", "nwe", "mine"}),
      "unknown command 'plugin nwe' (did you mean 'new'?); there are plugins info, plugin new, plugin test");
  check_refusal(
      rewire_command({"plugins", "ifno"}),
      "unknown command 'plugins ifno' (did you mean 'info'?); there are plugins info, plugin new, plugin "
      "test");
  check_refusal(rewire_command({"models", "--jsno"}),
                "models: unknown option --jsno (did you mean '--json'?); see rewire models --help");
  check_refusal(rewire_command({"doctor", "vit"}),
                "doctor: unexpected argument 'vit'; see rewire doctor --help");
  check_refusal(rewire_command({"models", "vit"}), "unknown command 'models vit'; there are models info");
  check_refusal(rewire_command({"run"}), "run: MODEL is required; see rewire run --help");
  // The misspelt option is the cause, the missing one its consequence.
  check_refusal(rewire_command({"run", "vit_tiny_28", "--wieghts=w"}),
                "run: unknown option --wieghts (did you mean '--weights'?); see rewire run --help");
  check_refusal(rewire_command({"step", "vit_tiny_28", "--steps", "many"}),
                "step: --steps: 'many' is not an integer; see rewire step --help");
  check_refusal(rewire_command({"verify", "vit_tiny_28", "--batch", "0"}),
                "verify: --batch: 0 is out of range: it must be at least 1; see rewire verify --help");
  check_refusal(
      rewire_command({"dump", "vit_tiny_28", "--stage", "rewriten"}),
      "dump: --stage: 'rewriten' is none of ir, joins, rewritten, step, fused, tile, llvm, asm, cuda, "
      "ptx, plan, times (did you mean 'rewritten'?); see rewire dump --help");
  check_refusal(
      rewire_command({"models", "--log-level", "debgu"}),
      "models: --log-level: 'debgu' is none of debug, info, warning, error, off (did you mean 'debug'?); "
      "see rewire models --help");
}

TEST_CASE("A model that is none, and options that do not fit, are refused") {
  check_refusal(rewire_command({"dump", "vit_tiny_2"}),
                "unknown model 'vit_tiny_2' (did you mean 'vit_tiny_28'?); `rewire models` lists the zoo");
  check_refusal(rewire_command({"dump", "/nowhere/r.toml"}),
                "cannot read /nowhere/r.toml: No such file or directory");
  check_refusal(rewire_command({"dump", "/nowhere/m.rir"}),
                "cannot read /nowhere/m.rir: No such file or directory");
  check_refusal(rewire_command({"dump", "vit_tiny_28", "--set", "model.heads=5"}),
                "model.dim=192 is not a multiple of model.heads=5; set dim to heads times a head's width");
  check_refusal(rewire_command({"dump", "vit_tiny_28", "--set", "model.dmi=5"}),
                "--set model.dmi=5: unknown key model.dmi (did you mean 'dim'?)");
}

TEST_CASE("A recipe's fault is refused with its line, whatever the command") {
  const Workplace work;
  const std::string recipe = work.file("r.toml");
  write_text(recipe, "[model]\nname = \"vit_tiny_28\"\n[train]\nbatchsize = 3\n");
  check_refusal(rewire_command({"dump", recipe}),
                recipe + ":4: unknown key train.batchsize (did you mean 'batch'?)");
  write_text(recipe, "[model]\nname = \"vit_tiny_28\"\ndim = \"wide\"\n");
  check_refusal(rewire_command({"dump", recipe}),
                recipe + ":3: model.dim takes an int 1 to 65536, not the string 'wide'");
  check_refusal(work.init({recipe}, "new.safetensors"),
                recipe + ":3: model.dim takes an int 1 to 65536, not the string 'wide'");
  CHECK_FALSE(std::filesystem::exists(work.file("new.safetensors")));
}

TEST_CASE("A module's fault is refused with line, column and caret") {
  const Workplace work;
  const std::string module = work.file("m.rir");
  write_text(
      module,
      "module @m {\n  func @forward(%x: f32[2,3]) -> (logits: f32[2,3]) {\n    %0 = nge %x : f32[2,3]\n");
  const Outcome syntax = rewire_command({"dump", module});
  CHECK(syntax.code == 2);
  CHECK_THAT(syntax.err, REWIRE_CATCH_CONTAINS("rewire: " + module + ":3:10: ") &&
                             REWIRE_CATCH_CONTAINS("neg") && REWIRE_CATCH_CONTAINS("\n         ^"));
  write_text(
      module,
      "module @m {\n  func @forward(%x: f32[2,3]) -> (logits: f32[2,4]) {\n    %0 = neg %x : f32[2,3]\n"
      "    return logits = %0\n  }\n}\n");
  const Outcome types = rewire_command({"dump", module});
  CHECK(types.code == 2);
  CHECK_THAT(types.err, REWIRE_CATCH_CONTAINS("rewire: " + module + ":") &&
                            REWIRE_CATCH_CONTAINS("f32[2,3]") && REWIRE_CATCH_CONTAINS("f32[2,4]"));
  write_text(module, "module @m {\n}\n");
  check_refusal(rewire_command({"dump", module}), module + ": the module has no function 'forward'");
  write_text(
      module,
      "module @m {\n  func @forward(%x: f32[2,3]) -> (logits: f32[2,3]) {\n    %0 = neg %x : f32[2,3]\n"
      "    return logits = %0\n  }\n}\n");
  CHECK(rewire_command({"dump", module}).code == 0);
  check_refusal(rewire_command({"dump", module, "--set", "model.dim=3"}),
                "--set model.dim=3: " + module + " is a module, whose shapes are fixed in the file");
}

TEST_CASE("Corrupt, short and foreign weights are refused, and no output appears") {
  const Workplace work;
  const std::string bad = work.file("bad.safetensors");
  const std::size_t entries = work.entries();
  const auto refusal = [&](const std::string& bytes) {
    write_text(bad, bytes);
    const Outcome outcome = work.run(kModel, "x.npy", "out.npy", "bad.safetensors");
    CHECK(outcome.code == 2);
    CHECK(work.entries() == entries + 1);
    REQUIRE(outcome.err.starts_with("rewire: " + bad + ": "));
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    return outcome.err;
  };
  const auto file_of = [](const std::string& header, std::size_t data) {
    std::string bytes(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i));
    return bytes + header + std::string(data, '\0');
  };
  refusal("short");
  refusal(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8) + "{}");  // a header of 2^63 bytes
  refusal(file_of(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
      12));
  refusal(file_of(R"({"a":{"dtype":"F32","shape":[1099511627776,1099511627776],"data_offsets":[0,4]}})", 4));
  const std::string good = read_text(work.file("w.safetensors"));
  refusal(good.substr(0, good.size() - 1));
}

TEST_CASE("A network without a head runs, and is refused where a class is asked for") {
  const Workplace work;
  const Words headless = kModel + Words{"--set", "model.classes=0"};
  REQUIRE(work.init(headless, "features.safetensors").code == 0);
  REQUIRE(work.run(headless, "x.npy", "features.npy", "features.safetensors").code == 0);
  CHECK(runtime::read_npy(work.file("features.npy")).type() == ir::TensorType{ir::DType::f32, {kBatch, 8}});
  const std::string refusal =
      "the model has no result 'logits' because it has no head (model.classes=0); the objective supervised "
      "needs one: set model.classes to the number of classes";
  check_refusal(work.grad(headless), refusal);
  check_refusal(rewire_command(Words{"verify"} + headless), refusal);
}

TEST_CASE("Weights of another shape or name are refused by name and both shapes") {
  const Workplace work;
  const std::string weights = work.file("w.safetensors");
  check_refusal(work.run({"vit_tiny_28", "--set", "model.dim=12", "--set", "model.depth=1", "--set",
                          "model.heads=2", "--set", "model.patch=14"}),
                weights + ": 'cls_token' has the shape [1,1,8], but the model's has [1,1,12]");
  runtime::SafetensorsFile file = runtime::read_safetensors(weights);
  file.tensors.emplace("haed.weight", file.tensors.at("head.weight").clone());
  runtime::write_safetensors(weights, file.tensors);
  check_refusal(work.run(kModel),
                weights + ": the model has no 'haed.weight' f32[10,8] (did you mean 'head.weight'?)");
  file.tensors.erase("head.weight");
  runtime::write_safetensors(weights, file.tensors);
  check_refusal(work.run(kModel), weights + ": it lacks 'head.weight' f32[10,8], which the model needs");
  CHECK_FALSE(std::filesystem::exists(work.file("out.npy")));
}

TEST_CASE("Inputs and labels of the wrong shape, type or class are refused with both types") {
  const Workplace work;
  const std::string input = work.file("bad.npy");
  const auto run_on = [&](const runtime::HostTensor& tensor) {
    runtime::write_npy(input, tensor);
    return work.run(kModel, "bad.npy");
  };
  check_refusal(run_on(floats({3, 1, 27, 28})),
                input + ": 'image' is f32[3,1,27,28], but the program takes f32[3,1,28,28]");
  check_refusal(run_on(floats({3, 28, 28})),
                input + ": f32[3,28,28] has the wrong rank: one batch has 4 axes");
  check_refusal(
      run_on(runtime::convert(floats({3, 1, 28, 28}), ir::DType::f64)),
      input + ": 'image' is f64[3,1,28,28], but the program takes f32[3,1,28,28]; convert it to f32");
  write_text(input, "no numpy");
  const Outcome foreign = work.run(kModel, "bad.npy");
  CHECK(foreign.code == 2);
  CHECK_THAT(foreign.err, REWIRE_CATCH_CONTAINS("rewire: " + input + ": "));

  runtime::HostTensor labels = runtime::read_npy(work.file("y.npy"));
  labels.as<std::int64_t>()[1] = 10;
  runtime::write_npy(work.file("y.npy"), labels);
  check_refusal(work.grad(kModel),
                work.file("y.npy") + ": the label 10 is not one of the model's, which are 0 to 9");
  runtime::write_npy(work.file("y.npy"), runtime::convert(labels, ir::DType::i32));
  check_refusal(work.grad(kModel),
                work.file("y.npy") + ": 'label' is i32[3], but the program takes i64[3]; convert it to i64");
  check_refusal(work.step(kModel, {"--input", work.file("xs.npy"), "--set", "train.accumulate=2"}),
                work.file("xs.npy") +
                    ": 'image' is f32[2,3,1,28,28]; for 4 batches the program takes f32[4,3,1,28,28], or "
                    "f32[3,1,28,28] to use one batch every time");
  for (const char* output : {"out.npy", "g.safetensors", "w2.safetensors"}) {
    CHECK_FALSE(std::filesystem::exists(work.file(output)));
  }
}

TEST_CASE("A file that is no plugin, one of another ABI, one that throws and wrong parameters are refused") {
  const Workplace work;
  const auto dump_with = [](const std::string& plugin) {
    return rewire_command(Words{"dump"} + kModel +
                          Words{"--stage", "rewritten", "--quiet", "--plugin", plugin});
  };
  const auto refused = [&](const std::string& plugin, const std::string& words) {
    CAPTURE(plugin);
    const Outcome outcome = dump_with(plugin);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS("rewire: ") && REWIRE_CATCH_CONTAINS(words));
  };
  write_text(work.file("text.so"), "this is no library");
  refused(work.file("text.so"), "it is not a shared library");
  refused(plugin_file("no_symbol"), "rewire_plugin_query");
  refused(plugin_file("newer_major"), "for plugin ABI 2.0, but this rewire has 1.6");
  refused(plugin_file("misbehave") + ":act=throw", "plugin 'misbehave': this model is not to its taste");
  refused(plugin_file("gain") + ":facto=3", "it has no parameter 'facto' (did you mean 'factor'?)");
  refused("no_such_plugin_anywhere", "no_such_plugin_anywhere");
  refused("gain:", "is not key=value");
}

TEST_CASE("A plugin's fault is answered alike whatever the command, and nothing is written") {
  const Workplace work;
  const TemporaryFolder data;  // where the user's own files are: what they have agreed to run is remembered
  const std::string one =
      work.file("one.npy");  // an image: the batch that init and train judge a network with
  runtime::write_npy(one, floats({1, 1, 28, 28}));
  const std::size_t entries = work.entries();
  const auto refused = [&](const std::string& plugin, const std::string& message, const Words& more = {}) {
    CAPTURE(plugin);
    // Where no plugins of the user stand in the way.
    const auto refusal_of = [&](const Words& command) {
      check_refusal(RunningCommand(command + kModel + Words{"--quiet", "--plugin", plugin} + more,
                                   {"XDG_DATA_HOME=" + data.path().string(), "REWIRE_PLUGIN_PATH="})
                        .wait(),
                    message);
    };
    refusal_of({"dump", "--stage", "rewritten", "--set", "train.batch=1"});
    refusal_of({"init", "--output", work.file("new.safetensors"), "--set", "train.batch=1"});
    refusal_of(
        {"run", "--weights", work.file("w.safetensors"), "--input", one, "--output", work.file("out.npy")});
    refusal_of(
        {"train", "--set", "data.format=synthetic", "--set", "train.batch=1", "--out", work.file("run")});
    CHECK(work.entries() == entries);
  };
  const std::string gain = plugin_file("gain"), misbehave = plugin_file("misbehave");
  refused(gain + ":factor=11", "plugin 'gain': factor=11 is out of range: it takes a float 0 to 10");
  refused(gain + ":power=0", "plugin 'gain': power=0 is out of range: it takes an int >= 1");
  refused(gain + ":slot=brunch",
          "plugin 'gain': slot=brunch is unknown: it takes one of "
          "branch|shortcut|path|cleared|untouched|facts (did you mean 'branch'?)");
  refused(gain + ":layers=7", "plugin 'gain': layers=7: the last block is 0");
  refused(gain + ":layers=one",
          "plugin 'gain': layers=one: 'one' is not a block or range of blocks, such as 3 or 4-5");
  refused(misbehave + ":act=wrong_shape",
          "plugin 'misbehave': it gave the branch of blocks.0.attn the type f32[1,5,1]; the stream's is "
          "f32[1,5,8] and must not change (set_branch, misbehave.cpp:52)");
  refused(misbehave + ":act=throw_lines", "plugin 'misbehave': a\nb \n c");
  refused(misbehave + ":act=raw_lines", "plugin 'misbehave': it threw: raw lines");
  const std::string folder = REWIRE_FIXTURES;
  refused("gian",
          "there is no plugin 'gian' (did you mean 'gain'?); looked for gian.so in " + folder + ", " +
              data.file("rewire/plugins") + ", " + REWIRE_PLUGIN_FOLDER,
          {"--plugin-path", folder});
  if (std::filesystem::exists(REWIRE_PLUGIN_FOLDER "/augment.so")) {
    refused("augment:blocks=3",
            "plugin 'augment': blocks=3 does not divide the width 8 of blocks.0.attn: use a divisor, such "
            "as 2 or 4");
    refused(
        "augment:blocks=16",
        "plugin 'augment': blocks=16 does not divide the width 8 of blocks.0.attn: use a divisor, such as 8");
  }
}

TEST_CASE("What a plugin logs in several lines is one line") {
  const Outcome outcome = rewire_command(Words{"dump"} + kModel +
                                         Words{"--stage", "rewritten", "--log-level", "warning", "--plugin",
                                               plugin_file("misbehave") + ":act=log_lines"});
  CHECK(outcome.err == "rewire: warning: plugin misbehave: a b\n");
  CHECK(outcome.code == 0);
  const Outcome compiled = rewire_command(Words{"dump"} + kModel +
                                          Words{"--stage", "step", "--log-level", "warning", "--plugin",
                                                plugin_file("misbehave") + ":act=log_lines"});
  CHECK(compiled.err == outcome.err);
}

TEST_CASE("What a plugin would be refused for, in a later epoch too, is refused at every stage of dump") {
  const std::string gain = plugin_file("gain");
  const auto dump_with = [](const Words& plugins) {
    Words words = Words{"dump"} + kModel + Words{"--quiet"};
    for (const std::string& plugin : plugins) words = words + Words{"--plugin", plugin};
    return rewire_command(words);
  };
  check_refusal(dump_with({gain + ":layers=99,from_epoch=1"}),
                "plugin 'gain': layers=99: the last block is 0");
  check_refusal(dump_with({plugin_file("misbehave") + ":act=throw,from_epoch=7"}),
                "plugin 'misbehave': this model is not to its taste");
  check_refusal(dump_with({plugin_file("misbehave") + ":act=throw"}),
                "plugin 'misbehave': this model is not to its taste");
  // Both are on in epoch 2 alone.
  check_refusal(dump_with({gain + ":to_epoch=3", gain + ":from_epoch=2"}),
                "plugin 'gain': the branch of blocks.0.attn is already claimed by plugin 'gain': use one of "
                "the two, or give them disjoint sites= or layers=");
  CHECK(dump_with({gain + ":to_epoch=2", gain + ":from_epoch=2"}).code == 0);
}

TEST_CASE("An output that cannot be written is refused before any work") {
  const Workplace work;
  check_refusal(work.run(kModel, "x.npy", "no/folder/out.npy"),
                "cannot write " + work.file("no/folder/out.npy") + ": No such file or directory");
  check_refusal(work.init(kModel, "."), "cannot write " + work.file(".") + ": Is a directory");
  // /proc holds no files of ours, not even root's.
  const Outcome outcome = rewire_command(Words{"init"} + kModel + Words{"--output", "/proc/w.safetensors"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS("rewire: cannot write /proc/w.safetensors: "));
}

TEST_CASE("A batch that is not finite is refused by its step; no room on stdout is a failure") {
  const Workplace work;
  runtime::HostTensor images = runtime::read_npy(work.file("xs.npy"));
  images.as<float>()[3000] = std::numeric_limits<float>::infinity();  // in the second batch
  runtime::write_npy(work.file("xs.npy"), images);
  const Outcome outcome = work.step(kModel, {"--input", work.file("xs.npy")});
  check_refusal(outcome, "step 2: the loss or a gradient is not finite: input 'image' is not finite");
  CHECK_FALSE(std::filesystem::exists(work.file("w2.safetensors")));

  // What fits the buffer of stdout fails when it is flushed, what does not when it is printed.
  for (const Words& command : {Words{"models"}, Words{"dump", "vit_tiny_28"}}) {
    CAPTURE(command.front());
    const Outcome full = rewire_command(command, "/dev/full");
    CHECK(full.code == 2);
    CHECK(full.err == "rewire: cannot write to stdout: No space left on device\n");
  }
}

TEST_CASE("A reader of stdout who has seen enough ends a command without a word") {
  const Workplace work;
  const std::string pipe = work.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  // More than a pipe holds: the command is still writing when its reader goes.
  RunningCommand command({"dump", "vit_tiny_28", "--stage", "step", "--quiet"}, {}, pipe);
  ::close(reader);
  const Outcome outcome = command.wait();
  CHECK(outcome.code == 128 + SIGPIPE);
  CHECK(outcome.err.empty());
}

}  // namespace
}  // namespace rewire::test
