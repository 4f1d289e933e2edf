// --device cuda as a user meets it, on the fake libraries: the same answers as on the CPU, training that
// resumes to the same bits, and one line where something is missing or fails.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/exec/cuda/kernels.h"
#include "runtime/io/npy.h"
#include "runtime/io/safetensors.h"
#include "tests/cli/fixture.h"
#include "tests/cli/started.h"
#include "tests/fake_cuda/use.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

namespace fs = std::filesystem;

double relative_difference(const runtime::HostTensor& a, const runtime::HostTensor& b) {
  const std::vector<double> x = runtime::to_double(a).data, y = runtime::to_double(b).data;
  REQUIRE(x.size() == y.size());
  double difference = 0, size = 1e-12;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return std::sqrt(difference / size);
}

void check_same_tensors(const std::string& path, const std::string& expected, double tolerance) {
  const auto actual = runtime::read_safetensors(path).tensors,
             wanted = runtime::read_safetensors(expected).tensors;
  REQUIRE(actual.size() == wanted.size());
  for (const auto& [name, tensor] : wanted) {
    CAPTURE(name);
    CHECK(relative_difference(actual.at(name), tensor) <= tolerance);
  }
}

const Words kCuda = {"--device", "cuda"};
const Words kUntimed = {"--no-autotune"};  // on the fake device, whose times say nothing

TEST_CASE("run, grad, step and verify on a GPU give what they give on the CPU") {
  const Workplace place;
  const Words given = {"--weights", place.file("w.safetensors"), "--input", place.file("x.npy")};
  const auto both = [&](const Words& command, const std::string& output) {
    const Outcome cpu = rewire_command(command + Words{"--output", place.file("cpu" + output)});
    const Outcome gpu = on_fake(command + kCuda + Words{"--output", place.file("gpu" + output)});
    CHECK(cpu.code == 0);
    CHECK(without_progress(gpu.err) == cpu.err);
    CHECK(gpu.code == 0);
    return std::pair(cpu.out, gpu.out);
  };
  both(Words{"run"} + kModel + given, ".npy");
  CHECK(relative_difference(runtime::read_npy(place.file("gpu.npy")),
                            runtime::read_npy(place.file("cpu.npy"))) <= 1e-5);
  const auto [cpu_loss, gpu_loss] = both(
      Words{"grad", "--json"} + kModel + given + Words{"--labels", place.file("y.npy")}, "_grad.safetensors");
  CHECK(Json::parse(gpu_loss).at("loss").get<double>() ==
        Approx(Json::parse(cpu_loss).at("loss").get<double>()));
  check_same_tensors(place.file("gpu_grad.safetensors"), place.file("cpu_grad.safetensors"), 1e-4);
  // AdamW takes a gradient that is zero but for rounding (a key's bias) for one like any other: SGD does not.
  both(Words{"step"} + kModel + kUntimed +
           Words{"--set", "optimizer.name=sgd", "--weights", place.file("w.safetensors"), "--input",
                 place.file("xs.npy"), "--labels", place.file("ys.npy"), "--steps", "2"},
       "_step.safetensors");
  check_same_tensors(place.file("gpu_step.safetensors"), place.file("cpu_step.safetensors"), 1e-4);
  const Outcome verified = on_fake(Words{"verify", "--quiet"} + kModel + kCuda);
  CHECK(verified.err.empty());
  CHECK(verified.code == 0);
}

const Words kCudaRun =
    kModel + Words{"--set", "data.format=synthetic", "--set",         "data.count=83",
                   "--set", "train.batch=8",         "--set",         "train.epochs=2",
                   "--set", "train.log_every=4",     "--set",         "train.checkpoint_every=0.5",
                   "--set", "train.keep=10",         "--set",         "eval.batch=50",
                   "--set", "model.dropout=0.1",     "--no-autotune", "--quiet"};

TEST_CASE("training on a GPU resumes to the same bits, in whichever order its streams run") {
  const TemporaryFolder folder;
  const std::string whole = folder.file("whole"), cut = folder.file("cut");
  const Outcome trained = on_fake(Words{"train"} + kCudaRun + kCuda + Words{"--out", whole});
  CHECK(trained.err.empty());
  REQUIRE(trained.code == 0);
  const Json choices = Json::parse(read_text(whole + "/choices.json"));
  CHECK(choices.at("engine") == "cuda");
  CHECK(choices.at("target") == "Fake CUDA device, sm_90");
  CHECK(choices.at("built_with").contains("NVRTC"));
  CHECK(choices.at("built_with").contains("cuBLASLt"));

  fs::copy(whole, cut, fs::copy_options::recursive);
  fs::remove(cut + "/weights.safetensors");
  std::vector<fs::path> checkpoints;
  for (const auto& entry : fs::directory_iterator(cut + "/checkpoints"))
    if (entry.is_directory()) checkpoints.push_back(entry.path());
  std::ranges::sort(checkpoints);
  REQUIRE(checkpoints.size() == 4);
  for (std::size_t i = 1; i < checkpoints.size(); ++i) fs::remove_all(checkpoints[i]);
  // The device is remembered.
  const Outcome resumed = on_fake({"train", "--resume", cut, "--quiet"}, {"REWIRE_FAKE_CUDA_ORDER=7"});
  CHECK(resumed.err.empty());
  REQUIRE(resumed.code == 0);
  CHECK(read_text(cut + "/weights.safetensors") == read_text(whole + "/weights.safetensors"));
  CHECK(Json::parse(read_text(cut + "/choices.json")) == choices);

  const Outcome evaluated = on_fake({"eval", whole, "--json", "--quiet", "--device", "cuda"});
  const Outcome on_cpu = rewire_command({"eval", whole, "--json", "--quiet"});
  CHECK(Json::parse(evaluated.out).at("top1") == Json::parse(on_cpu.out).at("top1"));
  CHECK(Json::parse(evaluated.out).at("loss").get<double>() ==
        Approx(Json::parse(on_cpu.out).at("loss").get<double>()).epsilon(1e-4));
}

TEST_CASE("bench --kernels on a GPU says what each kernel takes, also of kernels from the cache") {
  const TemporaryFolder cache;
  const Words bench =
      Words{"bench", "--kernels", "--quiet", "--steps", "1", "--batch", "2"} + kModel + kUntimed + kCuda;
  for (int run = 0; run < 2; ++run) {
    const Outcome outcome = on_fake(bench + Words{"--json"}, {"XDG_CACHE_HOME=" + cache.file("cache")});
    REQUIRE(outcome.code == 0);
    const Json result = Json::parse(outcome.out);
    CHECK(result.at("ceilings").at("copy_gb_s") > 0);
    CHECK(result.at("ceilings").at("gemm_gflop_s") > 0);
    std::size_t kernels = 0;
    for (const Json& row : result.at("profile")) {
      const bool call = row.at("name").get<std::string>().starts_with("gemm");
      CHECK(row.contains("registers") == !call);
      CHECK(row.contains("products") == call);
      if (call) {
        const Json& products = row.at("products");  // the row's work, in numbers
        CHECK(2 * row.at("launches").get<int>() * products.at("calls").get<int>() *
                  products.at("batch").get<int>() * products.at("m").get<int>() *
                  products.at("n").get<int>() * products.at("k").get<int>() ==
              row.at("flops"));
        continue;
      }
      ++kernels;
      CHECK(row.at("registers") == 40);
      CHECK(row.at("spill_bytes") == 0);
    }
    CHECK(kernels > 0);
  }
  const Outcome text = on_fake(bench);
  CHECK_THAT(text.out, REWIRE_CATCH_CONTAINS("% copy") && REWIRE_CATCH_CONTAINS("regs spills  shared"));
}

TEST_CASE("dump --device cuda prints the kernels that the engine compiles, each once") {
  const Words small = kModel + Words{"--set", "train.batch=2", "--set", "model.depth=2"};
  const std::vector<Words> cases = {{},
                                    {"--set", "train.dtype=bf16", "--set", "model.act_layer=gelu_tanh"},
                                    {"--plugin", "augment:blocks=2", "--set", "model.dropout=0.1"}};
  for (const Words& more : cases) {
    CAPTURE(more);
    const TemporaryFolder cache;
    const Words own = {"XDG_CACHE_HOME=" + cache.file("cache")};
    const Outcome run = on_fake(
        Words{"bench", "--quiet", "--steps", "1", "--batch", "2"} + small + more + kUntimed + kCuda, own);
    REQUIRE(run.code == 0);
    const Outcome dump = on_fake(Words{"dump", "--stage", "cuda"} + small + more + kCuda, own);
    CHECK(dump.err.empty());
    REQUIRE(dump.code == 0);
    std::size_t compiled = 0, bytes = 0;
    for (const auto& file : fs::recursive_directory_iterator(cache.file("cache"))) {
      if (file.path().extension() != ".cu") continue;
      const std::string text = read_text(file.path().string());
      CHECK_THAT(dump.out, REWIRE_CATCH_CONTAINS(text));
      ++compiled;
      bytes += text.size() + 1;
    }
    CHECK(compiled > 20);
    CHECK(dump.out.size() == bytes);
  }
  // And of the program: its library's calls, which no dump for an architecture knows.
  const Words fused = Words{"dump", "--stage", "fused"} + small +
                      Words{"--set", "train.dtype=bf16", "--set", "model.act_layer=gelu_tanh"};
  const Outcome here = on_fake(fused + kCuda), anywhere = rewire_command(fused + Words{"--arch", "sm_90"});
  CHECK_THAT(here.out, REWIRE_CATCH_CONTAINS(", gelu"));
  CHECK(here.out != anywhere.out);
  CHECK_THAT(on_fake(fused + kCuda + Words{"--arch", "sm_90"}).err,
             REWIRE_CATCH_CONTAINS("dump: --device cuda uses the GPU of this machine: drop --arch"));
}

TEST_CASE("every launch of a profile was predicted, and every launch that was predicted is there") {
  const Words network = kModel + Words{"--set", "train.batch=2", "--set", "train.dtype=bf16"};
  const Outcome profile =
      on_fake(Words{"bench", "--profile", "--json", "--quiet", "--steps", "1"} + network + kUntimed + kCuda);
  REQUIRE(profile.code == 0);
  const Outcome predicted =
      rewire_command(Words{"dump", "--stage", "times", "--card", "h200", "--json"} + network);
  REQUIRE(predicted.code == 0);
  std::map<std::string, std::array<Json, 3>> measured, told;  // by name: launches, bytes, flops
  const Json object = Json::parse(predicted.out), timed = Json::parse(profile.out);
  for (const Json& row : timed.at("profile")) {
    const std::string name = row.at("name");
    measured[name.substr(0, name.find(", algorithm"))] = {row.at("launches"), row.at("bytes"),
                                                          row.at("flops")};
  }
  double total = 0, least = 0;
  for (const Json& row : object.at("predicted")) {
    told[row.at("name")] = {row.at("launches"), row.at("bytes"), row.at("flops")};
    CHECK(row.at("ms") > row.at("least_ms"));
    CHECK(row.at("least_ms") > 0);
    total += row.at("ms").get<double>();
    least += row.at("least_ms").get<double>();
  }
  CHECK(told == measured);
  CHECK(object.at("ms").get<double>() == Approx(total));
  CHECK(object.at("least_ms").get<double>() == Approx(least));
  const Outcome text = rewire_command(Words{"dump", "--stage", "times"} + network);
  CHECK_THAT(text.out, REWIRE_CATCH_CONTAINS("predicted for h100") &&
                           REWIRE_CATCH_CONTAINS("total, one launch at a time") &&
                           REWIRE_CATCH_CONTAINS("least: for each launch, "));
  CHECK(rewire_command(Words{"dump", "--stage", "times", "--arch", "sm_90"} + network).err ==
        "rewire: dump: --stage times takes the architecture of --card: drop --arch\n");
}

TEST_CASE("bench runs on a GPU, and doctor names what is there") {
  const Outcome bench = on_fake(Words{"bench", "--json", "--quiet", "--steps", "1", "--batch", "2"} + kModel +
                                kUntimed + kCuda);
  REQUIRE(bench.code == 0);
  CHECK(Json::parse(bench.out).at("unique_kernels") > 0);
  const Outcome doctor = on_fake({"doctor"});
  CHECK_THAT(doctor.out, REWIRE_CATCH_CONTAINS("Fake CUDA device, sm_90, 132 multiprocessors, 4.0 GiB"));
  const Json here = Json::parse(on_fake({"doctor", "--json"}).out).at("cuda");
  CHECK(here.at("usable") == true);
  CHECK(here.at("device") == "Fake CUDA device, sm_90");
  for (const auto& [name, part] : here.at("parts").items()) {
    CAPTURE(name);
    CHECK(part.at("verdict") == "usable");
  }
  const Json lacks =
      Json::parse(on_fake({"doctor", "--json"}, {"REWIRE_CUDA_DRIVER=/nowhere/libcuda.so"}).out).at("cuda");
  CHECK(lacks.at("usable") == false);
  CHECK_THAT(lacks.at("parts").at("driver").at("why").get<std::string>(),
             REWIRE_CATCH_CONTAINS("REWIRE_CUDA_DRIVER is '/nowhere/libcuda.so'"));
  CHECK_FALSE(lacks.at("parts").contains("device 0"));
  CHECK(lacks.at("parts").at("NVRTC").at("verdict") == "usable");
}

TEST_CASE("one GPU is named by its number, or by the beginning of its UUID") {
  const Words none = {
      "REWIRE_FAKE_CUDA_MACHINE=device=First:90:132:232448:4:4 device=Second:80:108:166912:2:2"};
  const auto target = [&](const std::string& device, const Words& environment) {
    const TemporaryFolder folder;
    const Outcome trained =
        on_fake(Words{"train"} + kCudaRun +
                    Words{"--set", "train.epochs=1", "--device", device, "--out", folder.file("run")},
                none + environment);
    if (trained.code != 0) return trained.err;
    return Json::parse(read_text(folder.file("run/choices.json"))).at("target").get<std::string>();
  };
  CHECK(target("cuda", {}) == "First, sm_90");
  CHECK(target("gpu:1", {}) == "Second, sm_80");
  CHECK(target("cuda:GPU-01", {}) == "Second, sm_80");
  CHECK(target("cuda:0", {"CUDA_VISIBLE_DEVICES=1"}) ==
        "Second, sm_80");  // the number among those that are visible
  CHECK(target("cuda:2", {}) ==
        "rewire: --device cuda:2: there is no device '2'; choose from 0 "
        "(GPU-00010203-0405-0607-0809-0a0b0c0d0e0f), 1 "
        "(GPU-01010203-0405-0607-0809-0a0b0c0d0e0f)\n");
  CHECK_THAT(target("cuda:GPU-", {}),
             REWIRE_CATCH_CONTAINS("'GPU-' begins the UUIDs of 2 devices; give more of it"));
  CHECK_THAT(target("cuda:1", {"CUDA_VISIBLE_DEVICES=1"}),
             REWIRE_CATCH_CONTAINS("there is no device '1'; choose from 0"));
  CHECK(on_fake(Words{"dump", "--stage", "cuda", "--device", "cuda:1"} + kModel, none).out !=
        on_fake(Words{"dump", "--stage", "cuda", "--device", "cuda:0"} + kModel, none).out);
  CHECK_THAT(target("cuda:", {}), REWIRE_CATCH_CONTAINS("'cuda:' is none of cpu, cuda"));
}

TEST_CASE("bench --resident also times steps whose inputs stay on the device") {
  const Words bench = Words{"bench", "--quiet", "--steps", "3", "--batch", "2"} + kModel + kUntimed + kCuda;
  CHECK_FALSE(Json::parse(on_fake(bench + Words{"--json"}).out).contains("resident_step_ms"));
  const Json both = Json::parse(on_fake(bench + Words{"--json", "--resident"}).out);
  CHECK(both.at("resident_step_ms") >= both.at("fastest_resident_step_ms"));
  CHECK(both.at("step_ms") >= both.at("fastest_step_ms"));
  CHECK_THAT(on_fake(bench + Words{"--resident"}).out, REWIRE_CATCH_CONTAINS("\nresident  "));
}

TEST_CASE("bench --pipe on a GPU says of each network what it takes of the memory, without those before") {
  const Workplace place;
  const auto words = [](const std::string& batch) {
    return kModel + Words{"--steps", "1", "--batch", batch} + kUntimed + kCuda;
  };
  const auto alone = [&](const std::string& batch) {
    return Json::parse(on_fake(Words{"bench", "--json", "--quiet"} + words(batch)).out).at("device_mb");
  };
  const std::string file = place.file("lines");
  write_text(file, Json(words("5")).dump() + "\n[]\n" + Json(words("2")).dump() + "\n");
  Words environment;
  for (const auto& [name, value] : fake_cuda::environment()) environment.push_back(name + "=" + value);
  StartedCommand command(
      {"bench", "--pipe", "--quiet"}, [&] { ::dup2(::open(file.c_str(), O_RDONLY), STDIN_FILENO); },
      environment);
  const Outcome outcome = command.wait();
  CHECK(outcome.err.empty());
  std::istringstream out(outcome.out);
  std::vector<Json> answers;
  for (std::string line; std::getline(out, line);) answers.push_back(Json::parse(line));
  REQUIRE(answers.size() == 3);
  CHECK(answers[0].at("device_mb") == alone("5"));
  CHECK(answers[2].at("device_mb") == alone("2"));
  CHECK(answers[2].at("device_mb") < answers[0].at("device_mb"));
}

TEST_CASE("train.tf32 is a GPU's: recorded and shown there, refused on a CPU before anything is written") {
  const TemporaryFolder folder;
  const Words tf32 = {"--set", "train.tf32=true"};
  const Outcome trained =
      on_fake(Words{"train"} + kCudaRun + kCuda + tf32 +
              Words{"--no-autotune", "--set", "train.epochs=1", "--out", folder.file("run")});
  REQUIRE(trained.code == 0);
  CHECK_THAT(read_text(folder.file("run/recipe.toml")), REWIRE_CATCH_CONTAINS("tf32 = true"));
  CHECK_THAT(read_text(folder.file("run/choices.json")), REWIRE_CATCH_CONTAINS(" f32 tf32 "));
  const Outcome bench = on_fake(Words{"bench", "--quiet", "--no-autotune", "--steps", "1", "--batch", "2"} +
                                kModel + kCuda + tf32);
  CHECK_THAT(bench.out, REWIRE_CATCH_CONTAINS("products  of f32 use TF32"));
  const Outcome verified = on_fake(Words{"verify", "--quiet"} + kModel + kCuda + tf32);
  CHECK(verified.err.empty());
  CHECK(verified.code == 0);
  for (const Words& command :
       {Words{"train"} + kCudaRun + tf32 + Words{"--out", folder.file("other")},
        Words{"bench"} + kModel + tf32, Words{"verify"} + kModel + tf32, Words{"eval", folder.file("run")}}) {
    CAPTURE(command[0]);
    const Outcome refused = rewire_command(command);
    CHECK(refused.code == 2);
    CHECK(refused.err ==
          "rewire: train.tf32=true needs --device cuda, because a CPU has no TF32; set train.tf32=false\n");
  }
  CHECK_FALSE(fs::exists(folder.file("other")));
  CHECK(rewire_command({"eval", folder.file("run"), "--set", "train.tf32=false", "--quiet"}).code == 0);
  CHECK(rewire_command({"eval", folder.file("run"), "--engine", "evaluator", "--quiet"}).code == 0);
}

TEST_CASE("attention of bf16 is a choice on a GPU; without cuDNN, or without timing, it is our kernels'") {
  const TemporaryFolder cache;
  const Words bench = {
      "bench", "vit_tiny_28",     "--json",       "--quiet", "--steps",       "1",     "--batch",
      "2",     "--set",           "model.dim=16", "--set",   "model.depth=1", "--set", "model.heads=2",
      "--set", "train.dtype=bf16"};
  const auto taken = [&](const Words& more, const std::string& variable) {
    const Outcome outcome =
        on_fake(bench + kCuda + more, {"XDG_CACHE_HOME=" + cache.file("cache"), variable});
    CHECK(outcome.err.empty());
    REQUIRE(outcome.code == 0);
    const Json result = Json::parse(outcome.out);  // outlives the loop over it
    std::vector<std::string> answers;
    for (const Json& choice : result.at("choices")) {
      if (choice.at("key").get<std::string>().starts_with("attention "))
        answers.push_back(choice.at("taken"));
    }
    return answers;
  };
  const std::vector<std::string> ours = {"ours", "ours"};  // forward and gradient
  CHECK(taken({"--no-autotune"}, "REWIRE_FAKE_CUDA_ORDER=0") == ours);
  CHECK(taken({}, "REWIRE_CUDNN=/nowhere/libcudnn.so.9") == ours);
  const std::vector<std::string> timed = taken({}, "REWIRE_FAKE_CUDA_ORDER=0");
  REQUIRE(timed.size() == 2);
  for (const std::string& answer : timed)
    CHECK((answer == "ours" || answer.starts_with("cuDNN 9.99.0 engine ")));
}

TEST_CASE("convolutions on a GPU are cuDNN's, by name; without cuDNN the network is refused") {
  const Words bench =
      Words{"bench", "resnetv2_18",   "--json", "--profile",          "--steps",      "1", "--batch", "2",
            "--set", "model.width=4", "--set",  "model.depths=[1,1]", "--no-autotune"} +
      kCuda;
  const auto convolutions = [](const Outcome& outcome) {
    REQUIRE(outcome.code == 0);
    std::vector<std::string> names;
    const Json result = Json::parse(outcome.out);  // outlives the loop over it
    for (const Json& launch : result.at("profile")) {
      const std::string name = launch.at("name");
      if (name.starts_with("conv")) names.push_back(name);
    }
    return names;
  };
  const Outcome there = on_fake(bench);
  CHECK_THAT(there.err, !REWIRE_CATCH_CONTAINS("the host"));
  const std::vector<std::string> by_library = convolutions(there);
  CHECK(by_library.size() > 6);
  for (const std::string& name : by_library) {
    CHECK(name.starts_with("convolution "));
    CHECK(name.ends_with(", cuDNN 9.99.0 engine 4, knobs 24=7"));
  }
  const Outcome missing = on_fake(bench, {"REWIRE_CUDNN=/nowhere/libcudnn.so.9"});
  CHECK(missing.code == 2);
  CHECK(std::ranges::count(without_progress(missing.err), '\n') == 1);
  CHECK_THAT(missing.err,
             REWIRE_CATCH_CONTAINS(" needs cuDNN on a GPU: REWIRE_CUDNN is '/nowhere/libcudnn.so.9'") &&
                 REWIRE_CATCH_CONTAINS("or use --device cpu\n"));
}

TEST_CASE("what a GPU lacks is one line and exit code 2, before a run folder is made") {
  const TemporaryFolder folder;
  for (const auto& [variable, value] : fake_cuda::environment()) {
    if (variable == "REWIRE_CUFFT") continue;  // is missed by long transforms alone
    if (variable == "REWIRE_CUDNN") continue;  // networks without convolutions do without it
    if (variable == "REWIRE_NCCL") continue;   // is for several processes
    if (variable == "REWIRE_NVML") continue;   // is for rewire doctor
    CAPTURE(variable);
    const Outcome refused = on_fake(Words{"train"} + kCudaRun + kCuda + Words{"--out", folder.file("run")},
                                    {variable + "=/nowhere/lib.so"});
    CHECK(refused.code == 2);
    CHECK_THAT(refused.err,
               REWIRE_CATCH_CONTAINS("rewire: --device cuda: " + variable + " is '/nowhere/lib.so'"));
    CHECK(std::ranges::count(refused.err, '\n') == 1);
    CHECK_FALSE(fs::exists(folder.file("run")));
  }
  for (const auto& [code, words] : {std::pair("100", "cuInit: CUDA_ERROR_NO_DEVICE"),
                                    {"34", "stub of the driver: remove its folder from LD_LIBRARY_PATH"},
                                    {"802", "start the service nvidia-fabricmanager"},
                                    {"803", "updated but not loaded: reboot"},
                                    {"804", "cuda-compat does not run on this card"}}) {
    CAPTURE(code);
    const Outcome no_device = on_fake(Words{"bench"} + kModel + kUntimed + kCuda,
                                      {std::string("REWIRE_FAKE_CUDA_FAIL=cuInit:1:") + code});
    CHECK(no_device.code == 2);
    CHECK_THAT(no_device.err,
               REWIRE_CATCH_CONTAINS("finds no usable device: cuInit: ") && REWIRE_CATCH_CONTAINS(words));
  }
  CHECK(rewire_command(Words{"eval", "run", "--engine", "evaluator"} + kCuda).err ==
        "rewire: --engine evaluator runs on the CPU: drop it or --device cuda\n");
}

/// A spectrum of 1100 points, filtered and brought back.
constexpr const char* kLongRows = R"rir(module @long {
  param @filter : f32[2,551] {init = "trunc_normal(0.02, 2.0)"}
  func @forward(%image: f32[2,1100]) -> (row: f32[2,1100]) {
    %0 = rfft %image : f32[2,2,551]
    %1 = param {name = "filter"} : f32[2,551]
    %2 = reshape %1 : f32[1,2,551]
    %3 = broadcast %2 : f32[2,2,551]
    %4 = mul %0, %3 : f32[2,2,551]
    %5 = irfft %4 {length = 1100} : f32[2,1100]
    return row = %5
  }
}
)rir";

TEST_CASE("long Fourier transforms are cuFFT's, and the host's with one line where it is missing") {
  const TemporaryFolder folder;
  write_text(folder.file("long.rir"), kLongRows);
  REQUIRE(rewire_command({"init", folder.file("long.rir"), "--output", folder.file("w.safetensors")}).code ==
          0);
  runtime::write_npy(folder.file("x.npy"), floats({2, 1100}));
  const auto outcome = [&](const std::string& output, const Words& device, const Words& environment) {
    return on_fake(Words{"run", folder.file("long.rir"), "--weights", folder.file("w.safetensors"), "--input",
                         folder.file("x.npy"), "--output", folder.file(output)} +
                       device,
                   environment);
  };
  const Outcome cpu = outcome("cpu.npy", {}, {});
  CHECK(cpu.code == 0);
  const Outcome there = outcome("gpu.npy", kCuda, {});
  CHECK(there.code == 0);
  CHECK(without_progress(there.err) == cpu.err);
  const Outcome missing = outcome("host.npy", kCuda, {"REWIRE_CUFFT=/nowhere/libcufft.so"});
  CHECK(missing.code == 0);
  CHECK_THAT(missing.err, REWIRE_CATCH_CONTAINS("REWIRE_CUFFT is '/nowhere/libcufft.so'") &&
                              REWIRE_CATCH_CONTAINS("the host computes longer ones"));
  CHECK(std::ranges::count(without_progress(missing.err), '\n') == std::ranges::count(cpu.err, '\n') + 1);
  for (const char* output : {"gpu.npy", "host.npy"}) {
    CAPTURE(output);
    CHECK(relative_difference(runtime::read_npy(folder.file(output)),
                              runtime::read_npy(folder.file("cpu.npy"))) <= 1e-5);
  }
}

TEST_CASE("a call that fails ends training with its name and exit code 1") {
  const TemporaryFolder folder;
  const Outcome failed = on_fake(Words{"train"} + kCudaRun + kCuda + Words{"--out", folder.file("run")},
                                 {"REWIRE_FAKE_CUDA_FAIL=cuGraphLaunch:9:719"});
  CHECK(failed.code == 1);
  CHECK_THAT(failed.err, REWIRE_CATCH_CONTAINS("cuGraphLaunch of 'step': CUDA_ERROR_LAUNCH_FAILED"));
}

TEST_CASE("a device with too little memory is a request to mend, and leaves no run behind") {
  for (const char* allocation : {"1", "2", "3", "4"}) {
    CAPTURE(allocation);
    const TemporaryFolder folder;
    const Outcome failed =
        on_fake(Words{"train"} + kCudaRun + kUntimed + kCuda + Words{"--out", folder.file("run")},
                {std::string("REWIRE_FAKE_CUDA_FAIL=cuMemAlloc_v2:") + allocation + ":2"});
    CHECK(failed.code == 2);
    CHECK_THAT(failed.err, REWIRE_CATCH_CONTAINS("rewire: out of device memory: ") &&
                               REWIRE_CATCH_CONTAINS("of 4.29 GB are free") &&
                               REWIRE_CATCH_CONTAINS(", or take another (rewire doctor lists them)\n"));
    CHECK(folder.entries() == 0);
  }
}

TEST_CASE("kernels are compiled by worker processes, and a kernel that brings them down is named") {
  const TemporaryFolder cache;
  const Words bench = Words{"bench", "--json", "--steps", "1", "--batch", "2"} + kModel + kUntimed + kCuda;
  if (runtime::compile_processes() == 1) {
    WARN("not run: where one core or little memory is free, rewire compiles by itself");
  } else {
    const Outcome down = on_fake(
        bench, {"XDG_CACHE_HOME=" + cache.file("down"), "REWIRE_FAKE_CUDA_FAIL=nvrtcCompileProgram:1:-6"});
    CHECK(down.code == 1);
    CHECK_THAT(down.err, REWIRE_CATCH_CONTAINS("rewire: the NVRTC worker that compiled kernel '"));
    CHECK_THAT(down.err,
               REWIRE_CATCH_CONTAINS("was ended by signal 6 (Aborted): fake CUDA: nvrtcCompileProgram "));
  }
  // Quiet: on a slow machine the log says how far compiling has come.
  const Outcome good = on_fake(bench + Words{"--quiet"}, {"XDG_CACHE_HOME=" + cache.file("good")});
  INFO(good.err);
  CHECK(good.code == 0);
  CHECK(good.err.empty());
  CHECK(Json::parse(good.out).at("cache_hits") == 0);
  const Outcome warm = on_fake(
      bench, {"XDG_CACHE_HOME=" + cache.file("good"), "REWIRE_FAKE_CUDA_FAIL=nvrtcCompileProgram:1:6"});
  CHECK(warm.code == 0);
  CHECK(Json::parse(warm.out).at("cache_hits") == Json::parse(warm.out).at("unique_kernels"));
}

}  // namespace
}  // namespace rewire::test
