#include "tests/fake_cuda/dnn_rules.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace rewire::fake_cuda::dnn {

const std::vector<Rule>& rules() {
  static const std::vector<int> operations = {kPointwiseOperation, kMatmulOperation,    kReductionOperation,
                                              kReshapeOperation,   kConvolutionForward, kConvolutionData,
                                              kConvolutionFilter};
  static const std::vector<Rule> rules = {
      {kPointwise, 0, 14, true, 1},
      {kPointwise, 1, 1, true, 1},
      {kConvolution, 100, 1, true, 1},
      {kConvolution, 101, 7, true, 1},
      {kConvolution, 102, kInt64, true, 8},
      {kConvolution, 103, kInt64, true, 8},
      {kConvolution, 104, kInt64, true, 8},
      {kConvolution, 105, kInt64, true, 8},
      {kConvolution, 106, kInt64, true, 1},
      {kHeuristic, 200, 8, true, 1},
      {kHeuristic, 201, kDescriptorType, true, 1, {kGraph}},
      {kPlan, 400, kHandleType, true, 1},
      {kPlan, 401, kDescriptorType, true, 1, {kConfig}},
      {kConvolutionForward, 700, 4, true, 1},
      {kConvolutionForward, 701, 4, true, 1},
      {kConvolutionForward, 702, kDescriptorType, true, 1, {kConvolution}},
      {kConvolutionForward, 703, kDescriptorType, true, 1, {kTensor}},
      {kConvolutionForward, 704, kDescriptorType, true, 1, {kTensor}},
      {kConvolutionForward, 705, kDescriptorType, true, 1, {kTensor}},
      {kConvolutionData, 706, 4, true, 1},
      {kConvolutionData, 707, 4, true, 1},
      {kConvolutionData, 708, kDescriptorType, true, 1, {kConvolution}},
      {kConvolutionData, 709, kDescriptorType, true, 1, {kTensor}},
      {kConvolutionData, 710, kDescriptorType, true, 1, {kTensor}},
      {kConvolutionData, 711, kDescriptorType, true, 1, {kTensor}},
      {kConvolutionFilter, 712, 4, true, 1},
      {kConvolutionFilter, 713, 4, true, 1},
      {kConvolutionFilter, 714, kDescriptorType, true, 1, {kConvolution}},
      {kConvolutionFilter, 715, kDescriptorType, true, 1, {kTensor}},
      {kConvolutionFilter, 716, kDescriptorType, true, 1, {kTensor}},
      {kConvolutionFilter, 717, kDescriptorType, true, 1, {kTensor}},
      {kPointwiseOperation, 750, kDescriptorType, true, 1, {kPointwise}},
      {kPointwiseOperation, 751, kDescriptorType, true, 1, {kTensor}},
      {kPointwiseOperation, 752, kDescriptorType, false, 1, {kTensor}},
      {kPointwiseOperation, 753, kDescriptorType, true, 1, {kTensor}},
      {kGraph, 800, kHandleType, true, 1},
      {kGraph, 801, kDescriptorType, true, 50, operations},
      {kTensor, 900, kInt64, true, 1},
      {kTensor, 901, 1, true, 1},
      {kTensor, 902, kInt64, true, 8},
      {kTensor, 903, kInt64, true, 8},
      {kTensor, 906, kInt64, true, 1},
      {kTensor, 907, 2, false, 1},
      {kTensor, 908, 2, false, 1},
      {kPack, 1000, kInt64, true, 64},
      {kPack, 1001, kPointer, true, 64},
      {kPack, 1003, kPointer, true, 1},
      {kMatmul, 1500, 1, true, 1},
      {kMatmulOperation, 1520, kDescriptorType, true, 1, {kTensor}},
      {kMatmulOperation, 1521, kDescriptorType, true, 1, {kTensor}},
      {kMatmulOperation, 1522, kDescriptorType, true, 1, {kTensor}},
      {kMatmulOperation, 1523, kDescriptorType, true, 1, {kMatmul}},
      {kReduction, 1600, 18, true, 1},
      {kReduction, 1601, 1, true, 1},
      {kReductionOperation, 1610, kDescriptorType, true, 1, {kTensor}},
      {kReductionOperation, 1611, kDescriptorType, true, 1, {kTensor}},
      {kReductionOperation, 1612, kDescriptorType, true, 1, {kReduction}},
      {kReshapeOperation, 2200, kDescriptorType, true, 1, {kTensor}},
      {kReshapeOperation, 2201, kDescriptorType, true, 1, {kTensor}},
  };
  return rules;
}

bool is_kind(int kind) {
  constexpr std::array kKinds = {kPointwise,
                                 kConvolution,
                                 kEngine,
                                 kConfig,
                                 kHeuristic,
                                 kPlan,
                                 kKnob,
                                 kConvolutionForward,
                                 kConvolutionFilter,
                                 kConvolutionData,
                                 kPointwiseOperation,
                                 kGraph,
                                 kPack,
                                 kTensor,
                                 kMatmul,
                                 kMatmulOperation,
                                 kReduction,
                                 kReductionOperation,
                                 kReshapeOperation};
  return std::ranges::find(kKinds, kind) != kKinds.end();
}

std::size_t attribute_bytes(int type) {
  if (type == kInt64 || type == kPointer || type == kDescriptorType || type == kHandleType) return 8;
  return type == 2 ? sizeof(bool) : sizeof(std::int32_t);
}

}  // namespace rewire::fake_cuda::dnn
