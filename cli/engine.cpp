#include "cli/engine.h"

#include "ir/error.h"
#include "runtime/exec/make_engine.h"

namespace rewire::cli {
namespace {

constexpr const char* kRecorded = "; with --resume the run's own";

/// Returns "cuda" of "gpu", "cuda:1" of "gpu:1" and itself; "" of what is no GPU.
std::string gpu_meant(const std::string& value) {
  const std::size_t colon = value.find(':');
  const std::string kind = value.substr(0, colon);
  if ((kind != "gpu" && kind != "cuda") || colon == value.size() - 1) return "";
  return "cuda" + value.substr(kind.size());
}

void declare_device(EngineRequest& request, Options& options, const std::string& recorded) {
  options.choice("--device", request.device, {"cpu", "cuda"},
                 "the device that computes (cpu" + recorded +
                     "); gpu means cuda, and cuda:N the GPU of this number in rewire doctor, or of this UUID",
                 gpu_meant);
}

}  // namespace

void declare_device(EngineRequest& request, Options& options) {
  declare_device(request, options, "");
}

void declare_engine(EngineRequest& request, Options& options, bool of_run) {
  const std::string recorded = of_run ? kRecorded : "";
  declare_device(request, options, recorded);
  options.choice(
      "--engine", request.engine, runtime::engine_names(),
      "on the CPU: jit compiles, evaluator computes op by op in double precision (jit" + recorded + ")");
}

void declare_overrides(std::vector<std::string>& overrides, Options& options) {
  options
      .list("--override-kernel", overrides,
            "NAME=FILE: CUDA C++ that replaces the kernel that dump --stage cuda --kernel NAME prints, with "
            "the same name, arguments and launch; repeatable")
      .takes(Values::named_file, {".cu"});
}

std::string engine_named(const EngineRequest& request, const std::string& recorded) {
  if (request.on_gpu() && !request.engine.empty())
    user_error("--engine {} runs on the CPU: drop it or --device cuda", request.engine);
  std::string name = request.engine;
  if (request.on_gpu()) name = runtime::kCudaEngine;
  const bool goes_on = request.device.empty() || recorded != runtime::kCudaEngine;
  if (name.empty() && goes_on) name = recorded;
  if (name.empty()) name = runtime::engine_names().front();
  return name;
}

std::string engine_of(const EngineRequest& request, const std::string& recorded) {
  std::string name = engine_named(request, recorded);
  runtime::choose_device(name, request.one_gpu());
  runtime::require_engine(name);
  return name;
}

}  // namespace rewire::cli
