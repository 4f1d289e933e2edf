#include "runtime/exec/predicted_times.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "codegen/cost.h"
#include "codegen/library/device_convolution.h"
#include "codegen/library/device_gemm.h"
#include "runtime/exec/launch_times.h"

namespace rewire::runtime {
namespace {

/// Returns the engine's name of a library call, without the algorithm; "" for a launch of a kernel.
std::string library_name(const codegen::Program& program, const codegen::Launch& launch, bool tf32) {
  if (const auto* gemm = std::get_if<codegen::GemmLaunch>(&launch))
    return codegen::full_name(codegen::device_gemm_calls(program, *gemm, tf32).front().shape);
  const auto* call = std::get_if<codegen::OpCall>(&launch);
  const auto convolution = call == nullptr ? std::nullopt : codegen::device_convolution(program, *call, tf32);
  return convolution ? codegen::full_name(*convolution) : "";
}

}  // namespace

std::vector<PredictedTime> predicted_times(const codegen::Program& program,
                                           const codegen::cuda::DeviceTarget& target,
                                           const codegen::cuda::Card& card, bool tf32) {
  std::vector<double> seconds;
  std::vector<LaunchLabel> labels;
  std::map<std::string, codegen::cuda::Prediction> known;  // launches with the same code share one
  std::map<std::string, std::string_view> bounds;          // by the row's name
  for (const codegen::Launch& launch : program.launches) {
    labels.push_back({library_name(program, launch, tf32)});
    const bool named = !labels.back().name.empty();
    const std::string key = named ? labels.back().name : codegen::code_key(launch);
    auto found = known.find(key);
    if (found == known.end())
      found = known.emplace(key, codegen::cuda::predict(program, launch, target, card, tf32)).first;
    seconds.push_back(found->second.seconds);
    bounds.emplace(named ? key : codegen::short_name(launch), codegen::cuda::bound_name(found->second.bound));
  }
  std::vector<PredictedTime> rows;
  for (LaunchTime& time : launch_times(program, seconds, labels)) {
    const std::string_view bound = bounds.at(time.name);
    rows.push_back({std::move(time), bound});
  }
  return rows;
}

}  // namespace rewire::runtime
