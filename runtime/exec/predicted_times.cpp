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
  std::vector<codegen::cuda::Prediction> predictions;      // by launch
  std::map<std::string, codegen::cuda::Prediction> known;  // launches with the same code share one
  for (const codegen::Launch& launch : program.launches) {
    labels.push_back({library_name(program, launch, tf32)});
    const std::string key = labels.back().name.empty() ? codegen::code_key(launch) : labels.back().name;
    auto found = known.find(key);
    if (found == known.end())
      found = known.emplace(key, codegen::cuda::predict(program, launch, target, card, tf32)).first;
    predictions.push_back(found->second);
    seconds.push_back(found->second.seconds);
  }
  std::vector<PredictedTime> rows;
  for (LaunchTime& time : launch_times(program, seconds, labels)) {
    double least = 0;
    for (const LaunchSpan& span : time.spans) least += predictions[span.at].least_seconds;
    const codegen::cuda::Bound bound = predictions[time.spans.front().at].bound;
    rows.push_back({std::move(time), codegen::cuda::bound_name(bound), least});
  }
  return rows;
}

}  // namespace rewire::runtime
