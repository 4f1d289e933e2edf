// --override-kernel on the fake GPU: what dump writes can be edited and fed back, a run keeps it, and what
// does not fit is one line.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/plugin/trust_list.h"
#include "tests/cli/fixture.h"
#include "tests/fake_cuda/use.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

const Words kOnCuda = {"--device", "cuda", "--no-autotune"};  // the fake device's times say nothing

/// The first kernel of the step whose name has `part` in it.
struct Dumped {
  std::string name, text;
};
Dumped dumped(const Words& model, const std::string& part) {
  const std::string all = rewire_command(Words{"dump", "--stage", "cuda"} + model).out;
  const std::size_t inside = all.find(part, all.find("__global__"));
  REQUIRE(inside != std::string::npos);
  const std::size_t begin = all.rfind(' ', inside) + 1;
  Dumped kernel{all.substr(begin, all.find_first_of("(\n", inside) - begin), ""};
  kernel.text = rewire_command(Words{"dump", "--stage", "cuda", "--kernel", kernel.name} + model).out;
  return kernel;
}

TEST_CASE("a dumped kernel that is fed back changes nothing, and an edited one what it was edited for") {
  const Workplace place;
  const Words model = kModel + Words{"--set", "train.batch=3"};
  const Dumped kernel = dumped(model, "mlp_act_map");
  write_text(place.file("same.cu"), kernel.text);
  write_text(place.file("edited.cu"), replaced(kernel.text, "0.5f", "0.75f"));
  const auto step = [&](const std::string& output, const Words& more) {
    const Outcome outcome =
        on_fake(Words{"step"} + model +
                Words{"--weights", place.file("w.safetensors"), "--input", place.file("xs.npy"), "--labels",
                      place.file("ys.npy"), "--steps", "2", "--output", place.file(output)} +
                kOnCuda + more);
    CHECK(outcome.code == 0);
    return outcome;
  };
  CHECK(without_progress(step("plain", {}).err).empty());
  const Outcome same = step("same", {"--override-kernel", kernel.name + "=" + place.file("same.cu")});
  CHECK_THAT(same.err,
             REWIRE_CATCH_CONTAINS("kernel '" + kernel.name + "' comes from " + place.file("same.cu")));
  CHECK(std::ranges::count(without_progress(same.err), '\n') == 1);
  step("edited", {"--quiet", "--override-kernel", kernel.name + "=" + place.file("edited.cu")});
  CHECK(read_text(place.file("same")) == read_text(place.file("plain")));
  CHECK(read_text(place.file("edited")) != read_text(place.file("plain")));
}

TEST_CASE("an override that fits nothing, or does not compile, is one line and exit code 2") {
  const Workplace place;
  const Words model = kModel + Words{"--set", "train.batch=3"};
  const Dumped kernel = dumped(model, "mlp_act_map");
  const std::string file = place.file("k.cu"), twice = kernel.name + "=" + file;
  write_text(file, kernel.text);
  const auto refused = [&](const Words& more, const std::string& words) {
    const Outcome outcome = on_fake(Words{"bench", "--steps", "1", "--quiet"} + model + more);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS("rewire: --override-kernel " + words));
    CHECK(std::ranges::count(outcome.err, '\n') == 1);
  };
  const auto given = [](const std::string& option) { return kOnCuda + Words{"--override-kernel", option}; };
  refused(given("nothing"), "nothing: it takes NAME=FILE");
  refused(given(twice) + Words{"--override-kernel", twice}, twice + ": the kernel already has a file");
  refused(given("other=" + file), "other: " + file + " has no kernel of this name");
  refused(Words{"--override-kernel", twice}, kernel.name + ": kernels of CUDA C++ need --device cuda");
  write_text(file, replaced(kernel.text, kernel.name + "(", kernel.name + "x("));
  refused(given(kernel.name + "x=" + file),
          kernel.name + "x: there is no such kernel (did you mean '" + kernel.name + "'?)");
  // A GPU of one multiprocessor is given fewer parts than the fake one, of 132.
  const Words large = {"--set", "train.batch=300"};
  const std::string cut = dumped(model + large, "mlp_act_map").name;
  const Words small = {"dump", "--stage", "cuda", "--multiprocessors", "1", "--kernel", cut};
  write_text(file, rewire_command(small + model + large).out);
  refused(given(cut + "=" + file) + large,
          cut + ": " + file + " is not for this launch: its head lacks the line '// rows (");
  write_text(file, "// one\n// two\n#error no\n" + kernel.text);
  refused(given(twice), kernel.name + ": " + file + "(3): error: #error directive");
  const Outcome dump =
      on_fake(Words{"dump", "--stage", "ptx", "--kernel", kernel.name, "--override-kernel", twice} + model);
  CHECK(dump.code == 2);
  CHECK_THAT(dump.err, REWIRE_CATCH_CONTAINS(file + "(3): error: "));
  CHECK(on_fake(Words{"dump", "--override-kernel", twice} + model).err ==
        "rewire: dump: --override-kernel works only with --stage ptx\n");
}

TEST_CASE("a member of a table is refused with what the table goes by") {
  const Workplace place;
  const Words model = kModel + Words{"--set", "train.batch=3"};
  const std::string all = rewire_command(Words{"dump", "--stage", "cuda"} + model).out;
  const std::size_t list = all.find("//   ", all.find("// a table of ")) + 5, comma = all.find(',', list);
  REQUIRE(comma < all.find('\n', list));
  const std::string first = all.substr(list, comma - list);
  const std::string second = all.substr(comma + 2, all.find_first_of(",\n", comma + 2) - comma - 2);
  CAPTURE(first, second);
  const std::string file = place.file("table.cu");
  const std::string text = rewire_command(Words{"dump", "--stage", "cuda", "--kernel", second} + model).out;
  // As it is dumped, and with the member's name put in.
  for (const std::string& given : {text, replaced(text, first + "(", second + "(")}) {
    write_text(file, given);
    const Outcome outcome = on_fake(Words{"bench", "--steps", "1", "--quiet"} + model + kOnCuda +
                                    Words{"--override-kernel", second + "=" + file});
    CHECK(outcome.code == 2);
    CHECK(outcome.err == "rewire: --override-kernel " + second +
                             ": it is a member of a table of launches; name the table by its first member, " +
                             first + "\n");
  }
}

TEST_CASE("a run keeps the kernels it was given, and goes on with them") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run"), file = folder.file("edited.cu");
  const Words recipe = kModel + Words{"--set", "data.format=synthetic", "--set",  "data.count=40",
                                      "--set", "train.batch=8",         "--set",  "train.epochs=2",
                                      "--set", "eval.batch=20",         "--set",  "train.checkpoint_every=1",
                                      "--set", "train.keep=10",         "--quiet"};
  const Dumped kernel = dumped(recipe, "mlp_act_map");
  write_text(file, replaced(kernel.text, "0.5f", "0.75f"));
  const Words given = {"--override-kernel", kernel.name + "=" + file};
  const Outcome wrong =
      on_fake(Words{"train"} + recipe + kOnCuda + Words{"--out", run, "--override-kernel", "x=" + file});
  CHECK(wrong.code == 2);
  CHECK_FALSE(fs::exists(run));
  const Outcome trained = on_fake(Words{"train"} + recipe + kOnCuda + given + Words{"--out", run});
  CHECK(trained.err.empty());
  REQUIRE(trained.code == 0);
  CHECK(read_text(run + "/kernels/" + kernel.name + ".cu") == read_text(file));
  const auto choices = nlohmann::json::parse(read_text(run + "/choices.json"));
  CHECK(choices.at("kernels").contains(kernel.name));
  const std::string whole = read_text(run + "/weights.safetensors");

  std::vector<fs::path> checkpoints;
  for (const auto& entry : fs::directory_iterator(run + "/checkpoints"))
    if (entry.is_directory()) checkpoints.push_back(entry.path());
  fs::remove_all(*std::ranges::max_element(checkpoints));
  REQUIRE(checkpoints.size() > 1);
  fs::remove(run + "/weights.safetensors");
  fs::remove(file);  // the run has its own
  const Words resume = {"train", "--resume", run, "--quiet"};
  CHECK(on_fake(resume + given).err ==
        "rewire: train: --resume uses the kernels that " + run + " began with: drop --override-kernel\n");
  // Whoever has not given the kernel, but got the folder from somebody, is asked first.
  const std::string list = runtime::trust_list_path(), agreed = read_text(list);
  write_text(list, "");
  const Outcome foreign = on_fake(resume);
  CHECK(foreign.code == 2);
  CHECK_THAT(foreign.err,
             REWIRE_CATCH_CONTAINS(run + "/kernels/" + kernel.name +
                                   ".cu replaces a kernel, and you have not agreed to run it (SHA-256 "));
  write_text(list, agreed);
  const Outcome resumed = on_fake(resume);
  CHECK(resumed.err.empty());
  REQUIRE(resumed.code == 0);
  CHECK(read_text(run + "/weights.safetensors") == whole);

  write_text(run + "/kernels/" + kernel.name + ".cu", kernel.text);
  const Outcome changed = on_fake(resume);
  CHECK(changed.code == 2);
  CHECK_THAT(changed.err, REWIRE_CATCH_CONTAINS("is not the kernel that the run began with"));
}

}  // namespace
}  // namespace rewire::test
